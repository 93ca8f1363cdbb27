//! The configuration as requests need it: models with the connections that serve them, ready to call. Immutable.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use shared::config::{self, Config, Credential, LimitScope, Limits, Strategy, Timeouts};
use shared::failure::{self, ErrorPolicy, OwnRule};
use shared::ids::{BucketName, ConnectionId, GroupId, ModelName, SecretHash};
use shared::money::Price;

pub use shared::config::Owner;

use crate::dialect::Dialect;
use crate::error::UpstreamError;
use crate::flow::plan::Order;
use crate::upstream::client::Client;
use crate::upstream::google_token::{TokenError, TokenSource};

pub mod prices;

use prices::{Source, Vendor};

/// How many digits of a credential's hash stand for it in Redis: enough to tell a new one from the old one, far too few to tell
/// the credential.
const MARK_DIGITS: usize = 8;

/// Shorter secrets would take words out of texts that have nothing to do with them.
const SECRET_MIN: usize = 4;

/// The bucket of a connection whose models all share one quota.
const ACCOUNT_BUCKET: &str = "account";

/// Everything one version of the configuration says about routing.
#[derive(Debug)]
pub struct Catalog {
    /// Names the file's text.
    pub version: String,
    /// Waits, attempts and sizes.
    pub limits: Limits,
    /// The clocks of an upstream call.
    pub timeouts: Timeouts,
    /// Images behind a URL.
    pub images: config::Images,
    models: HashMap<ModelName, Arc<Model>>,
    orders: HashMap<GroupId, Order>,
}

/// A model that callers may name.
#[derive(Debug)]
pub struct Model {
    /// Its public name.
    pub name: ModelName,
    /// What it costs.
    pub price: Option<Price>,
    /// Who says so.
    pub price_source: Source,
    /// Who serves it, in the order of the file.
    pub serving: Vec<Serving>,
}

/// A model on one connection.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The connection.
    pub connection: Arc<Connection>,
    /// What the model is called there.
    pub upstream_model: Arc<str>,
    /// The bucket its rate limits count in.
    pub bucket: BucketName,
}

/// One credential at one provider, ready to call.
#[derive(Debug)]
pub struct Connection {
    /// Its name.
    pub id: ConnectionId,
    /// Its provider's name.
    pub provider: Arc<str>,
    /// Whose it is.
    pub owner: Owner,
    /// Its channel group.
    pub group: GroupId,
    /// Lower first.
    pub priority: i32,
    /// Its share of the traffic.
    pub weight: u32,
    /// Leases at a time.
    pub max_concurrent: Option<u32>,
    /// Attempts in any 60 s.
    pub rpm: Option<u32>,
    /// The language of its provider.
    pub dialect: Dialect,
    /// Its provider's base URL, without a slash at the end.
    pub base_url: Arc<str>,
    /// What its provider wants named in the query of every call, with its question mark.
    pub query: Arc<str>,
    /// What it proves itself with.
    pub credential: Proof,
    /// Stands for the credential in locks.
    pub credential_mark: Arc<str>,
    /// What must never be shown, should an upstream repeat it.
    secrets: Vec<SecretString>,
    /// What a 403 or 404 means there.
    pub error_policy: ErrorPolicy,
    /// The provider's own error rules.
    pub error_rules: Arc<[OwnRule]>,
}

/// A credential, ready to send.
#[derive(Debug)]
pub enum Proof {
    /// One header, marked sensitive.
    Header(HeaderName, HeaderValue),
    /// A refresh token, exchanged for bearer tokens.
    Google(TokenSource),
}

