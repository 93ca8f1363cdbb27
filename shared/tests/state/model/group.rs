//! The model of one group: slots, lines, locks and cooldowns of its connections.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shared::state::admission::Place;
use shared::state::capacity::{Acquire, Length, LockCause, Mark, Probe, ProbeOf, Record, RungState, Sole, Turn};

use super::line::{Turns, Window};
use super::ops::{Limits, PinOp, Rules, Used, Wish, credential_mark};
use super::tokens::Tokens;
use super::{START, millis};

const MINUTE: i64 = 60_000;

pub(super) struct Ask {
    pub(super) lease: String,
    pub(super) member: String,
    pub(super) turn: Turn,
    pub(super) place: Place,
    pub(super) credential: u8,
    pub(super) wish: Wish,
    pub(super) pin: Option<PinOp>,
}

/// How an attempt ended.
pub(super) struct End<'a> {
    pub(super) mark: &'a Mark,
    pub(super) begun: i64,
    pub(super) used: Used,
}

/// A lock or a cooldown.
#[derive(Debug, Default, Clone)]
struct Closure {
    end: Option<i64>,
    set_at: Option<i64>,
    level: i64,
    reopened: Option<i64>,
    cause: Option<LockCause>,
    credential: String,
    probe: Option<(i64, String)>,
    /// Failures, successes and the beginning of the count.
    count: Option<(i64, i64, i64)>,
}

#[derive(Debug, PartialEq)]
enum State {
    Open,
    Closed(i64),
    Probing(i64),
    Due,
}

#[derive(Debug)]
struct Connection {
    cap: Option<u32>,
    rpm: Option<u32>,
    tokens: Option<Tokens>,
    /// Of the connection, its bucket, its model.
    closures: [Closure; 3],
    /// Cooldowns of its endpoints, if they have any.
    endpoints: Vec<Closure>,
    /// Lapsed ones included, until they are reaped.
    leases: BTreeMap<String, i64>,
    window: Window,
    line: Turns,
    oks: Recent,
}

/// Successes of late, in thousandths: what is 30 s old counts half.
#[derive(Debug, Default)]
struct Recent {
    milli: f64,
    at: Option<i64>,
}

impl Recent {
    #[expect(clippy::cast_precision_loss, reason = "a few minutes in ms")]
    fn now(&self, now: i64) -> f64 {
        self.at.map_or(0.0, |at| self.milli * 0.5_f64.powf((now - at).max(0) as f64 / 30_000.0))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a small count")]
    fn recent(&self, now: i64) -> i64 {
        (self.now(now) / 1_000.0).floor() as i64
    }

    fn note(&mut self, now: i64, milli: f64) {
        self.milli = (self.now(now) + milli).trunc();
        self.at = Some(now);
    }
}

#[derive(Debug)]
pub(super) struct Group {
    connections: Vec<Connection>,
    max_lock: i64,
    /// By conversation.
    pins: BTreeMap<u8, usize>,
}

impl Closure {
    fn state(&self, now: i64, max_lock: i64, credential: Option<&str>) -> State {
        let (Some(end), Some(set_at)) = (self.end, self.set_at) else {
            return State::Open;
        };
        let void = self.cause == Some(LockCause::Auth)
            && !self.credential.is_empty()
            && credential.is_some_and(|mark| mark != self.credential);
        if void {
            return State::Open;
        }
        let opens = end.min(set_at + max_lock);
        match &self.probe {
            _ if now < opens => State::Closed(opens - now),
            Some((until, _)) if now < *until => State::Probing(until - now),
            _ => State::Due,
        }
    }

    fn probe_of(&self) -> ProbeOf {
        match self.cause {
            Some(LockCause::RateLimited | LockCause::Billing) => ProbeOf::Limits,
            Some(LockCause::Auth) | None => ProbeOf::Failures,
        }
    }

    fn decayed(&self, now: i64) -> i64 {
        match self.end.or(self.reopened) {
            Some(ended) if now > ended => (self.level - (now - ended) / 300_000).max(0),
            _ => self.level,
        }
    }

    fn close(&mut self, now: i64, end: i64, level: i64) {
        self.end = Some(end);
        self.set_at = Some(now);
        self.level = level;
        self.probe = None;
        self.reopened = None;
    }

