//! The Lua scripts, put together at compile time from their snippets.

use super::script::Script;

/// Reads the server's clock. Tests put another in its place.
pub const CLOCK: &str = include_str!("../../../lua/shared/clock.lua");

/// A script: its first line, its snippets, the function that decides, and the call of it.
macro_rules! assemble {
    ($flags:literal, [$($snippet:literal),*], $name:literal) => {
        concat!(
            "#!lua", $flags, "\n",
            $(include_str!(concat!("../../../lua/shared/", $snippet, ".lua")), "\n",)*
            include_str!(concat!("../../../lua/", $name, ".lua")), "\n",
            "return ", $name, "(KEYS, ARGV)\n",
        )
    };
}

/// `admit` as it is sent.
pub const ADMIT: &str = assemble!("", ["clock", "window", "line", "ring", "quotas"], "admit");
/// `acquire` as it is sent.
pub const ACQUIRE: &str =
    assemble!("", ["clock", "window", "line", "turns", "closures", "ring", "tokens", "pins"], "acquire");
/// `leave` as it is sent.
pub const LEAVE: &str = assemble!(" flags=allow-oom", ["clock", "line", "turns"], "leave");
/// `record` as it is sent.
pub const RECORD: &str =
    assemble!(" flags=allow-oom", ["clock", "line", "closures", "health", "told", "ring", "tokens", "pins"], "record");
/// `renew` as it is sent.
pub const RENEW: &str = assemble!(" flags=allow-oom", ["clock"], "renew");
/// `settle` as it is sent.
pub const SETTLE: &str = assemble!(" flags=allow-oom", ["clock", "line", "ring", "quotas"], "settle");
/// `credit` as it is sent.
pub const CREDIT: &str = assemble!("", [], "credit");
/// `declare` as it is sent.
pub const DECLARE: &str = assemble!("", [], "declare");
/// `amend` as it is sent.
pub const AMEND: &str = assemble!("", ["clock"], "amend");
/// `open_account` as it is sent.
pub const OPEN_ACCOUNT: &str = assemble!("", [], "open_account");
/// `survey` as it is sent.
pub const SURVEY: &str = assemble!(" flags=no-writes", ["clock", "window", "ring", "closures", "health"], "survey");
/// `explain` as it is sent.
pub const EXPLAIN: &str = assemble!(" flags=no-writes", ["clock", "window", "closures"], "explain");

/// All scripts.
#[derive(Debug, Clone)]
pub struct Scripts {
    pub(super) admit: Script,
    pub(super) acquire: Script,
    pub(super) leave: Script,
    pub(super) record: Script,
    pub(super) renew: Script,
    pub(super) settle: Script,
    pub(super) credit: Script,
    pub(super) declare: Script,
    pub(super) amend: Script,
    pub(super) open_account: Script,
    pub(super) survey: Script,
    pub(super) explain: Script,
}

impl Scripts {
    /// The scripts as they ship.
    pub fn new() -> Self {
        Self::made(|source| source)
    }

    /// The scripts with another clock snippet (a function `clock` that answers ms and µs). For tests: the new sources live as
    /// long as the process.
    pub fn with_clock(clock: &str) -> Self {
        Self::made(|source| Box::leak(source.replacen(CLOCK, clock, 1).into_boxed_str()))
    }

    fn made(source: impl Fn(&'static str) -> &'static str) -> Self {
        let script = |name, text| Script::new(name, source(text));
        Self {
            admit: script("admit", ADMIT),
            acquire: script("acquire", ACQUIRE),
            leave: script("leave", LEAVE),
            record: script("record", RECORD),
            renew: script("renew", RENEW),
            settle: script("settle", SETTLE),
            credit: script("credit", CREDIT),
            declare: script("declare", DECLARE),
            amend: script("amend", AMEND),
            open_account: script("open_account", OPEN_ACCOUNT),
            survey: script("survey", SURVEY),
            explain: script("explain", EXPLAIN),
        }
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new()
    }
}
