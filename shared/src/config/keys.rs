//! Client keys of the file.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value as Json;

use super::names::Kind;
use super::reader::{At, Reader, Value};
use super::scalar::{Scalar, text_schema};
use super::section::{draft, exactly_one};
use super::yaml::Node;

use crate::ids::{AccountId, ConnectionId, KeyId, ModelName, SecretHash};
use crate::limit::{Priority, Quota, SpendLimit};

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
    /// How soon its requests are served where they wait for a connection.
    pub priority: Priority,
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

    /// Reads a pattern that was kept as text.
    pub fn named(text: &str) -> Option<Self> {
        <Self as Scalar>::parse(text)
    }

    /// True when the model's name is one of those meant.
    pub fn matches(&self, model: &ModelName) -> bool {
        self.matches_text(model.as_str())
    }

    fn matches_text(&self, model: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| model.strip_prefix(first)) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            let Some(found) = rest.find(part) else { return false };
            rest = &rest[found + part.len()..];
        }
        rest.ends_with(last)
    }
}

draft! {
    /// A client key under version control. Exactly one of `secret` and `secret_sha256` is given.
    struct KeyDraft {
        /// Its name, unique in its account.
        id: KeyId = required,
        /// Who pays. In a file that lists no accounts, naming one makes it, without a money limit.
        account: AccountId = "default",
        /// The SHA-256 of its secret in hexadecimal.
        secret_sha256: Option<SecretHash> = optional,
        /// Its secret; hashed at once and kept nowhere.
        secret: Option<SecretString> = optional,
        /// Requests in any 60 s; unlimited when absent.
        rpm: Option<NonZeroU32> = optional,
        /// Tokens in any 60 s; unlimited when absent.
        tpm: Option<NonZeroU32> = optional,
        /// Requests at a time; unlimited when absent.
        max_concurrent: Option<NonZeroU32> = optional,
        /// How soon its requests are served where they wait for a connection: 0 before 9, one step ahead of at most four turns.
        priority: Priority = "5",
        /// How much it may cost in a period; unlimited when absent.
        spend_limit: Option<SpendLimit> = optional,
        /// What it may use in what time.
        quotas: Vec<At<Quota>> = optional,
        /// The models it may use, `*` for any characters; all when absent.
        models: Option<Vec<At<ModelPattern>>> = optional,
        /// The account's own connections in the order they are tried; those not listed follow.
        byok: Vec<At<ConnectionId>> = optional,
        /// Whether the platform's connections serve what the account's own cannot.
        platform_fallback: bool = "true",
        /// Whether a peer, a model of the same tier at another provider, may stand in.
        peers: bool = "true",
    }
}

impl Value for Key {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = KeyDraft::read(node, reader)?;
        exactly_one("secret, secret_sha256", &[&draft.secret, &draft.secret_sha256], reader);
        check_identity(&draft, reader);
        check_byok(&draft, reader);
        check_models(node, &draft, reader);
        check_quotas(&draft, reader);
        build(draft)
    }
    fn schema() -> Json {
        KeyDraft::schema()
    }
}

/// The hash of its secret, however it is given.
fn secret(draft: &KeyDraft) -> Option<SecretHash> {
    let given = draft.secret.value.as_ref()?.as_ref().map(|secret| SecretHash::of(secret.expose_secret()));
    given.or(draft.secret_sha256.value?)
}

/// The owner of connections that belong to no account.
const PLATFORM: &str = "platform";

fn check_identity(draft: &KeyDraft, reader: &mut Reader<'_>) {
    if let Some(account) = &draft.account.value {
        reader.must_exist(Kind::Account, account.as_str(), &draft.account.place);
        if account.as_str() == PLATFORM {
            reader.fault(&draft.account.place, "`platform` is no account", "an account id");
        }
        if let Some(id) = &draft.id.value {
            reader.must_be_new(&format!("key id of account {account}"), id.as_str(), &draft.id.place);
        }
    }
    if let Some(hash) = secret(draft) {
        let place = if draft.secret.given { &draft.secret.place } else { &draft.secret_sha256.place };
        reader.must_be_new("secret", &hash.to_hex(), place);
    }
}

