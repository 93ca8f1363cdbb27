//! The model of one account with one client key.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shared::state::admission::{Admit, Place};
use shared::state::credit::Credit;
use shared::state::records::Overdraft;
use shared::state::settlement::{Settle, SettleLapsed};

use super::line::{Line, Window};
use super::ops::Rules;
use super::{START, millis, nanos};

#[derive(Debug)]
enum Request {
    Open { admitted: i64, hold: i64, progress: Option<i64> },
    Settled,
}

#[derive(Debug)]
pub(super) struct Account {
    rules: Rules,
    balance: i64,
    receipts: BTreeMap<String, i64>,
    spent: i64,
    waived: i64,
    window: Window,
    /// Lapsed ones included.
    leases: BTreeMap<String, i64>,
    requests: BTreeMap<String, Request>,
    pub(super) line: Line,
}

impl Account {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            rules: rules.clone(),
            balance: rules.opening,
            receipts: BTreeMap::new(),
            spent: 0,
            waived: 0,
            window: Window::default(),
            leases: BTreeMap::new(),
            requests: BTreeMap::new(),
            line: Line::default(),
        }
    }

    fn reserves(&self) -> bool {
        self.rules.overdraft == Overdraft::None
    }

    fn held(&self) -> i64 {
        let holds = self.requests.values().map(|request| match request {
            Request::Open { hold, .. } => *hold,
            Request::Settled => 0,
        });
        holds.sum()
    }

    fn live(&self, now: i64) -> usize {
        self.leases.values().filter(|end| **end > now).count()
    }

    pub(super) fn is_settled(&self, name: &str) -> bool {
        matches!(self.requests.get(name), Some(Request::Settled))
    }

    /// The answer, and whether anything but the line was written.
    pub(super) fn admit(&mut self, name: &str, hold: i64, place: Place, us: i64) -> (Admit, bool) {
        let now = START + us / 1000;
        match self.requests.get(name) {
            Some(Request::Settled) => return (Admit::Already, false),
            Some(Request::Open { admitted, .. }) => {
                return (Admit::Admitted { now_ms: *admitted, expires_ms: admitted + 15_000 }, false);
            }
            None => {}
        }
        let left = self.balance - self.held();
        if hold >= 0 && (left <= 0 || (self.reserves() && hold > left)) {
            return (Admit::NoBalance { balance: nanos(left) }, false);
        }
        if hold >= 0 && self.spent >= self.rules.spend_limit {
            let (limit, used) = (nanos(self.rules.spend_limit), nanos(self.spent));
            return (Admit::OverSpend { limit, used, resets_ms: Some(START + (1 << 40)) }, false);
        }
        let (ahead, stands) = self.line.ahead(name, now);
        let wait = self.window.wait(self.rules.rpm as usize, now, ahead);
        let full = wait == 0 && self.live(now) + ahead >= self.rules.cap as usize;
        if wait > 0 || full {
            let position = self.refused(name, place, now, wait, ahead);
            let wait = millis(u64::try_from(wait).unwrap());
            return if full {
                (Admit::OverConcurrency { limit: self.rules.cap, position }, false)
            } else {
                (Admit::OverRate { wait, limit: self.rules.rpm, position }, false)
            };
        }
        if stands {
            self.line.leave(name);
        }
        self.window.add(START * 1000 + us);
        self.leases.insert(name.to_owned(), now + 15_000);
        let hold = if self.reserves() { hold.max(0) } else { 0 };
        self.requests.insert(name.to_owned(), Request::Open { admitted: now, hold, progress: None });
        (Admit::Admitted { now_ms: now, expires_ms: now + 15_000 }, true)
    }

    fn refused(&mut self, name: &str, place: Place, now: i64, wait: i64, ahead: usize) -> Option<u32> {
        let Place::Stand { max_wait } = place else {
            self.line.leave(name);
            return None;
        };
        let max_wait = i64::try_from(max_wait.as_millis()).unwrap();
        if max_wait == 0 || wait > max_wait {
            self.line.leave(name);
            return None;
        }
        self.line.stand(name, now);
        u32::try_from(ahead + 1).ok()
    }

    /// Whether the lease lives on.
    pub(super) fn renew(&mut self, name: &str, cost: i64, now: i64) -> bool {
        let live = self.live(now);
        let Some(end) = self.leases.get_mut(name) else {
            return false;
        };
        if *end <= now && live >= self.rules.cap as usize {
            return false;
        }
        *end = now + 15_000;
        if let Some(Request::Open { progress, .. }) = self.requests.get_mut(name) {
            *progress = Some(cost);
        }
        true
    }

    pub(super) fn settle(&mut self, name: &str, cost: i64) -> Settle {
        if matches!(self.requests.get(name), Some(Request::Settled)) {
            return Settle::Already;
        }
        self.leases.remove(name);
        self.requests.insert(name.to_owned(), Request::Settled);
        // Without overdraft at most what the others do not hold.
        let charged = if self.reserves() { cost.min((self.balance - self.held()).max(0)) } else { cost };
        self.balance -= charged;
        self.spent += charged;
        self.waived += cost - charged;
        Settle::Settled { balance: Some(nanos(self.balance)), charged: nanos(charged) }
    }

    pub(super) fn lapsed(&self, name: &str, now: i64) -> bool {
        self.leases.get(name).is_some_and(|end| *end <= now)
    }

    pub(super) fn settle_lapsed(&mut self, name: &str, now: i64) -> SettleLapsed {
        let Some(end) = self.leases.get(name) else {
            return SettleLapsed::Already;
        };
        if *end > now {
            return SettleLapsed::Alive;
        }
        if let Some(Request::Open { progress: Some(cost), .. }) = self.requests.get(name) {
            self.settle(name, *cost);
            return SettleLapsed::Settled;
        }
        self.leases.remove(name);
        self.requests.remove(name);
        SettleLapsed::Dropped
    }

    pub(super) fn credit(&mut self, receipt: &str, amount: i64) -> Credit {
        if self.receipts.contains_key(receipt) {
            return Credit::Already { balance: nanos(self.balance) };
        }
        self.receipts.insert(receipt.to_owned(), amount);
        self.balance += amount;
        Credit::Credited { balance: nanos(self.balance) }
    }

    pub(super) fn waived(&self) -> i64 {
        self.waived
    }

    pub(super) fn credited(&self) -> i64 {
        self.rules.opening + self.receipts.values().sum::<i64>()
    }

    pub(super) fn check(&self, now_us: i64) -> Result<(), TestCaseError> {
        prop_assert!(self.window.used(now_us) <= self.rules.rpm as usize, "more than rpm in a minute");
        prop_assert!(self.live(now_us / 1000) <= self.rules.cap as usize, "more holders than slots");
        prop_assert!(!self.reserves() || self.balance - self.held() >= 0, "an overdraft");
        Ok(())
    }

    pub(super) fn boundaries(&self) -> Vec<i64> {
        self.leases.values().copied().chain(self.window.boundaries()).chain(self.line.boundaries()).collect()
    }
}
