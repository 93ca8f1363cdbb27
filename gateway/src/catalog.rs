//! The configuration as requests need it: models with the connections that serve them, ready to call. Immutable.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use secrecy::ExposeSecret as _;
use shared::config::{self, Config, Fairness, LimitScope, Limits, Strategy, Timeouts};
use shared::ids::{BucketName, EndpointId, GroupId, ModelName, PoolId, ProviderId};
use shared::money::Price;

pub use connection::{Connection, Proof};
pub use shared::config::Owner;

use crate::dialect::Dialect;
use crate::flow::plan::Order;

mod connection;
mod pools;
pub mod prices;

use prices::{Source, Vendor};

/// For groups that the file does not name, as the default of those that it does.
const PIN_PATIENCE: Duration = Duration::from_secs(1);

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
    groups: HashMap<GroupId, config::Group>,
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
    /// The most tokens it takes in, if the file says so.
    pub context: Option<u64>,
    /// Where a request goes that is too long for it.
    pub larger: Option<ModelName>,
    /// The other models of its tier at other providers, in the order of the tier.
    pub peers: Vec<ModelName>,
    /// Who serves it, in the order of the file; once for each pool of the connection's provider.
    pub serving: Vec<Serving>,
}

/// A model on one connection, in one pool.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The connection.
    pub connection: Arc<Connection>,
    /// What the model is called there.
    pub upstream_model: Arc<str>,
    /// The bucket its rate limits count in; in a pool `pool/name`.
    pub bucket: BucketName,
    /// What its cooldowns are kept under: the model's name; in a pool `pool/name`.
    pub trust: ModelName,
    /// The pool, where its provider has any.
    pub pool: Option<Arc<Pool>>,
    /// Which turn the pool has on the model's ladder; `None`: only callers who name the pool get it.
    pub turn: Option<usize>,
    /// The base URLs in the order they are tried; never empty.
    pub endpoints: Arc<[Endpoint]>,
}

/// A separate quota behind the same credential.
#[derive(Debug)]
pub struct Pool {
    /// Its name.
    pub id: PoolId,
    /// Sent with every call.
    pub headers: HeaderMap,
}

/// One base URL of a provider.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name.
    pub id: EndpointId,
    /// The URL, without a slash at the end.
    pub base_url: Arc<str>,
}

/// What a name that a caller wrote stands for.
#[derive(Debug, Clone)]
pub struct Named {
    /// The name without what names a pool.
    pub name: ModelName,
    /// The model.
    pub model: Arc<Model>,
    /// The pool that the caller named.
    pub pool: Option<PoolId>,
}

/// One pool of a provider, or all there is of a provider without pools.
#[derive(Debug)]
struct Way {
    pool: Option<Arc<Pool>>,
    endpoints: Arc<[Endpoint]>,
}

