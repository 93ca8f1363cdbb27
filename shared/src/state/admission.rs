//! `admit`: may this client key start a request now? And the look-up that comes before.

use std::sync::Arc;
use std::time::Duration;

use super::leases::milli;
use super::link::StateError;
use super::quotas::{QuotaTurn, turns_text};
use super::reply::{Reply, ms};
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, KeyId, ModelName, RequestId, SecretHash};
use crate::money::NanoDollars;

/// What `admit` is asked.
#[derive(Debug, Clone)]
pub struct AdmitAsk {
    /// Whose money and limits.
    pub account: AccountId,
    /// Which client key.
    pub key: KeyId,
    /// The secret the caller sent: revoked or changed ones are refused at once.
    pub secret: SecretHash,
    /// The content hash of the record the caller's checks were made with ([`CallerRecord::rev`](super::records::CallerRecord)).
    pub rev: Arc<str>,
    /// The request; the same id again gets the same answer and counts once.
    pub request: RequestId,
    /// What it may cost.
    pub hold: Hold,
    /// The current period of the key's spend limit; `None` if the key has no spend limit.
    pub span: Option<SpendSpan>,
    /// What it is expected to use.
    pub estimate: Estimate,
    /// The current counters of the key's quotas, in the order of its record.
    pub quotas: Vec<QuotaTurn>,
    /// Whether to wait in line.
    pub place: Place,
    /// The model asked for: kept with the open request.
    pub model: ModelName,
}

/// What a request may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The model has an explicit price of 0: balance and spend limit are not asked.
    Free,
    /// Money is needed. The amount is reserved (until settlement) only if the account's overdraft is `none`.
    AtMost(NanoDollars),
}

/// What a request is expected to use. Limits of tokens and money are asked with it, and hold it until the request is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// How its answer's length is known.
    pub bound: Bound,
    /// Tokens in and out, each counted as one: what quotas of tokens hold.
    pub tokens: u64,
    /// What its input counts towards the tokens per minute, in thousandths.
    pub input_milli: u64,
    /// What its answer may count towards them.
    pub output_milli: u64,
}

/// How the length of an answer is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The request says how long it may be: what it may use must fit into what is left.
    Stated,
    /// It does not. It starts while anything is left, and holds no more than that. Its output's tokens per minute are taken to be
    /// what the answers to the key, or of the connection, had of late, if that is known.
    Assumed,
}

/// One period of a spend limit or quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendSpan {
    /// Names the period, e.g. `2026-11`; part of a Redis key, so of letters, digits, `.`, `_`, `-` only.
    pub label: Arc<str>,
    /// Its first millisecond (Unix time).
    pub start_ms: i64,
    /// The first millisecond after it; `None`: it never ends.
    pub end_ms: Option<i64>,
}

/// Whether a caller that cannot be served now wants a place in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Take or keep a place, if the known wait is at most this long. The place lives 2 s: ask again within that time.
    Stand {
        /// How long the caller may still wait.
        max_wait: Duration,
    },
    /// Ask once; if refused, give up the place held so far.
    Pass,
}

/// How long a place in line lives without being asked for again.
pub const PLACE_LIVES: Duration = Duration::from_secs(2);
/// How long a lease lives without being renewed.
pub const LEASE_LIVES: Duration = Duration::from_secs(15);

/// What `admit` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admit {
    /// It may start: everything is taken. The key's lease must be renewed before it expires.
    Admitted {
        /// When, by the store's clock (Unix ms).
        now_ms: i64,
        /// When the key's lease expires.
        expires_ms: i64,
    },
    /// This request id is settled already.
    Already,
    /// The key is not active, or this is not its secret any more.
    Disabled,
    /// The key's record is not the one the caller knows: look it up again.
    Changed,
    /// State that must exist is missing: never read as "no limit".
    Lost,
    /// The period asked about is not the current one by the store's clock.
    PeriodPassed {
        /// The store's clock (Unix ms).
        now_ms: i64,
    },
    /// Balance 0 or less, or with `overdraft: none` the hold does not fit.
    NoBalance {
        /// What is left, holds taken off.
        balance: NanoDollars,
    },
    /// The spend limit of this period is used up.
    OverSpend {
        /// The limit.
        limit: NanoDollars,
        /// What was spent, and held by open requests if these are what stands in the way.
        used: NanoDollars,
        /// When the next period begins (Unix ms); `None`: never.
        resets_ms: Option<i64>,
        /// Its place in line, if only what open requests hold stands in the way; `None`: it holds none.
        position: Option<u32>,
    },
    /// A quota leaves too little.
    OverQuota {
        /// Which of those asked, counted from 0.
        index: usize,
        /// What was used, and held by open requests if these are what stands in the way: requests, tokens or nano-dollars.
        used: i64,
        /// When there is room again (Unix ms); `None`: never.
        resets_ms: Option<i64>,
        /// Its place in line, as in [`Self::OverSpend`].
        position: Option<u32>,
    },
    /// Over the requests per minute.
    OverRate {
        /// Until a slot is free for this caller, those before it in line served first.
        wait: Duration,
        /// Requests per minute.
        limit: u32,
        /// Its place in line, 1 is the head; `None`: it holds none and waiting is in vain.
        position: Option<u32>,
    },
    /// Over the tokens per minute.
    OverTokens {
        /// Until there is room, if open requests use what they hold; at most a minute.
        wait: Duration,
        /// The soonest there can be room: zero if open requests stand in the way.
        soonest: Duration,
        /// Tokens per minute.
        limit: u32,
        /// Its place in line, 1 is the head; `None`: it holds none and waiting is in vain.
        position: Option<u32>,
    },
    /// Over the concurrent requests.
    OverConcurrency {
        /// Concurrent requests.
        limit: u32,
        /// Its place in line, 1 is the head; `None`: it holds none.
        position: Option<u32>,
    },
}

