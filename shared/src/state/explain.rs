//! `explain`: how would each of these rungs answer a newcomer now, and why? Writes nothing.

use std::time::Duration;

use super::capacity::{Candidate, Probe, RungState};
use super::link::StateError;
use super::reply::{Reply, ms};
use super::script::Arg;
use super::store::Store;
use super::survey::Closure;
use crate::ids::GroupId;

/// A rung at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RungView {
    /// Why `acquire` would pass it over; `None`: it would take it.
    pub state: Option<RungState>,
    /// Whether the attempt that took it would be its probe.
    pub probe: Probe,
    /// The endpoint that attempt would call, by its place in the order.
    pub endpoint: usize,
    /// Live leases of the connection: attempts that run.
    pub live: u32,
    /// Callers in the connection's line.
    pub waiting: u32,
    /// Attempts of the last 60 s at the connection, as far as they are logged (up to its limit).
    pub rate_used: u32,
    /// The lock of the whole connection.
    pub lock: Closure,
    /// The lock of the rung's bucket.
    pub bucket_lock: Closure,
    /// The cooldown of the rung's model.
    pub cooldown: Closure,
    /// The cooldowns of its endpoints, in their order; empty where they have none.
    pub endpoints: Vec<Closure>,
}

impl Store {
    /// How each of these rungs of a group would answer a newcomer, all at one moment, in the words of `acquire`. `max_lock` as
    /// there. Limits of tokens are not looked at: it depends on the newcomer whether it fits. Writes nothing.
    pub async fn explain(
        &self,
        group: &GroupId,
        rungs: &[Candidate],
        max_lock: Duration,
    ) -> Result<Vec<RungView>, StateError> {
        let slot = self.keys.of_group(group);
        let mut keys = Vec::with_capacity(rungs.len() * 6);
        let mut args = vec![Arg::Int(ms(max_lock))];
        let mut endpoints = Vec::new();
        for rung in rungs {
            let connection = slot.of_connection(&rung.connection);
            keys.extend([
                connection.lock(),
                connection.bucket_lock(&rung.bucket),
                connection.cooldown(&rung.model),
                connection.leases(),
                connection.rpm(),
                connection.alive(),
            ]);
            args.extend([
                Arg::Int(rung.max_concurrent.map_or(-1, i64::from)),
                Arg::Int(rung.rpm.map_or(-1, i64::from)),
                Arg::Text(&rung.credential_mark),
                Arg::Int(i64::try_from(rung.endpoints.len()).unwrap_or(i64::MAX)),
            ]);
            endpoints.extend(rung.endpoints.iter().map(|endpoint| connection.endpoint(endpoint, &rung.model)));
        }
        keys.extend(endpoints);
        let (tag, mut reply) = Reply::open("explain", self.link.run(&self.scripts.explain, &keys, &args).await?)?;
        if tag != "explain" {
            return Err(reply.unknown(&tag));
        }
        // The store's clock, which nobody needs: waits are told as lengths.
        reply.int()?;
        rungs.iter().map(|_| RungView::read(&mut reply.row()?)).collect()
    }
}

impl RungView {
    fn read(row: &mut Reply) -> Result<Self, StateError> {
        let word = row.word()?;
        let wait = row.wait()?;
        let mut view = Self {
            state: if word == "open" { None } else { Some(RungState::named(&word, wait, row)?) },
            probe: if row.int()? == 1 { Probe::Yes } else { Probe::No },
            endpoint: row.count()? as usize,
            live: row.count()?,
            waiting: row.count()?,
            rate_used: row.count()?,
            lock: Closure::read(&mut row.row()?)?,
            bucket_lock: Closure::read(&mut row.row()?)?,
            cooldown: Closure::read(&mut row.row()?)?,
            endpoints: Vec::new(),
        };
        while !row.is_empty() {
            view.endpoints.push(Closure::read(&mut row.row()?)?);
        }
        Ok(view)
    }
}
