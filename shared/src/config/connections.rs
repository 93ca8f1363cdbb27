//! Credentials at providers: owner, group, limits, buckets, models, vendor quotas.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use indexmap::IndexMap;
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::buckets::{Bucket, LimitScope, ScopeWord, VendorQuota, check_buckets};
use super::credentials::{Credential, GoogleOauth, KeyFile};
use super::names::Kind;
use super::reader::{At, Place, Reader, Value, found};
use super::scalar::{Scalar, any_text_schema};
use super::section::{draft, exactly_one};
use super::text::Region;
use super::yaml::{Content, Node};
use crate::ids::{AccountId, ConnectionId, GroupId, ModelName, ProviderId};

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

/// Whose a connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Everybody's.
    Platform,
    /// One account's own (BYOK).
    Account(AccountId),
}

/// A model's name as the upstream wants it: 1 to 200 printable ASCII characters without space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamModel(Arc<str>);

impl UpstreamModel {
    /// The same name upstream as here.
    pub(super) fn of(model: &ModelName) -> Self {
        Self(model.as_str().into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

draft! {
    /// One credential at one provider. Exactly one of `api_key`, `api_key_file` and `google_oauth` is given.
    struct ConnectionDraft {
        /// Its name, unique in the file.
        id: ConnectionId = required,
        /// The provider it belongs to.
        provider: ProviderId = required,
        /// A key or bearer token.
        api_key: Option<SecretString> = optional,
        /// A file that holds the key and nothing else; read at load, white space around it ignored. A relative path begins at
        /// the folder of the configuration.
        api_key_file: Option<KeyFile> = optional,
        /// A Google refresh token.
        google_oauth: Option<GoogleOauth> = optional,
        /// `platform`, or the account whose own it is (BYOK).
        owner: Owner = "platform",
        /// Its channel group; the provider's name when absent.
        group: Option<GroupId> = optional,
        /// Where its upstream works: us, eu, global. Without it, it never serves an account with a residency as a peer.
        region: Option<Region> = optional,
        /// Lower is preferred.
        priority: i32 = "0",
        /// Its share of the traffic of its group, in proportion; to rest a connection take it out of the file.
        weight: NonZeroU32 = "1",
        /// Requests at a time; unlimited when absent.
        max_concurrent: Option<NonZeroU32> = optional,
        /// Requests in any 60 s; unlimited when absent.
        rpm: Option<NonZeroU32> = optional,
        /// Tokens in any 60 s; unlimited when absent.
        tpm: Option<NonZeroU32> = optional,
        /// Which models share a quota upstream.
        limit_scope: ScopeWord = "model",
        /// Families of models, for `limit_scope: buckets`. A model is in the first that matches.
        buckets: Vec<At<Bucket>> = optional,
        /// The models it serves: a list of names, or a map of public names to the upstream's; all of the provider's when absent.
        models: Option<ModelMap> = optional,
        /// What the vendor grants, for quota-aware routing.
        quota: Vec<At<VendorQuota>> = optional,
    }
}

/// The models that a connection lists.
#[derive(Debug, Clone)]
pub(super) struct ModelMap(pub(super) IndexMap<ModelName, UpstreamModel>);

/// A connection as the file has it: one that lists no models serves all of its provider's.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSpec {
    pub(super) connection: Connection,
    pub(super) lists_models: bool,
}

impl Value for ConnectionSpec {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = ConnectionDraft::read(node, reader)?;
        exactly_one(
            "api_key, api_key_file, google_oauth",
            &[&draft.api_key, &draft.api_key_file, &draft.google_oauth],
            reader,
        );
        check_names(&draft, reader);
        check_buckets(node, &draft, reader);
        let lists_models = draft.models.given;
        build(draft).map(|connection| Self { connection, lists_models })
    }
    fn schema() -> Json {
        ConnectionDraft::schema()
    }
}

fn check_names(draft: &ConnectionDraft, reader: &mut Reader<'_>) {
    if let Some(id) = &draft.id.value {
        reader.must_be_new("connection id", id.as_str(), &draft.id.place);
    }
    if let Some(provider) = &draft.provider.value {
        reader.must_exist(Kind::Provider, provider.as_str(), &draft.provider.place);
    }
    if let Some(Owner::Account(account)) = &draft.owner.value {
        reader.must_exist(Kind::Account, account.as_str(), &draft.owner.place);
    }
}

fn build(draft: ConnectionDraft) -> Option<Connection> {
    let key = draft.api_key.value?.or(draft.api_key_file.value?.map(|file| file.0));
    let credential = match (key, draft.google_oauth.value?) {
        (Some(key), _) => Credential::ApiKey(key),
        (None, oauth) => Credential::GoogleOauth(oauth?),
    };
    let provider = draft.provider.value?;
    let group = match draft.group.value? {
        Some(group) => group,
        None => GroupId::parse(provider.as_str()).ok()?,
    };
    let limit_scope = match draft.limit_scope.value? {
        ScopeWord::Model => LimitScope::Model,
        ScopeWord::Account => LimitScope::Account,
        ScopeWord::Buckets => {
            LimitScope::Buckets(draft.buckets.value?.into_iter().map(|bucket| bucket.value).collect())
        }
    };
    Some(Connection {
        id: draft.id.value?,
        provider,
        credential,
        owner: draft.owner.value?,
        group,
        region: draft.region.value?,
        priority: draft.priority.value?,
        weight: draft.weight.value?,
        max_concurrent: draft.max_concurrent.value?,
        rpm: draft.rpm.value?,
        tpm: draft.tpm.value?,
        limit_scope,
        models: draft.models.value?.map(|models| models.0).unwrap_or_default(),
        quota: draft.quota.value?.into_iter().map(|quota| quota.value).collect(),
    })
}

impl Scalar for Owner {
    fn expected() -> Cow<'static, str> {
        "platform or an account id: 1 to 100 letters, digits, '.', '_' or '-'".into()
    }
    fn parse(text: &str) -> Option<Self> {
        match text {
            "platform" => Some(Self::Platform),
            _ => AccountId::parse(text).ok().map(Self::Account),
        }
    }
    fn schema() -> Json {
        <AccountId as Scalar>::schema()
    }
}

