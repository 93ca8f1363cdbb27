//! Credentials at providers: owner, group, limits, buckets, models, vendor quotas.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use indexmap::IndexMap;
use regex::Regex;
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::scalar::{Percent, Scalar, any_text_schema};
use super::text::{BaseUrl, Region};
use crate::ids::{AccountId, BucketName, ConnectionId, GroupId, ModelName, ProviderId};
use crate::limit::Quota;

/// One credential at one provider.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Its name.
    pub id: ConnectionId,
    /// Where it belongs.
    pub provider: ProviderId,
    /// What it proves itself with.
    pub credential: Credential,
    /// Whose it is.
    pub owner: Owner,
    /// Its channel group.
    pub group: GroupId,
    /// Where its upstream works; `None` when the file does not say: then it serves no account with a residency as a peer.
    pub region: Option<Region>,
    /// Lower first.
    pub priority: i32,
    /// Its share of the traffic of its group, in proportion.
    pub weight: NonZeroU32,
    /// Leases at a time; unlimited when absent.
    pub max_concurrent: Option<NonZeroU32>,
    /// Requests in any 60 s; unlimited when absent.
    pub rpm: Option<NonZeroU32>,
    /// Tokens in any 60 s; unlimited when absent.
    pub tpm: Option<NonZeroU32>,
    /// Which models share a quota.
    pub limit_scope: LimitScope,
    /// The models it serves, each with its name upstream.
    pub models: IndexMap<ModelName, UpstreamModel>,
    /// What the vendor grants.
    pub quota: Vec<VendorQuota>,
}

/// What a connection proves itself with.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A key or bearer token.
    ApiKey(SecretString),
    /// A Google refresh token, exchanged for access tokens.
    GoogleOauth(GoogleOauth),
}

/// A Google refresh token and where it is exchanged.
#[derive(Debug, Clone)]
pub struct GoogleOauth {
    /// The refresh token.
    pub refresh_token: SecretString,
    /// The OAuth client.
    pub client_id: SecretString,
    /// The OAuth client's secret.
    pub client_secret: SecretString,
    /// Where tokens are exchanged.
    pub token_url: BaseUrl,
}

/// Whose a connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Everybody's.
    Platform,
    /// One account's own (BYOK).
    Account(AccountId),
}

/// Which models of a connection share a quota.
#[derive(Debug, Clone)]
pub enum LimitScope {
    /// Every model has its own.
    Model,
    /// All share one.
    Account,
    /// Families: a model belongs to the first that matches, and is its own bucket where none does.
    Buckets(Vec<Bucket>),
}

/// A family of models that share a quota.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Its name.
    pub name: BucketName,
    /// Matched anywhere in the upstream's name of a model.
    pub pattern: Regex,
}

/// A model's name as the upstream wants it: 1 to 200 printable ASCII characters without space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamModel(Arc<str>);

/// What a vendor grants a connection.
#[derive(Debug, Clone)]
pub struct VendorQuota {
    /// For which bucket.
    pub bucket: BucketName,
    /// How much in what time.
    pub quota: Quota,
    /// The share of it that is kept back.
    pub reserve: Percent,
}

impl UpstreamModel {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
