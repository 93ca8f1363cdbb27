//! What Redis says of its own work: calls and time in scripts, and the time of each script.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use redis::{Value, cmd, from_redis_value};
use shared::state::script::Script;
use shared::state::scripts::{ACQUIRE, ADMIT, RECORD, RENEW, SETTLE};

use crate::load::{Caller, Kind};
use crate::rig::Rig;

/// Calls of scripts since the statistics were forgotten.
pub(crate) struct Calls {
    /// How many a request.
    pub(crate) per_request: f64,
    /// Time inside of them a request; reading commands and writing replies is not in it.
    pub(crate) inside: Duration,
}

/// The time of one script.
pub(crate) struct ScriptTime {
    pub(crate) name: &'static str,
    pub(crate) per_request: f64,
    pub(crate) mean: Duration,
}

/// Sets Redis's statistics to zero.
pub(crate) async fn forget(rig: &Rig) -> anyhow::Result<()> {
    rig.link.command(cmd("CONFIG").arg("RESETSTAT")).await?;
    Ok(())
}

/// Turns the append-only file on (`yes`) or off (`no`).
pub(crate) async fn append_only(rig: &Rig, word: &str) -> anyhow::Result<()> {
    rig.link.command(cmd("CONFIG").arg("SET").arg("appendonly").arg(word)).await?;
    Ok(())
}

/// Script calls since then, from `INFO commandstats`.
pub(crate) async fn calls(rig: &Rig, requests: u64) -> anyhow::Result<Calls> {
    let text: String = from_redis_value(rig.link.command(cmd("INFO").arg("commandstats")).await?)?;
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).context("no script was called")?;
    let field = |name: &str| {
        let value = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<u64>().ok()).with_context(|| format!("no {name} in commandstats"))
    };
    let (count, micros) = (field("calls")?, field("usec")?);
    Ok(Calls { per_request: ratio(count, requests), inside: Duration::from_nanos(micros * 1_000 / requests) })
}

/// A script takes longer than this, a command inside of one hardly ever: those would be noted too, and noting costs time.
const NOTED_ABOVE_MICROS: i64 = 4;

/// Lets Redis note every call of some requests, one at a time, and sums the notes by script.
pub(crate) async fn by_script(rig: &Rig, caller: &Caller, requests: u32) -> anyhow::Result<Vec<ScriptTime>> {
    let set = |name: &'static str, value: i64| async move {
        rig.link.command(cmd("CONFIG").arg("SET").arg(name).arg(value)).await
    };
    set("slowlog-max-len", i64::from(requests) * 12).await?;
    set("slowlog-log-slower-than", NOTED_ABOVE_MICROS).await?;
    caller.run(Kind::Whole, requests, 1).await?;
    rig.settled().await?;
    set("slowlog-log-slower-than", -1).await?;
    let notes = rig.link.command(cmd("SLOWLOG").arg("GET").arg(-1)).await?;
    let notes: Vec<Vec<Value>> = from_redis_value(notes)?;

    let known = [("admit", ADMIT), ("acquire", ACQUIRE), ("record", RECORD), ("settle", SETTLE), ("renew", RENEW)];
    let names: BTreeMap<String, &str> =
        known.into_iter().map(|(name, source)| (Script::new(name, source).sha().to_owned(), name)).collect();
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for note in notes {
        let [_, _, Value::Int(micros), command, ..] = note.as_slice() else { continue };
        let command: Vec<String> = from_redis_value(command.clone())?;
        if let Some(name) = command.get(1).and_then(|sha| names.get(sha)) {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + 1, sum.1 + u64::try_from(*micros)?);
        }
    }
    let times = known.into_iter().filter_map(|(name, _)| {
        let (count, micros) = *sums.get(name)?;
        let mean = Duration::from_nanos(micros * 1_000 / count);
        Some(ScriptTime { name, per_request: ratio(count, requests.into()), mean })
    });
    Ok(times.collect())
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn ratio(count: u64, of: u64) -> f64 {
    count as f64 / of as f64
}