impl Place {
    pub(super) fn max_wait_ms(self) -> i64 {
        match self {
            Self::Stand { max_wait } => ms(max_wait),
            Self::Pass => -1,
        }
    }
}

impl Store {
    /// May this client key start this request now? All limits are taken at once or none; a refusal writes nothing but the
    /// caller's own place in line. Idempotent in the request id.
    pub async fn admit(&self, ask: &AdmitAsk) -> Result<Admit, StateError> {
        let account = self.keys.of_account(&ask.account);
        let key = account.of_key(&ask.key);
        let label = ask.span.as_ref().map_or("", |span| &span.label);
        let mut keys = Vec::with_capacity(12 + ask.quotas.len());
        keys.extend([account.record(), key.record(), account.balance(), account.reserved()]);
        keys.extend([account.request(&ask.request), key.spend(label), key.rpm(), key.leases()]);
        keys.extend([key.waiters(), key.alive(), key.tpm(), key.held()]);
        keys.extend(ask.quotas.iter().map(|quota| quota.counter(&key)));
        let (secret, turns) = (ask.secret.to_hex(), turns_text(&ask.quotas));
        let marks: Vec<String> = ask.quotas.iter().map(QuotaTurn::mark).collect();
        let mut args = Vec::with_capacity(17 + ask.quotas.len() * 6);
        args.extend([
            Arg::Text(ask.request.as_str()),
            Arg::Text(self.replica.as_str()),
            Arg::Text(ask.key.as_str()),
            Arg::Text(&secret),
            Arg::Text(&ask.rev),
            Arg::Text(ask.model.as_str()),
            Arg::Int(ask.hold.nanos()),
            Arg::Text(label),
            Arg::Int(ask.span.as_ref().map_or(0, |span| span.start_ms)),
            Arg::Int(ask.span.as_ref().and_then(|span| span.end_ms).unwrap_or(0)),
            Arg::Int(ask.place.max_wait_ms()),
            Arg::Text(&self.wake_prefix),
            Arg::Text(ask.estimate.bound.as_str()),
            milli(ask.estimate.tokens),
            milli(ask.estimate.input_milli),
            milli(ask.estimate.output_milli),
            Arg::Text(&turns),
        ]);
        for (quota, mark) in ask.quotas.iter().zip(&marks) {
            let (limit, start, end) = (quota.limit(), quota.start_ms(), quota.ends_ms());
            args.extend([Arg::Text(quota.kind()), Arg::Int(limit), Arg::Text(mark), Arg::Text(quota.label())]);
            args.extend([Arg::Int(start), Arg::Int(end)]);
        }
        Admit::read(self.link.run(&self.scripts.admit, &keys, &args).await?)
    }

    /// Gives up a place in a key's line. Harmless if it holds none.
    pub async fn leave_key(&self, account: &AccountId, key: &KeyId, request: &RequestId) -> Result<(), StateError> {
        let key = self.keys.of_account(account).of_key(key);
        let member = self.member(request);
        let mut pipeline = redis::pipe();
        pipeline.zrem(key.waiters(), &member).zrem(key.alive(), &member);
        self.link.pipeline(&pipeline).await.map(drop)
    }
}

impl Bound {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Assumed => "assumed",
        }
    }
}

impl Hold {
    fn nanos(self) -> i64 {
        match self {
            Self::Free => -1,
            Self::AtMost(amount) => amount.nanos().max(0),
        }
    }
}

impl Admit {
    fn read(value: redis::Value) -> Result<Self, StateError> {
        let (tag, mut reply) = Reply::open("admit", value)?;
        Ok(match tag.as_str() {
            "admitted" => Self::Admitted { now_ms: reply.int()?, expires_ms: reply.int()? },
            "already" => Self::Already,
            "disabled" => Self::Disabled,
            "changed" => Self::Changed,
            "lost" => Self::Lost,
            "period_passed" => Self::PeriodPassed { now_ms: reply.int()? },
            "no_balance" => Self::NoBalance { balance: reply.money()? },
            "over_spend" => Self::OverSpend {
                limit: reply.money()?,
                used: reply.money()?,
                resets_ms: Some(reply.int()?).filter(|end| *end > 0),
                position: position(&mut reply)?,
            },
            "over_quota" => Self::OverQuota {
                index: reply.count()? as usize,
                used: reply.int()?,
                resets_ms: Some(reply.int()?).filter(|end| *end > 0),
                position: position(&mut reply)?,
            },
            "over_tokens" => Self::OverTokens {
                wait: reply.wait()?,
                soonest: reply.wait()?,
                limit: reply.count()?,
                position: position(&mut reply)?,
            },
            "over_rate" => {
                Self::OverRate { wait: reply.wait()?, limit: reply.count()?, position: position(&mut reply)? }
            }
            "over_concurrency" => Self::OverConcurrency { limit: reply.count()?, position: position(&mut reply)? },
            _ => return Err(reply.unknown(&tag)),
        })
    }
}

/// A place in line; 0 stands for none.
pub(super) fn position(reply: &mut Reply) -> Result<Option<u32>, StateError> {
    Ok(Some(reply.count()?).filter(|position| *position > 0))
}
