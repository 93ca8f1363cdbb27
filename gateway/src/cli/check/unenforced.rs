//! What a file may say already, though nothing acts on it yet. A line goes from here when its feature comes.

use shared::config::{Config, OnOutage, Strategy};

/// How many places of one field are named.
const NAMED: usize = 3;

/// One line for each field that the file uses and nothing enforces yet.
pub(super) fn notices(config: &Config) -> Vec<String> {
    let uses = [
        ("quota", of_connections(config, |connection| !connection.quota.is_empty()).collect()),
        ("strategy: earliest_reset", of_groups(config, |group| group.strategy == Strategy::EarliestReset).collect()),
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

fn of_groups<'a>(
    config: &'a Config,
    uses: impl Fn(&shared::config::Group) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    config.groups.iter().filter(move |(_, group)| uses(group)).map(|(name, _)| format!("group {name}"))
}

fn outage(config: &Config) -> Vec<String> {
    if config.redis.on_outage == OnOutage::Allow { vec!["redis".to_owned()] } else { Vec::new() }
}
