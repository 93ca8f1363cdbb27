//! The names of all keys in Redis, spelled once.
//!
//! Everything one script touches shares a hash tag: `{a:ACCOUNT}` or `{g:GROUP}`. Ids hold none of `:`, `{`, `}`.

use crate::ids::{
    AccountId, BucketName, ConnectionId, ConversationHash, EndpointId, GroupId, KeyId, ModelName, ReplicaId, RequestId,
    SecretHash,
};

/// The longest id of a call that is part of a key as it stands.
const CALL_MAX: usize = 64;

/// The first part of every key, and what is built on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

/// The keys of one account's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountKeys {
    base: String,
}

/// The keys of one client key, within its account's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyKeys {
    base: String,
}

/// The keys of one group's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupKeys {
    base: String,
}

/// The keys of one connection, within its group's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionKeys {
    base: String,
}

impl Keys {
    /// Keys that begin with `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Look-up of a client key's secret: hash → account, key.
    pub fn secret(&self, secret: SecretHash) -> String {
        self.secret_hex(&secret.to_hex())
    }

    /// The same for a hash that is already hexadecimal text.
    pub fn secret_hex(&self, hex: &str) -> String {
        format!("{}:secret:{hex}", self.prefix)
    }

    /// String: who was given this id of a stored answer, and which connection made it. Vendors name answers as they like: the id
    /// is named by its SHA-256.
    pub fn made(&self, id: &str) -> String {
        format!("{}:made:{}", self.prefix, SecretHash::of(id).to_hex())
    }

    /// Set of all accounts that were ever declared.
    pub fn accounts(&self) -> String {
        format!("{}:accounts", self.prefix)
    }

    /// First part of the channels waiters are woken on; the replica's id follows.
    pub fn wake_prefix(&self) -> String {
        format!("{}:wake:", self.prefix)
    }

    /// The channel on which the waiters of one replica are woken.
    pub fn wake(&self, replica: &ReplicaId) -> String {
        format!("{}:wake:{replica}", self.prefix)
    }

    /// The slot of an account.
    pub fn of_account(&self, account: &AccountId) -> AccountKeys {
        AccountKeys { base: format!("{}:{{a:{account}}}", self.prefix) }
    }

    /// The slot of a group.
    pub fn of_group(&self, group: &GroupId) -> GroupKeys {
        GroupKeys { base: format!("{}:{{g:{group}}}", self.prefix) }
    }
}

impl AccountKeys {
    /// Hash: money, overdraft, residency, source.
    pub fn record(&self) -> String {
        format!("{}:account", self.base)
    }

    /// Set of the ids of its client keys.
    pub fn keys(&self) -> String {
        format!("{}:keys", self.base)
    }

    /// String: nano-dollars.
    pub fn balance(&self) -> String {
        format!("{}:balance", self.base)
    }

    /// Hash: request id → nano-dollars held, and their `total`.
    pub fn reserved(&self) -> String {
        format!("{}:reserved", self.base)
    }

    /// Hash: an open request or its receipt.
    pub fn request(&self, request: &RequestId) -> String {
        format!("{}:req:{request}", self.base)
    }

    /// Stream: one row a request.
    pub fn ledger(&self) -> String {
        format!("{}:ledger", self.base)
    }

    /// Hash: the sums of one day (`2026-11-30`, UTC), `KEY:MODEL:WHAT` → amount.
    pub fn day(&self, day: &str) -> String {
        format!("{}:day:{day}", self.base)
    }

    /// String: the amount of a credit, by its receipt.
    pub fn credit(&self, receipt: &RequestId) -> String {
        format!("{}:credit:{receipt}", self.base)
    }

    /// String: what proves the thoughts before a call, by the call's id. Callers name calls as they like: an id that is long, or not
    /// only of letters, digits, `-` and `_`, is named by its SHA-256.
    pub fn thought(&self, call: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if call.len() <= CALL_MAX && call.bytes().all(plain) {
            format!("{}:thought:{call}", self.base)
        } else {
            format!("{}:thought:sha256:{}", self.base, SecretHash::of(call).to_hex())
        }
    }

    /// The keys of one client key.
    pub fn of_key(&self, key: &KeyId) -> KeyKeys {
        KeyKeys { base: format!("{}:key:{key}", self.base) }
    }
}

