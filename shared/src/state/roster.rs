//! `amend` and `open_account`: accounts and client keys that are made at run time. And all of them, as they stand.

use redis::Value;

use super::link::StateError;
use super::records::{KeyRights, MoneyLimit, Overdraft, fields, id, opening_receipt};
use super::reply::Reply;
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, KeyId, SecretHash};
use crate::money::NanoDollars;

/// A client key, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its id.
    pub id: KeyId,
    /// Whether it may be used.
    pub status: KeyStatus,
    /// Who made it.
    pub source: Source,
    /// Its limits and rights.
    pub rights: KeyRights,
    /// When it was made, in ms since 1970; `None` for keys of the file.
    pub created_ms: Option<i64>,
    rev: String,
    secret: Option<SecretHash>,
}

/// Whether a client key may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    /// It may.
    Active,
    /// It left the file.
    Disabled,
    /// It was revoked, for ever.
    Revoked,
}

/// Who made a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The configuration.
    File,
    /// Somebody at run time.
    Runtime,
}

/// An account, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountEntry {
    /// Its id.
    pub id: AccountId,
    /// Whether it has a money limit.
    pub money: MoneyLimit,
    /// Whether it may dip below zero.
    pub overdraft: Overdraft,
    /// The region it must stay in.
    pub residency: Option<String>,
    /// Who made it.
    pub source: Source,
}

/// An account that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Its id.
    pub id: AccountId,
    /// Credited once; `None`: it has no money limit.
    pub opening: Option<NanoDollars>,
    /// Whether it may dip below zero.
    pub overdraft: Overdraft,
    /// The region it must stay in.
    pub residency: Option<String>,
}

/// What `amend` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amend {
    /// Done; it counts from now on.
    Amended,
    /// There is no such account.
    NoAccount,
    /// A key of this name is there, perhaps revoked: its name stays with what it did.
    Exists,
    /// There is no such key.
    Missing,
    /// The key is one of the file, and changed there.
    FromFile,
    /// It was revoked, and stays so.
    Revoked,
    /// Somebody else changed it since it was read.
    Changed,
}

/// What `open_account` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenAccount {
    /// It is there now.
    Opened,
    /// It was there before.
    Exists(Source),
}

impl Store {
    /// Makes a client key. Its record comes first, so that a secret never leads to one that is not there: a call that ends in
    /// between leaves a key that nobody can use.
    pub async fn create_key(
        &self,
        account: &AccountId,
        key: &KeyId,
        (secret, rights): (SecretHash, &KeyRights),
    ) -> Result<Amend, StateError> {
        let mut fields = vec![("status", "active".to_owned()), ("secret", secret.to_hex())];
        fields.extend(rights.fields());
        let answer = self.run_amend("create", (account, key), "", fields).await?;
        if answer == Amend::Amended {
            self.point_secret(secret, account, key).await?;
        }
        Ok(answer)
    }

    /// Gives a client key other limits and rights, all of them; spent money stays spent.
    pub async fn update_key(
        &self,
        account: &AccountId,
        entry: &KeyEntry,
        rights: &KeyRights,
    ) -> Result<Amend, StateError> {
        self.run_amend("update", (account, &entry.id), &entry.rev, rights.fields()).await
    }

    /// Ends a client key. Nothing is admitted with it from the moment this is answered; what runs, runs on.
    pub async fn revoke_key(&self, account: &AccountId, key: &KeyId) -> Result<Amend, StateError> {
        let answer = self.run_amend("revoke", (account, key), "", Vec::new()).await?;
        if answer == Amend::Amended
            && let Some(secret) = self.key_entry(account, key).await?.and_then(|entry| entry.secret)
        {
            self.link.command(redis::cmd("DEL").arg(self.keys.secret(secret))).await?;
        }
        Ok(answer)
    }

    /// A client key as it stands.
    pub async fn key_entry(&self, account: &AccountId, key: &KeyId) -> Result<Option<KeyEntry>, StateError> {
        Ok(self.entries(account, vec![key.clone()]).await?.pop())
    }

    /// All client keys of an account, by name.
    pub async fn key_entries(&self, account: &AccountId) -> Result<Vec<KeyEntry>, StateError> {
        let keys = self.keys_of(account).await?;
        self.entries(account, keys).await
    }

    /// Makes an account and opens its balance.
    pub async fn open_account(&self, new: &NewAccount) -> Result<OpenAccount, StateError> {
        let keys = self.keys.of_account(&new.id);
        let names = [keys.record(), keys.reserved()];
        let args = [
            Arg::Text(if new.opening.is_some() { "limited" } else { "unlimited" }),
            Arg::Text(match new.overdraft {
                Overdraft::Soft => "soft",
                Overdraft::None => "none",
            }),
            Arg::Text(new.residency.as_deref().unwrap_or("")),
        ];
        let answer = self.link.run(&self.scripts.open_account, &names, &args).await?;
        let (tag, mut reply) = Reply::open("open_account", answer)?;
        match tag.as_str() {
            "opened" => {}
            "exists" => return Ok(OpenAccount::Exists(Source::named(&reply.word()?))),
            _ => return Err(reply.unknown(&tag)),
        }
        if let Some(opening) = new.opening {
            self.credit(&new.id, &opening_receipt()?, opening).await?;
        }
        self.note_account(&new.id).await?;
        Ok(OpenAccount::Opened)
    }

