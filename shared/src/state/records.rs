//! `declare`: the accounts and client keys of the file, as records in Redis. And the look-up of a caller by its secret.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use redis::Value;
use sha2::{Digest, Sha256};

use super::link::StateError;
use super::quotas::{quotas_text, read_quotas};
use super::reply::Reply;
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, ConnectionId, KeyId, RequestId, SecretHash};
use crate::limit::{Amount, Priority, Quota};
use crate::money::NanoDollars;

/// An account as the file has it, with all its client keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRecord {
    /// Its id.
    pub id: AccountId,
    /// Whether it has a money limit.
    pub money: Money,
    /// Whether it may dip below zero.
    pub overdraft: Overdraft,
    /// The region it must stay in.
    pub residency: Option<String>,
    /// Its client keys: those of the file that are no longer among them are disabled.
    pub keys: Vec<KeyRecord>,
}

/// Whether an account has a money limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Money {
    /// None: nothing is refused for want of money, and no balance is kept.
    Unlimited,
    /// It has a balance, opened once with this amount.
    Limited {
        /// Credited once per account, however often it is declared.
        opening: NanoDollars,
    },
}

/// Whether an account may dip below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overdraft {
    /// By what was in flight when the money ran out.
    #[default]
    Soft,
    /// Never: each request reserves an upper bound first.
    None,
}

/// A client key as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its id.
    pub id: KeyId,
    /// What the caller must send.
    pub secret: SecretHash,
    /// Its limits and rights.
    pub rights: KeyRights,
}

/// Limits and rights of a client key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRights {
    /// Requests per minute.
    pub rpm: Option<u32>,
    /// Tokens per minute.
    pub tpm: Option<u32>,
    /// Requests at once.
    pub max_concurrent: Option<u32>,
    /// How soon it is served where requests wait for a connection.
    pub priority: Priority,
    /// Money per period.
    pub spend: Option<SpendLimit>,
    /// What it may use in what time, one of a name.
    pub quotas: Vec<Quota>,
    /// Patterns of the models it may use; empty: all.
    pub models: Vec<String>,
    /// Own connections, in order.
    pub byok: Vec<ConnectionId>,
    /// Whether the platform's connections come after its own.
    pub platform_fallback: bool,
    /// Whether a model's peers may stand in for it.
    pub peers: bool,
}

/// Money per period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendLimit {
    /// At most so much is spent in one period.
    pub limit: NanoDollars,
    /// Names the period, e.g. `month`; kept as it is.
    pub period: String,
    /// The time zone the period turns in; kept as it is.
    pub zone: String,
}

/// Who calls: what a secret leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerRecord {
    /// The account.
    pub account: AccountId,
    /// The client key.
    pub key: KeyId,
    /// Hash of everything in this record: `admit` refuses an ask made with another.
    pub rev: Arc<str>,
    /// The key's limits and rights.
    pub rights: KeyRights,
    /// Whether the account may dip below zero.
    pub overdraft: Overdraft,
    /// Whether the account has a money limit.
    pub money: MoneyLimit,
    /// The region the account must stay in.
    pub residency: Option<String>,
}

impl CallerRecord {
    /// Whether some limit of money can refuse the caller: its account's balance, its key's spend limit or a quota of cost.
    pub fn money_counts(&self) -> bool {
        let by_cost = |quota: &Quota| matches!(quota.amount, Amount::Cost(_));
        self.money == MoneyLimit::Limited || self.rights.spend.is_some() || self.rights.quotas.iter().any(by_cost)
    }
}

/// Whether an account has a money limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoneyLimit {
    /// None.
    Unlimited,
    /// It has a balance.
    Limited,
}

/// What is on record under a client key's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnRecord {
    /// It may be used.
    Active(CallerRecord),
    /// It is there, and may not be used any more.
    Inactive(CallerRecord),
    /// There is no such key or account.
    Missing,
}

impl Store {
    /// Writes the accounts and keys of the file. Idempotent; each account at once. File keys (and all file keys of accounts)
    /// that are no longer among them are disabled. Balances are never touched but for an opening credit, once per account.
    pub async fn declare(&self, accounts: &[AccountRecord]) -> Result<(), StateError> {
        let mut old_secrets = BTreeSet::new();
        for account in accounts {
            old_secrets.extend(self.declare_account(account).await?);
            if let Money::Limited { opening } = account.money {
                self.credit(&account.id, &opening_receipt()?, opening).await?;
            }
        }
        let declared: BTreeSet<&AccountId> = accounts.iter().map(|account| &account.id).collect();
        for gone in self.accounts().await?.iter().filter(|id| !declared.contains(id)) {
            old_secrets.extend(self.retire_account(gone).await?);
        }
        self.write_secrets(accounts, &old_secrets).await
    }

