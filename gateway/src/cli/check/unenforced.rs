//! What a file may say already, though nothing acts on it yet. A line goes from here when its feature comes.

use std::collections::BTreeSet;
use std::time::Duration;

use shared::config::{Config, Fairness, OnOutage, Strategy};

/// How many places of one field are named.
const NAMED: usize = 3;

/// One line for each field that the file uses and nothing enforces yet.
pub(super) fn notices(config: &Config) -> Vec<String> {
    let uses = [
        ("tpm", of_connections(config, |connection| connection.tpm.is_some()).collect()),
        ("quota", of_connections(config, |connection| !connection.quota.is_empty()).collect()),
        ("pools", pools(config)),
        ("tiers (peers)", peers(config)),
        ("larger", of_models(config, |model| model.larger.is_some()).collect()),
        ("residency", residency(config)),
        ("endpoints (those after the first)", of_providers(config, |provider| provider.endpoints.len() > 1).collect()),
        ("strategy: earliest_reset", of_groups(config, |group| group.strategy == Strategy::EarliestReset).collect()),
        ("fairness: fifo", of_groups(config, |group| group.fairness == Fairness::Fifo).collect()),
        ("pin_patience", of_groups(config, |group| group.pin_patience != Duration::from_secs(1)).collect()),
        ("spill_when_full", of_groups(config, |group| group.spill_when_full).collect()),
        ("on_outage: allow", outage(config)),
    ];
    uses.iter().filter_map(|(field, places): &(_, Vec<String>)| notice(field, places)).collect()
}

fn notice(field: &str, places: &[String]) -> Option<String> {
    let named = places.get(..NAMED.min(places.len())).filter(|named| !named.is_empty())?.join(", ");
    let more = places.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("notice: {field} ({named}{more}) is read and checked, not enforced yet"))
}

fn of_connections<'a>(
    config: &'a Config,
    uses: impl Fn(&shared::config::Connection) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    config.connections.values().filter(move |one| uses(one)).map(|one| format!("connection {}", one.id))
}

fn of_models<'a>(
    config: &'a Config,
    uses: impl Fn(&shared::config::Model) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    config.models.iter().filter(move |(_, model)| uses(model)).map(|(name, _)| format!("model {name}"))
}

fn of_providers<'a>(
    config: &'a Config,
    uses: impl Fn(&shared::config::Provider) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    config.providers.iter().filter(move |(_, provider)| uses(provider)).map(|(name, _)| format!("provider {name}"))
}

fn of_groups<'a>(
    config: &'a Config,
    uses: impl Fn(&shared::config::Group) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    config.groups.iter().filter(move |(_, group)| uses(group)).map(|(name, _)| format!("group {name}"))
}

fn pools(config: &Config) -> Vec<String> {
    let providers = of_providers(config, |provider| !provider.pools.is_empty());
    providers.chain(of_models(config, |model| !model.pools.is_empty())).collect()
}

/// Tiers whose models are peers: they are at different providers.
fn peers(config: &Config) -> Vec<String> {
    let mut places = Vec::new();
    for (tier, models) in &config.tiers {
        let providers: BTreeSet<&str> =
            models.iter().filter_map(|name| config.models.get(name)).map(|model| model.provider.as_str()).collect();
        if providers.len() > 1 {
            places.push(format!("tier {tier}"));
        }
    }
    places
}

fn residency(config: &Config) -> Vec<String> {
    let bound = config.accounts.values().filter(|account| account.residency.is_some());
    bound.map(|account| format!("account {}", account.id)).collect()
}

fn outage(config: &Config) -> Vec<String> {
    if config.redis.on_outage == OnOutage::Allow { vec!["redis".to_owned()] } else { Vec::new() }
}
