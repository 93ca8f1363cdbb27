//! What people do to accounts and client keys at run time. The command line calls this, and so will the admin API: what is refused,
//! why, and how things read as JSON is the same for both.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::RngExt as _;
use serde_json::Value as Json;
use shared::config::{self, Fault};
use shared::ids::{AccountId, KeyId, RequestId, SecretHash};
use shared::money::NanoDollars;
use shared::state::credit::Credit;
use shared::state::records::MoneyLimit;
use shared::state::roster::{AccountEntry, Amend, KeyEntry, NewAccount, OpenAccount, Source};
use shared::state::{StateError, Store};

pub mod ledger;
pub mod shown;
pub mod terms;
pub mod usage;

/// Somebody else may change a key while we do; not that often in a row.
const CHANGES_MAX: u32 = 5;
/// Bytes of a secret that are drawn at random.
const SECRET_BYTES: usize = 32;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// What was asked for cannot be: the fields at fault.
    #[error("{}", told(.0))]
    Terms(Vec<Fault>),
    /// There is no such account.
    #[error("no account is named {0}")]
    NoAccount(AccountId),
    /// There is no such key.
    #[error("account {0} has no key {1}")]
    NoKey(AccountId, KeyId),
    /// The name of a key is taken.
    #[error("account {0} has or had a key {1}: the ledger knows it by that name")]
    KeyExists(AccountId, KeyId),
    /// The name of an account is taken.
    #[error("there is an account {0} already")]
    AccountExists(AccountId),
    /// It is under version control.
    #[error("{0} comes from the configuration file: change it there")]
    FromFile(String),
    /// The key was revoked before.
    #[error("key {0} was revoked, and that is for ever: create another")]
    Revoked(KeyId),
    /// Others change the key all the time.
    #[error("key {0} is being changed by somebody else: try again")]
    Busy(KeyId),
    /// The account has no balance.
    #[error("account {0} has no money limit: there is no balance to credit")]
    NoMoneyLimit(AccountId),
    /// The receipt stands for another amount.
    #[error("receipt {receipt} stands for {amount} credited before, which is another amount")]
    OtherReceipt {
        /// The receipt.
        receipt: RequestId,
        /// What was credited under it.
        amount: NanoDollars,
    },
    /// The balance would be beyond what is kept exactly.
    #[error("a balance of more than {} is not kept: nothing was credited", NanoDollars::MAX)]
    TooLarge,
    /// Redis did not answer.
    #[error("Redis did not answer: {0}")]
    Store(#[from] StateError),
}

/// Faults without the place in a file they do not have.
fn told(faults: &[Fault]) -> String {
    let told = faults.iter().map(|Fault { field, message, expected, .. }| match expected.as_str() {
        "" => format!("{field}: {message}"),
        expected => format!("{field}: {message}, expected {expected}"),
    });
    told.collect::<Vec<_>>().join("\n")
}

/// A client key that was just made. Its secret is nowhere else and cannot be had again.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key.
    pub entry: KeyEntry,
    /// What its holder sends.
    pub secret: String,
}

/// What became of a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credited {
    /// What the account has.
    pub balance: NanoDollars,
    /// False if the receipt was credited before, so that nothing moved.
    pub now: bool,
}