    /// All accounts that were ever declared.
    pub async fn accounts(&self) -> Result<Vec<AccountId>, StateError> {
        self.members(self.keys.accounts(), AccountId::parse).await
    }

    /// The ids of all client keys of an account, disabled ones included.
    pub async fn keys_of(&self, account: &AccountId) -> Result<Vec<KeyId>, StateError> {
        self.members(self.keys.of_account(account).keys(), KeyId::parse).await
    }

    /// The caller a secret belongs to; `None` if there is no active key with it.
    pub async fn look_up(&self, secret: SecretHash) -> Result<Option<CallerRecord>, StateError> {
        let found =
            self.link.command(redis::cmd("HMGET").arg(self.keys.secret(secret)).arg(&["account", "key"])).await?;
        let [account, key] = texts(found)?;
        let (Some(account), Some(key)) = (account, key) else {
            return Ok(None);
        };
        let (account, key) = (id(AccountId::parse(&account))?, id(KeyId::parse(&key))?);
        let (record, owner) = self.records(&account, &key).await?;
        if record.get("status").map(String::as_str) != Some("active") || owner.is_empty() {
            return Ok(None);
        }
        let same = record.get("secret").and_then(|hex| SecretHash::from_hex(hex).ok()) == Some(secret);
        if same { CallerRecord::read(account, key, &record, &owner).map(Some) } else { Ok(None) }
    }

    /// A client key by its name, whether or not it may be used.
    pub async fn on_record(&self, account: &AccountId, key: &KeyId) -> Result<OnRecord, StateError> {
        let (record, owner) = self.records(account, key).await?;
        if record.is_empty() || owner.is_empty() {
            return Ok(OnRecord::Missing);
        }
        let caller = CallerRecord::read(account.clone(), key.clone(), &record, &owner)?;
        let active = record.get("status").map(String::as_str) == Some("active");
        Ok(if active { OnRecord::Active(caller) } else { OnRecord::Inactive(caller) })
    }

    /// The records of a client key and of its account, field by field; empty where there is none.
    async fn records(
        &self,
        account: &AccountId,
        key: &KeyId,
    ) -> Result<(HashMap<String, String>, HashMap<String, String>), StateError> {
        let keys = self.keys.of_account(account);
        let mut pipeline = redis::pipe();
        pipeline.hgetall(keys.of_key(key).record()).hgetall(keys.record());
        let mut replies = self.link.pipeline(&pipeline).await?.into_iter();
        Ok((fields(replies.next())?, fields(replies.next())?))
    }

