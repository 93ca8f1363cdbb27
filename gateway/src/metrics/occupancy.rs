//! Who is under way and who waits, at this replica: gauges per client key, group and connection.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use shared::ids::{AccountId, ConnectionId, GroupId, KeyId};

use super::Word;

/// So many client keys have gauges of their own; those that come later are counted together.
const KEYS_MAX: usize = 1_000;
/// What the others are called: ids are never empty.
const OTHERS: &str = "";

/// Labels of a client key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    account: Word,
    key: Word,
}

/// One label: a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    group: Word,
}

/// Labels of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConnectionLabels {
    group: Word,
    connection: Word,
}

/// The gauges.
#[derive(Debug, Default)]
pub struct Occupancy {
    key_in_flight: Family<KeyLabels, Gauge>,
    key_waiting: Family<KeyLabels, Gauge>,
    group_in_flight: Family<GroupLabel, Gauge>,
    group_waiting: Family<GroupLabel, Gauge>,
    connection_in_flight: Family<ConnectionLabels, Gauge>,
    connection_waiting: Family<ConnectionLabels, Gauge>,
    keys: Mutex<HashMap<(AccountId, KeyId), KeyLabels>>,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub struct Counted(Vec<Gauge>);

impl Counted {
    fn at(gauges: Vec<Gauge>) -> Self {
        for gauge in &gauges {
            gauge.inc();
        }
        Self(gauges)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}

impl Occupancy {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register(
            "key_in_flight",
            "Admitted requests that are not settled, by client key",
            self.key_in_flight.clone(),
        );
        r.register("key_waiting", "Requests that wait for a limit of their client key", self.key_waiting.clone());
        r.register("group_in_flight", "Upstream calls that hold a slot, by group", self.group_in_flight.clone());
        r.register("group_waiting", "Requests that wait for a slot, by group", self.group_waiting.clone());
        let connection = "Upstream calls that hold a slot, by connection";
        r.register("connection_in_flight", connection, self.connection_in_flight.clone());
        let waiting = "Requests that wait for a slot, at every connection that would do";
        r.register("connection_waiting", waiting, self.connection_waiting.clone());
    }

    /// A request of this key is admitted.
    pub fn admitted(&self, account: &AccountId, key: &KeyId) -> Counted {
        let labels = self.key_labels(account, key);
        Counted::at(vec![self.key_in_flight.get_or_create(&labels).clone()])
    }

    /// A request waits for a limit of this key.
    pub fn waits_for_key(&self, account: &AccountId, key: &KeyId) -> Counted {
        let labels = self.key_labels(account, key);
        Counted::at(vec![self.key_waiting.get_or_create(&labels).clone()])
    }

    /// A call holds a slot of this connection.
    pub fn holds(&self, group: &GroupId, connection: &ConnectionId) -> Counted {
        Counted::at(vec![
            self.group_in_flight.get_or_create(&group_label(group)).clone(),
            self.connection_in_flight.get_or_create(&connection_labels(group, connection)).clone(),
        ])
    }

    /// A request waits for a slot at any of these connections.
    pub fn waits_for_slot<'a>(
        &self,
        group: &GroupId,
        connections: impl IntoIterator<Item = &'a ConnectionId>,
    ) -> Counted {
        let at = |connection| self.connection_waiting.get_or_create(&connection_labels(group, connection)).clone();
        let mut gauges: Vec<Gauge> = connections.into_iter().map(at).collect();
        gauges.push(self.group_waiting.get_or_create(&group_label(group)).clone());
        Counted::at(gauges)
    }

    /// The key's own labels, or those of the others once there are too many.
    fn key_labels(&self, account: &AccountId, key: &KeyId) -> KeyLabels {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (account.clone(), key.clone());
        if let Some(labels) = keys.get(&name) {
            return labels.clone();
        }
        if keys.len() >= KEYS_MAX {
            return KeyLabels { account: OTHERS.into(), key: OTHERS.into() };
        }
        let labels = KeyLabels { account: account.as_str().into(), key: key.as_str().into() };
        keys.insert(name, labels.clone());
        labels
    }
}

fn group_label(group: &GroupId) -> GroupLabel {
    GroupLabel { group: group.as_str().into() }
}

fn connection_labels(group: &GroupId, connection: &ConnectionId) -> ConnectionLabels {
    ConnectionLabels { group: group.as_str().into(), connection: connection.as_str().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn what_is_counted_is_counted_until_its_guard_is_dropped() {
        let metrics = Metrics::new();
        let (group, a, b) = ("g".parse().unwrap(), "a".parse().unwrap(), "b".parse().unwrap());
        let waits = metrics.occupancy.waits_for_slot(&group, [&a, &b]);
        let holds = metrics.occupancy.holds(&group, &a);
        let text = metrics.text();
        assert!(text.contains("headgate_group_waiting{group=\"g\"} 1\n"), "{text}");
        assert!(text.contains("headgate_connection_waiting{group=\"g\",connection=\"b\"} 1\n"), "{text}");
        assert!(text.contains("headgate_connection_in_flight{group=\"g\",connection=\"a\"} 1\n"), "{text}");
        drop((waits, holds));
        let counts = metrics.text();
        let mut counts =
            counts.lines().filter(|line| line.starts_with("headgate_group_") || line.contains("connection="));
        assert!(counts.all(|line| line.ends_with(" 0")), "{text}");
    }

    #[test]
    fn however_many_keys_there_are_only_so_many_have_gauges_of_their_own() {
        let metrics = Metrics::new();
        let account = "acme".parse().unwrap();
        let mut all = Vec::new();
        for number in 0..KEYS_MAX + 7 {
            all.push(metrics.occupancy.admitted(&account, &format!("k{number}").parse().unwrap()));
        }
        let text = metrics.text();
        assert_eq!(text.lines().filter(|line| line.starts_with("headgate_key_in_flight{")).count(), KEYS_MAX + 1);
        assert!(text.contains("headgate_key_in_flight{account=\"\",key=\"\"} 7\n"));
    }
}
