//! Credentials at providers: owner, group, limits, buckets, models, vendor quotas.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use jiff::tz::TimeZone;
use regex::Regex;
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::names::Kind;
use super::quota::Parts;
use super::reader::{At, Reader, Value, found};
use super::scalar::{Percent, Scalar, any_text_schema, words};
use super::section::{draft, exactly_one, section};
use super::text::{BaseUrl, Region};
use super::yaml::{Content, Node};
use crate::ids::{AccountId, BucketName, ConnectionId, GroupId, ModelName, ProviderId};
use crate::limit::{Cycle, Quota};
use crate::money::NanoDollars;

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

section! {
    /// A Google refresh token and where it is exchanged for access tokens.
    pub struct GoogleOauth, draft GoogleOauthDraft {
        /// The refresh token.
        refresh_token: SecretString = required,
        /// The OAuth client.
        client_id: SecretString = required,
        /// The OAuth client's secret.
        client_secret: SecretString = required,
        /// Where tokens are exchanged.
        token_url: BaseUrl = "https://oauth2.googleapis.com/token",
    }
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

section! {
    /// A family of models that share a quota.
    pub struct Bucket, draft BucketDraft {
        /// Its name.
        name: BucketName = required,
        /// A regular expression, matched anywhere in the public name of a model.
        pattern as "match": Regex = required,
    }
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
    /// What a vendor grants a connection: one of `requests`, `tokens` and `usd`, one of `period` and `window`.
    struct VendorQuotaDraft {
        /// For which bucket: a model, `account`, or a family, as `limit_scope` has it; `pool/bucket` for one pool of a provider.
        bucket: BucketName = required,
        /// The most requests.
        requests: Option<NonZeroU64> = optional,
        /// The most tokens, in and out.
        tokens: Option<NonZeroU64> = optional,
        /// The most money, in US dollars.
        usd: Option<NanoDollars> = optional,
        /// Counted from one turn of the calendar to the next.
        period: Option<Cycle> = optional,
        /// Counted over the time just past.
        window: Option<Duration> = optional,
        /// Whose midnight counts for a period; UTC when absent.
        time_zone: Option<TimeZone> = optional,
        /// The share of it that is kept back.
        reserve: Percent = "0%",
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

words! {
    /// Which models of a connection share a quota.
    pub enum ScopeWord {
        /// Every model has its own.
        Model = "model",
        /// All share one, named `account`.
        Account = "account",
        /// Families, as `buckets` lists them.
        Buckets = "buckets",
    }
}

/// The models that a connection lists.
#[derive(Debug, Clone)]
pub(super) struct ModelMap(IndexMap<ModelName, UpstreamModel>);

/// A credential read from a file.
#[derive(Debug, Clone)]
pub(super) struct KeyFile(SecretString);

/// A connection as the file has it: one that lists no models serves all of its provider's.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSpec {
    pub(super) connection: Connection,
    pub(super) lists_models: bool,
}

impl Value for VendorQuota {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = VendorQuotaDraft::read(node, reader)?;
        let VendorQuotaDraft { requests, tokens, usd, period, window, time_zone, .. } = &draft;
        let quota = Parts { requests, tokens, usd, period, window, time_zone }.check(reader);
        Some(Self { bucket: draft.bucket.value?, quota: quota?, reserve: draft.reserve.value? })
    }
    fn schema() -> Json {
        VendorQuotaDraft::schema()
    }
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

/// Families only with their scope, and quotas only for buckets that the connection has.
fn check_buckets(node: &Node, draft: &ConnectionDraft, reader: &mut Reader<'_>) {
    let families = node.get("buckets").map(Node::items).unwrap_or_default();
    match draft.limit_scope.value {
        Some(ScopeWord::Buckets) if families.is_empty() => {
            let place = if draft.buckets.given { &draft.buckets.place } else { &draft.limit_scope.place };
            reader.fault(place, "no buckets to scope limits by", "buckets with at least one entry");
        }
        Some(ScopeWord::Model | ScopeWord::Account) if draft.buckets.given => {
            reader.fault(&draft.buckets.place, "buckets have no meaning here", "limit_scope: buckets beside them");
        }
        _ => {}
    }
    let buckets = draft.buckets.value.as_deref().unwrap_or_default();
    for (index, bucket) in buckets.iter().enumerate() {
        if buckets[..index].iter().any(|other| other.value.name == bucket.value.name) {
            reader.fault(&bucket.place.below("name"), "already given above", "a name no other bucket has");
        }
    }
    if families.len() > buckets.len() {
        return;
    }
    for quota in draft.quota.value.iter().flatten() {
        if !has_bucket(draft, quota.value.bucket.as_str(), reader) {
            let message =
                format!("no bucket of this connection is named {}", reader.shown(quota.value.bucket.as_str()));
            reader.fault(&quota.place.below("bucket"), message, "a bucket as limit_scope makes them");
        }
    }
}

/// True when the connection's scope makes a bucket of this name, in one of its provider's pools if the name says so.
fn has_bucket(draft: &ConnectionDraft, bucket: &str, reader: &Reader<'_>) -> bool {
    let (Some(scope), Some(provider)) = (draft.limit_scope.value, &draft.provider.value) else { return true };
    let serves = |model: &str| match &draft.models.value {
        Some(Some(models)) => models.0.contains_key(model),
        Some(None) => {
            reader.names.models.get(model).is_some_and(|names| names.provider.as_deref() == Some(provider.as_str()))
        }
        None => true,
    };
    let family = |name: &str| draft.buckets.value.iter().flatten().any(|bucket| bucket.value.name.as_str() == name);
    let has = |name: &str| match scope {
        ScopeWord::Model => serves(name),
        ScopeWord::Account => name == "account",
        ScopeWord::Buckets => family(name) || serves(name),
    };
    let pools = reader.names.providers.get(provider.as_str()).map(|names| &names.pools);
    let in_pool = |(pool, name): (&str, &str)| pools.is_some_and(|pools| pools.contains(pool)) && has(name);
    has(bucket) || bucket.split_once('/').is_some_and(in_pool)
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
        let models: Vec<(At<ModelName>, UpstreamModel)> = match &*node.content {
            Content::List(items) if !items.is_empty() => {
                let names = Vec::<At<ModelName>>::read(node, reader)?;
                names.into_iter().map(|name| (name.clone(), UpstreamModel::of(&name.value))).collect()
            }
            Content::Map { entries, .. } if !entries.is_empty() => {
                let names = IndexMap::<ModelName, At<UpstreamModel>>::read(node, reader)?;
                names
                    .into_iter()
                    .map(|(value, At { value: upstream, place })| (At { value, place }, upstream))
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
        for (model, upstream) in models {
            reader.must_exist(Kind::Model, model.value.as_str(), &model.place);
            if map.insert(model.value, upstream).is_some() {
                reader.fault(&model.place, "already given above", "each model once");
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

/// The largest file that is read for a credential.
const KEY_FILE_MAX: usize = 64 << 10;

impl Value for KeyFile {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let expected = "the path of a readable file";
        let path = reader.text(node, expected)?;
        match std::fs::read(reader.folder.join(path.text)) {
            Err(error) => reader.fault_here(node.at, format!("the file cannot be read ({})", error.kind()), expected),
            Ok(bytes) if bytes.len() > KEY_FILE_MAX => reader.fault_here(node.at, "the file is too large", "one key"),
            Ok(bytes) => {
                let key = std::str::from_utf8(&bytes).ok().and_then(|text| SecretString::parse(text.trim()));
                match key {
                    Some(key) => return Some(Self(key)),
                    None => reader.fault_here(node.at, "the file's content does not fit", SecretString::expected()),
                }
            }
        }
        None
    }
    fn schema() -> Json {
        any_text_schema("a path")
    }
}