impl Catalog {
    /// Reads a checked configuration; fails only on what no check can see, such as a credential that is no header value.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let mut models: HashMap<ModelName, Model> = HashMap::new();
        for (name, model) in &config.models {
            let (price, price_source) = price(config, name, model);
            models.insert(name.clone(), Model { name: name.clone(), price, price_source, serving: Vec::new() });
        }
        for connection in config.connections.values() {
            let ready = Arc::new(Connection::new(config, connection)?);
            for (name, upstream) in &connection.models {
                let bucket = bucket(&connection.limit_scope, name)?;
                let serving =
                    Serving { connection: Arc::clone(&ready), upstream_model: upstream.as_str().into(), bucket };
                models.entry(name.clone()).and_modify(|model| model.serving.push(serving));
            }
        }
        let mut models: HashMap<ModelName, Arc<Model>> =
            models.into_iter().map(|(name, model)| (name, Arc::new(model))).collect();
        for (alias, target) in &config.aliases {
            if let Some(model) = models.get(target).cloned() {
                models.insert(alias.clone(), model);
            }
        }
        Ok(Self {
            version: config.version.clone(),
            limits: config.limits.clone(),
            timeouts: config.timeouts.clone(),
            images: config.images.clone(),
            models,
            orders: config.groups.iter().map(|(id, group)| (id.clone(), order(group.strategy))).collect(),
        })
    }

    /// Every name that callers may use, aliases included, with its model; in alphabetical order.
    pub fn names(&self) -> Vec<(&ModelName, &Arc<Model>)> {
        let mut names: Vec<_> = self.models.iter().collect();
        names.sort_by_key(|(name, _)| *name);
        names
    }

    /// The model of this name or alias.
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.get(name)
    }

    /// How the rungs of a group are offered.
    pub fn order(&self, group: &GroupId) -> Order {
        self.orders.get(group).copied().unwrap_or(Order::Spread)
    }
}

/// What a model costs today: by the file, else by the bundled list under the names that the platform's connections call it by.
fn price(config: &Config, name: &ModelName, model: &config::Model) -> (Option<Price>, Source) {
    let platform = config.connections.values().filter(|connection| connection.owner == Owner::Platform);
    let mut upstream: Vec<&str> =
        platform.filter_map(|one| one.models.get(name)).map(config::UpstreamModel::as_str).collect();
    upstream.sort_unstable();
    upstream.dedup();
    let provider = config.providers.get(&model.provider);
    let vendor = provider.and_then(|provider| {
        let url = provider.endpoints.first()?.url.as_str();
        Some(Vendor { url, dialect: Dialect::of(provider.dialect) })
    });
    prices::price(model.price, vendor, (name, &upstream), SystemTime::now())
}

fn order(strategy: Strategy) -> Order {
    match strategy {
        Strategy::Priority => Order::Priority,
        // Quota windows are not counted yet; until then these groups are spread.
        Strategy::Spread | Strategy::EarliestReset => Order::Spread,
    }
}

fn bucket(scope: &LimitScope, model: &ModelName) -> anyhow::Result<BucketName> {
    let name = match scope {
        LimitScope::Model => model.as_str(),
        LimitScope::Account => ACCOUNT_BUCKET,
        LimitScope::Buckets(families) => families
            .iter()
            .find(|family| family.pattern.is_match(model.as_str()))
            .map_or(model.as_str(), |family| family.name.as_str()),
    };
    BucketName::parse(name).context("a bucket has no usable name")
}

impl Connection {
    fn new(config: &Config, connection: &config::Connection) -> anyhow::Result<Self> {
        let provider = config
            .providers
            .get(&connection.provider)
            .with_context(|| format!("connection {} has no provider", connection.id))?;
        let endpoint = provider.endpoints.first().context("a provider has no endpoint")?;
        Url::parse(endpoint.url.as_str())
            .with_context(|| format!("provider {} has no usable URL", connection.provider))?;
        let dialect = Dialect::of(provider.dialect);
        Ok(Self {
            id: connection.id.clone(),
            provider: connection.provider.as_str().into(),
            owner: connection.owner.clone(),
            group: connection.group.clone(),
            priority: connection.priority,
            weight: connection.weight.get(),
            max_concurrent: connection.max_concurrent.map(Into::into),
            rpm: connection.rpm.map(Into::into),
            dialect,
            base_url: dialect.versioned(endpoint.url.as_str()).into(),
            query: provider
                .api_version
                .as_ref()
                .map_or_else(String::new, |v| format!("?api-version={}", v.as_str()))
                .into(),
            credential: proof(dialect, provider.api_key_header.as_ref(), &connection.credential)
                .with_context(|| format!("the credential of connection {}", connection.id))?,
            credential_mark: SecretHash::of(secret(&connection.credential).expose_secret()).to_hex()[..MARK_DIGITS]
                .into(),
            secrets: secrets(&connection.credential),
            error_policy: error_policy(provider.error_policy),
            error_rules: provider.errors.iter().map(own_rule).collect(),
        })
    }
}

impl Connection {
    /// Takes the connection's own secrets out of what an upstream said: some repeat the key they refuse.
    pub fn redact(&self, error: &mut UpstreamError) {
        let texts = [Some(&mut error.reason), error.kind.as_mut(), error.code.as_mut(), error.param.as_mut()];
        for text in texts.into_iter().flatten() {
            for secret in self
                .secrets
                .iter()
                .map(secrecy::ExposeSecret::expose_secret)
                .filter(|secret| secret.len() >= SECRET_MIN)
            {
                if text.contains(secret) {
                    *text = text.replace(secret, "[redacted]");
                }
            }
        }
    }

