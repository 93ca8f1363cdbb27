//! CPU of whole answers: the gateway's, Redis's, and the plain proxy's for comparison.

use std::time::Duration;

use crate::load::{Caller, Kind};
use crate::options::Options;
use crate::process::cpu;
use crate::redis_stats;
use crate::report::{Bound, Report, median, per};
use crate::rig::{Proxy, Rig};
use crate::upstream::ANSWER;

/// Requests under way at a time.
const AT_A_TIME: u32 = 16;
/// Connections are opened and caches filled first.
const WARM_UP: u32 = 2_000;
/// Requests whose scripts are timed one by one.
const TIMED: u32 = 2_000;

const GATEWAY_AT_MOST: Duration = Duration::from_micros(150);
const REDIS_AT_MOST: Duration = Duration::from_micros(60);

/// One round's CPU per request.
struct Cost {
    gateway: Duration,
    redis: Duration,
    calls: redis_stats::Calls,
}

/// Measures in rounds, the two proxies in turn.
pub(crate) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let rig = Rig::start().await?;
    let headgate = Caller::new(&rig.url(Proxy::Headgate), ANSWER, Kind::Whole)?;
    let plain = Caller::new(&rig.url(Proxy::Plain), ANSWER, Kind::Whole)?;
    for caller in [&headgate, &plain] {
        caller.run(Kind::Whole, WARM_UP, AT_A_TIME).await?;
    }
    let (mut costs, mut baselines) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        rig.settled().await?;
        let before = cpu(rig.pid(Proxy::Plain)?)?;
        plain.run(Kind::Whole, options.requests, AT_A_TIME).await?;
        baselines.push(per(cpu(rig.pid(Proxy::Plain)?)?.saturating_sub(before), options.requests.into()));
        costs.push(round(&rig, &headgate, options.requests).await?);
    }
    redis_stats::append_only(&rig, "no").await?;
    let in_memory = round(&rig, &headgate, options.requests).await?;
    let scripts = redis_stats::by_script(&rig, &headgate, TIMED).await?;

    let gateway: Vec<_> = costs.iter().map(|cost| cost.gateway).collect();
    let redis: Vec<_> = costs.iter().map(|cost| cost.redis).collect();
    report.part(&format!("unary: {} requests a round, {AT_A_TIME} at a time", options.requests));
    report.times("plain proxy, CPU a request", &baselines, None);
    report.times("gateway, CPU a request", &gateway, Some(Bound::time(GATEWAY_AT_MOST)));
    report.ratio("gateway / plain proxy", median(&gateway).as_secs_f64() / median(&baselines).as_secs_f64());
    report.times("redis, CPU a request", &redis, Some(Bound::time(REDIS_AT_MOST)));
    report.times("redis, append-only file off", &[in_memory.redis], None);
    if let Some(cost) = costs.last() {
        report.line("redis, calls a request", &format!("{:.2}", cost.calls.per_request));
        report.times("redis, of that inside scripts", &[cost.calls.inside], None);
    }
    for script in scripts {
        report.times(&format!("  {} (×{:.2} a request)", script.name, script.per_request), &[script.mean], None);
    }
    Ok(())
}

async fn round(rig: &Rig, caller: &Caller, requests: u32) -> anyhow::Result<Cost> {
    let (gateway, redis) = (rig.pid(Proxy::Headgate)?, rig.redis_pid()?);
    redis_stats::forget(rig).await?;
    let before = (cpu(gateway)?, cpu(redis)?);
    caller.run(Kind::Whole, requests, AT_A_TIME).await?;
    rig.settled().await?;
    let requests = requests.into();
    Ok(Cost {
        gateway: per(cpu(gateway)?.saturating_sub(before.0), requests),
        redis: per(cpu(redis)?.saturating_sub(before.1), requests),
        calls: redis_stats::calls(rig, requests).await?,
    })
}
