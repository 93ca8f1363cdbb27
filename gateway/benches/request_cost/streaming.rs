//! CPU of relayed events, above what the plain proxy takes to pass the same bytes.

use std::time::Duration;

use crate::load::{Caller, Kind};
use crate::options::Options;
use crate::process::cpu;
use crate::report::{Bound, Report, median, per};
use crate::rig::{Proxy, Rig};
use crate::upstream::{BATCHED, EVENTS, PACED};

const EVENT_AT_MOST: Duration = Duration::from_micros(3);

/// How streams are made and how many.
struct Shape {
    model: &'static str,
    says: &'static str,
    streams: u32,
    at_a_time: u32,
}

const SHAPES: [Shape; 2] = [
    Shape { model: PACED, says: "each event alone", streams: 300, at_a_time: 100 },
    Shape { model: BATCHED, says: "ten events a write", streams: 2_000, at_a_time: 16 },
];

/// Measures in rounds, the two proxies in turn.
pub(crate) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let rig = Rig::start().await?;
    for shape in &SHAPES {
        let (mut plain, mut gateway) = (Vec::new(), Vec::new());
        run(&rig, Proxy::Plain, shape, shape.at_a_time).await?;
        run(&rig, Proxy::Headgate, shape, shape.at_a_time).await?;
        for _ in 0..options.rounds {
            plain.push(run(&rig, Proxy::Plain, shape, shape.streams).await?);
            gateway.push(run(&rig, Proxy::Headgate, shape, shape.streams).await?);
        }
        let above: Vec<_> = plain.iter().zip(&gateway).map(|(plain, gateway)| gateway.saturating_sub(*plain)).collect();
        let Shape { says, streams, at_a_time, .. } = shape;
        report.part(&format!("streaming, {says}: {streams} streams of {EVENTS} events a round, {at_a_time} at a time"));
        report.times("plain proxy, CPU an event", &plain, None);
        report.times("gateway, CPU an event", &gateway, None);
        report.ratio("gateway / plain proxy", median(&gateway).as_secs_f64() / median(&plain).as_secs_f64());
        report.times("gateway above plain, an event", &above, Some(Bound::time(EVENT_AT_MOST)));
    }
    Ok(())
}

/// CPU of one proxy per event; what a request costs besides its events is in it.
async fn run(rig: &Rig, proxy: Proxy, shape: &Shape, streams: u32) -> anyhow::Result<Duration> {
    let pid = rig.pid(proxy)?;
    let caller = Caller::new(&rig.url(proxy), shape.model, Kind::Stream)?;
    let before = cpu(pid)?;
    caller.run(Kind::Stream, streams, shape.at_a_time).await?;
    rig.settled().await?;
    Ok(per(cpu(pid)?.saturating_sub(before), u64::from(streams) * EVENTS as u64))
}
