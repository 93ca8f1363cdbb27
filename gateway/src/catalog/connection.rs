//! A connection ready to call: where it belongs, what it proves itself with, what its failures mean.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use shared::config::{self, Config, Credential, Region};
use shared::failure::{self, ErrorPolicy, OwnRule};
use shared::ids::{ConnectionId, GroupId, SecretHash};

use super::Owner;
use crate::dialect::Dialect;
use crate::error::UpstreamError;
use crate::upstream::client::Client;
use crate::upstream::google_token::{TokenError, TokenSource};

/// How many digits of a credential's hash stand for it in Redis: enough to tell a new one from the old one, far too few to tell
/// the credential.
const MARK_DIGITS: usize = 8;

/// Shorter secrets would take words out of texts that have nothing to do with them.
const SECRET_MIN: usize = 4;

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
    /// Where its upstream works, if the file says so.
    pub region: Option<Region>,
    /// Lower first.
    pub priority: i32,
    /// Its share of the traffic.
    pub weight: u32,
    /// Leases at a time.
    pub max_concurrent: Option<u32>,
    /// Attempts in any 60 s.
    pub rpm: Option<u32>,
    /// Tokens in any 60 s.
    pub tpm: Option<u32>,
    /// The language of its provider.
    pub dialect: Dialect,
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
    /// How long an endpoint rests for a model after a failure; `None`: its endpoints have no cooldowns of their own.
    pub endpoint_rest: Option<Duration>,
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

impl Connection {
    /// Reads a checked connection.
    pub(super) fn new(config: &Config, connection: &config::Connection) -> anyhow::Result<Self> {
        let provider = config
            .providers
            .get(&connection.provider)
            .with_context(|| format!("connection {} has no provider", connection.id))?;
        let error_policy = error_policy(provider.error_policy);
        // A lone endpoint that means what it says needs no cooldown beside its connection's.
        let rests = provider.endpoints.len() > 1 || error_policy == ErrorPolicy::Sandbox;
        let dialect = Dialect::of(provider.dialect);
        Ok(Self {
            id: connection.id.clone(),
            provider: connection.provider.as_str().into(),
            owner: connection.owner.clone(),
            group: connection.group.clone(),
            region: connection.region.clone(),
            priority: connection.priority,
            weight: connection.weight.get(),
            max_concurrent: connection.max_concurrent.map(Into::into),
            rpm: connection.rpm.map(Into::into),
            tpm: connection.tpm.map(Into::into),
            dialect,
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
            error_policy,
            endpoint_rest: Some(provider.cooldown).filter(|rest| rests && !rest.is_zero()),
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