impl Scalar for UpstreamModel {
    fn expected() -> Cow<'static, str> {
        "a model name of the upstream: 1 to 200 printable ASCII characters without space".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let printable = text.bytes().all(|b| b.is_ascii_graphic());
        (printable && (1..=200).contains(&text.len())).then(|| Self(text.into()))
    }
    fn schema() -> Json {
        any_text_schema("a model name of the upstream")
    }
}

impl Value for ModelMap {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let models: Vec<(ModelName, UpstreamModel, Place)> = match &*node.content {
            Content::List(items) if !items.is_empty() => Vec::<At<ModelName>>::read(node, reader)?
                .into_iter()
                .map(|At { value, place, .. }| (value.clone(), UpstreamModel::of(&value), place))
                .collect(),
            Content::Map { entries, .. } if !entries.is_empty() => {
                IndexMap::<ModelName, At<UpstreamModel>>::read(node, reader)?
                    .into_iter()
                    .map(|(name, At { value, place, .. })| (name, value, place))
                    .collect()
            }
            other => {
                reader.fault_here(
                    node.at,
                    found(other),
                    "a list of models or a map of public names to the upstream's, not empty",
                );
                return None;
            }
        };
        let mut map = IndexMap::with_capacity(models.len());
        for (model, upstream, place) in models {
            reader.must_exist(Kind::Model, model.as_str(), &place);
            if map.insert(model, upstream).is_some() {
                reader.fault(&place, "already given above", "each model once");
            }
        }
        Some(Self(map))
    }
    fn schema() -> Json {
        let list = json!({"type": "array", "minItems": 1, "items": <ModelName as Scalar>::schema()});
        let mut map = IndexMap::<ModelName, UpstreamModel>::schema();
        map["minProperties"] = 1.into();
        json!({"anyOf": [list, map]})
    }
}
