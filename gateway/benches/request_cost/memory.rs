//! Memory of a replica with many idle streams open, and what it costs to keep their leases.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::{Caller, Kind};
use crate::options::Options;
use crate::process::{cpu, resident};
use crate::report::{Bound, Report, per};
use crate::rig::{Proxy, Rig};
use crate::upstream::IDLE;

const STREAMS: u32 = 2_000;
const RESIDENT_AT_MOST: u64 = 150_000_000;
/// Streams that are being opened at a time.
const OPENING: usize = 64;
/// Two renewals of every lease.
const WATCHED: Duration = Duration::from_secs(10);

/// Streams that are open and silent.
struct Streams {
    tasks: JoinSet<anyhow::Result<()>>,
    close: watch::Sender<()>,
}

/// Opens the streams, looks, and watches them being idle.
pub(crate) async fn measure(_: &Options, report: &mut Report) -> anyhow::Result<()> {
    let rig = Rig::start().await?;
    let (gateway, redis) = (rig.pid(Proxy::Headgate)?, rig.redis_pid()?);
    let empty = resident(gateway)?;
    let streams = Streams::open(&rig.url(Proxy::Headgate)).await?;
    let open = resident(gateway)?;
    let before = (cpu(gateway)?, cpu(redis)?);
    sleep(WATCHED).await;
    let spent = (cpu(gateway)?.saturating_sub(before.0), cpu(redis)?.saturating_sub(before.1));
    let later = resident(gateway)?;
    streams.close().await?;
    rig.settled().await?;

    let plain = rig.pid(Proxy::Plain)?;
    let plain_empty = resident(plain)?;
    let streams = Streams::open(&rig.url(Proxy::Plain)).await?;
    let plain_open = resident(plain)?;
    streams.close().await?;

    report.part(&format!("memory: {STREAMS} idle streams"));
    report.bytes("gateway, no stream", empty, None);
    report.bytes("gateway, all open", open, None);
    report.bytes("gateway, 10 s later", later, Some(Bound::bytes(RESIDENT_AT_MOST)));
    report.bytes("gateway, each stream", later.saturating_sub(empty) / u64::from(STREAMS), None);
    report.bytes("plain proxy, each stream", plain_open.saturating_sub(plain_empty) / u64::from(STREAMS), None);
    report.times("gateway, CPU a second idle", &[per(spent.0, WATCHED.as_secs())], None);
    report.times("redis, CPU a second idle", &[per(spent.1, WATCHED.as_secs())], None);
    Ok(())
}

impl Streams {
    /// Returns when the first event of each has come.
    async fn open(url: &str) -> anyhow::Result<Self> {
        let caller = Caller::new(url, IDLE, Kind::Stream)?;
        let (close, closed) = watch::channel(());
        let turns = Arc::new(Semaphore::new(OPENING));
        let (opened, mut all) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        for _ in 0..STREAMS {
            let (caller, turns, opened) = (caller.clone(), Arc::clone(&turns), opened.clone());
            let mut closed = closed.clone();
            tasks.spawn(async move {
                let turn = turns.acquire().await?;
                let mut answer = caller.send().await?;
                answer.chunk().await?.context("an idle stream ended")?;
                drop(turn);
                opened.send(()).await?;
                let _ = closed.changed().await;
                anyhow::Ok(())
            });
        }
        drop(opened);
        for _ in 0..STREAMS {
            all.recv().await.context("a stream could not be opened")?;
        }
        Ok(Self { tasks, close })
    }

    /// Hangs up.
    async fn close(mut self) -> anyhow::Result<()> {
        self.close.send(())?;
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}