    fn lock(&mut self, now: i64, begun: i64, cause: LockCause, length: Length, credential: &str) {
        let void = self.cause == Some(LockCause::Auth) && self.credential != credential;
        let stands = self.end.filter(|_| !void);
        let newer = self.set_at.is_none_or(|set_at| begun > set_at);
        let mut level = self.level;
        let length = match length {
            Length::Told(length) => i64::try_from(length.as_millis()).unwrap(),
            Length::Doubling => {
                if newer {
                    let ended = Closure { end: stands, ..self.clone() };
                    level = ended.decayed(now) + 1;
                }
                doubled(2_000, level.max(1))
            }
        };
        match stands {
            Some(end) if end >= now + length => {
                if newer {
                    self.close(now, end, level);
                }
            }
            _ => {
                self.close(now, now + length, level);
                self.cause = Some(cause);
                credential.clone_into(&mut self.credential);
            }
        }
    }

    fn fail(&mut self, now: i64, begun: i64, sole: Sole, recent: i64) {
        if self.set_at.is_some_and(|set_at| begun <= set_at) {
            return;
        }
        if self.end.is_none() {
            let (fails, oks, since) = self.count.filter(|(_, _, since)| now - since < MINUTE).unwrap_or((0, 0, now));
            let fails = fails + 1;
            let most = match sole {
                Sole::Yes => fails > oks.max(recent),
                Sole::No => fails * 10 >= fails + oks,
            };
            if fails < 3 || !most {
                self.count = Some((fails, oks, since));
                return;
            }
        }
        let level = self.decayed(now) + 1;
        let end = self.end.unwrap_or(0).max(now + doubled(10_000, level));
        self.close(now, end, level);
        self.count = None;
    }

    fn rest(&mut self, now: i64, begun: i64, rest: std::time::Duration) {
        if self.set_at.is_none_or(|set_at| begun > set_at) {
            let end = now + i64::try_from(rest.as_millis()).unwrap();
            self.close(now, self.end.unwrap_or(0).max(end), self.level);
        }
    }

    fn succeed(&mut self, now: i64, begun: i64) {
        if self.end.is_some() && self.set_at.is_some_and(|set_at| begun > set_at) {
            self.end = None;
            self.cause = None;
            self.credential.clear();
            self.probe = None;
            self.count = None;
            self.reopened = Some(now);
        }
    }
}

fn doubled(base: i64, level: i64) -> i64 {
    (base << (level - 1).min(20)).min(300_000)
}

impl Connection {
    /// Why it is not taken, or whether the next attempt is its probe.
    fn rung(&self, now: i64, max_lock: i64, credential: Option<&str>) -> Result<bool, RungState> {
        let mut due = false;
        let mut worst: Option<(i64, RungState)> = None;
        for (number, closure) in self.closures.iter().enumerate() {
            let (wait, state) = match closure.state(now, max_lock, credential) {
                State::Open => continue,
                State::Due => {
                    due = true;
                    continue;
                }
                State::Probing(wait) => (wait, RungState::Probing { wait: ms(wait), of: closure.probe_of() }),
                State::Closed(wait) if number == 2 => (wait, RungState::Cooling { wait: ms(wait) }),
                State::Closed(wait) => (wait, RungState::Locked { cause: closure.cause.unwrap(), wait: ms(wait) }),
            };
            if worst.as_ref().is_none_or(|(longest, _)| wait > *longest) {
                worst = Some((wait, state));
            }
        }
        worst.map_or(Ok(due), |(_, state)| Err(state))
    }

    /// The first endpoint that is open or due for a probe; 0 where endpoints have no cooldowns.
    fn endpoint(&self, now: i64, max_lock: i64) -> Result<(usize, bool), RungState> {
        let mut soonest: Option<i64> = None;
        for (number, closure) in self.endpoints.iter().enumerate() {
            match closure.state(now, max_lock, None) {
                State::Open => return Ok((number, false)),
                State::Due => return Ok((number, true)),
                State::Closed(wait) | State::Probing(wait) => {
                    soonest = Some(soonest.map_or(wait, |other| other.min(wait)));
                }
            }
        }
        soonest.map_or(Ok((0, false)), |wait| Err(RungState::Endpoints { wait: ms(wait) }))
    }

