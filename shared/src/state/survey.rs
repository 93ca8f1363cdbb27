//! `survey`: what stands in Redis now, for people, metrics and the sweep. Writes nothing.

use std::collections::HashMap;
use std::time::Duration;

use super::capacity::LockCause;
use super::keys::KeyKeys;
use super::link::StateError;
use super::quotas::{QuotaTurn, Turn};
use super::reply::Reply;
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, BucketName, ConnectionId, GroupId, KeyId, ModelName, RequestId};
use crate::money::NanoDollars;

/// A client key's tokens per minute are counted in slices this long.
const TPM_SLICE_MS: i64 = 1_000;

/// An account at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountView {
    /// The store's clock (Unix ms).
    pub now_ms: i64,
    /// `None`: it has none.
    pub balance: Option<NanoDollars>,
    /// Held for open requests (overdraft `none` only).
    pub reserved: NanoDollars,
    /// One per client key asked for.
    pub keys: Vec<KeyView>,
}

/// A client key at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyView {
    /// The client key.
    pub key: KeyId,
    /// Live leases: requests that run.
    pub live: u32,
    /// Lapsed leases: requests that wait to be settled.
    pub lapsed: u32,
    /// Callers in line.
    pub waiting: u32,
    /// Admissions of the last 60 s, as far as they are logged (up to its limit).
    pub rate_used: u32,
    /// Until the oldest of them is older than that; zero if there is none.
    pub rate_frees: Duration,
    /// Spent in the period asked about.
    pub spent: NanoDollars,
    /// What open requests may spend of it yet.
    pub spending: NanoDollars,
    /// Thousandths of tokens of the last minute.
    pub tokens: Used,
    /// What is used of each quota asked about.
    pub quotas: Vec<Used>,
}

/// What is used of one limit: requests, tokens or thousandths of them, nano-dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// For good.
    pub used: i64,
    /// By requests that are open, at most.
    pub held: i64,
    /// Until the oldest of it counts no more; `None` where that has no end or only the calendar knows, and where nothing is used.
    pub oldest: Option<Duration>,
}

/// A client key to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQuery {
    /// The client key.
    pub key: KeyId,
    /// The label of the period whose spend is wanted.
    pub label: Option<String>,
    /// The quotas to look at.
    pub quotas: Vec<QuotaTurn>,
}

/// A group at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// The store's clock (Unix ms).
    pub now_ms: i64,
    /// One per connection asked for.
    pub connections: Vec<ConnectionView>,
}

/// A connection at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    /// The connection.
    pub connection: ConnectionId,
    /// Live leases: attempts that run.
    pub live: u32,
    /// Requests in line.
    pub waiting: u32,
    /// Attempts of the last 60 s, as far as they are logged (up to its limit).
    pub rate_used: u32,
    /// Its lock.
    pub lock: Closure,
    /// The locks of the buckets asked for.
    pub buckets: Vec<(BucketName, Closure)>,
    /// The cooldowns of the models asked for.
    pub cooldowns: Vec<(ModelName, Closure)>,
    /// Its health.
    pub health: Health,
}

/// A connection to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionQuery {
    /// The connection.
    pub connection: ConnectionId,
    /// Buckets whose locks are wanted.
    pub buckets: Vec<BucketName>,
    /// Models whose cooldowns are wanted.
    pub models: Vec<ModelName>,
}

/// A lock or cooldown at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closure {
    /// Nothing is closed.
    Open,
    /// Closed until its end, or until it has lasted `max_lock`.
    Closed {
        /// Why; `None` for a cooldown.
        cause: Option<LockCause>,
        /// Until its end.
        wait: Duration,
    },
    /// A probe is under way.
    Probing {
        /// Why it is closed; `None` for a cooldown.
        cause: Option<LockCause>,
        /// Until that probe lapses.
        wait: Duration,
    },
    /// The next attempt is its probe.
    ProbeDue,
}

/// A connection's recent past, older attempts counting less and less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Successes, in thousandths.
    pub oks_milli: u64,
    /// Failures, in thousandths.
    pub fails_milli: u64,
    /// The usual time to the first token.
    pub first_token: Option<Duration>,
    /// The time to the first token of late.
    pub recent: Option<Duration>,
}

