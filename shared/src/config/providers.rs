//! Upstream services: dialect, endpoints, pools, error policy.

use std::borrow::Cow;
use std::time::Duration;

use indexmap::IndexMap;
use regex::Regex;
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::reader::{At, Reader, Value};
use super::scalar::{Scalar, words};
use super::section::{draft, section};
use super::text::{BaseUrl, HeaderName, HeaderText};
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
    /// The response's status.
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