    /// Writes one account's records; answers the secrets that lost their meaning.
    async fn declare_account(&self, account: &AccountRecord) -> Result<Vec<String>, StateError> {
        let known = self.keys_of(&account.id).await?;
        let gone = known.into_iter().filter(|id| account.keys.iter().all(|key| key.id != *id)).collect::<Vec<_>>();
        let owner = OwnerFields::of(account);
        let records: Vec<Vec<(&'static str, String)>> =
            account.keys.iter().map(|key| record_fields(key, &owner)).collect();
        let keys = self.keys.of_account(&account.id);
        let mut names = vec![keys.record(), keys.keys(), keys.reserved()];
        let mut args = vec![Arg::Text(owner.money), Arg::Text(owner.overdraft), Arg::Text(&owner.residency)];
        for (key, record) in account.keys.iter().zip(&records) {
            names.push(keys.of_key(&key.id).record());
            args.extend([
                Arg::Text(key.id.as_str()),
                Arg::Text("declared"),
                Arg::Int(i64::try_from(record.len()).unwrap_or(0)),
            ]);
            args.extend(record.iter().flat_map(|(field, value)| [Arg::Text(field), Arg::Text(value)]));
        }
        for id in &gone {
            names.push(keys.of_key(id).record());
            args.extend([Arg::Text(id.as_str()), Arg::Text("gone"), Arg::Int(0)]);
        }
        self.run_declare(&names, &args).await
    }

    /// Disables the file keys of an account that is no longer in the file.
    async fn retire_account(&self, account: &AccountId) -> Result<Vec<String>, StateError> {
        let known = self.keys_of(account).await?;
        let keys = self.keys.of_account(account);
        let mut names = vec![keys.record(), keys.keys(), keys.reserved()];
        let mut args = vec![Arg::Text("keep"), Arg::Text(""), Arg::Text("")];
        for id in &known {
            names.push(keys.of_key(id).record());
            args.extend([Arg::Text(id.as_str()), Arg::Text("gone"), Arg::Int(0)]);
        }
        self.run_declare(&names, &args).await
    }

    async fn run_declare(&self, names: &[String], args: &[Arg<'_>]) -> Result<Vec<String>, StateError> {
        let (tag, mut reply) = Reply::open("declare", self.link.run(&self.scripts.declare, names, args).await?)?;
        if tag != "declared" {
            return Err(reply.unknown(&tag));
        }
        let mut old = Vec::new();
        while !reply.is_empty() {
            old.push(reply.word()?);
        }
        Ok(old)
    }

    /// Points every secret of the file at its key and forgets those that were replaced. Comes after the records, so that a
    /// secret never leads to a record that is not there yet.
    async fn write_secrets(&self, accounts: &[AccountRecord], old: &BTreeSet<String>) -> Result<(), StateError> {
        let mut current = BTreeSet::new();
        for account in accounts {
            self.note_account(&account.id).await?;
            for key in &account.keys {
                self.point_secret(key.secret, &account.id, &key.id).await?;
                current.insert(key.secret.to_hex());
            }
        }
        for hex in old.difference(&current) {
            self.link.command(redis::cmd("DEL").arg(self.keys.secret_hex(hex))).await?;
        }
        Ok(())
    }

    /// A secret leads to this key from now on.
    pub(super) async fn point_secret(
        &self,
        secret: SecretHash,
        account: &AccountId,
        key: &KeyId,
    ) -> Result<(), StateError> {
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.keys.secret(secret)).arg("account").arg(account.as_str()).arg("key").arg(key.as_str());
        self.link.command(&cmd).await.map(drop)
    }

    /// The account is among those that are known.
    pub(super) async fn note_account(&self, account: &AccountId) -> Result<(), StateError> {
        self.link.command(redis::cmd("SADD").arg(self.keys.accounts()).arg(account.as_str())).await.map(drop)
    }

    async fn members<T, E: std::fmt::Display>(
        &self,
        set: String,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Vec<T>, StateError> {
        let reply = self.link.command(redis::cmd("SMEMBERS").arg(set)).await?;
        let members: BTreeSet<String> =
            redis::from_redis_value(reply).map_err(|error| StateError::Reply(error.to_string()))?;
        members.iter().map(|member| id(parse(member))).collect()
    }
}

impl KeyRights {
    /// As they stand in a key's record.
    pub(super) fn read(record: &HashMap<String, String>) -> Result<Self, StateError> {
        let text = |field: &str| record.get(field).filter(|value| !value.is_empty()).cloned();
        let count = |field: &str| record.get(field).map(|value| id(value.parse::<u32>())).transpose();
        let spend = match text("spend_limit") {
            None => None,
            Some(nanos) => Some(SpendLimit {
                limit: id(NanoDollars::new(id(nanos.parse())?))?,
                period: text("spend_period").unwrap_or_default(),
                zone: text("spend_zone").unwrap_or_default(),
            }),
        };
        let byok = text("byok").unwrap_or_default();
        Ok(Self {
            rpm: count("rpm")?,
            tpm: count("tpm")?,
            max_concurrent: count("max_concurrent")?,
            priority: count("priority")?.and_then(|n| Priority::new(u8::try_from(n).ok()?)).unwrap_or_default(),
            spend,
            quotas: read_quotas(&text("quotas").unwrap_or_default())?,
            models: text("models").map(|list| list.split('\n').map(str::to_owned).collect()).unwrap_or_default(),
            byok: byok.split_terminator('\n').map(|one| id(ConnectionId::parse(one))).collect::<Result<_, _>>()?,
            platform_fallback: record.get("platform_fallback").map(String::as_str) == Some("yes"),
            peers: record.get("peers").map(String::as_str) == Some("yes"),
        })
    }

    /// The fields of a record that say the same.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let mut fields = vec![
            ("priority", self.priority.get().to_string()),
            ("platform_fallback", word(self.platform_fallback)),
            ("peers", word(self.peers)),
        ];
        let counts = [("rpm", self.rpm), ("tpm", self.tpm), ("max_concurrent", self.max_concurrent)];
        fields.extend(counts.into_iter().filter_map(|(field, count)| Some((field, count?.to_string()))));
        if let Some(spend) = &self.spend {
            fields.push(("spend_limit", spend.limit.nanos().to_string()));
            fields.push(("spend_period", spend.period.clone()));
            fields.push(("spend_zone", spend.zone.clone()));
        }
        if !self.quotas.is_empty() {
            fields.push(("quotas", quotas_text(&self.quotas)));
        }
        if !self.models.is_empty() {
            fields.push(("models", self.models.join("\n")));
        }
        if !self.byok.is_empty() {
            fields.push(("byok", self.byok.iter().map(ConnectionId::as_str).collect::<Vec<_>>().join("\n")));
        }
        fields
    }
}