    /// Why an open one has no room, or how many thousandths of tokens an attempt takes.
    fn room(&mut self, wish: Wish, now: i64, ahead: usize) -> Result<i64, RungState> {
        let tokens = self.tokens.as_mut().map(|tokens| {
            for (lease, end) in self.leases.extract_if(.., |_, end| *end <= now) {
                tokens.lapse(&lease, end);
            }
            tokens.room(wish, now)
        });
        let full = |leases: &BTreeMap<String, i64>| self.cap.is_some_and(|cap| leases.len() + ahead >= cap as usize);
        if self.cap.is_none() || full(&self.leases) {
            self.leases.retain(|_, end| *end > now);
        }
        if self.cap.is_some_and(|cap| self.leases.len() + ahead >= cap as usize) {
            return Err(RungState::Full);
        }
        let wait = self.rpm.map_or(0, |rpm| self.window.wait(rpm as usize, now, ahead));
        match tokens {
            Some(Err(tokens_wait)) if tokens_wait > wait => Err(RungState::OverTokens { wait: ms(tokens_wait) }),
            _ if wait > 0 => Err(RungState::OverRate { wait: ms(wait) }),
            Some(Err(_)) => Err(RungState::Full),
            Some(Ok(_)) if ahead > 0 => Err(RungState::Full),
            Some(Ok(takes)) => Ok(takes),
            None => Ok(0),
        }
    }

    fn live(&self, now: i64) -> usize {
        self.leases.values().filter(|end| **end > now).count()
    }
}

impl Group {
    pub(super) fn new(rules: &Rules) -> Self {
        let connection = |(number, Limits { cap, rpm, tpm }): (usize, &Limits)| Connection {
            cap: *cap,
            rpm: *rpm,
            tokens: tpm.map(Tokens::new),
            closures: Default::default(),
            endpoints: vec![Closure::default(); endpoints_of(number)],
            leases: BTreeMap::new(),
            window: Window::default(),
            line: Turns::default(),
            oks: Recent::default(),
        };
        let max_lock = i64::try_from(rules.max_lock.as_millis()).unwrap();
        let connections = rules.connections.iter().enumerate().map(connection).collect();
        Self { connections, max_lock, pins: BTreeMap::new() }
    }

    /// All leases that were not given back or reaped, with the numbers of their connections.
    pub(super) fn held(&self) -> Vec<(String, usize)> {
        let numbered = self.connections.iter().enumerate();
        numbered.flat_map(|(number, one)| one.leases.keys().map(move |lease| (lease.clone(), number))).collect()
    }

    /// The answer, and whether anything but lines and lapsed leases was written.
    pub(super) fn acquire(&mut self, ask: &Ask, order: &[usize], us: i64) -> (Acquire, bool) {
        let now = START + us / 1000;
        for (index, number) in order.iter().enumerate() {
            let connection = &self.connections[*number];
            if let Some(expires_ms) = connection.leases.get(&ask.lease).copied() {
                let is_probe = |closure: &Closure| closure.probe.as_ref().is_some_and(|(_, id)| *id == ask.lease);
                let probed = connection.endpoints.iter().position(is_probe);
                let probes = probed.is_some() || connection.closures.iter().any(is_probe);
                let probe = if probes { Probe::Yes } else { Probe::No };
                let is_open = |closure: &Closure| closure.state(now, self.max_lock, None) == State::Open;
                let first = connection.endpoints.iter().position(is_open);
                let endpoint = probed.or(first).unwrap_or(connection.endpoints.len());
                let begun_ms = expires_ms - 15_000;
                return (Acquire::Acquired { index, begun_ms, expires_ms, probe, endpoint }, false);
            }
        }
        let mark = credential_mark(ask.credential);
        let (mut states, mut merely_full) = (BTreeMap::new(), Vec::new());
        let preferred = ask.pin.filter(|pin| self.pins.get(&pin.conversation) != pin.given_up.as_ref());
        let preferred = preferred.and_then(|pin| self.pins.get(&pin.conversation).copied().zip(Some(pin.patience_ms)));
        let mut turns: Vec<(usize, &usize)> = order.iter().enumerate().collect();
        turns.sort_by_key(|(_, number)| preferred.is_none_or(|(pinned, _)| pinned != **number));
        for (index, number) in turns {
            let connection = &mut self.connections[*number];
            let open = connection.rung(now, self.max_lock, Some(&mark)).and_then(|due| {
                let (endpoint, probes) = connection.endpoint(now, self.max_lock)?;
                Ok((due || probes, endpoint))
            });
            let state = match open {
                Err(closed) => closed,
                Ok((due, endpoint)) => {
                    let (ahead, turn) = connection.line.ahead(&ask.member, &ask.turn, now);
                    match connection.room(ask.wish, now, ahead) {
                        Ok(takes) => {
                            connection.line.serve(&ask.member, &ask.turn, turn);
                            connection.tokens.iter_mut().for_each(|tokens| tokens.hold(&ask.lease, takes));
                            return (self.take(ask, (index, *number), (due, endpoint), us), true);
                        }
                        Err(full) => {
                            let wait = wait_of(&full).unwrap_or_default();
                            if preferred.is_some_and(|(pinned, most)| pinned == *number && wait < millis(most)) {
                                connection.line.stand(&ask.member, &ask.turn, now);
                                return (Acquire::Pinned { position: u32::try_from(ahead + 1).unwrap() }, false);
                            }
                            merely_full.push((*number, ahead, full.clone()));
                            full
                        }
                    }
                }
            };
            states.insert(index, state);
        }
        for number in order.iter().filter(|number| merely_full.iter().all(|(full, ..)| full != *number)) {
            self.connections[*number].line.leave(&ask.member);
        }
        let states: Vec<RungState> = states.into_values().collect();
        let wait = states.iter().filter_map(wait_of).min();
        if merely_full.is_empty() {
            return (Acquire::Closed { wait: wait.unwrap(), states }, false);
        }
        let position = self.stand(ask, &merely_full, now);
        (Acquire::Full { wait, position, states }, false)
    }

