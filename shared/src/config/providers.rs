//! Upstream services: dialect, endpoints, pools, error policy.

use std::time::Duration;

use indexmap::IndexMap;
use regex::Regex;
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::names::ProviderNames;
use super::reader::{At, Reader, Value};
use super::scalar::{VARIABLE, words};
use super::section::{draft, exactly_one, section};
use super::text::{ApiVersion, BaseUrl, HeaderName, HeaderText};
use super::yaml::{Content, Node};
use crate::ids::{EndpointId, PoolId};

words! {
    /// The language an upstream speaks.
    pub enum Dialect {
        /// OpenAI's API and everything compatible with it.
        Openai = "openai",
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// Google's Gemini API.
        Gemini = "gemini",
        /// Gemini bodies in the Cloud Code Assist envelope.
        CodeAssist = "code_assist",
    }
}

words! {
    /// What a 403 or 404 of an endpoint means.
    pub enum ErrorPolicy {
        /// What the failure table says.
        Standard = "standard",
        /// The next endpoint is tried, and this one cools down for the model.
        Sandbox = "sandbox",
    }
}

words! {
    /// What a failure means, as an error rule names it.
    pub enum FailureClass {
        /// A rate limit.
        RateLimited = "rate_limited",
        /// Shared capacity is used up for the moment.
        Capacity = "capacity",
        /// The upstream does not work.
        Unavailable = "unavailable",
        /// No credit.
        Billing = "billing",
        /// The credential is not accepted.
        Auth = "auth",
        /// The model does not exist or is not granted.
        ModelMissing = "model_missing",
        /// The prompt is too long.
        ContextLength = "context_length",
        /// The request is wrong.
        ClientError = "client_error",
        /// Refused by policy on the channel's side.
        Refused = "refused",
    }
}

section! {
    /// One base URL of a provider.
    pub struct Endpoint, draft EndpointDraft {
        /// Its name, unique in the provider.
        name: EndpointId = required,
        /// Its base URL.
        url: BaseUrl = required,
    }
}

/// A separate quota behind the same credential.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The endpoint tried first; the first listed when absent. The rest follow in the order listed.
    pub first: Option<EndpointId>,
    /// Headers sent with every request of the pool.
    pub headers: IndexMap<HeaderName, SecretString>,
}

/// Which pool a model name belongs to.
#[derive(Debug, Clone)]
pub enum PoolRules {
    /// By markers and name prefixes of the pools `antigravity` and `gemini-cli`.
    Builtin,
    /// The first rule that matches; where none does, the first pool of the provider.
    Rules(Vec<PoolRule>),
}

/// Model names that belong to a pool.
#[derive(Debug, Clone)]
pub struct PoolRule {
    /// Matched anywhere in the model name.
    pub pattern: Regex,
    /// Their pool.
    pub pool: PoolId,
}

/// A failure that means something else here than elsewhere. All conditions given must hold.
#[derive(Debug, Clone)]
pub struct ErrorRule {
    /// The response's status; 200 for a success that holds an error, a page or nothing in place of an answer.
    pub status: Option<u16>,
    /// A text its body contains.
    pub contains: Option<String>,
    /// What it means.
    pub class: FailureClass,
}

/// An upstream service.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The language it speaks.
    pub dialect: Dialect,
    /// Its base URLs in the order they are tried; never empty. A `base_url` is the one endpoint `default`.
    pub endpoints: Vec<Endpoint>,
    /// The header that carries an API key; the dialect's own when absent.
    pub api_key_header: Option<HeaderName>,
    /// What every call names as `api-version` in its query.
    pub api_version: Option<ApiVersion>,
    /// Its pools; empty where it has none.
    pub pools: IndexMap<PoolId, Pool>,
    /// Which pool a model belongs to.
    pub pool_rules: PoolRules,
    /// What a 403 or 404 of an endpoint means.
    pub error_policy: ErrorPolicy,
    /// How long an endpoint rests for a model after a failure; zero for never.
    pub cooldown: Duration,
    /// Own rules, tried before the failure table.
    pub errors: Vec<ErrorRule>,
}

