//! Client keys of the file.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::ids::{AccountId, ConnectionId, KeyId, ModelName, SecretHash};
use crate::limit::{Quota, SpendLimit};

/// A client key: what a caller may do with one secret.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its name, unique in its account.
    pub id: KeyId,
    /// Who pays.
    pub account: AccountId,
    /// The hash of its secret, unique in the file.
    pub secret: SecretHash,
    /// Requests in any 60 s; unlimited when absent.
    pub rpm: Option<NonZeroU32>,
    /// Tokens in any 60 s; unlimited when absent.
    pub tpm: Option<NonZeroU32>,
    /// Requests at a time; unlimited when absent.
    pub max_concurrent: Option<NonZeroU32>,
    /// How much it may cost in a period.
    pub spend_limit: Option<SpendLimit>,
    /// What it may use in what time.
    pub quotas: Vec<Quota>,
    /// The models it may use; all when absent.
    pub models: Option<Vec<ModelPattern>>,
    /// The account's own connections in the order they are tried.
    pub byok: Vec<ConnectionId>,
    /// Whether the platform's connections serve what the account's own cannot.
    pub platform_fallback: bool,
    /// Whether a peer may stand in for a model.
    pub peers: bool,
}

/// A model name in which `*` stands for any characters, none included. Case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelPattern(Arc<str>);

impl ModelPattern {
    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when the model's name is one of those meant.
    pub fn matches(&self, model: &ModelName) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| model.as_str().strip_prefix(first)) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            let Some(found) = rest.find(part) else { return false };
            rest = &rest[found + part.len()..];
        }
        rest.ends_with(last)
    }
}
