//! What somebody asks for at run time: the limits and rights of a client key, the terms of an account. Read as the file is.

use std::num::NonZeroU32;
use std::path::Path;

use serde_json::Value as Json;

use super::accounts::Overdraft;
use super::fault::Fault;
use super::keys::ModelPattern;
use super::names::Names;
use super::reader::{Reader, Value};
use super::section::section;
use super::text::Region;
use super::yaml;
use crate::ids::ConnectionId;
use crate::limit::{Priority, Quota, SpendLimit};
use crate::money::NanoDollars;

section! {
    /// Limits and rights of a client key that is made at run time.
    pub struct KeyTerms, draft KeyTermsDraft, check check_terms {
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
        quotas: Vec<Quota> = optional,
        /// The models it may use, `*` for any characters; all when absent.
        models: Option<Vec<ModelPattern>> = optional,
        /// The account's own connections in the order they are tried; those not listed follow.
        byok: Vec<ConnectionId> = optional,
        /// Whether the platform's connections serve what the account's own cannot.
        platform_fallback: bool = "true",
        /// Whether a peer, a model of the same tier at another provider, may stand in.
        peers: bool = "true",
    }
}

section! {
    /// The terms of an account that is made at run time.
    pub struct AccountTerms, draft AccountTermsDraft {
        /// Opening balance in US dollars. Without it the account has no money limit.
        balance: Option<NanoDollars> = optional,
        /// The only region whose connections may stand in for a model (peers); anywhere when absent.
        residency: Option<Region> = optional,
        /// Whether its balance may dip below zero.
        overdraft: Overdraft = "soft",
    }
}

/// As in the file: each quota once, and no list of models that allows none.
fn check_terms(draft: &KeyTermsDraft, reader: &mut Reader<'_>) {
    let quotas = draft.quotas.value.as_deref().unwrap_or_default();
    let same = |index: usize| quotas[..index].iter().any(|other| other.name() == quotas[index].name());
    if (0..quotas.len()).any(same) {
        reader.fault(&draft.quotas.place, "two of them count the same", "one quota of a kind and time");
    }
    // Refused patterns leave an empty list, too.
    let refused = reader.faults.iter().any(|fault| fault.field.starts_with("models["));
    if !refused && draft.models.value.as_ref().is_some_and(|models| models.as_ref().is_some_and(Vec::is_empty)) {
        let expected = "at least one pattern; leave the field out to allow all";
        reader.fault(&draft.models.place, "found an empty list", expected);
    }
}

/// Reads the terms of a client key. Every fault names its field.
pub fn key_terms(json: &Json) -> Result<KeyTerms, Vec<Fault>> {
    read(json)
}

/// Reads the terms of an account. Every fault names its field.
pub fn account_terms(json: &Json) -> Result<AccountTerms, Vec<Fault>> {
    read(json)
}

/// JSON is YAML, and is read by the same reader; nothing is taken from the environment.
fn read<T: Value>(json: &Json) -> Result<T, Vec<Fault>> {
    let node = yaml::parse(&json.to_string()).map_err(|error| vec![whole(error.message)])?;
    let mut reader = Reader::new("request", Path::new(""), &|_| None, Names::default());
    let terms = T::read(&node, &mut reader);
    match terms {
        Some(terms) if reader.faults.is_empty() => Ok(terms),
        None if reader.faults.is_empty() => Err(vec![whole("cannot be read".to_owned())]),
        _ => Err(reader.faults),
    }
}

fn whole(message: String) -> Fault {
    Fault { file: "request".to_owned(), line: 0, column: 0, field: String::new(), message, expected: String::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn terms_are_read_whole_or_refused_by_the_name_of_the_field() {
        let terms = key_terms(&json!({
            "rpm": 60, "spend_limit": {"usd": 10.5, "period": "month", "time_zone": "Europe/Berlin"},
            "models": ["gpt-*"], "byok": ["own"], "platform_fallback": false,
        }));
        let terms = terms.unwrap();
        assert_eq!((terms.rpm.map(u32::from), terms.tpm, terms.peers), (Some(60), None, true));
        assert_eq!(terms.spend_limit.unwrap().amount.nanos(), 10_500_000_000);
        for (terms, field) in [
            (json!({"budgets": {"usd": 1}}), "budgets"),
            (json!({"rpm": 0}), "rpm"),
            (json!({"rpm": "60"}), "rpm"),
            (json!({"rpm": 1.5}), "rpm"),
            (json!({"tpm": -5}), "tpm"),
            (json!({"max_concurrent": []}), "max_concurrent"),
            (json!({"spend_limit": "0.5"}), "spend_limit"),
            (json!({"spend_limit": 0.5}), "spend_limit"),
            (json!({"spend_limit": {"usd": -1}}), "spend_limit.usd"),
            (json!({"spend_limit": {"usd": "NaN"}}), "spend_limit.usd"),
            (json!({"spend_limit": {"usd": 1, "period": "fortnight"}}), "spend_limit.period"),
            (json!({"models": ["a b"]}), "models[0]"),
            (json!({"models": []}), "models"),
            (json!({"priority": 10}), "priority"),
            (json!({"quota": []}), "quota"),
            (json!({"quotas": {"requests": 1, "period": "day"}}), "quotas"),
            (json!({"quotas": [{"requests": 0, "period": "day"}]}), "quotas[0].requests"),
            (json!({"quotas": [{"tokens": "5", "window": "24h"}]}), "quotas[0].tokens"),
            (json!({"quotas": [{"usd": -1, "period": "day"}]}), "quotas[0].usd"),
            (json!({"quotas": [{"usd": 1, "period": "fortnight"}]}), "quotas[0].period"),
            (json!({"quotas": [{"requests": 1, "window": "0s"}]}), "quotas[0].window"),
            (json!({"quotas": [{"requests": 1, "window": "1h"}, {"requests": 2, "window": "60m"}]}), "quotas"),
            (json!({"peers": "maybe"}), "peers"),
        ] {
            let faults = key_terms(&terms).expect_err(&terms.to_string());
            assert_eq!(faults.iter().map(|fault| fault.field.as_str()).collect::<Vec<_>>(), [field], "{terms}");
        }
        assert!(key_terms(&json!([])).is_err() && key_terms(&json!("${HOME}")).is_err());
        let account = account_terms(&json!({"balance": 25, "overdraft": "none", "residency": "eu"})).unwrap();
        assert_eq!((account.balance.unwrap().nanos(), account.overdraft), (25_000_000_000, Overdraft::None));
        let faults = account_terms(&json!({"balance": -1, "overdraft": "hard"})).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.field.as_str()).collect::<Vec<_>>(), ["balance", "overdraft"]);
    }
}