draft! {
    /// A separate quota behind the same credential.
    struct PoolDraft {
        /// The endpoint tried first; the first listed when absent. The rest follow in the order listed.
        first: Option<At<EndpointId>> = optional,
        /// Headers sent with every request of the pool.
        headers: IndexMap<HeaderName, HeaderText> = optional,
    }
}

draft! {
    /// Model names that belong to a pool.
    struct PoolRuleDraft {
        /// A regular expression, matched anywhere in the model name.
        pattern as "match": Regex = required,
        /// Their pool.
        pool: PoolId = required,
    }
}

draft! {
    /// A failure that means something else here than elsewhere. All conditions given must hold; one at least must be given.
    struct ErrorRuleDraft {
        /// The response's status; 200 for a success that holds an error, a page or nothing in place of an answer.
        status: Option<u16> = optional,
        /// A text that its body contains.
        contains: Option<String> = optional,
        /// What it means.
        class: FailureClass = required,
    }
}

draft! {
    /// An upstream service.
    struct ProviderDraft {
        /// The language it speaks.
        dialect: Dialect = required,
        /// Its base URL. Exactly one of `base_url` and `endpoints` is given.
        base_url: Option<BaseUrl> = optional,
        /// Several base URLs, tried in this order.
        endpoints: Vec<At<Endpoint>> = optional,
        /// The header that carries `api_key` as it is: `api-key` for Azure. The dialect's own header when absent.
        api_key_header: Option<HeaderName> = optional,
        /// Sent as `?api-version=` with every call: what Azure asks for.
        api_version: Option<ApiVersion> = optional,
        /// Separate quotas behind the same credential, by name. A pool is part of every bucket's name.
        pools: IndexMap<PoolId, At<PoolSpec>> = optional,
        /// Which pool a model belongs to: `builtin` for the pools antigravity and gemini-cli, or a list of rules of which the
        /// first that matches counts; where none matches, the first pool.
        pool_rules: PoolRulesSpec = "builtin",
        /// What a 403 or 404 of an endpoint means.
        error_policy: ErrorPolicy = "standard",
        /// How long an endpoint rests for a model after a failure; `0s` for not at all.
        cooldown: Duration = "60s",
        /// Own rules, tried before the built-in ones.
        errors: Vec<ErrorRule> = optional,
    }
}

/// A pool whose endpoint is not looked up yet.
pub(super) struct PoolSpec {
    first: Option<At<EndpointId>>,
    headers: IndexMap<HeaderName, SecretString>,
}

/// Pool rules whose pools are not looked up yet.
pub(super) enum PoolRulesSpec {
    Builtin,
    Rules(Vec<At<PoolRule>>),
}

impl Value for PoolSpec {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let PoolDraft { first, headers } = PoolDraft::read(node, reader)?;
        let headers = headers.value?.into_iter().map(|(name, text)| (name, text.0)).collect();
        Some(Self { first: first.value?, headers })
    }
    fn schema() -> Json {
        PoolDraft::schema()
    }
}

impl Value for PoolRule {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = PoolRuleDraft::read(node, reader)?;
        Some(Self { pattern: draft.pattern.value?, pool: draft.pool.value? })
    }
    fn schema() -> Json {
        PoolRuleDraft::schema()
    }
}

impl Value for PoolRulesSpec {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if let Content::List(_) = &*node.content {
            return Vec::read(node, reader).map(Self::Rules);
        }
        let text = reader.text(node, "builtin or a list of rules")?;
        if text.value == "builtin" {
            return Some(Self::Builtin);
        }
        reader.fault_here(node.at, text.shown(), "builtin or a list of rules");
        None
    }
    fn schema() -> Json {
        json!({"anyOf": [{"const": "builtin"}, {"type": "string", "pattern": VARIABLE}, Vec::<PoolRule>::schema()]})
    }
}

