//! The model of a connection's tokens per minute.

use std::collections::BTreeMap;

use shared::state::admission::Bound;

use super::ops::{Used, Wish};
use super::ring::Ring;

#[derive(Debug)]
pub(super) struct Tokens {
    /// Thousandths, as all here.
    most: i64,
    ring: Ring,
    /// What answers had of late.
    usual: Option<i64>,
    /// By lease.
    held: BTreeMap<String, i64>,
}

impl Tokens {
    pub(super) fn new(tpm: u32) -> Self {
        Self { most: i64::from(tpm) * 1_000, ring: Ring::new(1_000), usual: None, held: BTreeMap::new() }
    }

    /// What an attempt takes; else how long until it may fit, 0 if only what is held stands in the way.
    pub(super) fn room(&self, wish: Wish, now: i64) -> Result<i64, i64> {
        let (input, output) = (milli(wish.input), milli(wish.output));
        let output = self.usual.filter(|_| wish.bound == Bound::Assumed).unwrap_or(output);
        let takes = (input + output).min(self.most);
        let excess = self.ring.used(now) + takes - self.most;
        if excess > 0 {
            return Err(self.ring.wait(excess, now));
        }
        let open: i64 = self.held.values().sum();
        if excess + open > 0 { Err(0) } else { Ok(takes) }
    }

    pub(super) fn hold(&mut self, lease: &str, takes: i64) {
        if takes > 0 {
            self.held.insert(lease.to_owned(), takes);
        }
    }

    /// Nobody gave the lease back: all of it counts, when it ended.
    pub(super) fn lapse(&mut self, lease: &str, end: i64) {
        let held = self.held.remove(lease).unwrap_or(0);
        self.ring.add(held, end);
    }

    pub(super) fn spend(&mut self, lease: &str, used: Used, now: i64) {
        self.held.remove(lease);
        self.ring.add(milli(used.input + used.output), now);
        let answered = milli(used.output);
        if answered > 0 {
            self.usual = Some(self.usual.map_or(answered, |usual| (usual * 3 + answered) / 4));
        }
    }

    /// As it stands in Redis.
    pub(super) fn held(&self) -> BTreeMap<String, i64> {
        let mut all = self.held.clone();
        if !all.is_empty() {
            all.insert("total".to_owned(), self.held.values().sum());
        }
        all
    }

    pub(super) fn boundaries(&self) -> impl Iterator<Item = i64> {
        self.ring.boundaries()
    }
}

fn milli(tokens: u64) -> i64 {
    i64::try_from(tokens * 1_000).unwrap()
}
