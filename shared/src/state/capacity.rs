//! `acquire` and `record`: a slot at one of the candidates, and what the outcome of the attempt closes or reopens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admission::{Place, position};
use super::link::StateError;
use super::reply::{Reply, ms};
use super::script::Arg;
use super::store::Store;
use crate::ids::{BucketName, ConnectionId, GroupId, ModelName, RequestId};

/// At most so many candidates go into one call; more are asked in chunks.
pub const CANDIDATES_MAX: usize = 16;

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
    /// In order of preference.
    pub candidates: Vec<Candidate>,
}

/// One rung, as `acquire` sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The connection.
    pub connection: ConnectionId,
    /// The model whose cooldown counts.
    pub model: ModelName,
    /// The bucket whose lock counts.
    pub bucket: BucketName,
    /// Slots of the connection; `None`: no limit.
    pub max_concurrent: Option<u32>,
    /// Attempts per minute of the connection; `None`: no limit.
    pub rpm: Option<u32>,
    /// Stands for the credential (never the credential itself): an `auth` lock set under another mark is void.
    pub credential_mark: Arc<str>,
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
    /// Someone else's probe is under way.
    Probing {
        /// Until that probe lapses.
        wait: Duration,
    },
    /// All slots are taken, or spoken for by those before in line.
    Full,
    /// Over its attempts per minute.
    OverRate {
        /// Until there is room.
        wait: Duration,
    },
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

/// What `record` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordAsk {
    /// The group.
    pub group: GroupId,
    /// The connection that was acquired.
    pub connection: ConnectionId,
    /// Its model.
    pub model: ModelName,
    /// Its bucket.
    pub bucket: BucketName,
    /// The lease that is given back.
    pub lease: LeaseId,
    /// When the attempt began ([`Acquire::Acquired`]).
    pub begun_ms: i64,
    /// What the outcome means.
    pub mark: Mark,
    /// 80 to 120: every doubling length is stretched by this much.
    pub jitter_percent: u8,
    /// As in [`AcquireAsk`].
    pub max_lock: Duration,
}

/// What the outcome of an attempt means for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Nothing (the client's error, a cancelled attempt).
    Nothing,
    /// Content flows: clears like [`Mark::Success`], but keeps the lease and counts nothing. Only probes need it.
    Committed,
    /// It worked: clears locks and cooldowns that were set before the attempt began.
    Success {
        /// Time to the first token.
        first_token: Option<Duration>,
    },
    /// The upstream said no for the bucket.
    LockBucket {
        /// Why.
        cause: LockCause,
        /// How long.
        length: Length,
    },
    /// The upstream said no for the whole connection.
    LockConnection {
        /// Why.
        cause: LockCause,
        /// How long.
        length: Length,
        /// The credential's mark, as in [`Candidate`].
        credential_mark: Arc<str>,
    },
    /// It failed: the third within 60 s sets a cooldown.
    Failure {
        /// Whether there is another connection to go to.
        sole: Sole,
    },
}

/// How long a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// As the upstream told.
    Told(Duration),
    /// Nothing was told: 2 s, doubling to 5 min with each time it is set again, jittered.
    Doubling,
}

/// Whether a connection is the only one for its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sole {
    /// It is: it cools only when most of the last minute's attempts failed.
    Yes,
    /// There are others.
    No,
}

/// What `record` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Done; the lease is given back.
    Recorded {
        /// How long this rung stays closed; `None`: it is open.
        closed: Option<Duration>,
    },
    /// The lease is not held: recorded before, or lapsed and reaped. Nothing was changed.
    Already,
}

