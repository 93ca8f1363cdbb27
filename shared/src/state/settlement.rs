//! `settle`: what a request finally cost, once.

use std::collections::HashMap;
use std::sync::Arc;

use super::admission::SpendSpan;
use super::leases::{milli, rare_token_args, token_args};
use super::link::StateError;
use super::quotas::{QuotaTurn, read_turns};
use super::reply::Reply;
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, ConnectionId, KeyId, ModelName, RequestId};
use crate::limit::{Cycle, Period, Weighed};
use crate::money::{NanoDollars, Tokens};

/// About so many rows of an account's ledger are kept.
pub const LEDGER_ROWS: i64 = 10_000;

/// What a request finally cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Whose money.
    pub account: AccountId,
    /// Which client key.
    pub key: KeyId,
    /// The request: settled once.
    pub request: RequestId,
    /// When it was admitted, by Redis' clock (Unix ms): it is summed up under that day.
    pub admitted_ms: i64,
    /// The period it was admitted in ([`AdmitAsk::span`](super::admission::AdmitAsk)): that one is charged, whenever it settles.
    pub span: Option<SpendSpan>,
    /// The counters it was admitted under, likewise.
    pub quotas: Vec<QuotaTurn>,
    /// Tokens by class.
    pub tokens: Tokens,
    /// What they cost. Without overdraft no more is charged than the balance less what other requests hold.
    pub cost: NanoDollars,
    /// What the tokens count towards the key's tokens per minute.
    pub weighed: Weighed,
    /// Whether it counts in quotas of requests.
    pub upstream: Upstream,
    /// How that is known.
    pub basis: Basis,
    /// How the request ended.
    pub outcome: Outcome,
    /// The model asked for.
    pub model: ModelName,
    /// The model that answered.
    pub served_model: Option<ModelName>,
    /// The connection that answered.
    pub connection: Option<ConnectionId>,
}

/// How a cost is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The upstream reported the usage.
    Exact,
    /// Counted by us.
    Estimated,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered in full.
    Ok,
    /// The client went away.
    ClientGone,
    /// The upstream broke off after content.
    UpstreamBroken,
    /// No answer.
    Failed,
    /// Refused by us after it was admitted (no capacity, every rung closed).
    RefusedAfterStart,
}

/// Whether a request came as far as an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// At least one was called.
    Reached,
    /// None was: quotas of requests get it back.
    Spared,
}

/// What `settle` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Settled now.
    Settled {
        /// What the account has left; `None` if it has no money limit.
        balance: Option<NanoDollars>,
        /// What was charged: the cost, or less where an account without overdraft had less. The rest is waived.
        charged: NanoDollars,
    },
    /// It was settled before.
    Already,
}

/// A request whose lease lapsed: its replica died, or its caller gave up before it was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LapsedRequest {
    /// The account.
    pub account: AccountId,
    /// The client key.
    pub key: KeyId,
    /// The request.
    pub request: RequestId,
    /// When it was admitted, by Redis' clock (Unix ms).
    pub admitted_ms: i64,
    /// The period it was admitted in.
    pub span: Option<SpendSpan>,
    /// The counters it was admitted under.
    pub quotas: Vec<QuotaTurn>,
}

/// What became of a lapsed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleLapsed {
    /// Settled at its last progress.
    Settled,
    /// It never made any: dropped without a charge or a ledger row.
    Dropped,
    /// It was renewed meanwhile.
    Alive,
    /// It was settled meanwhile.
    Already,
}

/// One row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// Its fields by name, as they stand in Redis.
    pub fields: HashMap<String, String>,
}

impl Basis {
    /// The word in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Estimated => "estimated",
        }
    }
}

impl Outcome {
    /// The word in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientGone => "client_gone",
            Self::UpstreamBroken => "upstream_broken",
            Self::Failed => "failed",
            Self::RefusedAfterStart => "refused_after_start",
        }
    }
}

impl Upstream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Spared => "spared",
        }
    }
}

