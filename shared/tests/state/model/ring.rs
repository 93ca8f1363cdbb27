//! The model of what is counted: a ring of slices, and the quotas of a client key.

use std::collections::BTreeMap;

use proptest::prelude::*;

/// Amounts by the slice they fell in.
#[derive(Debug)]
pub(super) struct Ring {
    slice_ms: i64,
    slices: BTreeMap<i64, i64>,
}

impl Ring {
    pub(super) fn new(slice_ms: i64) -> Self {
        Self { slice_ms, slices: BTreeMap::new() }
    }

    /// An amount counts until its whole slice is 60 slices old.
    fn live(&self, now: i64) -> impl Iterator<Item = (i64, i64)> {
        let oldest = now / self.slice_ms - 60;
        self.slices.range(oldest..).map(|(slice, amount)| (*slice, *amount))
    }

    pub(super) fn used(&self, now: i64) -> i64 {
        self.live(now).map(|(_, amount)| amount).sum()
    }

    pub(super) fn add(&mut self, amount: i64, now: i64) {
        *self.slices.entry(now / self.slice_ms).or_default() += amount;
    }

    pub(super) fn take_back(&mut self, at: i64, now: i64) {
        let slice = at / self.slice_ms;
        if slice >= now / self.slice_ms - 60 && self.slices.get(&slice).is_some_and(|count| *count > 0) {
            self.add(-1, at);
        }
    }

    /// Ms until so much of it has run out.
    pub(super) fn wait(&self, excess: i64, now: i64) -> i64 {
        if excess <= 0 {
            return 0;
        }
        let mut gone = 0;
        for (slice, amount) in self.live(now) {
            gone += amount;
            if gone >= excess {
                return (slice + 61) * self.slice_ms - now;
            }
        }
        61 * self.slice_ms
    }

    pub(super) fn boundaries(&self) -> impl Iterator<Item = i64> {
        self.slices.keys().rev().take(4).map(|slice| (slice + 61) * self.slice_ms)
    }
}

/// What a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Requests,
    Tokens,
    Money,
}

/// One quota and what counts in it.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) kind: Kind,
    limit: i64,
    /// When its period ends; 0 for never. Nothing for a window.
    end_ms: i64,
    total: i64,
    ring: Option<Ring>,
    /// What open requests hold, by name.
    pub(super) held: BTreeMap<String, i64>,
}

/// Why a quota leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Short {
    pub(super) index: usize,
    pub(super) used: i64,
    pub(super) resets: i64,
    /// Whether it is only what open requests hold.
    pub(super) by_holds: bool,
}

/// What one request wants of a quota.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub(super) amount: i64,
    pub(super) elastic: bool,
}

impl Counter {
    pub(super) fn period(kind: Kind, limit: i64, end_ms: i64) -> Self {
        Self { kind, limit, end_ms, total: 0, ring: None, held: BTreeMap::new() }
    }

    pub(super) fn window(kind: Kind, limit: i64, slice_ms: i64) -> Self {
        Self { ring: Some(Ring::new(slice_ms)), ..Self::period(kind, limit, 0) }
    }

    fn used(&self, now: i64) -> i64 {
        self.ring.as_ref().map_or(self.total, |ring| ring.used(now))
    }

    pub(super) fn open(&self) -> i64 {
        self.held.values().sum()
    }

    /// What it takes of a wish, or why it cannot.
    pub(super) fn measure(&self, index: usize, want: Want, now: i64) -> Result<i64, Short> {
        let (used, open) = (self.used(now), self.open());
        let left = self.limit - used;
        let elastic = want.elastic && self.kind != Kind::Requests;
        let least = if elastic { want.amount.min(1) } else { want.amount };
        let short = |used, resets, by_holds| Err(Short { index, used, resets, by_holds });
        if left <= 0 || least > left {
            let resets = self.ring.as_ref().map_or(self.end_ms, |ring| now + ring.wait(least.max(1) - left, now));
            return short(used, resets, false);
        }
        if least > left - open {
            return short(used, 0, true);
        }
        Ok(want.amount.min(left - open))
    }

    pub(super) fn count(&mut self, amount: i64, now: i64) {
        match &mut self.ring {
            Some(ring) => ring.add(amount, now),
            None => self.total += amount,
        }
    }

    pub(super) fn take_back(&mut self, at: i64, now: i64) {
        match &mut self.ring {
            Some(ring) => ring.take_back(at, now),
            None => self.total = (self.total - 1).max(0),
        }
    }

    pub(super) fn check(&self, now: i64) -> Result<(), TestCaseError> {
        prop_assert!(self.kind != Kind::Requests || self.used(now) <= self.limit, "more requests than the quota");
        Ok(())
    }

    pub(super) fn boundaries(&self) -> Vec<i64> {
        self.ring.iter().flat_map(Ring::boundaries).collect()
    }
}
