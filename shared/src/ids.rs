//! The names of things, checked once at the border and trusted inside.
//!
//! No id holds `:`, `{` or `}`: they are the separators and the hash tag of Redis keys.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A text that is not a name of the wanted kind. Says what was expected, never what was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct IdError {
    expected: &'static str,
}

/// Letters, digits, `.`, `_`, `-`; 1 to 100 of them.
const PLAIN: &str = "^[A-Za-z0-9._-]{1,100}$";
/// Printable ASCII without space, `:`, `{`, `}`; 1 to 200 of them.
const MODEL: &str = r"^[!-9;-z|~]{1,200}$";

fn is_plain(text: &str) -> bool {
    (1..=100).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_model(text: &str) -> bool {
    (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b':' | b'{' | b'}'))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $check:ident, $pattern:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and makes it a name.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                if $check(text) { Ok(Self(text.into())) } else { Err(IdError { expected: $expected }) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern, "description": $expected})
            }
        }
    };
}

id!(
    /// Holds a balance and owns client keys and BYOK connections.
    AccountId, is_plain, PLAIN, "an account id: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// The name of a client key (never its secret).
    KeyId, is_plain, PLAIN, "a key id: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// One credential at one provider.
    ConnectionId, is_plain, PLAIN, "a connection id: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// An upstream service.
    ProviderId, is_plain, PLAIN, "a provider name: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// Connections of equal standing.
    GroupId, is_plain, PLAIN, "a group name: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// One base URL of a provider.
    EndpointId, is_plain, PLAIN, "an endpoint name: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// A separate quota behind the same credential.
    PoolId, is_plain, PLAIN, "a pool name: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// A tier of models of equal capability.
    TierId, is_plain, PLAIN, "a tier name: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// A model (or alias) as callers name it. Case-sensitive.
    ModelName, is_model, MODEL, "a model name: 1 to 200 printable characters without space, ':', '{' or '}'"
);
id!(
    /// The models of one connection that share a quota: a model's name, a family's, or `account`; with a pool `pool/name`.
    BucketName, is_model, MODEL, "a bucket name: 1 to 200 printable characters without space, ':', '{' or '}'"
);
id!(
    /// One replica process; new at every start.
    ReplicaId, is_plain, PLAIN, "a replica id: 1 to 100 letters, digits, '.', '_' or '-'"
);
id!(
    /// One client request; also the receipt of its settlement.
    RequestId, is_plain, PLAIN, "a request id: 1 to 100 letters, digits, '.', '_' or '-'"
);

impl RequestId {
    /// A new id; ids made later sort later.
    pub fn fresh() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }
}

impl ReplicaId {
    /// A new id for a process that starts.
    pub fn fresh() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }
}

/// The SHA-256 of a client key's secret: the only form in which Headgate keeps it.
#[derive(Clone, Copy, Eq)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// The hash of a secret as the caller sent it.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Result<Self, IdError> {
        let error = IdError { expected: "a SHA-256: 64 hexadecimal digits" };
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(error);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let text = std::str::from_utf8(pair).map_err(|_| error.clone())?;
            *byte = u8::from_str_radix(text, 16).map_err(|_| error.clone())?;
        }
        Ok(Self(bytes))
    }

    /// 64 lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        use fmt::Write as _;
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// Compares in constant time.
impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::hash::Hash for SecretHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

/// Names a conversation within a group: the first half of a SHA-256 over its account, its model and what tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConversationHash([u8; 16]);

impl ConversationHash {
    /// Of a whole SHA-256.
    pub fn of(digest: [u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

/// 32 lower-case hexadecimal digits.
impl fmt::Display for ConversationHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_refuse_the_separators_of_redis_keys() {
        for bad in ["", "a:b", "a{b", "a}b", "a b", "ä", &"x".repeat(101)] {
            assert!(AccountId::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "gpt:x", "{gpt}", "gpt x", "gpt\n", &"x".repeat(201)] {
            assert!(ModelName::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ModelName::parse("meta-llama/Llama-3.1@8b").unwrap().as_str(), "meta-llama/Llama-3.1@8b");
    }

    #[test]
    fn a_secret_hash_survives_hex_both_ways_and_refuses_anything_else() {
        let hash = SecretHash::of("hg-secret");
        assert_eq!(SecretHash::from_hex(&hash.to_hex()).unwrap(), hash);
        assert_eq!(SecretHash::from_hex(&hash.to_hex().to_uppercase()).unwrap(), hash);
        for bad in ["", "abc", &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32)] {
            assert!(SecretHash::from_hex(bad).is_err(), "{bad:?}");
        }
    }
}
