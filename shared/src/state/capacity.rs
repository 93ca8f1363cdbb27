//! `acquire`: a slot at one of the candidates. `record`, beside it, says what the outcome of the attempt closes or reopens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admission::{Estimate, Place, position};
use super::link::StateError;
use super::reply::{Reply, ms};
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, BucketName, ConnectionId, EndpointId, GroupId, ModelName, RequestId};
use crate::limit::Priority;

pub use leave::LeaveAsk;
pub use outcome::{Length, Mark, Record, RecordAsk, SIBLINGS_MAX, Sibling, Sole, ToldLimit, Unlock, Unlocked};
pub use pin::Pin;

mod leave;
mod many;
mod outcome;
mod pin;
mod tokens;

/// At most so many candidates go into one call; more are asked in chunks.
pub const CANDIDATES_MAX: usize = 64;

/// One attempt of one request: what a connection's lease is held under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The request.
    pub request: RequestId,
    /// Counts the attempts of the request.
    pub attempt: u32,
}

/// What `acquire` is asked.
#[derive(Debug, Clone)]
pub struct AcquireAsk {
    /// The group whose connections they are.
    pub group: GroupId,
    /// The attempt the slot is for; the same lease again gets the same answer.
    pub lease: LeaseId,
    /// Locks and cooldowns older than this let a probe through, however far their end.
    pub max_lock: Duration,
    /// Whether to wait in line.
    pub place: Place,
    /// Whose turn it takes there.
    pub turn: Turn,
    /// What it may use, where a connection has a limit of tokens per minute.
    pub estimate: Estimate,
    /// The conversation, if the connection it prefers is to be looked at first.
    pub pin: Option<Pin>,
    /// In order of preference; each connection at most once.
    pub candidates: Vec<Candidate>,
}

/// Whose turn a request takes in lines: those of one account and priority share turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The account; `None` where accounts do not take turns: all count as one.
    pub account: Option<AccountId>,
    /// A step lets at most four turns go before.
    pub priority: Priority,
}

/// One rung, as `acquire` sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The connection.
    pub connection: ConnectionId,
    /// The model whose cooldown counts; in a pool `pool/model`.
    pub model: ModelName,
    /// The bucket whose lock counts.
    pub bucket: BucketName,
    /// Slots of the connection; `None`: no limit.
    pub max_concurrent: Option<u32>,
    /// Attempts per minute of the connection; `None`: no limit.
    pub rpm: Option<u32>,
    /// Tokens per minute of the connection; `None`: no limit.
    pub tpm: Option<u32>,
    /// Stands for the credential (never the credential itself): an `auth` lock set under another mark is void.
    pub credential_mark: Arc<str>,
    /// The endpoints whose cooldowns count, in their order. Empty: its one endpoint has none, or none is to be looked at.
    pub endpoints: Vec<EndpointId>,
}

/// What `acquire` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquire {
    /// A slot at one candidate.
    Acquired {
        /// Which of the candidates.
        index: usize,
        /// When the attempt begins, by the store's clock (Unix ms): goes into `record`.
        begun_ms: i64,
        /// When the lease expires unless renewed.
        expires_ms: i64,
        /// Whether it is the one probe of a closed rung.
        probe: Probe,
        /// Which of the candidate's endpoints to call: the first that does not cool.
        endpoint: usize,
    },
    /// The preferred connection is only full, and the caller stands in its line; the others were not looked at.
    Pinned {
        /// Place in that line, 1 is the head.
        position: u32,
    },
    /// None is free, but some only for want of a slot.
    Full {
        /// The soonest known time something could open.
        wait: Option<Duration>,
        /// Best place in a line, 1 is the head; `None`: it holds none.
        position: Option<u32>,
        /// One per candidate.
        states: Vec<RungState>,
    },
    /// Every candidate is locked, cooling or being probed.
    Closed {
        /// The soonest time one of them opens.
        wait: Duration,
        /// One per candidate.
        states: Vec<RungState>,
    },
}

