//! What a failure means: the one place that turns what an upstream did into a class, and a class into consequences.
//!
//! An outcome is classed once, where status, headers and body are in hand. The class, not the status, decides everything after.

mod effect;
mod table;

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use effect::{Cooldown, Effect, Endpoints, Lock, LockLength, Next, Owner, Site, effect};

/// The lock of a bare 429, one that names no limit and no time: this at first, doubling up to [`BARE_LOCK_MAX`].
pub const BARE_LOCK_MIN: Duration = Duration::from_secs(2);
/// Where the doubling lock of bare 429s stops growing.
pub const BARE_LOCK_MAX: Duration = Duration::from_mins(5);
/// The lock of a named rate limit whose end the upstream did not tell.
pub const NAMED_LIMIT_LOCK: Duration = Duration::from_mins(2);
/// The lock of an unpaid bill or a used-up quota whose end the upstream did not tell; a probe follows it.
pub const BILLING_LOCK: Duration = Duration::from_hours(1);
/// The lock of a refused platform credential; a probe follows it.
pub const AUTH_LOCK: Duration = Duration::from_mins(10);

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// This credential has used up what it may send for now.
    RateLimited,
    /// The upstream is out of shared capacity; the credential is not to blame.
    Capacity,
    /// The upstream did not answer as asked: no connection, a timeout, a 5xx, a broken body.
    Unavailable,
    /// The credential's account has no money or no quota left.
    Billing,
    /// The upstream refuses the credential.
    Auth,
    /// The model does not exist there, is retired or is not granted to the credential.
    ModelMissing,
    /// The conversation is longer than the model takes.
    ContextLength,
    /// The request itself is wrong; no other upstream would take it.
    ClientError,
    /// The channel refuses this one request, for its content for example; another channel may take it.
    Refused,
    /// The client went away.
    Cancelled,
}

impl Class {
    /// The word used in configuration, logs, metrics and the trail of attempts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Capacity => "capacity",
            Self::Unavailable => "unavailable",
            Self::Billing => "billing",
            Self::Auth => "auth",
            Self::ModelMissing => "model_missing",
            Self::ContextLength => "context_length",
            Self::ClientError => "client_error",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much of a connection a failure closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The bucket of the model that was asked for.
    Bucket,
    /// Every model of the connection.
    Connection,
}

/// Whose error bodies the upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// OpenAI and everything shaped like it.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Gemini, Vertex and Code Assist.
    Google,
}

/// What went wrong where no error status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// No connection: refused, DNS, TLS, connect timeout.
    Connect,
    /// The connection broke before the answer was whole.
    Reset,
    /// Headers or first content did not come in time.
    FirstTokenTimeout,
    /// The stream fell silent.
    IdleTimeout,
    /// The whole exchange took too long.
    TotalTimeout,
    /// A success without a body.
    Empty,
    /// The answer ended before it was complete.
    Truncated,
    /// A success whose body is not the asked format.
    NotTheFormat,
    /// A success whose body or stream holds an error; code, kind and message say which.
    ErrorInSuccess,
    /// The client went away.
    ClientGone,
}

/// How a provider's endpoints treat 403 and 404.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorPolicy {
    /// They mean what they say.
    #[default]
    Standard,
    /// They mean that this endpoint does not serve the model; the next one may.
    Sandbox,
}

/// A provider's own rule, tried before the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnRule {
    /// Only this status; absent means any. 200 means a success that is none: an error, a page or nothing in place of an answer.
    #[serde(default)]
    pub status: Option<u16>,
    /// Only bodies with this text, whatever its case; absent means any.
    #[serde(default)]
    pub contains: Option<String>,
    /// What it means.
    pub class: Class,
}

/// What can be known of a failed exchange. Texts are lower-cased and capped by [`Signals::text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signals {
    /// Whose error bodies these are.
    pub family: Family,
    /// The error status: of the answer, or given by the error inside a success. Absent when nothing said one.
    pub status: Option<u16>,
    /// What happened when no error status was received.
    pub transport: Option<Transport>,
    /// The provider's error code or reason, lower case; empty when there is none.
    pub code: String,
    /// The provider's error type or canonical status, lower case; empty when there is none.
    pub kind: String,
    /// The provider's message, lower case; empty when the body is not an error of the dialect (a page of a proxy, say).
    pub message: String,
    /// The beginning of the body as received, lower case: what own rules look into.
    pub body: String,
    /// True when the headers say that a limit is at zero.
    pub limit_at_zero: bool,
}

/// The longest text of a failure that is looked at, in bytes.
const TEXT_CAP: usize = 8 * 1024;

impl Signals {
    /// Nothing known yet.
    pub fn new(family: Family) -> Self {
        Self {
            family,
            status: None,
            transport: None,
            code: String::new(),
            kind: String::new(),
            message: String::new(),
            body: String::new(),
            limit_at_zero: false,
        }
    }

    /// A failure without an error status.
    pub fn of_transport(family: Family, transport: Transport) -> Self {
        Self { transport: Some(transport), ..Self::new(family) }
    }

    /// True when the answer's own status was a success.
    fn in_success(&self) -> bool {
        use Transport::{Empty, ErrorInSuccess, NotTheFormat, Truncated};
        matches!(self.transport, Some(Empty | Truncated | NotTheFormat | ErrorInSuccess))
    }

    /// A text as the rules want it: lower case, at most 8 KB.
    pub fn text(raw: &str) -> String {
        let mut end = raw.len().min(TEXT_CAP);
        while !raw.is_char_boundary(end) {
            end -= 1;
        }
        raw[..end].to_lowercase()
    }
}

/// A wait the upstream told, at least one second and at most 31 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// From now.
    pub wait: Duration,
    /// What is closed until then.
    pub scope: Scope,
}

/// What a failure was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The meaning.
    pub class: Class,
    /// What a lock would close.
    pub scope: Scope,
    /// True when the upstream said that a limit of this credential was hit, false for a bare 429.
    pub named_limit: bool,
    /// A told time shorter than this is about something else and not believed.
    pub told_from: Duration,
}

impl Verdict {
    /// A class that names no limit and believes any told time.
    pub fn of(class: Class, scope: Scope) -> Self {
        Self { class, scope, named_limit: false, told_from: Duration::ZERO }
    }
}

/// Classes a failure: the provider's own rules first, then the table, first hit wins.
pub fn classify(signals: &Signals, policy: ErrorPolicy, rules: &[OwnRule]) -> Verdict {
    if signals.transport == Some(Transport::ClientGone) {
        return Verdict::of(Class::Cancelled, Scope::Bucket);
    }
    if let Some(rule) = rules.iter().find(|rule| rule.matches(signals)) {
        let scope = match rule.class {
            Class::Auth | Class::Billing => Scope::Connection,
            _ => Scope::Bucket,
        };
        return Verdict { named_limit: signals.limit_at_zero, ..Verdict::of(rule.class, scope) };
    }
    table::look_up(signals, policy)
}

impl OwnRule {
    fn matches(&self, signals: &Signals) -> bool {
        let status =
            self.status.is_none_or(|status| signals.status == Some(status) || status == 200 && signals.in_success());
        let text = self.contains.as_ref().is_none_or(|text| {
            let text = text.to_lowercase();
            signals.body.contains(&text) || signals.message.contains(&text)
        });
        status && text
    }
}

#[cfg(test)]
mod tests;