/// What `unlock` opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlock<'a> {
    /// The lock of the whole connection.
    Connection,
    /// The lock of one bucket.
    Bucket(&'a BucketName),
    /// The cooldown of one model.
    Model(&'a ModelName),
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.request, self.attempt)
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
        let mut merged: Option<Acquire> = None;
        for (chunk, candidates) in ask.candidates.chunks(CANDIDATES_MAX).enumerate() {
            let answer = self.acquire_chunk(ask, candidates).await?;
            if let Acquire::Acquired { index, begun_ms, expires_ms, probe } = answer {
                if ask.candidates.len() > CANDIDATES_MAX && ask.place != Place::Pass {
                    self.leave_group(&ask.group, ask.candidates.iter().map(|c| &c.connection), &ask.lease.request)
                        .await?;
                }
                return Ok(Acquire::Acquired { index: chunk * CANDIDATES_MAX + index, begun_ms, expires_ms, probe });
            }
            merged = Some(match merged {
                None => answer,
                Some(before) => before.merge(answer),
            });
        }
        Ok(merged.unwrap_or(Acquire::Closed { wait: Duration::ZERO, states: Vec::new() }))
    }

    async fn acquire_chunk(&self, ask: &AcquireAsk, candidates: &[Candidate]) -> Result<Acquire, StateError> {
        let group = self.keys.of_group(&ask.group);
        let lease = ask.lease.to_string();
        let member = self.member(&ask.lease.request);
        let mut keys = Vec::with_capacity(candidates.len() * 7);
        let mut args = Vec::with_capacity(5 + candidates.len() * 3);
        args.extend([
            Arg::Text(&lease),
            Arg::Text(&member),
            Arg::Int(ms(ask.max_lock)),
            Arg::Int(ask.place.max_wait_ms()),
            Arg::Text(&self.wake_prefix),
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
            ]);
            args.extend([
                Arg::Int(candidate.max_concurrent.map_or(-1, i64::from)),
                Arg::Int(candidate.rpm.map_or(-1, i64::from)),
                Arg::Text(&candidate.credential_mark),
            ]);
        }
        Acquire::read(self.link.run(&self.scripts.acquire, &keys, &args).await?)
    }

    /// Says what the outcome of an attempt means, and gives its lease back. Idempotent in the lease.
    pub async fn record(&self, ask: &RecordAsk) -> Result<Record, StateError> {
        let connection = self.keys.of_group(&ask.group).of_connection(&ask.connection);
        let keys = [
            connection.lock(),
            connection.bucket_lock(&ask.bucket),
            connection.cooldown(&ask.model),
            connection.leases(),
            connection.waiters(),
            connection.alive(),
            connection.health(),
        ];
        let lease = ask.lease.to_string();
        let mark = MarkArgs::of(&ask.mark);
        let args = [
            Arg::Text(&lease),
            Arg::Text(mark.word),
            Arg::Int(ask.begun_ms),
            Arg::Int(i64::from(ask.jitter_percent)),
            Arg::Int(ms(ask.max_lock)),
            Arg::Text(&self.wake_prefix),
            Arg::Text(mark.cause),
            Arg::Int(mark.length_ms),
            Arg::Text(mark.credential),
            Arg::Text(mark.sole),
            Arg::Int(mark.first_token_ms),
        ];
        Record::read(self.link.run(&self.scripts.record, &keys, &args).await?)
    }

    /// Gives up the places a request holds in the lines of these connections. Harmless if it holds none.
    pub async fn leave_group<'a>(
        &self,
        group: &GroupId,
        connections: impl IntoIterator<Item = &'a ConnectionId>,
        request: &RequestId,
    ) -> Result<(), StateError> {
        let group = self.keys.of_group(group);
        let member = self.member(request);
        let mut pipeline = redis::pipe();
        for connection in connections {
            let connection = group.of_connection(connection);
            pipeline.zrem(connection.waiters(), &member).zrem(connection.alive(), &member);
        }
        self.link.pipeline(&pipeline).await.map(drop)
    }

    /// Opens what is closed, at once and on every replica; says whether anything was closed.
    pub async fn unlock(
        &self,
        group: &GroupId,
        connection: &ConnectionId,
        what: Unlock<'_>,
    ) -> Result<Unlocked, StateError> {
        let connection = self.keys.of_group(group).of_connection(connection);
        let key = match what {
            Unlock::Connection => connection.lock(),
            Unlock::Bucket(bucket) => connection.bucket_lock(bucket),
            Unlock::Model(model) => connection.cooldown(model),
        };
        match self.link.command(redis::cmd("DEL").arg(key)).await? {
            redis::Value::Int(0) => Ok(Unlocked::Nothing),
            redis::Value::Int(_) => Ok(Unlocked::Opened),
            _ => Err(StateError::Reply("DEL should have answered an integer".into())),
        }
    }
}

/// What `unlock` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlocked {
    /// There was something to open.
    Opened,
    /// There was not.
    Nothing,
}

/// A mark as the script's arguments.
struct MarkArgs<'a> {
    word: &'static str,
    cause: &'static str,
    length_ms: i64,
    credential: &'a str,
    sole: &'static str,
    first_token_ms: i64,
}

impl<'a> MarkArgs<'a> {
    fn of(mark: &'a Mark) -> Self {
        let plain = |word| Self { word, cause: "", length_ms: 0, credential: "", sole: "", first_token_ms: -1 };
        match mark {
            Mark::Nothing => plain("nothing"),
            Mark::Committed => plain("committed"),
            Mark::Success { first_token } => Self { first_token_ms: first_token.map_or(-1, ms), ..plain("success") },
            Mark::LockBucket { cause, length } => {
                Self { cause: cause.as_str(), length_ms: length.told_ms(), ..plain("lock_bucket") }
            }
            Mark::LockConnection { cause, length, credential_mark } => Self {
                cause: cause.as_str(),
                length_ms: length.told_ms(),
                credential: credential_mark,
                ..plain("lock_connection")
            },
            Mark::Failure { sole: Sole::Yes } => Self { sole: "sole", ..plain("failure") },
            Mark::Failure { sole: Sole::No } => Self { sole: "others", ..plain("failure") },
        }
    }
}

impl Length {
    /// 0 stands for doubling.
    fn told_ms(self) -> i64 {
        match self {
            Self::Told(length) => ms(length).max(1),
            Self::Doubling => 0,
        }
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
            },
            "full" => Self::Full {
                wait: u64::try_from(reply.int()?).ok().map(Duration::from_millis),
                position: position(&mut reply)?,
                states: RungState::read_all(&mut reply)?,
            },
            "closed" => Self::Closed { wait: reply.wait()?, states: RungState::read_all(&mut reply)? },
            _ => return Err(reply.unknown(&tag)),
        })
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
            Self::Acquired { .. } => (None, None, false, Vec::new()),
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
        Ok(match word.as_str() {
            "cooling" => Self::Cooling { wait },
            "probing" => Self::Probing { wait },
            "full" => Self::Full,
            "over_rate" => Self::OverRate { wait },
            cause => match LockCause::parse(cause) {
                Some(cause) => Self::Locked { cause, wait },
                None => return Err(reply.unknown(cause)),
            },
        })
    }
}

impl Record {
    fn read(value: redis::Value) -> Result<Self, StateError> {
        let (tag, mut reply) = Reply::open("record", value)?;
        Ok(match tag.as_str() {
            "recorded" => Self::Recorded { closed: u64::try_from(reply.int()?).ok().map(Duration::from_millis) },
            "already" => Self::Already,
            _ => return Err(reply.unknown(&tag)),
        })
    }
}