impl Store {
    /// An account and some of its keys at one moment.
    pub async fn survey_account(&self, account: &AccountId, keys: &[KeyQuery]) -> Result<AccountView, StateError> {
        let slot = self.keys.of_account(account);
        let mut ask = Survey::default();
        ask.add("balance", slot.balance());
        ask.add("reserved", slot.reserved());
        for query in keys {
            let key = slot.of_key(&query.key);
            ask.add("leases", key.leases());
            ask.add("waiters", key.alive());
            ask.add("rate", key.rpm());
            ask.add("amount", key.spend(query.label.as_deref().unwrap_or("")));
            ask.add_limits(&key, &query.quotas);
        }
        let (now_ms, mut rows) = ask.run(self, Duration::ZERO).await?;
        let balance = optional_money(&mut rows.row()?)?;
        let reserved = optional_money(&mut rows.row()?)?.unwrap_or_default();
        let mut views = Vec::with_capacity(keys.len());
        for query in keys {
            let key = slot.of_key(&query.key);
            let (mut leases, mut waiting, mut rate) = (rows.row()?, rows.row()?, rows.row()?);
            views.push(KeyView {
                key: query.key.clone(),
                live: leases.count()?,
                lapsed: leases.count()?,
                waiting: waiting.count()?,
                rate_used: rate.count()?,
                rate_frees: rate.wait()?,
                spent: optional_money(&mut rows.row()?)?.unwrap_or_default(),
                spending: NanoDollars::ZERO,
                tokens: Used::default(),
                quotas: Vec::new(),
            });
            if let Some(view) = views.last_mut() {
                view.read_limits(query, &key, &mut rows)?;
            }
        }
        Ok(AccountView { now_ms, balance, reserved, keys: views })
    }

    /// Connections of a group at one moment. `max_lock` as in `acquire`.
    pub async fn survey_group(
        &self,
        group: &GroupId,
        connections: &[ConnectionQuery],
        max_lock: Duration,
    ) -> Result<GroupView, StateError> {
        let slot = self.keys.of_group(group);
        let mut ask = Survey::default();
        for query in connections {
            let connection = slot.of_connection(&query.connection);
            ask.add("leases", connection.leases());
            ask.add("waiters", connection.alive());
            ask.add("rate", connection.rpm());
            ask.add("closure", connection.lock());
            for bucket in &query.buckets {
                ask.add("closure", connection.bucket_lock(bucket));
            }
            for model in &query.models {
                ask.add("closure", connection.cooldown(model));
            }
            ask.add("health", connection.health());
        }
        let (now_ms, mut rows) = ask.run(self, max_lock).await?;
        let mut views = Vec::with_capacity(connections.len());
        for query in connections {
            views.push(ConnectionView::read(query, &mut rows)?);
        }
        Ok(GroupView { now_ms, connections: views })
    }

    /// The lapsed requests of each of these keys.
    pub(super) async fn survey_lapsed(
        &self,
        account: &AccountId,
        keys: &[KeyId],
    ) -> Result<Vec<(KeyId, Vec<RequestId>)>, StateError> {
        let slot = self.keys.of_account(account);
        let mut ask = Survey::default();
        for key in keys {
            ask.add("lapsed", slot.of_key(key).leases());
        }
        let (_, mut rows) = ask.run(self, Duration::ZERO).await?;
        let mut found = Vec::new();
        for key in keys {
            let mut row = rows.row()?;
            let mut requests = Vec::new();
            while !row.is_empty() {
                let word = row.word()?;
                requests.push(RequestId::parse(&word).map_err(|error| StateError::Reply(error.to_string()))?);
            }
            if !requests.is_empty() {
                found.push((key.clone(), requests));
            }
        }
        Ok(found)
    }
}

impl KeyView {
    /// The rows that [`Survey::add_limits`] asked for.
    fn read_limits(&mut self, query: &KeyQuery, key: &KeyKeys, rows: &mut Reply) -> Result<(), StateError> {
        let (mut tokens, mut row, mut held) = (Used::read_ring(&mut rows.row()?)?, rows.row()?, HashMap::new());
        while !row.is_empty() {
            let counter = row.word()?;
            let amount = row.word()?.parse::<i64>().map_err(|error| StateError::Reply(error.to_string()))?;
            held.insert(counter, amount);
        }
        let held = |counter: &str| held.get(counter).copied().unwrap_or(0);
        tokens.held = held(&key.tpm());
        self.tokens = tokens;
        let spend = key.spend(query.label.as_deref().unwrap_or(""));
        self.spending = NanoDollars::new(held(&spend)).unwrap_or(NanoDollars::MAX);
        for quota in &query.quotas {
            let mut row = rows.row()?;
            let used = match quota.turn {
                Turn::Window { .. } => Used::read_ring(&mut row)?,
                Turn::Period(_) => Used::read_count(&mut row)?,
            };
            self.quotas.push(Used { held: held(&quota.counter(key)), ..used });
        }
        Ok(())
    }
}