/// 256 random bits, as a caller sends them.
fn fresh_secret() -> String {
    let bytes: [u8; SECRET_BYTES] = rand::rng().random();
    format!("hg-{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Makes a client key with these terms (see [`terms`]); it works on every replica from now on.
pub async fn create_key(store: &Store, account: &AccountId, key: &KeyId, terms: &Json) -> Result<NewKey, ManageError> {
    let rights = terms::rights(terms)?;
    let secret = fresh_secret();
    let answer = store.create_key(account, key, (SecretHash::of(&secret), &rights)).await?;
    amended(answer, account, key)?;
    Ok(NewKey { entry: self::key(store, account, key).await?, secret })
}

/// Changes the terms that `patch` names: null takes one away, absent ones stay. Counts on every replica from the next request on.
pub async fn update_key(
    store: &Store,
    account: &AccountId,
    key: &KeyId,
    patch: &Json,
) -> Result<KeyEntry, ManageError> {
    for _ in 0..CHANGES_MAX {
        let entry = self::key(store, account, key).await?;
        let rights = terms::rights(&terms::patched(terms::json(&entry.rights), patch))?;
        match store.update_key(account, &entry, &rights).await? {
            Amend::Changed => {}
            answer => {
                amended(answer, account, key)?;
                return self::key(store, account, key).await;
            }
        }
    }
    Err(ManageError::Busy(key.clone()))
}

/// Ends a client key: no replica admits it from the moment this returns. Requests that run, run on. Doing it again is no error.
pub async fn revoke_key(store: &Store, account: &AccountId, key: &KeyId) -> Result<KeyEntry, ManageError> {
    match store.revoke_key(account, key).await? {
        Amend::Revoked => {}
        answer => amended(answer, account, key)?,
    }
    self::key(store, account, key).await
}

/// A client key as it stands.
pub async fn key(store: &Store, account: &AccountId, key: &KeyId) -> Result<KeyEntry, ManageError> {
    let entry = store.key_entry(account, key).await?;
    entry.ok_or_else(|| ManageError::NoKey(account.clone(), key.clone()))
}

/// All client keys of an account.
pub async fn keys(store: &Store, account: &AccountId) -> Result<Vec<KeyEntry>, ManageError> {
    self::account(store, account).await?;
    Ok(store.key_entries(account).await?)
}

/// Makes an account with these terms: `balance`, `overdraft`, `residency`, as in the configuration.
pub async fn create_account(store: &Store, account: &AccountId, terms: &Json) -> Result<AccountEntry, ManageError> {
    let terms = config::account_terms(terms).map_err(ManageError::Terms)?;
    let new = NewAccount {
        id: account.clone(),
        opening: terms.balance,
        overdraft: terms::overdraft(terms.overdraft),
        residency: terms.residency.map(|region| region.as_str().to_owned()),
    };
    match store.open_account(&new).await? {
        OpenAccount::Opened => self::account(store, account).await,
        OpenAccount::Exists(Source::File) => Err(ManageError::FromFile(format!("account {account}"))),
        OpenAccount::Exists(Source::Runtime) => Err(ManageError::AccountExists(account.clone())),
    }
}

/// An account as it stands.
pub async fn account(store: &Store, account: &AccountId) -> Result<AccountEntry, ManageError> {
    store.account_entry(account).await?.ok_or_else(|| ManageError::NoAccount(account.clone()))
}

/// Adds money (takes it off, if negative), once per receipt.
pub async fn credit(
    store: &Store,
    account: &AccountId,
    amount: NanoDollars,
    receipt: &RequestId,
) -> Result<Credited, ManageError> {
    if self::account(store, account).await?.money == MoneyLimit::Unlimited {
        return Err(ManageError::NoMoneyLimit(account.clone()));
    }
    match store.credit(account, receipt, amount).await? {
        Credit::Credited { balance } => Ok(Credited { balance, now: true }),
        Credit::TooLarge { .. } => Err(ManageError::TooLarge),
        Credit::Already { balance } => match store.credited(account, receipt).await? {
            Some(before) if before != amount => {
                Err(ManageError::OtherReceipt { receipt: receipt.clone(), amount: before })
            }
            _ => Ok(Credited { balance, now: false }),
        },
    }
}

fn amended(answer: Amend, account: &AccountId, key: &KeyId) -> Result<(), ManageError> {
    match answer {
        Amend::Amended => Ok(()),
        Amend::NoAccount => Err(ManageError::NoAccount(account.clone())),
        Amend::Exists => Err(ManageError::KeyExists(account.clone(), key.clone())),
        Amend::Missing => Err(ManageError::NoKey(account.clone(), key.clone())),
        Amend::FromFile => Err(ManageError::FromFile(format!("key {key}"))),
        Amend::Revoked => Err(ManageError::Revoked(key.clone())),
        Amend::Changed => Err(ManageError::Busy(key.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_256_bits_and_none_is_drawn_twice() {
        let secrets: Vec<String> = (0..100).map(|_| fresh_secret()).collect();
        assert!(secrets.iter().all(|secret| secret.starts_with("hg-") && secret.len() == 3 + 43), "{secrets:?}");
        let distinct: std::collections::BTreeSet<&String> = secrets.iter().collect();
        assert_eq!(distinct.len(), secrets.len());
    }
}
