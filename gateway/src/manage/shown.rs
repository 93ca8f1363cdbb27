//! Accounts and client keys as JSON. No secret is in them, nor the hash of one.

use serde_json::{Value as Json, json};
use shared::ids::AccountId;
use shared::state::records::{MoneyLimit, Overdraft};
use shared::state::roster::{AccountEntry, KeyEntry};
use shared::state::survey::AccountView;

use super::terms::{self, usd};
use super::usage::time;

/// A key, with its terms as they were written.
pub fn key(account: &AccountId, entry: &KeyEntry) -> Json {
    let mut shown = json!({
        "account": account,
        "key": entry.id,
        "status": entry.status.as_str(),
        "source": entry.source.as_str(),
        "created_at": entry.created_ms.map(time),
    });
    if let (Some(all), Json::Object(terms)) = (shown.as_object_mut(), terms::json(&entry.rights)) {
        all.extend(terms);
    }
    shown
}

/// An account, with its money and the names of its keys.
pub fn account(entry: &AccountEntry, view: &AccountView, keys: &[KeyEntry]) -> Json {
    let limited = entry.money == MoneyLimit::Limited;
    json!({
        "account": entry.id,
        "source": entry.source.as_str(),
        "balance_usd": view.balance.filter(|_| limited).map(usd),
        "balance_nanodollars": view.balance.filter(|_| limited).map(shared::money::NanoDollars::nanos),
        "held_usd": usd(view.reserved),
        "overdraft": overdraft(entry.overdraft),
        "residency": entry.residency,
        "keys": keys.iter().map(|key| json!({"key": key.id, "status": key.status.as_str()})).collect::<Vec<_>>(),
    })
}

/// The word of the configuration.
pub fn overdraft(overdraft: Overdraft) -> &'static str {
    match overdraft {
        Overdraft::Soft => "soft",
        Overdraft::None => "none",
    }
}