    /// The header that proves who calls; a token is fetched where one is needed.
    pub async fn proof(&self, client: &Client) -> Result<(HeaderName, HeaderValue), TokenError> {
        match &self.credential {
            Proof::Header(name, value) => Ok((name.clone(), value.clone())),
            Proof::Google(source) => Ok((AUTHORIZATION, source.header(client).await?)),
        }
    }

    /// The upstream refused the proof: the next call fetches another where it can.
    pub async fn refused(&self) {
        if let Proof::Google(source) = &self.credential {
            source.forget().await;
        }
    }

    /// Whose credential a failure is about.
    pub fn owner_kind(&self) -> failure::Owner {
        match self.owner {
            Owner::Platform => failure::Owner::Platform,
            Owner::Account(_) => failure::Owner::Byok,
        }
    }
}

/// The secret that a credential stands or falls with.
fn secret(credential: &Credential) -> &SecretString {
    match credential {
        Credential::ApiKey(key) => key,
        Credential::GoogleOauth(oauth) => &oauth.refresh_token,
    }
}

fn secrets(credential: &Credential) -> Vec<SecretString> {
    match credential {
        Credential::ApiKey(key) => vec![key.clone()],
        Credential::GoogleOauth(oauth) => vec![oauth.refresh_token.clone(), oauth.client_secret.clone()],
    }
}

fn proof(dialect: Dialect, header: Option<&config::HeaderName>, credential: &Credential) -> anyhow::Result<Proof> {
    match credential {
        Credential::ApiKey(key) => {
            let (name, prefix) = match header {
                Some(name) => (name.as_str().parse().context("api_key_header")?, ""),
                None => dialect.credential(key.expose_secret()),
            };
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret()))
                .map_err(|_| anyhow::anyhow!("holds characters that no header may hold"))?;
            value.set_sensitive(true);
            Ok(Proof::Header(name, value))
        }
        Credential::GoogleOauth(oauth) => {
            let url = Url::parse(oauth.token_url.as_str()).context("token_url")?;
            let source = TokenSource::new(url, &oauth.refresh_token, &oauth.client_id, &oauth.client_secret);
            Ok(Proof::Google(source))
        }
    }
}

fn error_policy(policy: config::ErrorPolicy) -> ErrorPolicy {
    match policy {
        config::ErrorPolicy::Standard => ErrorPolicy::Standard,
        config::ErrorPolicy::Sandbox => ErrorPolicy::Sandbox,
    }
}

fn own_rule(rule: &config::ErrorRule) -> OwnRule {
    use shared::config::FailureClass as Named;
    use shared::failure::Class;
    let class = match rule.class {
        Named::RateLimited => Class::RateLimited,
        Named::Capacity => Class::Capacity,
        Named::Unavailable => Class::Unavailable,
        Named::Billing => Class::Billing,
        Named::Auth => Class::Auth,
        Named::ModelMissing => Class::ModelMissing,
        Named::ContextLength => Class::ContextLength,
        Named::ClientError => Class::ClientError,
        Named::Refused => Class::Refused,
    };
    OwnRule { status: rule.status, contains: rule.contains.clone(), class }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The catalog of a file's text, to which Redis is added.
    pub(crate) fn catalog(yaml: &str) -> Catalog {
        let yaml = format!("redis: {{url: \"redis://127.0.0.1:1\"}}\n{yaml}");
        let config = config::parse(&yaml, std::path::Path::new("test.yaml"), &|_| None);
        Catalog::new(&config.unwrap_or_else(|faults| panic!("{}", config::report(&faults)))).unwrap()
    }

    #[test]
    fn a_credential_is_never_shown() {
        let catalog = catalog(
            "providers: {p: {dialect: openai, base_url: http://localhost:1/v1/}}\nmodels: {m: {provider: p}}\n\
             connections: [{id: c, provider: p, api_key: sk-canary}]\n",
        );
        let connection = &catalog.model("m").unwrap().serving[0].connection;
        let Proof::Header(name, value) = &connection.credential else { panic!("not a header") };
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("authorization", "Bearer sk-canary"));
        assert_eq!(&*connection.base_url, "http://localhost:1/v1");
        assert!(!format!("{catalog:?}").contains("canary"));
    }
}