impl Catalog {
    /// Reads a checked configuration; fails only on what no check can see, such as a credential that is no header value.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let mut ways: HashMap<&ProviderId, Vec<Way>> = HashMap::new();
        for (id, provider) in &config.providers {
            ways.insert(id, ways_of(provider).with_context(|| format!("provider {id}"))?);
        }
        let mut models: HashMap<ModelName, Model> =
            config.models.iter().map(|(name, model)| (name.clone(), Model::new(config, name, model))).collect();
        for connection in config.connections.values() {
            let ready = Arc::new(Connection::new(config, connection)?);
            let Some(provider) = config.providers.get(&connection.provider) else { continue };
            for name in connection.models.keys() {
                let Some(model) = models.get_mut(name) else { continue };
                let turns = turns(config, provider, connection, name);
                for way in ways.get(&connection.provider).into_iter().flatten() {
                    model.serving.extend(serving(connection, &ready, name, way, &turns)?);
                }
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
            groups: config.groups.iter().map(|(id, group)| (id.clone(), group.clone())).collect(),
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

    /// Who is served next where requests wait for a group's connections.
    pub fn fairness(&self, group: &GroupId) -> Fairness {
        self.groups.get(group).map_or(Fairness::Account, |group| group.fairness)
    }

    /// How long a conversation waits for its own connection of a group before it takes another.
    pub fn pin_patience(&self, group: &GroupId) -> Duration {
        self.groups.get(group).map_or(PIN_PATIENCE, |group| group.pin_patience)
    }

    /// What a caller means by a name: a model, an alias, or either with a marker that names one of the model's pools.
    pub fn find(&self, name: &str) -> Option<Named> {
        if let Some((name, model)) = self.models.get_key_value(name) {
            return Some(Named { name: name.clone(), model: Arc::clone(model), pool: None });
        }
        pools::unmarked(name).into_iter().find_map(|(rest, pool)| {
            let (name, model) = self.models.get_key_value(rest)?;
            let mut pools = model.serving.iter().filter_map(|serving| serving.pool.as_ref());
            let pool = pools.find(|known| known.id.as_str().eq_ignore_ascii_case(&pool))?;
            Some(Named { name: name.clone(), model: Arc::clone(model), pool: Some(pool.id.clone()) })
        })
    }

    /// How the rungs of a group are offered.
    pub fn order(&self, group: &GroupId) -> Order {
        match self.groups.get(group).map(|group| group.strategy) {
            Some(Strategy::Priority) => Order::Priority,
            // Quota windows are not counted yet; until then these groups are spread.
            Some(Strategy::Spread | Strategy::EarliestReset) | None => Order::Spread,
        }
    }

    /// Whether a request leaves a group that is only full for a lower rung, instead of waiting.
    pub fn spills(&self, group: &GroupId) -> bool {
        self.groups.get(group).is_some_and(|group| group.spill_when_full)
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

impl Model {
    fn new(config: &Config, name: &ModelName, model: &config::Model) -> Self {
        let is_peer = |other: &&ModelName| {
            let provider = config.models.get(*other).map(|other| &other.provider);
            *other != name && provider.is_some_and(|provider| *provider != model.provider)
        };
        let tier = model.tier.as_ref().and_then(|tier| config.tiers.get(tier));
        let (price, price_source) = price(config, name, model);
        Self {
            name: name.clone(),
            price,
            price_source,
            context: model.context.map(Into::into),
            larger: model.larger.clone(),
            peers: tier.into_iter().flatten().filter(is_peer).cloned().collect(),
            serving: Vec::new(),
        }
    }
}

/// The pools that serve a model, in their turns: the one the rules choose, then the others that the model declares; and whether
/// any other may be named.
struct Turns {
    pools: Vec<PoolId>,
    others: Others,
}

#[derive(PartialEq)]
enum Others {
    /// Callers may name them.
    Named,
    /// The model is not served from them.
    Never,
}

fn turns(config: &Config, provider: &config::Provider, connection: &config::Connection, name: &ModelName) -> Turns {
    let chosen = pools::chosen(provider, name.as_str());
    let declares = config.models.get(name).filter(|model| model.provider == connection.provider);
    let declared = declares.map(|model| model.pools.as_slice()).unwrap_or_default();
    if declared.is_empty() {
        return Turns { pools: chosen.cloned().into_iter().collect(), others: Others::Named };
    }
    let first = chosen.filter(|chosen| declared.contains(chosen));
    let rest = declared.iter().filter(|pool| Some(*pool) != first);
    Turns { pools: first.into_iter().chain(rest).cloned().collect(), others: Others::Never }
}

/// A model on a connection in one pool; `None` where the model is not served from it.
fn serving(
    connection: &config::Connection,
    ready: &Arc<Connection>,
    name: &ModelName,
    way: &Way,
    turns: &Turns,
) -> anyhow::Result<Option<Serving>> {
    let turn = match &way.pool {
        None => Some(0),
        Some(pool) => turns.pools.iter().position(|id| *id == pool.id),
    };
    if turn.is_none() && turns.others == Others::Never {
        return Ok(None);
    }
    let upstream = connection.models.get(name).map_or(name.as_str(), config::UpstreamModel::as_str);
    // A marker in a model's own name is not for the upstream, unless the file gives that very name.
    let marked = pools::without_prefix(upstream).filter(|_| way.pool.is_some() && upstream == name.as_str());
    let bucket = bucket(&connection.limit_scope, name);
    let within = |text: &str| match &way.pool {
        Some(pool) => format!("{}/{text}", pool.id),
        None => text.to_owned(),
    };
    Ok(Some(Serving {
        connection: Arc::clone(ready),
        upstream_model: marked.unwrap_or(upstream).into(),
        bucket: BucketName::parse(&within(bucket)).context("a bucket has no usable name")?,
        trust: ModelName::parse(&within(name.as_str())).context("a model's name is too long for its pool")?,
        pool: way.pool.clone(),
        turn,
        endpoints: Arc::clone(&way.endpoints),
    }))
}

fn bucket<'a>(scope: &'a LimitScope, model: &'a ModelName) -> &'a str {
    match scope {
        LimitScope::Model => model.as_str(),
        LimitScope::Account => ACCOUNT_BUCKET,
        LimitScope::Buckets(families) => families
            .iter()
            .find(|family| family.pattern.is_match(model.as_str()))
            .map_or(model.as_str(), |family| family.name.as_str()),
    }
}

/// Each pool of a provider with its endpoints, the preferred one first and the rest as listed.
fn ways_of(provider: &config::Provider) -> anyhow::Result<Vec<Way>> {
    let dialect = Dialect::of(provider.dialect);
    let listed = |first: Option<&EndpointId>| -> anyhow::Result<Arc<[Endpoint]>> {
        let mut order: Vec<&config::Endpoint> = provider.endpoints.iter().collect();
        order.sort_by_key(|endpoint| first.is_some_and(|first| *first != endpoint.name));
        let ready = |endpoint: &config::Endpoint| {
            Url::parse(endpoint.url.as_str())
                .with_context(|| format!("endpoint {} has no usable URL", endpoint.name))?;
            Ok(Endpoint { id: endpoint.name.clone(), base_url: dialect.versioned(endpoint.url.as_str()).into() })
        };
        anyhow::ensure!(!order.is_empty(), "it has no endpoint");
        order.into_iter().map(ready).collect()
    };
    if provider.pools.is_empty() {
        return Ok(vec![Way { pool: None, endpoints: listed(None)? }]);
    }
    let mut ways = Vec::with_capacity(provider.pools.len());
    for (id, pool) in &provider.pools {
        let mut headers = HeaderMap::new();
        for (name, text) in &pool.headers {
            let name: HeaderName = name.as_str().parse().context("a pool's header")?;
            let mut value = HeaderValue::from_str(text.expose_secret()).context("a pool's header")?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let endpoints = listed(pool.first.as_ref())?;
        ways.push(Way { pool: Some(Arc::new(Pool { id: id.clone(), headers })), endpoints });
    }
    Ok(ways)
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
        assert_eq!(&*catalog.model("m").unwrap().serving[0].endpoints[0].base_url, "http://localhost:1/v1");
        assert!(!format!("{catalog:?}").contains("canary"));
    }
}
