//! `record`: what the outcome of an attempt closes or reopens. `unlock` opens by hand.

use std::sync::Arc;
use std::time::Duration;

use super::{LeaseId, LockCause, tokens};
use crate::ids::{BucketName, ConnectionId, ConversationHash, EndpointId, GroupId, ModelName};
use crate::limit::Weighed;
use crate::state::Store;
use crate::state::keys::GroupKeys;
use crate::state::link::StateError;
use crate::state::reply::{Reply, ms};
use crate::state::script::Arg;
use crate::state::survey::Health;

/// What `record` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordAsk {
    /// The group.
    pub group: GroupId,
    /// The connection that was acquired.
    pub connection: ConnectionId,
    /// Its model, as in the [`Candidate`](super::Candidate).
    pub model: ModelName,
    /// Its bucket.
    pub bucket: BucketName,
    /// The lease that is given back.
    pub lease: LeaseId,
    /// When the attempt began ([`Acquire::Acquired`](super::Acquire::Acquired)).
    pub begun_ms: i64,
    /// What the outcome means.
    pub mark: Mark,
    /// 80 to 120: every doubling length is stretched by this much.
    pub jitter_percent: u8,
    /// As in [`AcquireAsk`](super::AcquireAsk).
    pub max_lock: Duration,
    /// Slots of the connection: as many are woken as are free. `None`: no limit.
    pub max_concurrent: Option<u32>,
    /// What the attempt used, where the connection has a limit of tokens per minute: what it held of that is free again.
    pub tokens: Option<Weighed>,
    /// The endpoint that was called, where endpoints have cooldowns: a success clears its own.
    pub endpoint: Option<EndpointId>,
    /// What the upstream told of its limits; kept beside the bucket's locks.
    pub told: Vec<ToldLimit>,
    /// Where else the model is served at the same step, at most [`SIBLINGS_MAX`]. Only a failure looks at them: if none is
    /// usable at that moment, the connection counts as [`Sole::Yes`], for the last one of a group must not be taken away.
    pub siblings: Vec<Sibling>,
    /// The conversation: a success binds it to the connection for an hour.
    pub pin: Option<ConversationHash>,
}

/// At most so many siblings go into one call; more are not looked at.
pub const SIBLINGS_MAX: usize = 15;

/// Another connection of the group that serves the same model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// The connection.
    pub connection: ConnectionId,
    /// The bucket of the model there.
    pub bucket: BucketName,
}

/// What an upstream told of one of its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldLimit {
    /// What it counts, in the upstream's words: `requests`, `input-tokens`, `5h`.
    pub name: String,
    /// The most there can be; 10,000 where shares are told.
    pub limit: Option<u64>,
    /// What is left.
    pub remaining: Option<u64>,
    /// Until it starts afresh.
    pub resets_in: Option<Duration>,
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
        /// The credential's mark, as in [`Candidate`](super::Candidate).
        credential_mark: Arc<str>,
    },
    /// It failed: the third within 60 s sets a cooldown.
    Failure {
        /// Whether there is another connection to go to.
        sole: Sole,
    },
    /// The endpoint failed: it rests for the model, the connection's other endpoints do not.
    Endpoint {
        /// For how long.
        rest: Duration,
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
    /// It is, now or always: it cools only when most of the last minute's attempts failed.
    Yes,
    /// There are others, unless the siblings of the [`RecordAsk`] are all closed.
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

/// What `unlock` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlocked {
    /// There was something to open.
    Opened,
    /// There was not.
    Nothing,
}

impl RecordAsk {
    /// The conversation that this outcome binds.
    fn binds(&self) -> Option<ConversationHash> {
        self.pin.filter(|_| matches!(self.mark, Mark::Success { .. }))
    }

    /// Everything it may change or must look at, in the script's order.
    fn keys(&self, group: &GroupKeys) -> Vec<String> {
        let connection = group.of_connection(&self.connection);
        let mut keys = vec![
            connection.lock(),
            connection.bucket_lock(&self.bucket),
            connection.cooldown(&self.model),
            connection.leases(),
            connection.waiters(),
            connection.alive(),
            connection.health(),
            match &self.endpoint {
                Some(endpoint) => connection.endpoint(endpoint, &self.model),
                None => connection.cooldown(&self.model),
            },
            connection.quota(&self.bucket),
        ];
        keys.extend(self.tokens.into_iter().flat_map(|_| tokens::of_connection(&connection)));
        if matches!(self.mark, Mark::Failure { .. }) {
            for sibling in self.siblings.iter().take(SIBLINGS_MAX) {
                let connection = group.of_connection(&sibling.connection);
                keys.extend([
                    connection.lock(),
                    connection.bucket_lock(&sibling.bucket),
                    connection.cooldown(&self.model),
                ]);
            }
        }
        keys.extend(self.binds().map(|conversation| group.pin(conversation)));
        keys
    }
}

impl Store {
    /// Says what the outcome of an attempt means, and gives its lease back. Idempotent in the lease.
    pub async fn record(&self, ask: &RecordAsk) -> Result<Record, StateError> {
        self.record_and_learn(ask).await.map(|(record, _)| record)
    }

    /// The same; a success and a failure also bring what is known of the connection's health by all replicas.
    pub async fn record_and_learn(&self, ask: &RecordAsk) -> Result<(Record, Option<Health>), StateError> {
        let keys = ask.keys(&self.keys.of_group(&ask.group));
        let lease = ask.lease.to_string();
        let mark = MarkArgs::of(&ask.mark);
        let mut args = vec![
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
            Arg::Text(ask.binds().map_or("", |_| ask.connection.as_str())),
            Arg::Int(ask.max_concurrent.map_or(-1, i64::from)),
        ];
        args.extend(tokens::used(ask.tokens));
        for told in &ask.told {
            let count = |count: Option<u64>| Arg::Int(count.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1));
            args.extend([
                Arg::Text(&told.name),
                count(told.limit),
                count(told.remaining),
                Arg::Int(told.resets_in.map_or(-1, ms)),
            ]);
        }
        Record::read_with_health(self.link.run(&self.scripts.record, &keys, &args).await?)
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
            // A rest without length would end before it began.
            Mark::Endpoint { rest } => Self { length_ms: ms(*rest).max(1), ..plain("endpoint") },
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

impl Record {
    fn read_with_health(value: redis::Value) -> Result<(Self, Option<Health>), StateError> {
        let (tag, mut reply) = Reply::open("record", value)?;
        Ok(match tag.as_str() {
            "recorded" => {
                let closed = u64::try_from(reply.int()?).ok().map(Duration::from_millis);
                let health = if reply.is_empty() { None } else { Some(Health::read(&mut reply)?) };
                (Self::Recorded { closed }, health)
            }
            "already" => (Self::Already, None),
            _ => return Err(reply.unknown(&tag)),
        })
    }
}