impl Store {
    /// Settles a request, exactly once per id: frees the key's lease and what it held, moves balance, spend and the counters
    /// of quotas and tokens per minute, writes one ledger row. Where the account may not overdraw and the cost exceeds what it has, the rest is waived, and the row tells
    /// how much. A request Redis knows nothing of (any more) is settled too.
    pub async fn settle(&self, settlement: &Settlement) -> Result<Settle, StateError> {
        let Settlement { account, key, request, admitted_ms, span, quotas, .. } = settlement;
        let keys = self.settle_keys(account, (key, request), (*admitted_ms, span.as_ref()), quotas);
        let marks: Vec<String> = quotas.iter().map(QuotaTurn::mark).collect();
        let mut args = self.settle_args("settle", key, request, span.as_ref());
        args.extend([
            Arg::Text(settlement.model.as_str()),
            Arg::Text(settlement.served_model.as_ref().map_or("", ModelName::as_str)),
            Arg::Text(settlement.connection.as_ref().map_or("", ConnectionId::as_str)),
        ]);
        args.extend(token_args(&settlement.tokens));
        args.extend([
            Arg::Int(settlement.cost.nanos().max(0)),
            Arg::Text(settlement.basis.as_str()),
            Arg::Text(settlement.outcome.as_str()),
        ]);
        args.extend(rare_token_args(&settlement.tokens));
        args.extend([
            Arg::Text(settlement.upstream.as_str()),
            milli(settlement.weighed.total_milli),
            milli(settlement.weighed.output_milli),
        ]);
        args.extend(quotas.iter().zip(&marks).flat_map(|(quota, mark)| quota.settle_args(mark)));
        let (tag, mut reply) = Reply::open("settle", self.link.run(&self.scripts.settle, &keys, &args).await?)?;
        match tag.as_str() {
            "settled" => {
                let limited = reply.int()? == 1;
                let balance = Some(reply.money()?).filter(|_| limited);
                Ok(Settle::Settled { balance, charged: reply.money()? })
            }
            "already" => Ok(Settle::Already),
            _ => Err(reply.unknown(&tag)),
        }
    }

    /// Settles a request whose lease lapsed at the last progress that was reported, marked `estimated`. Does nothing to one
    /// that was renewed or settled meanwhile.
    pub async fn settle_lapsed(&self, lapsed: &LapsedRequest) -> Result<SettleLapsed, StateError> {
        let LapsedRequest { account, key, request, admitted_ms, span, quotas } = lapsed;
        let keys = self.settle_keys(account, (key, request), (*admitted_ms, span.as_ref()), quotas);
        let marks: Vec<String> = quotas.iter().map(QuotaTurn::mark).collect();
        let mut args = self.settle_args("lapsed", key, request, span.as_ref());
        // The figures come from the last progress.
        args.resize(24, Arg::Int(0));
        args.extend(quotas.iter().zip(&marks).flat_map(|(quota, mark)| quota.settle_args(mark)));
        let (tag, reply) = Reply::open("settle", self.link.run(&self.scripts.settle, &keys, &args).await?)?;
        match tag.as_str() {
            "settled" => Ok(SettleLapsed::Settled),
            "dropped" => Ok(SettleLapsed::Dropped),
            "alive" => Ok(SettleLapsed::Alive),
            "already" => Ok(SettleLapsed::Already),
            _ => Err(reply.unknown(&tag)),
        }
    }

    /// The requests of an account whose leases lapsed, at most some hundreds a key and call.
    pub async fn lapsed(&self, account: &AccountId) -> Result<Vec<LapsedRequest>, StateError> {
        let keys = self.keys_of(account).await?;
        let slot = self.keys.of_account(account);
        let mut found = Vec::new();
        if keys.is_empty() {
            return Ok(found);
        }
        for (key, requests) in self.survey_lapsed(account, &keys).await? {
            let mut pipeline = redis::pipe();
            for request in &requests {
                pipeline.cmd("HMGET").arg(slot.request(request)).arg(&OPEN_FIELDS);
            }
            for (request, fields) in requests.into_iter().zip(self.link.pipeline(&pipeline).await?) {
                let (admitted_ms, span, quotas) = admitted(fields)?;
                let (account, key) = (account.clone(), key.clone());
                found.push(LapsedRequest { account, key, request, admitted_ms, span, quotas });
            }
        }
        Ok(found)
    }