/// Own connections are those of the key's account, each once.
fn check_byok(draft: &KeyDraft, reader: &mut Reader<'_>) {
    let byok = draft.byok.value.as_deref().unwrap_or_default();
    for (index, connection) in byok.iter().enumerate() {
        let name = connection.value.as_str();
        reader.must_exist(Kind::Connection, name, &connection.place);
        let owner = reader.names.connections.get(name);
        if let (Some(owner), Some(account)) = (owner, &draft.account.value)
            && owner != account.as_str()
        {
            let expected = format!("a connection whose owner is {}", reader.shown(account.as_str()));
            reader.fault(&connection.place, "a connection of another owner", expected);
        }
        if byok[..index].iter().any(|other| other.value == connection.value) {
            reader.fault(&connection.place, "already given above", "each connection once");
        }
    }
    let own = |owner: &String| draft.account.value.as_ref().is_some_and(|account| owner == account.as_str());
    if draft.platform_fallback.value == Some(false) && !reader.names.connections.values().any(own) {
        reader.notice(
            &draft.platform_fallback.place,
            "no connection can serve this key: its account has none of its own",
        );
    }
}

fn check_models(node: &Node, draft: &KeyDraft, reader: &mut Reader<'_>) {
    if node.get("models").is_some_and(|models| models.items().is_empty()) && draft.models.value.is_some() {
        reader.fault(
            &draft.models.place,
            "found an empty list",
            "at least one pattern; leave the field out to allow all",
        );
    }
    for pattern in draft.models.value.iter().flatten().flatten() {
        let mut names = reader.names.models.keys().chain(&reader.names.aliases);
        if !names.any(|name| pattern.value.matches_text(name)) {
            reader.notice(&pattern.place, "matches no model of this file");
        }
    }
}

fn check_quotas(draft: &KeyDraft, reader: &mut Reader<'_>) {
    let quotas = draft.quotas.value.as_deref().unwrap_or_default();
    for (index, quota) in quotas.iter().enumerate() {
        if quotas[..index].iter().any(|other| other.value.name() == quota.value.name()) {
            reader.fault(&quota.place, "counts the same as one above", "one quota of a kind and time");
        }
    }
}

fn build(draft: KeyDraft) -> Option<Key> {
    let secret = secret(&draft)?;
    let plain = |patterns: Vec<At<ModelPattern>>| patterns.into_iter().map(|pattern| pattern.value).collect();
    Some(Key {
        id: draft.id.value?,
        account: draft.account.value?,
        secret,
        rpm: draft.rpm.value?,
        tpm: draft.tpm.value?,
        max_concurrent: draft.max_concurrent.value?,
        priority: draft.priority.value?,
        spend_limit: draft.spend_limit.value?,
        quotas: draft.quotas.value?.into_iter().map(|quota| quota.value).collect(),
        models: draft.models.value?.map(plain),
        byok: draft.byok.value?.into_iter().map(|connection| connection.value).collect(),
        platform_fallback: draft.platform_fallback.value?,
        peers: draft.peers.value?,
    })
}

impl Scalar for ModelPattern {
    fn expected() -> Cow<'static, str> {
        "a model name in which * stands for any characters".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let usable = |b: u8| b.is_ascii_graphic() && !matches!(b, b':' | b'{' | b'}');
        ((1..=200).contains(&text.len()) && text.bytes().all(usable)).then(|| Self(text.into()))
    }
    fn schema() -> Json {
        text_schema(r"^[!-9;-z|~]{1,200}$", "a model name in which * stands for any characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_does() {
        for (pattern, model, matches) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5.1", false),
            ("gpt-*", "gpt-", true),
            ("gpt-*", "gpt-5.6-luna", true),
            ("gpt-*", "GPT-5", false),
            ("*", "anything", true),
            ("*-mini", "gpt-mini", true),
            ("*-mini", "gpt-mini-2", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a**a", "aa", true),
            ("g.t*", "gpt", false),
        ] {
            let pattern = ModelPattern::parse(pattern).unwrap();
            assert_eq!(pattern.matches(&ModelName::parse(model).unwrap()), matches, "{} {model}", pattern.as_str());
        }
    }
}