impl KeyKeys {
    /// Hash: the client key's record.
    pub fn record(&self) -> String {
        self.base.clone()
    }

    /// List: ms of the last admissions, newest first.
    pub fn rpm(&self) -> String {
        format!("{}:rpm", self.base)
    }

    /// Hash: a ring of one-second slices, thousandths of tokens.
    pub fn tpm(&self) -> String {
        format!("{}:tpm", self.base)
    }

    /// Hash: a counter's key → what open requests hold of it.
    pub fn held(&self) -> String {
        format!("{}:held", self.base)
    }

    /// String: what counts in one period of a quota; hash: the ring of a quota with a sliding window, whose label is `window`.
    pub fn quota(&self, name: &str, label: &str) -> String {
        format!("{}:quota:{name}:{label}", self.base)
    }

    /// Sorted set: request id by expiry ms.
    pub fn leases(&self) -> String {
        format!("{}:leases", self.base)
    }

    /// Sorted set: `REPLICA|REQUEST` by arrival in microseconds.
    pub fn waiters(&self) -> String {
        format!("{}:waiters", self.base)
    }

    /// Sorted set: `REPLICA|REQUEST` by the expiry of its place in ms.
    pub fn alive(&self) -> String {
        format!("{}:waiters:alive", self.base)
    }

    /// String: nano-dollars spent in the period with this label.
    pub fn spend(&self, label: &str) -> String {
        format!("{}:spend:{label}", self.base)
    }
}

impl GroupKeys {
    /// String: the connection that a conversation prefers.
    pub fn pin(&self, conversation: ConversationHash) -> String {
        format!("{}:pin:{conversation}", self.base)
    }

    /// The keys of one connection.
    pub fn of_connection(&self, connection: &ConnectionId) -> ConnectionKeys {
        ConnectionKeys { base: format!("{}:conn:{connection}", self.base) }
    }
}

impl ConnectionKeys {
    /// Hash: decayed successes and failures, time-to-first-token norm.
    pub fn health(&self) -> String {
        self.base.clone()
    }

    /// Sorted set: `request:attempt` by expiry ms.
    pub fn leases(&self) -> String {
        format!("{}:leases", self.base)
    }

    /// List: ms of the last attempts, newest first.
    pub fn rpm(&self) -> String {
        format!("{}:rpm", self.base)
    }

    /// Hash: a ring of one-second slices, thousandths of tokens.
    pub fn tpm(&self) -> String {
        format!("{}:tpm", self.base)
    }

    /// Hash: lease → thousandths of tokens that its attempt may use, and their `total`.
    pub fn tokens_held(&self) -> String {
        format!("{}:tpm:held", self.base)
    }

    /// Sorted set: `REPLICA|REQUEST|FLOW` by turn and arrival.
    pub fn waiters(&self) -> String {
        format!("{}:waiters", self.base)
    }

    /// Sorted set: `REPLICA|REQUEST|FLOW` by the expiry of its place in ms.
    pub fn alive(&self) -> String {
        format!("{}:waiters:alive", self.base)
    }

    /// Hash: whose turn it is in its line.
    pub fn turns(&self) -> String {
        format!("{}:waiters:turns", self.base)
    }

    /// Hash: the lock of the whole connection.
    pub fn lock(&self) -> String {
        format!("{}:lock", self.base)
    }

    /// Hash: the lock of one bucket.
    pub fn bucket_lock(&self, bucket: &BucketName) -> String {
        format!("{}:bucket:{bucket}:lock", self.base)
    }

    /// Hash: the cooldown of one model.
    pub fn cooldown(&self, model: &ModelName) -> String {
        format!("{}:model:{model}:cooldown", self.base)
    }

    /// Hash: the cooldown of one model at one endpoint.
    pub fn endpoint(&self, endpoint: &EndpointId, model: &ModelName) -> String {
        format!("{}:endpoint:{endpoint}:model:{model}:cooldown", self.base)
    }

    /// Hash: what the upstream told of the limits of one bucket.
    pub fn quota(&self, bucket: &BucketName) -> String {
        format!("{}:bucket:{bucket}:quota", self.base)
    }
}
