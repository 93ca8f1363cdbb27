//! CPU of relayed events, above what the plain proxy takes to pass the same bytes.

use std::time::Duration;

use crate::load::{Caller, Kind};
use crate::options::Options;
use crate::process::cpu;
use crate::report::{Bound, Report, median, per};
use crate::rig::{Proxy, Rig};
use crate::upstream::{BATCHED, EVENTS, PACED};

const EVENT_AT_MOST: Duration = Duration::from_micros(3);

/// How streams are made and how many, at each proxy.
struct Shape {
    model: &'static str,
    says: &'static str,
    streams: u32,
    at_a_time: u32,
}

const SHAPES: [Shape; 2] = [
    Shape { model: PACED, says: "each event alone", streams: 300, at_a_time: 50 },
    Shape { model: BATCHED, says: "ten events a write", streams: 2_000, at_a_time: 8 },
];

/// CPU an event.
struct Cost {
    plain: Duration,
    gateway: Duration,
}

/// Measures in rounds.
pub(crate) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let rig = Rig::start().await?;
    for shape in &SHAPES {
        round(&rig, shape, shape.at_a_time).await?;
        let mut costs = Vec::new();
        for _ in 0..options.rounds {
            costs.push(round(&rig, shape, shape.streams).await?);
        }
        let plain: Vec<_> = costs.iter().map(|cost| cost.plain).collect();
        let gateway: Vec<_> = costs.iter().map(|cost| cost.gateway).collect();
        let above: Vec<_> = costs.iter().map(|cost| cost.gateway.saturating_sub(cost.plain)).collect();
        let Shape { says, streams, at_a_time, .. } = shape;
        report.part(&format!("streaming, {says}: {streams} streams of {EVENTS} events a round, {at_a_time} at a time"));
        report.times("plain proxy, CPU an event", &plain, None);
        report.times("gateway, CPU an event", &gateway, None);
        report.ratio("gateway / plain proxy", median(&gateway).as_secs_f64() / median(&plain).as_secs_f64());
        report.times("gateway above plain, an event", &above, Some(Bound::time(EVENT_AT_MOST)));
    }
    Ok(())
}

/// Both proxies at the same time, so that whatever else the machine does weighs on both. What a request costs besides its events
/// is in it.
async fn round(rig: &Rig, shape: &Shape, streams: u32) -> anyhow::Result<Cost> {
    let callers = [Proxy::Plain, Proxy::Headgate].map(|proxy| Caller::new(&rig.url(proxy), shape.model, Kind::Stream));
    let [plain, gateway] = callers;
    let (plain, gateway) = (plain?, gateway?);
    let before = (cpu(rig.pid(Proxy::Plain)?)?, cpu(rig.pid(Proxy::Headgate)?)?);
    tokio::try_join!(
        plain.run(Kind::Stream, streams, shape.at_a_time),
        gateway.run(Kind::Stream, streams, shape.at_a_time)
    )?;
    rig.settled().await?;
    let events = u64::from(streams) * EVENTS as u64;
    Ok(Cost {
        plain: per(cpu(rig.pid(Proxy::Plain)?)?.saturating_sub(before.0), events),
        gateway: per(cpu(rig.pid(Proxy::Headgate)?)?.saturating_sub(before.1), events),
    })
}