/// Whether an attempt probes a closed rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// An ordinary attempt.
    No,
    /// The one attempt let through. Say [`Mark::Committed`] as soon as content flows: until then all others stay out.
    Yes,
}

/// Why one candidate was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RungState {
    /// The upstream said no until then.
    Locked {
        /// Why.
        cause: LockCause,
        /// Until it lets a probe through.
        wait: Duration,
    },
    /// We lost trust after failures.
    Cooling {
        /// Until it lets a probe through.
        wait: Duration,
    },
    /// Each of its endpoints cools.
    Endpoints {
        /// Until one of them lets a probe through.
        wait: Duration,
    },
    /// Someone else's probe is under way.
    Probing {
        /// Until that probe lapses.
        wait: Duration,
        /// What it is about.
        of: ProbeOf,
    },
    /// All slots, or the tokens of this minute, are held by attempts that run, or spoken for by those before in line.
    Full,
    /// Over its attempts per minute.
    OverRate {
        /// Until there is room.
        wait: Duration,
    },
    /// Over its tokens per minute.
    OverTokens {
        /// Until there is room at the soonest: attempts that still run may use some of it.
        wait: Duration,
    },
}

/// What closed the rung that someone else probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOf {
    /// A limit: the upstream's rate limit or quota.
    Limits,
    /// A failure: a refused credential or a cooldown.
    Failures,
}

/// Why the upstream said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockCause {
    /// A rate limit.
    RateLimited,
    /// Money or a long quota.
    Billing,
    /// The credential.
    Auth,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.request, self.attempt)
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.account.as_ref().map_or("", AccountId::as_str), self.priority.get())
    }
}

impl LockCause {
    /// The word kept in Redis.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Billing => "billing",
            Self::Auth => "auth",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::RateLimited, Self::Billing, Self::Auth].into_iter().find(|cause| cause.as_str() == word)
    }
}

impl Store {
    /// Takes a slot at the first candidate, in the given order, that is neither locked nor cooling and has room. More than
    /// [`CANDIDATES_MAX`] candidates are asked in several calls. Idempotent in the lease.
    pub async fn acquire(&self, ask: &AcquireAsk) -> Result<Acquire, StateError> {
        if ask.candidates.is_empty() {
            return Ok(Acquire::Closed { wait: Duration::ZERO, states: Vec::new() });
        }
        if ask.candidates.len() <= CANDIDATES_MAX {
            return self.acquire_chunk(ask, &ask.candidates).await;
        }
        self.acquire_of_many(ask).await
    }

    async fn acquire_chunk(&self, ask: &AcquireAsk, candidates: &[Candidate]) -> Result<Acquire, StateError> {
        let group = self.keys.of_group(&ask.group);
        let lease = ask.lease.to_string();
        let member = self.member_in_turn(&ask.lease.request, &ask.turn);
        let mut keys = Vec::with_capacity(candidates.len() * 8 + 1);
        let mut args = Vec::with_capacity(8 + candidates.len() * 4);
        let mut endpoints = Vec::new();
        args.extend([
            Arg::Text(&lease),
            Arg::Text(&member),
            Arg::Int(ms(ask.max_lock)),
            Arg::Int(ask.place.max_wait_ms()),
            Arg::Text(&self.wake_prefix),
            count(candidates.len()),
        ]);
        for candidate in candidates {
            let connection = group.of_connection(&candidate.connection);
            keys.extend([
                connection.lock(),
                connection.bucket_lock(&candidate.bucket),
                connection.cooldown(&candidate.model),
                connection.leases(),
                connection.rpm(),
                connection.waiters(),
                connection.alive(),
                connection.turns(),
            ]);
            args.extend([
                Arg::Int(candidate.max_concurrent.map_or(-1, i64::from)),
                Arg::Int(candidate.rpm.map_or(-1, i64::from)),
                Arg::Text(&candidate.credential_mark),
                count(candidate.endpoints.len()),
            ]);
            endpoints
                .extend(candidate.endpoints.iter().map(|endpoint| connection.endpoint(endpoint, &candidate.model)));
        }
        keys.extend(endpoints);
        keys.extend(tokens::keys(&group, candidates));
        args.extend(tokens::args(&ask.estimate, candidates));
        keys.extend(ask.pin.as_ref().map(|pin| group.pin(pin.conversation)));
        let names = ask.pin.as_ref().map_or_else(String::new, |pin| pin.names(candidates));
        let patience = ask.pin.as_ref().map_or(Duration::ZERO, |pin| pin.patience);
        args.extend([Arg::Text(&names), Arg::Int(ms(patience))]);
        Acquire::read(self.link.run(&self.scripts.acquire, &keys, &args).await?)
    }
}

