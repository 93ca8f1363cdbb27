//! Which models of a connection share a quota, and what its vendor grants.

use std::num::NonZeroU64;
use std::time::Duration;

use jiff::tz::TimeZone;
use regex::Regex;
use serde_json::Value as Json;

use super::connections::ConnectionDraft;
use super::quota::Parts;
use super::reader::{Reader, Value};
use super::scalar::{Percent, words};
use super::section::{draft, section};
use super::yaml::Node;
use crate::ids::BucketName;
use crate::limit::{Cycle, Quota};
use crate::money::NanoDollars;

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

words! {
    /// Which models of a connection share a quota.
    pub(super) enum ScopeWord {
        /// Every model has its own.
        Model = "model",
        /// All share one, named `account`.
        Account = "account",
        /// Families, as `buckets` lists them.
        Buckets = "buckets",
    }
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

/// Families only with their scope, and quotas only for buckets that the connection has.
pub(super) fn check_buckets(node: &Node, draft: &ConnectionDraft, reader: &mut Reader<'_>) {
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
            reader.fault(&bucket.place_of("name"), "already given above", "a name no other bucket has");
        }
    }
    if families.len() > buckets.len() {
        return;
    }
    for quota in draft.quota.value.iter().flatten() {
        if !has_bucket(draft, quota.value.bucket.as_str(), reader) {
            let message =
                format!("no bucket of this connection is named {}", reader.shown(quota.value.bucket.as_str()));
            reader.fault(&quota.place_of("bucket"), message, "a bucket as limit_scope makes them");
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
