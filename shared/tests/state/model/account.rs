//! The model of one account with one client key.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shared::state::admission::{Admit, Bound, Place};
use shared::state::credit::Credit;
use shared::state::records::Overdraft;
use shared::state::settlement::{Settle, SettleLapsed, Upstream};

use super::line::{Line, Window};
use super::ops::{Rules, Used, Wish};
use super::ring::{Counter, Kind, Ring, Short, Want};
use super::{START, millis, nanos};

#[derive(Debug)]
enum Request {
    Open { admitted: i64, hold: i64, progress: Option<Used> },
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
    /// Tokens for ever, requests in 60 s, money in 2 min, the spend limit.
    counters: [Counter; 4],
    /// Thousandths of tokens.
    tpm: Ring,
    tpm_held: BTreeMap<String, i64>,
    /// What an answer has had of late, in thousandths of tokens.
    usual: Option<i64>,
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
            counters: [
                Counter::period(Kind::Tokens, rules.quotas.tokens, 0),
                Counter::window(Kind::Requests, rules.quotas.requests, 1_000),
                Counter::window(Kind::Money, rules.quotas.cost, 2_000),
                Counter::period(Kind::Money, rules.spend_limit, START + (1 << 40)),
            ],
            tpm: Ring::new(1_000),
            tpm_held: BTreeMap::new(),
            usual: None,
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
    pub(super) fn admit(&mut self, name: &str, wish: Wish, place: Place, us: i64) -> (Admit, bool) {
        let (now, hold) = (START + us / 1000, wish.hold);
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
        let takes = self.measure(wish, now);
        if let Err(short) = takes
            && !short.by_holds
        {
            return (self.short(short, None), false);
        }
        let (ahead, stands) = self.line.ahead(name, now);
        let wait = self.window.wait(self.rules.rpm as usize, now, ahead);
        let full = wait == 0 && self.live(now) + ahead >= self.rules.cap as usize;
        let (tpm_takes, tokens_wait, soonest) = self.tokens(wish, now);
        let behind = self.rules.tpm.is_some() && ahead > 0;
        if wait > 0 || full || tokens_wait > 0 || behind || takes.is_err() {
            let position = self.refused(name, place, now, wait.max(soonest), ahead);
            let answer = if tokens_wait > wait {
                self.over_tokens(tokens_wait, soonest, position)
            } else if full {
                Admit::OverConcurrency { limit: self.rules.cap, position }
            } else if wait > 0 {
                Admit::OverRate { wait: ms(wait), limit: self.rules.rpm, position }
            } else if behind {
                self.over_tokens(1, 0, position)
            } else {
                self.short(takes.unwrap_err(), position)
            };
            return (answer, false);
        }
        if stands {
            self.line.leave(name);
        }
        self.take(name, &takes.unwrap(), tpm_takes, now);
        self.window.add(START * 1000 + us);
        self.leases.insert(name.to_owned(), now + 15_000);
        let hold = if self.reserves() { hold.max(0) } else { 0 };
        self.requests.insert(name.to_owned(), Request::Open { admitted: now, hold, progress: None });
        (Admit::Admitted { now_ms: now, expires_ms: now + 15_000 }, true)
    }

    /// What each counter takes of a wish; free models ask for no money.
    fn measure(&self, wish: Wish, now: i64) -> Result<Vec<i64>, Short> {
        let tokens = i64::try_from(wish.input + wish.output).unwrap();
        let (mut takes, mut held) = (Vec::new(), None);
        for (index, counter) in self.counters.iter().enumerate() {
            let amount = match counter.kind {
                Kind::Requests => 1,
                Kind::Tokens => tokens,
                Kind::Money if wish.hold < 0 => {
                    takes.push(0);
                    continue;
                }
                Kind::Money => wish.hold,
            };
            match counter.measure(index, Want { amount, elastic: wish.bound == Bound::Assumed }, now) {
                Ok(amount) => takes.push(amount),
                Err(short) if short.by_holds => held = held.or(Some(short)),
                Err(short) => return Err(short),
            }
        }
        held.map_or(Ok(takes), Err)
    }

    fn short(&self, short: Short, position: Option<u32>) -> Admit {
        let resets_ms = Some(short.resets).filter(|resets| *resets > 0);
        if short.index == 3 {
            let (limit, used) = (nanos(self.rules.spend_limit), nanos(short.used));
            return Admit::OverSpend { limit, used, resets_ms, position };
        }
        Admit::OverQuota { index: short.index, used: short.used, resets_ms, position }
    }

    /// What the tokens per minute take, how long until they can, and how soon at the earliest.
    fn tokens(&self, wish: Wish, now: i64) -> (i64, i64, i64) {
        let Some(tpm) = self.rules.tpm else { return (0, 0, 0) };
        let (cap, open) = (i64::from(tpm) * 1_000, self.tpm_held.values().sum::<i64>());
        let output = i64::try_from(wish.output * 1_000).unwrap();
        let output = if wish.bound == Bound::Assumed { self.usual.unwrap_or(output) } else { output };
        let takes = (i64::try_from(wish.input * 1_000).unwrap() + output).min(cap);
        let excess = self.tpm.used(now) + open + takes - cap;
        if excess <= 0 {
            return (takes, 0, 0);
        }
        let wait = self.tpm.wait(excess, now).clamp(1, 60_000);
        (takes, wait, self.tpm.wait(excess - open, now).min(60_000))
    }