    /// The newest rows of an account's ledger, newest first.
    pub async fn ledger(&self, account: &AccountId, rows: usize) -> Result<Vec<LedgerRow>, StateError> {
        let stream = self.keys.of_account(account).ledger();
        let mut cmd = redis::cmd("XREVRANGE");
        let reply = self.link.command(cmd.arg(stream).arg("+").arg("-").arg("COUNT").arg(rows)).await?;
        let read: Vec<(String, HashMap<String, String>)> =
            redis::from_redis_value(reply).map_err(|error| StateError::Reply(error.to_string()))?;
        Ok(read.into_iter().map(|(_, fields)| LedgerRow { fields }).collect())
    }

    fn settle_keys(
        &self,
        account: &AccountId,
        (key, request): (&KeyId, &RequestId),
        (admitted_ms, span): (i64, Option<&SpendSpan>),
        quotas: &[QuotaTurn],
    ) -> Vec<String> {
        let account = self.keys.of_account(account);
        let key = account.of_key(key);
        let day = account.day(&Period::utc(Cycle::Day).span_at(admitted_ms).label);
        let mut keys = Vec::with_capacity(13 + quotas.len());
        keys.extend([account.record(), key.record(), account.balance(), account.reserved(), account.request(request)]);
        keys.extend([key.spend(span.map_or("", |span| &span.label)), key.leases(), key.waiters(), key.alive()]);
        keys.extend([account.ledger(), day, key.tpm(), key.held()]);
        keys.extend(quotas.iter().map(|quota| quota.counter(&key)));
        keys
    }

    fn settle_args<'a>(
        &'a self,
        mode: &'a str,
        key: &'a KeyId,
        request: &'a RequestId,
        span: Option<&'a SpendSpan>,
    ) -> Vec<Arg<'a>> {
        let mut args = Vec::with_capacity(21);
        args.extend([
            Arg::Text(mode),
            Arg::Text(request.as_str()),
            Arg::Text(key.as_str()),
            Arg::Text(span.map_or("", |span| &span.label)),
            Arg::Int(span.and_then(|span| span.end_ms).unwrap_or(0)),
            Arg::Text(&self.wake_prefix),
            Arg::Int(LEDGER_ROWS),
        ]);
        args
    }
}

/// The fields of an open request that say when it was admitted, and under what.
const OPEN_FIELDS: [&str; 5] = ["admitted_at", "spend_label", "spend_start", "spend_end", "quotas"];

/// When an open request was admitted, in which period and under which quotas. One that is gone meanwhile was settled, and will
/// not be again.
fn admitted(fields: redis::Value) -> Result<(i64, Option<SpendSpan>, Vec<QuotaTurn>), StateError> {
    let error = || StateError::Reply("an open request whose period is unreadable".into());
    let fields: Vec<Option<String>> = redis::from_redis_value(fields).map_err(|_| error())?;
    let [at, label, start, end, quotas] = <[Option<String>; 5]>::try_from(fields).map_err(|_| error())?;
    let at = at.and_then(|at| at.parse().ok()).unwrap_or(0);
    let quotas = read_turns(&quotas.unwrap_or_default())?;
    let Some(label) = label.filter(|label| !label.is_empty()) else {
        return Ok((at, None, quotas));
    };
    let number = |text: Option<String>| text.unwrap_or_default().parse::<i64>().map_err(|_| error());
    let (start_ms, end_ms) = (number(start)?, Some(number(end)?).filter(|end| *end > 0));
    Ok((at, Some(SpendSpan { label: Arc::from(label), start_ms, end_ms }), quotas))
}