    fn take(&mut self, ask: &Ask, (index, number): (usize, usize), (due, endpoint): (bool, usize), us: i64) -> Acquire {
        let now = START + us / 1000;
        let mark = credential_mark(ask.credential);
        let connection = &mut self.connections[number];
        connection.leases.insert(ask.lease.clone(), now + 15_000);
        connection.window.add(START * 1000 + us);
        for closure in &mut connection.closures {
            if closure.state(now, self.max_lock, Some(&mark)) == State::Due {
                closure.probe = Some((now + 15_000, ask.lease.clone()));
            }
        }
        if let Some(closure) = connection.endpoints.get_mut(endpoint)
            && closure.state(now, self.max_lock, None) == State::Due
        {
            closure.probe = Some((now + 15_000, ask.lease.clone()));
        }
        self.leave(&ask.member);
        let probe = if due { Probe::Yes } else { Probe::No };
        Acquire::Acquired { index, begun_ms: now, expires_ms: now + 15_000, probe, endpoint }
    }

    fn stand(&mut self, ask: &Ask, full: &[(usize, usize, RungState)], now: i64) -> Option<u32> {
        let mut best = None;
        for (number, ahead, state) in full {
            let line = &mut self.connections[*number].line;
            let wait = wait_of(state).unwrap_or_default();
            match ask.place {
                Place::Stand { max_wait } if !max_wait.is_zero() && wait <= max_wait => {
                    line.stand(&ask.member, &ask.turn, now);
                    let position = u32::try_from(ahead + 1).unwrap();
                    best = Some(best.map_or(position, |other: u32| other.min(position)));
                }
                _ => line.leave(&ask.member),
            }
        }
        best
    }

    /// What the leases of a connection hold of its tokens, and their sum; `None`: it has no limit of tokens.
    pub(super) fn tokens_held(&self, number: usize) -> Option<BTreeMap<String, i64>> {
        self.connections[number].tokens.as_ref().map(Tokens::held)
    }

    pub(super) fn is_closed(&self, number: usize, now: i64) -> bool {
        self.connections[number].rung(now, self.max_lock, None).is_err()
    }

    pub(super) fn leave(&mut self, member: &str) {
        self.connections.iter_mut().for_each(|connection| connection.line.leave(member));
    }

    /// A success binds the conversation.
    pub(super) fn bind(&mut self, conversation: u8, number: usize) {
        self.pins.insert(conversation, number);
    }

