//! The accounts and client keys of the configuration, as Redis keeps them.

use shared::config::{self, Config};
use shared::ids::AccountId;
use shared::state::records::{AccountRecord, KeyRecord, KeyRights, Money, Overdraft, SpendLimit};
use shared::state::{StateError, Store};

/// Writes them. Idempotent: balances are opened once, run-time state stays, keys that left the file are disabled.
pub async fn enrol(store: &Store, config: &Config) -> Result<(), StateError> {
    let records: Vec<AccountRecord> = config.accounts.values().map(|account| record(config, account)).collect();
    store.declare(&records).await
}

fn record(config: &Config, account: &config::Account) -> AccountRecord {
    AccountRecord {
        id: account.id.clone(),
        money: account.balance.map_or(Money::Unlimited, |opening| Money::Limited { opening }),
        overdraft: match account.overdraft {
            config::Overdraft::Soft => Overdraft::Soft,
            config::Overdraft::None => Overdraft::None,
        },
        residency: account.residency.as_ref().map(|region| region.as_str().to_owned()),
        keys: keys(config, &account.id),
    }
}

fn keys(config: &Config, account: &AccountId) -> Vec<KeyRecord> {
    let own = config.keys.iter().filter(|key| key.account == *account);
    own.map(|key| KeyRecord { id: key.id.clone(), secret: key.secret, rights: rights(key) }).collect()
}

fn rights(key: &config::Key) -> KeyRights {
    KeyRights {
        rpm: key.rpm.map(Into::into),
        tpm: key.tpm.map(Into::into),
        max_concurrent: key.max_concurrent.map(Into::into),
        priority: key.priority,
        spend: key.spend_limit.as_ref().map(|limit| SpendLimit {
            limit: limit.amount,
            period: limit.period.cycle.as_str().to_owned(),
            zone: limit.period.zone.iana_name().unwrap_or("UTC").to_owned(),
        }),
        quotas: key.quotas.clone(),
        models: key.models.iter().flatten().map(|pattern| pattern.as_str().to_owned()).collect(),
        byok: key.byok.clone(),
        platform_fallback: key.platform_fallback,
        peers: key.peers,
    }
}