impl CallerRecord {
    fn read(
        account: AccountId,
        key: KeyId,
        record: &HashMap<String, String>,
        owner: &HashMap<String, String>,
    ) -> Result<Self, StateError> {
        let rights = KeyRights::read(record)?;
        let is = |field: &str, word: &str| owner.get(field).map(String::as_str) == Some(word);
        Ok(Self {
            account,
            key,
            rev: record.get("rev").cloned().unwrap_or_default().into(),
            rights,
            // A word we do not know is read as the stricter of the two.
            overdraft: if is("overdraft", "soft") { Overdraft::Soft } else { Overdraft::None },
            money: if is("money", "unlimited") { MoneyLimit::Unlimited } else { MoneyLimit::Limited },
            residency: owner.get("residency").filter(|region| !region.is_empty()).cloned(),
        })
    }
}

/// What the records of all keys of an account depend on.
struct OwnerFields {
    money: &'static str,
    overdraft: &'static str,
    residency: String,
}

impl OwnerFields {
    fn of(account: &AccountRecord) -> Self {
        Self {
            money: match account.money {
                Money::Unlimited => "unlimited",
                Money::Limited { .. } => "limited",
            },
            overdraft: match account.overdraft {
                Overdraft::Soft => "soft",
                Overdraft::None => "none",
            },
            residency: account.residency.clone().unwrap_or_default(),
        }
    }
}

/// The fields of a key's record; `rev` is the hash of all others and of the account's.
fn record_fields(key: &KeyRecord, owner: &OwnerFields) -> Vec<(&'static str, String)> {
    let mut fields =
        vec![("status", "active".to_owned()), ("secret", key.secret.to_hex()), ("source", "file".to_owned())];
    fields.extend(key.rights.fields());
    let mut hash = Sha256::new();
    let owned = [("money", owner.money), ("overdraft", owner.overdraft), ("residency", &owner.residency)];
    for (field, value) in owned.into_iter().chain(fields.iter().map(|(field, value)| (*field, value.as_str()))) {
        hash.update(format!("{field}={value}\0"));
    }
    let mut rev = [0; 8];
    rev.copy_from_slice(&hash.finalize()[..8]);
    fields.push(("rev", format!("{:016x}", u64::from_be_bytes(rev))));
    fields
}

/// The receipt of the opening balance.
pub(super) fn opening_receipt() -> Result<RequestId, StateError> {
    id(RequestId::parse("opening"))
}

/// What stands in Redis must have been written by us.
pub(super) fn id<T, E: std::fmt::Display>(parsed: Result<T, E>) -> Result<T, StateError> {
    parsed.map_err(|error| StateError::Reply(error.to_string()))
}

fn texts<const N: usize>(value: Value) -> Result<[Option<String>; N], StateError> {
    redis::from_redis_value::<Vec<Option<String>>>(value)
        .ok()
        .and_then(|list| list.try_into().ok())
        .ok_or_else(|| StateError::Reply("HMGET should have answered one item a field".into()))
}

pub(super) fn fields(value: Option<Value>) -> Result<HashMap<String, String>, StateError> {
    redis::from_redis_value(value.unwrap_or(Value::Nil)).map_err(|error| StateError::Reply(error.to_string()))
}
