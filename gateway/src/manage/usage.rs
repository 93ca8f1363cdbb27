//! What a client key has and has used: for its holder, and for whoever looks after it.

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use shared::ids::{AccountId, KeyId};
use shared::limit::{Period, Span};
use shared::money::NanoDollars;
use shared::state::records::{KeyRights, MoneyLimit, Overdraft};
use shared::state::survey::{AccountView, KeyQuery, KeyView};
use shared::state::{StateError, Store};

use super::terms::usd;

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
}

/// Looks at a key's counters. Writes nothing.
pub async fn usage(store: &Store, holder: Holder<'_>) -> Result<Usage, StateError> {
    let period = holder.rights.spend.as_ref().map(|spend| Period::named(&spend.period, &spend.zone));
    let span_at = |now_ms| period.as_ref().map(|period| period.span_at(now_ms));
    // Which turn it is, only Redis' clock can say; ours is a first guess.
    let mut span = span_at(Timestamp::now().as_millisecond());
    loop {
        let label = span.as_ref().map(|span| span.label.clone());
        let view = store.survey_account(holder.account, &[KeyQuery { key: holder.key.clone(), label }]).await?;
        let turn = span_at(view.now_ms);
        if turn == span {
            return Ok(Usage { view, span });
        }
        span = turn;
    }
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
                    "period": limit.period, "time_zone": limit.zone,
                    "resets_at": self.span.as_ref().and_then(|span| span.end_ms).map(time),
                })
            }),
            "rpm": rights.rpm.map(|limit| json!({"limit": limit, "used": count(|key| key.rate_used)})),
            // Nothing counts tokens per minute yet.
            "tpm": rights.tpm.map(|limit| json!({"limit": limit, "used": null})),
            "concurrency": rights.max_concurrent.map(|limit| {
                json!({"limit": limit, "used": count(|key| key.live), "waiting": count(|key| key.waiting)})
            }),
            // Nothing counts quotas yet.
            "quotas": [],
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