impl Value for ErrorRule {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = ErrorRuleDraft::read(node, reader)?;
        if !draft.status.given && !draft.contains.given {
            reader.fault(&draft.status.place, "missing", "status, contains or both");
        }
        if draft.status.value.flatten().is_some_and(|status| !(100..=599).contains(&status)) {
            reader.fault(&draft.status.place, "no status of HTTP", "a status from 100 to 599");
        }
        Some(Self { status: draft.status.value?, contains: draft.contains.value?, class: draft.class.value? })
    }
    fn schema() -> Json {
        ErrorRuleDraft::schema()
    }
}

impl Value for Provider {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = ProviderDraft::read(node, reader)?;
        exactly_one("base_url, endpoints", &[&draft.base_url, &draft.endpoints], reader);
        let endpoints = endpoints(node, &draft, reader);
        check_pools(node, &draft, reader);
        let pools = draft.pools.value?.into_iter().map(|(name, pool)| {
            (name, Pool { first: pool.value.first.map(|first| first.value), headers: pool.value.headers })
        });
        let pool_rules = match draft.pool_rules.value? {
            PoolRulesSpec::Builtin => PoolRules::Builtin,
            PoolRulesSpec::Rules(rules) => PoolRules::Rules(rules.into_iter().map(|rule| rule.value).collect()),
        };
        Some(Self {
            dialect: draft.dialect.value?,
            endpoints: endpoints?,
            api_key_header: draft.api_key_header.value?,
            api_version: draft.api_version.value?,
            pools: pools.collect(),
            pool_rules,
            error_policy: draft.error_policy.value?,
            cooldown: draft.cooldown.value?,
            errors: draft.errors.value?,
        })
    }
    fn schema() -> Json {
        ProviderDraft::schema()
    }
}

/// The name of the one endpoint of a provider with a `base_url`.
const ONLY_ENDPOINT: &str = "default";

/// The pools that the builtin rules name.
const BUILTIN_POOLS: [&str; 2] = ["antigravity", "gemini-cli"];

fn endpoints(node: &Node, draft: &ProviderDraft, reader: &mut Reader<'_>) -> Option<Vec<Endpoint>> {
    let Some(listed) = node.get("endpoints") else {
        let url = draft.base_url.value.clone()??;
        return Some(vec![Endpoint { name: EndpointId::parse(ONLY_ENDPOINT).ok()?, url }]);
    };
    let endpoints = draft.endpoints.value.as_ref()?;
    if listed.items().is_empty() {
        reader.fault(&draft.endpoints.place, "found an empty list", "at least one endpoint");
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        if endpoints[..index].iter().any(|other| other.value.name == endpoint.value.name) {
            reader.fault(&endpoint.place_of("name"), "already given above", "a name no other endpoint has");
        }
    }
    Some(endpoints.iter().map(|endpoint| endpoint.value.clone()).collect())
}

/// Pools name endpoints and rules name pools of the same provider.
fn check_pools(node: &Node, draft: &ProviderDraft, reader: &mut Reader<'_>) {
    let ProviderNames { endpoints, pools } = reader.provider_names(node);
    for pool in draft.pools.value.iter().flat_map(IndexMap::values) {
        if let Some(first) = &pool.value.first
            && !endpoints.contains(first.value.as_str())
        {
            let message = format!("no endpoint of this provider is named {}", reader.shown(first.value.as_str()));
            reader.fault(&first.place, message, "a name from endpoints");
        }
    }
    match &draft.pool_rules.value {
        Some(PoolRulesSpec::Rules(rules)) => {
            for rule in rules.iter().filter(|rule| !pools.contains(rule.value.pool.as_str())) {
                let message = format!("no pool of this provider is named {}", reader.shown(rule.value.pool.as_str()));
                reader.fault(&rule.place_of("pool"), message, "a name from pools");
            }
        }
        Some(PoolRulesSpec::Builtin) if !pools.is_empty() => {
            for missing in BUILTIN_POOLS.into_iter().filter(|pool| !pools.contains(*pool)) {
                let message = format!("the builtin rules need a pool named {missing}");
                reader.fault(&draft.pools.place, message, "that pool, or pool_rules of your own");
            }
        }
        _ => {}
    }
}
