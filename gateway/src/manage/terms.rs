//! Limits and rights of a client key as JSON: read by the reader of the configuration, written so that they read back equal.

use serde_json::{Map, Value as Json, json};
use shared::config::{self, KeyTerms};
use shared::limit::{Amount, Extent, Period, Priority, Quota, length};
use shared::money::NanoDollars;
use shared::state::records::{KeyRights, Overdraft, SpendLimit};

use super::ManageError;

/// Reads terms; a field that is unknown, of the wrong shape or impossible is refused by its name.
pub fn rights(terms: &Json) -> Result<KeyRights, ManageError> {
    let terms: KeyTerms = config::key_terms(terms).map_err(ManageError::Terms)?;
    Ok(KeyRights {
        rpm: terms.rpm.map(Into::into),
        tpm: terms.tpm.map(Into::into),
        max_concurrent: terms.max_concurrent.map(Into::into),
        spend: terms.spend_limit.map(|limit| SpendLimit {
            limit: limit.amount,
            period: limit.period.cycle.as_str().to_owned(),
            zone: limit.period.zone.iana_name().unwrap_or("UTC").to_owned(),
        }),
        priority: terms.priority,
        quotas: terms.quotas,
        models: terms.models.iter().flatten().map(|pattern| pattern.as_str().to_owned()).collect(),
        byok: terms.byok,
        platform_fallback: terms.platform_fallback,
        peers: terms.peers,
    })
}

/// Terms that [`rights`] reads as these.
pub fn json(rights: &KeyRights) -> Json {
    let mut terms = Map::new();
    let counts = [("rpm", rights.rpm), ("tpm", rights.tpm), ("max_concurrent", rights.max_concurrent)];
    terms.extend(counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?.into()))));
    if let Some(spend) = &rights.spend {
        let limit = json!({"usd": usd(spend.limit), "period": spend.period, "time_zone": spend.zone});
        terms.insert("spend_limit".to_owned(), limit);
    }
    if rights.priority != Priority::default() {
        terms.insert("priority".to_owned(), rights.priority.get().into());
    }
    if !rights.quotas.is_empty() {
        terms.insert("quotas".to_owned(), rights.quotas.iter().map(quota).collect());
    }
    if !rights.models.is_empty() {
        terms.insert("models".to_owned(), json!(rights.models));
    }
    if !rights.byok.is_empty() {
        terms.insert("byok".to_owned(), json!(rights.byok));
    }
    terms.insert("platform_fallback".to_owned(), rights.platform_fallback.into());
    terms.insert("peers".to_owned(), rights.peers.into());
    terms.into()
}

fn quota(quota: &Quota) -> Json {
    let (what, most) = match quota.amount {
        Amount::Requests(count) => ("requests", count.get().into()),
        Amount::Tokens(count) => ("tokens", count.get().into()),
        Amount::Cost(amount) => ("usd", usd(amount).into()),
    };
    let mut terms = Map::from_iter([(what.to_owned(), most)]);
    terms.extend(extent(&quota.extent));
    terms.into()
}

/// The time a quota counts over, in the words of the configuration.
pub(super) fn extent(extent: &Extent) -> Map<String, Json> {
    match extent {
        Extent::Calendar(Period { cycle, zone }) => {
            let zone = zone.iana_name().unwrap_or("UTC");
            Map::from_iter([("period".to_owned(), cycle.as_str().into()), ("time_zone".to_owned(), zone.into())])
        }
        Extent::Sliding(window) => Map::from_iter([("window".to_owned(), length(*window).into())]),
    }
}

/// Terms with those of a patch put over them; null takes a term away.
pub fn patched(mut terms: Json, patch: &Json) -> Json {
    let (Some(all), Some(patch)) = (terms.as_object_mut(), patch.as_object()) else { return patch.clone() };
    for (name, value) in patch {
        if value.is_null() {
            all.remove(name);
        } else {
            all.insert(name.clone(), value.clone());
        }
    }
    terms
}

/// An amount as exact decimal text: no JSON number is as exact.
pub fn usd(amount: NanoDollars) -> String {
    amount.to_string().replace('$', "")
}

/// How the configuration's word is kept.
pub(super) fn overdraft(word: config::Overdraft) -> Overdraft {
    match word {
        config::Overdraft::Soft => Overdraft::Soft,
        config::Overdraft::None => Overdraft::None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Some quotas, none of a name.
    fn quotas() -> impl Strategy<Value = Vec<Quota>> {
        let count = || (1u64..1 << 53).prop_map(|count| count.try_into().unwrap());
        let money = (1i64..1 << 53).prop_map(|nanos| Amount::Cost(NanoDollars::new(nanos).unwrap()));
        let amount = prop_oneof![count().prop_map(Amount::Requests), count().prop_map(Amount::Tokens), money];
        let cycles = prop::sample::select(vec!["total", "hour", "day", "week", "month"]);
        let zones = prop::sample::select(vec!["UTC", "Europe/Berlin"]);
        let period = (cycles, zones).prop_map(|(cycle, zone)| Extent::Calendar(Period::named(cycle, zone)));
        let window = (1u64..1_000_000_000).prop_map(|ms| Extent::Sliding(Duration::from_millis(ms)));
        let quota = (amount, prop_oneof![period, window]).prop_map(|(amount, extent)| Quota { amount, extent });
        prop::collection::vec(quota, 0..4).prop_map(|mut quotas| {
            quotas.sort_by_key(Quota::name);
            quotas.dedup_by_key(|quota| quota.name());
            quotas
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_equal(
            rpm in proptest::option::of(1u32..), tpm in proptest::option::of(1u32..),
            max_concurrent in proptest::option::of(1u32..), nanos in proptest::option::of(0i64..1 << 53),
            period in prop::sample::select(vec!["total", "hour", "day", "week", "month"]),
            models in prop::collection::vec("[a-z0-9.*/-]{1,20}", 0..3),
            priority in 0..=Priority::MAX, quotas in quotas(),
            byok in prop::collection::vec("[a-z][a-z0-9._-]{0,9}", 0..3),
            platform_fallback: bool, peers: bool,
        ) {
            let spend = nanos.map(|nanos| SpendLimit {
                limit: NanoDollars::new(nanos).unwrap(),
                period: period.to_owned(),
                zone: "Europe/Berlin".to_owned(),
            });
            let byok = byok.iter().map(|id| id.parse().unwrap()).collect();
            let priority = Priority::new(priority).unwrap();
            let limits = KeyRights { rpm, tpm, max_concurrent, priority, spend, quotas, ..KeyRights::default() };
            let all = KeyRights { models, byok, platform_fallback, peers, ..limits };
            prop_assert_eq!(rights(&json(&all)).unwrap(), all);
        }
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_takes_away() {
        let all = KeyRights { rpm: Some(60), max_concurrent: Some(4), peers: true, ..KeyRights::default() };
        let patch = json!({"rpm": null, "tpm": 9, "platform_fallback": true});
        let expected = KeyRights { rpm: None, tpm: Some(9), platform_fallback: true, ..all.clone() };
        assert_eq!(rights(&patched(json(&all), &patch)).unwrap(), expected);
        let misspelt = patched(json(&all), &json!({"budgets": 1}));
        assert!(matches!(rights(&misspelt), Err(ManageError::Terms(faults)) if faults[0].field == "budgets"));
        assert!(rights(&patched(json(&all), &json!([]))).is_err());
    }
}