    /// An account as it stands.
    pub async fn account_entry(&self, account: &AccountId) -> Result<Option<AccountEntry>, StateError> {
        let record = self.link.command(redis::cmd("HGETALL").arg(self.keys.of_account(account).record())).await?;
        let record = fields(Some(record))?;
        let is = |field: &str, word: &str| record.get(field).map(String::as_str) == Some(word);
        Ok(record.contains_key("money").then(|| AccountEntry {
            id: account.clone(),
            money: if is("money", "unlimited") { MoneyLimit::Unlimited } else { MoneyLimit::Limited },
            overdraft: if is("overdraft", "soft") { Overdraft::Soft } else { Overdraft::None },
            residency: record.get("residency").filter(|region| !region.is_empty()).cloned(),
            source: Source::named(record.get("source").map_or("", String::as_str)),
        }))
    }

    /// What was credited under a receipt.
    pub async fn credited(
        &self,
        account: &AccountId,
        receipt: &crate::ids::RequestId,
    ) -> Result<Option<NanoDollars>, StateError> {
        let key = self.keys.of_account(account).credit(receipt);
        let amount = self.link.command(redis::cmd("GET").arg(key)).await?;
        let amount: Option<i64> =
            redis::from_redis_value(amount).map_err(|error| StateError::Reply(error.to_string()))?;
        amount.map(|nanos| id(NanoDollars::new(nanos))).transpose()
    }

    async fn run_amend(
        &self,
        mode: &str,
        (account, key): (&AccountId, &KeyId),
        rev: &str,
        mut fields: Vec<(&'static str, String)>,
    ) -> Result<Amend, StateError> {
        let slot = self.keys.of_account(account);
        let names = [slot.record(), slot.keys(), slot.of_key(key).record()];
        if mode != "revoke" {
            // Any text that was never there before: whoever remembers the record finds that out in admit.
            fields.push(("rev", uuid::Uuid::new_v4().simple().to_string()));
        }
        let mut args = vec![Arg::Text(mode), Arg::Text(key.as_str()), Arg::Text(rev)];
        args.extend(fields.iter().flat_map(|(field, value)| [Arg::Text(field), Arg::Text(value)]));
        let (tag, reply) = Reply::open("amend", self.link.run(&self.scripts.amend, &names, &args).await?)?;
        Ok(match tag.as_str() {
            "amended" => Amend::Amended,
            "no_account" => Amend::NoAccount,
            "exists" => Amend::Exists,
            "missing" => Amend::Missing,
            "from_file" => Amend::FromFile,
            "revoked" => Amend::Revoked,
            "changed" => Amend::Changed,
            _ => return Err(reply.unknown(&tag)),
        })
    }

    /// Those of the keys that are there.
    async fn entries(&self, account: &AccountId, keys: Vec<KeyId>) -> Result<Vec<KeyEntry>, StateError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let slot = self.keys.of_account(account);
        let mut pipeline = redis::pipe();
        for key in &keys {
            pipeline.hgetall(slot.of_key(key).record());
        }
        let records = self.link.pipeline(&pipeline).await?;
        let entries = keys.into_iter().zip(records).map(|(key, record)| KeyEntry::read(key, record));
        entries.filter_map(Result::transpose).collect()
    }
}

impl KeyEntry {
    fn read(id: KeyId, record: Value) -> Result<Option<Self>, StateError> {
        let record = fields(Some(record))?;
        let Some(status) = record.get("status") else { return Ok(None) };
        let text = |field: &str| record.get(field).map_or("", String::as_str);
        Ok(Some(Self {
            id,
            status: match status.as_str() {
                "active" => KeyStatus::Active,
                "revoked" => KeyStatus::Revoked,
                _ => KeyStatus::Disabled,
            },
            source: Source::named(text("source")),
            rights: KeyRights::read(&record)?,
            created_ms: record.get("created_at").and_then(|ms| ms.parse().ok()),
            rev: text("rev").to_owned(),
            secret: SecretHash::from_hex(text("secret")).ok(),
        }))
    }
}

impl KeyStatus {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Revoked => "revoked",
        }
    }
}

impl Source {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Runtime => "runtime",
        }
    }

    fn named(word: &str) -> Self {
        if word == "runtime" { Self::Runtime } else { Self::File }
    }
}