    fn over_tokens(&self, wait: i64, soonest: i64, position: Option<u32>) -> Admit {
        let limit = self.rules.tpm.unwrap();
        Admit::OverTokens { wait: ms(wait), soonest: ms(soonest), limit, position }
    }

    fn take(&mut self, name: &str, takes: &[i64], tpm_takes: i64, now: i64) {
        for (counter, amount) in self.counters.iter_mut().zip(takes) {
            match counter.kind {
                Kind::Requests => counter.count(1, now),
                _ => drop(counter.held.insert(name.to_owned(), *amount)),
            }
        }
        self.tpm_held.insert(name.to_owned(), tpm_takes);
    }

    /// What open requests hold, by the key of the counter.
    pub(super) fn held_by_counter(&self) -> BTreeMap<String, i64> {
        let names = ["quota:tokens-total:total", "", "quota:usd-120s:window", "spend:2033"];
        let of_counters = self.counters.iter().zip(names).map(|(counter, name)| (name, counter.open()));
        let all = of_counters.chain([("tpm", self.tpm_held.values().sum())]);
        all.filter(|(_, held)| *held > 0).map(|(name, held)| (format!("hg:{{a:acme}}:key:ci:{name}"), held)).collect()
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
    pub(super) fn renew(&mut self, name: &str, used: Used, now: i64) -> bool {
        let live = self.live(now);
        let Some(end) = self.leases.get_mut(name) else {
            return false;
        };
        if *end <= now && live >= self.rules.cap as usize {
            return false;
        }
        *end = now + 15_000;
        if let Some(Request::Open { progress, .. }) = self.requests.get_mut(name) {
            *progress = Some(used);
        }
        true
    }

    pub(super) fn settle(&mut self, name: &str, used: Used, now: i64) -> Settle {
        if matches!(self.requests.get(name), Some(Request::Settled)) {
            return Settle::Already;
        }
        self.leases.remove(name);
        let known = self.free(name, used.upstream, now);
        self.requests.insert(name.to_owned(), Request::Settled);
        // Without overdraft at most what the others do not hold.
        let cost = used.cost;
        let charged = if self.reserves() { cost.min((self.balance - self.held()).max(0)) } else { cost };
        self.balance -= charged;
        self.spent += charged;
        self.waived += cost - charged;
        let tokens = i64::try_from(used.input + used.output).unwrap();
        for counter in &mut self.counters {
            match counter.kind {
                Kind::Requests => {}
                Kind::Tokens => counter.count(tokens, now),
                Kind::Money => counter.count(charged, now),
            }
        }
        if known && self.rules.tpm.is_some() && tokens > 0 {
            self.tpm.add(tokens * 1_000, now);
            let output = i64::try_from(used.output).unwrap() * 1_000;
            if output > 0 {
                self.usual = Some(self.usual.map_or(output, |usual| (usual * 3 + output) / 4));
            }
        }
        Settle::Settled { balance: Some(nanos(self.balance)), charged: nanos(charged) }
    }

    /// Frees what an open request held, and its place in quotas of requests if no upstream was reached.
    fn free(&mut self, name: &str, upstream: Upstream, now: i64) -> bool {
        let Some(Request::Open { admitted, .. }) = self.requests.get(name) else { return false };
        for counter in &mut self.counters {
            counter.held.remove(name);
            if counter.kind == Kind::Requests && upstream == Upstream::Spared {
                counter.take_back(*admitted, now);
            }
        }
        self.tpm_held.remove(name);
        true
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
        if let Some(Request::Open { progress: Some(used), .. }) = self.requests.get(name) {
            // Nothing says that it was spared, and nothing is learned from it.
            let (used, usual) = (Used { upstream: Upstream::Reached, ..*used }, self.usual);
            self.settle(name, used, now);
            self.usual = usual;
            return SettleLapsed::Settled;
        }
        self.leases.remove(name);
        self.free(name, Upstream::Spared, now);
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
        self.counters.iter().try_for_each(|counter| counter.check(now_us / 1000))?;
        prop_assert!(!self.reserves() || self.balance - self.held() >= 0, "an overdraft");
        Ok(())
    }

    pub(super) fn boundaries(&self) -> Vec<i64> {
        let counters = self.counters.iter().flat_map(Counter::boundaries).chain(self.tpm.boundaries());
        let leases = self.leases.values().copied();
        leases.chain(self.window.boundaries()).chain(self.line.boundaries()).chain(counters).collect()
    }
}

fn ms(wait: i64) -> std::time::Duration {
    millis(u64::try_from(wait).unwrap())
}