    /// `at`: the connection, and which of its endpoints was called.
    pub(super) fn record(&mut self, lease: &str, at: (usize, usize), end: &End<'_>, now: i64) -> Record {
        let (number, endpoint) = at;
        let End { mark, begun, used } = *end;
        let connection = &mut self.connections[number];
        let keeps = matches!(mark, Mark::Committed | Mark::EndpointOnly { .. });
        let held =
            if keeps { connection.leases.contains_key(lease) } else { connection.leases.remove(lease).is_some() };
        if !held {
            return Record::Already;
        }
        if let Some(tokens) = connection.tokens.as_mut().filter(|_| !keeps) {
            tokens.spend(lease, used, now);
        }
        let [lock, bucket, cooldown] = &mut connection.closures;
        let endpoint = connection.endpoints.get_mut(endpoint);
        match mark {
            Mark::Nothing => {}
            Mark::Committed | Mark::Success { .. } => {
                for closure in [&mut *lock, &mut *bucket, &mut *cooldown] {
                    closure.succeed(now, begun);
                }
                if let Some(closure) = endpoint {
                    closure.succeed(now, begun);
                }
                if let (Mark::Success { .. }, Some((_, oks, since))) = (mark, &mut cooldown.count)
                    && now - *since < MINUTE
                {
                    *oks += 1;
                }
            }
            Mark::LockBucket { cause, length } => bucket.lock(now, begun, *cause, *length, ""),
            Mark::LockConnection { cause, length, credential_mark } => {
                lock.lock(now, begun, *cause, *length, credential_mark);
            }
            Mark::Failure { sole } => cooldown.fail(now, begun, *sole, connection.oks.recent(now)),
            // Without endpoints it is the model's own cooldown that rests.
            Mark::Endpoint { rest } | Mark::EndpointOnly { rest } => {
                endpoint.unwrap_or(cooldown).rest(now, begun, *rest);
            }
        }
        if !keeps && !matches!(mark, Mark::Failure { .. } | Mark::Success { .. }) {
            for closure in connection.closures.iter_mut().chain(&mut connection.endpoints) {
                closure.probe = closure.probe.take().filter(|(_, id)| id != lease);
            }
        }
        match mark {
            Mark::Success { .. } => connection.oks.note(now, 1_000.0),
            Mark::Failure { .. } | Mark::Endpoint { .. } | Mark::EndpointOnly { .. } => connection.oks.note(now, 0.0),
            _ => {}
        }
        Record::Recorded { closed: connection.rung(now, self.max_lock, None).err().as_ref().and_then(wait_of) }
    }

    /// Whether the lease lives on.
    pub(super) fn renew(&mut self, lease: &str, number: usize, now: i64) -> bool {
        self.connections[number].leases.get_mut(lease).map(|end| *end = now + 15_000).is_some()
    }

    pub(super) fn check(&self, now_us: i64) -> Result<(), TestCaseError> {
        for connection in &self.connections {
            prop_assert!(connection.line.in_order(), "one of a flow before another that came sooner");
            if let Some(cap) = connection.cap {
                prop_assert!(connection.live(now_us / 1000) <= cap as usize, "more holders than slots");
            }
            if let Some(rpm) = connection.rpm {
                prop_assert!(connection.window.used(now_us) <= rpm as usize, "more than rpm in a minute");
            }
        }
        Ok(())
    }

    pub(super) fn boundaries(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for connection in &self.connections {
            all.extend(connection.leases.values().copied());
            all.extend(connection.window.boundaries());
            all.extend(connection.tokens.iter().flat_map(Tokens::boundaries));
            all.extend(connection.line.boundaries());
            for closure in connection.closures.iter().chain(&connection.endpoints) {
                all.extend(closure.end);
                all.extend(closure.set_at.map(|set_at| set_at + self.max_lock));
                all.extend(closure.probe.as_ref().map(|(end, _)| *end));
                all.extend(closure.count.map(|(_, _, since)| since + MINUTE));
                all.extend(closure.end.or(closure.reopened).map(|ended| ended + 300_000));
            }
        }
        all
    }
}

/// Every other connection has two endpoints with cooldowns.
pub(super) fn endpoints_of(number: usize) -> usize {
    if number % 2 == 1 { 2 } else { 0 }
}

fn wait_of(state: &RungState) -> Option<std::time::Duration> {
    match state {
        RungState::Full => None,
        RungState::Locked { wait, .. }
        | RungState::Cooling { wait }
        | RungState::Endpoints { wait }
        | RungState::Probing { wait, .. }
        | RungState::OverRate { wait }
        | RungState::OverTokens { wait } => Some(*wait),
    }
}

fn ms(wait: i64) -> std::time::Duration {
    millis(u64::try_from(wait).unwrap())
}