impl Used {
    fn read_ring(row: &mut Reply) -> Result<Self, StateError> {
        let (used, oldest) = (row.int()?, row.wait()?);
        Ok(Self { used, held: 0, oldest: Some(oldest).filter(|wait| !wait.is_zero()) })
    }

    fn read_count(row: &mut Reply) -> Result<Self, StateError> {
        row.int()?;
        Ok(Self { used: row.int()?, ..Self::default() })
    }
}

impl ConnectionView {
    fn read(query: &ConnectionQuery, rows: &mut Reply) -> Result<Self, StateError> {
        Ok(Self {
            connection: query.connection.clone(),
            live: rows.row()?.count()?,
            waiting: rows.row()?.count()?,
            rate_used: rows.row()?.count()?,
            lock: Closure::read(&mut rows.row()?)?,
            buckets: query
                .buckets
                .iter()
                .map(|bucket| Ok((bucket.clone(), Closure::read(&mut rows.row()?)?)))
                .collect::<Result<_, StateError>>()?,
            cooldowns: query
                .models
                .iter()
                .map(|model| Ok((model.clone(), Closure::read(&mut rows.row()?)?)))
                .collect::<Result<_, StateError>>()?,
            health: Health::read(&mut rows.row()?)?,
        })
    }
}

impl Closure {
    pub(super) fn read(row: &mut Reply) -> Result<Self, StateError> {
        let state = row.word()?;
        let cause = LockCause::parse(&row.word()?);
        let wait = row.wait()?;
        match state.as_str() {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed { cause, wait }),
            "probing" => Ok(Self::Probing { cause, wait }),
            "probe_due" => Ok(Self::ProbeDue),
            _ => Err(row.unknown(&state)),
        }
    }
}

impl Health {
    pub(super) fn read(row: &mut Reply) -> Result<Self, StateError> {
        Ok(Self {
            oks_milli: u64::try_from(row.int()?).unwrap_or(0),
            fails_milli: u64::try_from(row.int()?).unwrap_or(0),
            first_token: u64::try_from(row.int()?).ok().map(Duration::from_millis),
            recent: u64::try_from(row.int()?).ok().map(Duration::from_millis),
        })
    }
}

/// What to look at: a kind and a key each.
#[derive(Debug, Default)]
struct Survey {
    kinds: Vec<Arg<'static>>,
    keys: Vec<String>,
}

impl Survey {
    fn add(&mut self, kind: &'static str, key: String) {
        self.kinds.push(Arg::Text(kind));
        self.keys.push(key);
    }

    fn add_ring(&mut self, slice_ms: i64, key: String) {
        self.kinds.push(Arg::Int(slice_ms));
        self.keys.push(key);
    }

    /// What is used and held of a client key's tokens per minute, spend limit and quotas.
    fn add_limits(&mut self, key: &KeyKeys, quotas: &[QuotaTurn]) {
        self.add_ring(TPM_SLICE_MS, key.tpm());
        self.add("held", key.held());
        for quota in quotas {
            match quota.turn {
                Turn::Window { slice_ms } => self.add_ring(slice_ms, quota.counter(key)),
                Turn::Period(_) => self.add("amount", quota.counter(key)),
            }
        }
    }

    /// The store's clock, and one row a key.
    async fn run(self, store: &Store, max_lock: Duration) -> Result<(i64, Reply), StateError> {
        let mut args = vec![Arg::Int(super::reply::ms(max_lock))];
        args.extend(self.kinds);
        let (tag, mut reply) = Reply::open("survey", store.link.run(&store.scripts.survey, &self.keys, &args).await?)?;
        if tag != "survey" {
            return Err(reply.unknown(&tag));
        }
        Ok((reply.int()?, reply))
    }
}

/// An amount that may be missing: whether it is there, and how much.
fn optional_money(row: &mut Reply) -> Result<Option<NanoDollars>, StateError> {
    if row.int()? == 1 { row.money().map(Some) } else { Ok(None) }
}
