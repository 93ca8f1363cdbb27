//! The configuration: one YAML file, checked whole.

use std::net::SocketAddr;
use std::time::Duration;

use indexmap::IndexMap;

use crate::ids::{AccountId, ConnectionId, GroupId, ModelName, ProviderId, TierId};

mod accounts;
mod buckets;
mod connections;
mod credentials;
mod env;
mod fault;
mod groups;
mod images;
mod keys;
mod limits;
mod load;
mod models;
mod names;
mod providers;
mod quota;
mod reader;
mod redis;
mod scalar;
mod section;
mod terms;
mod text;
mod whole;
mod yaml;

pub use accounts::{Account, Overdraft};
pub use buckets::{Bucket, LimitScope, VendorQuota};
pub use connections::{Connection, Owner, UpstreamModel};
pub use credentials::{Credential, GoogleOauth};
pub use fault::{Fault, Notice, report};
pub use groups::{Fairness, Group, Strategy};
pub use images::{ImageFetch, Images};
pub use keys::{Key, ModelPattern};
pub use limits::{Attempts, Limits, Timeouts};
pub use load::{load, parse, schema};
pub use models::Model;
pub use providers::{Dialect, Endpoint, ErrorPolicy, ErrorRule, FailureClass, Pool, PoolRule, PoolRules, Provider};
pub use redis::{OnOutage, Prefix, Redis, RedisUrl};
pub use scalar::{ByteSize, Percent};
pub use terms::{AccountTerms, KeyTerms, account_terms, key_terms};
pub use text::{ApiVersion, BaseUrl, HeaderName, Region};

/// A whole, checked configuration: every name in it refers to something in it. Maps keep the order of the file.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients are served.
    pub listen: SocketAddr,
    /// Where the admin plane is served.
    pub admin_listen: SocketAddr,
    /// The shared state.
    pub redis: Redis,
    /// Upstream services.
    pub providers: IndexMap<ProviderId, Provider>,
    /// Credentials.
    pub connections: IndexMap<ConnectionId, Connection>,
    /// Every model that callers may name, those that only connections name included.
    pub models: IndexMap<ModelName, Model>,
    /// Other names of models. An alias is never a model and never leads to another alias.
    pub aliases: IndexMap<ModelName, ModelName>,
    /// Models of equal capability, in order. A model is in one tier at most, and says which in [`Model::tier`].
    pub tiers: IndexMap<TierId, Vec<ModelName>>,
    /// Every group that a connection is in.
    pub groups: IndexMap<GroupId, Group>,
    /// How long requests in flight may go on after the signal to stop.
    pub drain_timeout: Duration,
    /// Waits, attempts and sizes.
    pub limits: Limits,
    /// Time limits of one upstream call.
    pub timeouts: Timeouts,
    /// Images behind a URL.
    pub images: Images,
    /// Accounts.
    pub accounts: IndexMap<AccountId, Account>,
    /// Client keys of the file.
    pub keys: Vec<Key>,
    /// The first 12 hexadecimal digits of the SHA-256 of the file's text.
    pub version: String,
    /// What looks odd but is allowed.
    pub notices: Vec<Notice>,
}
