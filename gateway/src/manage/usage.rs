//! What a client key has and has used: for its holder, and for whoever looks after it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use shared::ids::{AccountId, KeyId};
use shared::limit::{Amount, Period, Quota, Span};
use shared::money::NanoDollars;
use shared::state::quotas::{QuotaTurn, Turn};
use shared::state::records::{KeyRights, MoneyLimit, Overdraft};
use shared::state::survey::{AccountView, KeyQuery, KeyView, Used};
use shared::state::{StateError, Store};

use super::terms::{self, usd};

/// Whose usage.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// The account.
    pub account: &'a AccountId,
    /// The client key.
    pub key: &'a KeyId,
    /// The key's limits.
    pub rights: &'a KeyRights,
    /// Whether the account has a money limit.
    pub money: MoneyLimit,
    /// Whether it may dip below zero.
    pub overdraft: Overdraft,
}

/// A key's limits and what is used of them, at one moment.
#[derive(Debug, Clone)]
pub struct Usage {
    /// The account and the key as they stand in Redis.
    pub view: AccountView,
    /// The turn of the spend limit's period that the moment is in.
    pub span: Option<Span>,
    /// The key's quotas, and what is used of each.
    pub quotas: Vec<QuotaUsage>,
}

/// One quota at one moment, counted in its own unit: requests, tokens, nano-dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The quota.
    pub quota: Quota,
    /// What is used of it for good.
    pub used: i64,
    /// What open requests may use of it yet.
    pub held: i64,
    /// When it starts again; of a sliding window when the oldest that counts runs out. `None`: never, or nothing is used.
    pub resets_ms: Option<i64>,
}

/// Looks at a key's counters. Writes nothing.
pub async fn usage(store: &Store, holder: Holder<'_>) -> Result<Usage, StateError> {
    let period = holder.rights.spend.as_ref().map(|spend| Period::named(&spend.period, &spend.zone));
    let span_at = |now_ms| period.as_ref().map(|period| period.span_at(now_ms));
    // Which turn it is, only Redis' clock can say; ours is a first guess.
    let turns_at = |now_ms| holder.rights.quotas.iter().map(|quota| QuotaTurn::at(quota, now_ms)).collect::<Vec<_>>();
    let guess = Timestamp::now().as_millisecond();
    let (mut span, mut turns) = (span_at(guess), turns_at(guess));
    loop {
        let label = span.as_ref().map(|span| span.label.clone());
        let query = KeyQuery { key: holder.key.clone(), label, quotas: turns.clone() };
        let view = store.survey_account(holder.account, &[query]).await?;
        let now = (span_at(view.now_ms), turns_at(view.now_ms));
        if now == (span.clone(), turns.clone()) {
            let used = view.keys.first().map(|key| key.quotas.as_slice()).unwrap_or_default();
            let each = holder.rights.quotas.iter().zip(&turns).zip(used);
            let quotas = each.map(|((quota, turn), used)| QuotaUsage::of(quota, turn, used, view.now_ms)).collect();
            return Ok(Usage { view, span, quotas });
        }
        (span, turns) = now;
    }
}

impl QuotaUsage {
    fn of(quota: &Quota, turn: &QuotaTurn, used: &Used, now_ms: i64) -> Self {
        let resets_ms = match &turn.turn {
            Turn::Period(span) => span.end_ms,
            Turn::Window { .. } => used.oldest.map(|wait| now_ms.saturating_add_unsigned(milliseconds(wait))),
        };
        Self { quota: quota.clone(), used: used.used, held: used.held, resets_ms }
    }

    /// What of a kind it counts, and the most of it: `requests`, 1000.
    pub fn amounts(&self) -> (&'static str, [String; 3]) {
        let count = |most: u64| [most.to_string(), self.used.to_string(), self.held.to_string()];
        match self.quota.amount {
            Amount::Requests(most) => ("requests", count(most.get())),
            Amount::Tokens(most) => ("tokens", count(most.get())),
            Amount::Cost(most) => {
                let money = |nanos| NanoDollars::new(nanos).unwrap_or(NanoDollars::MAX);
                ("cost", [most, money(self.used), money(self.held)].map(usd))
            }
        }
    }

    fn json(&self) -> Json {
        let mut shown = terms::extent(&self.quota.extent);
        let (what, [most, used, held]) = self.amounts();
        shown.insert("of".to_owned(), what.into());
        // Money is a text, for no JSON number is as exact.
        if what == "cost" {
            shown.extend(
                [("limit_usd", most), ("used_usd", used), ("held_usd", held)].map(|(k, v)| (k.to_owned(), v.into())),
            );
        } else {
            let count = |text: String| text.parse::<serde_json::Number>().map_or(Json::Null, Json::Number);
            shown.extend([("limit", most), ("used", used), ("held", held)].map(|(k, v)| (k.to_owned(), count(v))));
        }
        shown.insert("resets_at".to_owned(), self.resets_ms.map(time).into());
        shown.into()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Thousandths of tokens as tokens, rounded up.
pub fn whole_tokens(milli: i64) -> i64 {
    milli.max(0).unsigned_abs().div_ceil(1000).cast_signed()
}

impl Usage {
    /// The key's part of it.
    pub fn key(&self) -> Option<&KeyView> {
        self.view.keys.first()
    }

    /// What a limit of money, requests, tokens and concurrency leaves; null where there is no limit.
    pub fn json(&self, holder: Holder<'_>) -> Json {
        let key = self.key();
        let count = |used: fn(&KeyView) -> u32| key.map(used);
        let rights = holder.rights;
        json!({
            "account": holder.account,
            "key": holder.key,
            "at": time(self.view.now_ms),
            "balance": (holder.money == MoneyLimit::Limited).then(|| self.balance(holder.overdraft)),
            "spend_limit": rights.spend.as_ref().map(|limit| {
                let used = key.map(|key| key.spent).unwrap_or_default();
                let left = NanoDollars::new((limit.limit.nanos() - used.nanos()).max(0)).unwrap_or_default();
                json!({
                    "limit_usd": usd(limit.limit), "used_usd": usd(used), "left_usd": usd(left),
                    "held_usd": usd(key.map(|key| key.spending).unwrap_or_default()),
                    "period": limit.period, "time_zone": limit.zone,
                    "resets_at": self.span.as_ref().and_then(|span| span.end_ms).map(time),
                })
            }),
            "rpm": rights.rpm.map(|limit| json!({"limit": limit, "used": count(|key| key.rate_used)})),
            "tpm": rights.tpm.map(|limit| {
                let tokens = key.map(|key| key.tokens).unwrap_or_default();
                json!({"limit": limit, "used": whole_tokens(tokens.used), "held": whole_tokens(tokens.held)})
            }),
            "concurrency": rights.max_concurrent.map(|limit| {
                json!({"limit": limit, "used": count(|key| key.live), "waiting": count(|key| key.waiting)})
            }),
            "quotas": self.quotas.iter().map(QuotaUsage::json).collect::<Vec<_>>(),
        })
    }

    fn balance(&self, overdraft: Overdraft) -> Json {
        json!({
            "usd": self.view.balance.map(usd),
            "held_usd": usd(self.view.reserved),
            "overdraft": super::shown::overdraft(overdraft),
        })
    }
}

/// A moment of Redis' clock in UTC.
pub fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap_or_default().to_string()
}