impl Acquire {
    fn read(value: redis::Value) -> Result<Self, StateError> {
        let (tag, mut reply) = Reply::open("acquire", value)?;
        Ok(match tag.as_str() {
            "acquired" => Self::Acquired {
                index: reply.count()? as usize,
                begun_ms: reply.int()?,
                expires_ms: reply.int()?,
                probe: if reply.int()? == 1 { Probe::Yes } else { Probe::No },
                endpoint: reply.count()? as usize,
            },
            "pinned" => Self::Pinned { position: reply.count()? },
            "full" => Self::Full {
                wait: u64::try_from(reply.int()?).ok().map(Duration::from_millis),
                position: position(&mut reply)?,
                states: RungState::read_all(&mut reply)?,
            },
            "closed" => Self::Closed { wait: reply.wait()?, states: RungState::read_all(&mut reply)? },
            _ => return Err(reply.unknown(&tag)),
        })
    }

    /// The same slot, at this place among more candidates.
    fn at(mut self, place: usize) -> Self {
        if let Self::Acquired { index, .. } = &mut self {
            *index = place;
        }
        self
    }

    /// Two refusals as one: the states in a row, the soonest wait, the best place.
    fn merge(self, next: Self) -> Self {
        let (wait_a, position_a, full_a, mut states) = self.parts();
        let (wait_b, position_b, full_b, more) = next.parts();
        states.extend(more);
        let wait = [wait_a, wait_b].into_iter().flatten().min();
        if full_a || full_b {
            Self::Full { wait, position: [position_a, position_b].into_iter().flatten().min(), states }
        } else {
            Self::Closed { wait: wait.unwrap_or_default(), states }
        }
    }

    fn parts(self) -> (Option<Duration>, Option<u32>, bool, Vec<RungState>) {
        match self {
            Self::Acquired { .. } | Self::Pinned { .. } => (None, None, false, Vec::new()),
            Self::Full { wait, position, states } => (wait, position, true, states),
            Self::Closed { wait, states } => (Some(wait), None, false, states),
        }
    }
}

impl RungState {
    fn read_all(reply: &mut Reply) -> Result<Vec<Self>, StateError> {
        let mut states = Vec::new();
        while !reply.is_empty() {
            states.push(Self::read(reply)?);
        }
        Ok(states)
    }

    fn read(reply: &mut Reply) -> Result<Self, StateError> {
        let word = reply.word()?;
        let wait = reply.wait()?;
        Self::named(&word, wait, reply)
    }

    /// The state that a word of `acquire` stands for.
    pub(super) fn named(word: &str, wait: Duration, reply: &Reply) -> Result<Self, StateError> {
        Ok(match word {
            "cooling" => Self::Cooling { wait },
            "endpoints" => Self::Endpoints { wait },
            "probing_limits" => Self::Probing { wait, of: ProbeOf::Limits },
            "probing_failures" => Self::Probing { wait, of: ProbeOf::Failures },
            "full" => Self::Full,
            "over_rate" => Self::OverRate { wait },
            "over_tokens" => Self::OverTokens { wait },
            cause => match LockCause::parse(cause) {
                Some(cause) => Self::Locked { cause, wait },
                None => return Err(reply.unknown(cause)),
            },
        })
    }
}

/// How many there are, as it is sent.
fn count(many: usize) -> Arg<'static> {
    Arg::Int(i64::try_from(many).unwrap_or(i64::MAX))
}
