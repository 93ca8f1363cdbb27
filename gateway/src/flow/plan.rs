//! Orders the rungs of one request. Pure: caller + model + catalog → ladder. No I/O, no clock.

use std::collections::HashSet;
use std::sync::Arc;

use shared::ids::{AccountId, ConnectionId, GroupId, ModelName};
use shared::state::capacity::Sole;

use crate::catalog::{Catalog, Model, Owner, Serving};

/// Whose connections a request may use.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// The caller's account.
    pub account: &'a AccountId,
    /// The key's own connections, in order.
    pub byok: &'a [ConnectionId],
    /// May the platform's connections be used?
    pub platform: Platform,
}

/// Whether a key may fall back to the platform's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Its own connections only.
    Denied,
    /// The platform's too.
    Allowed,
}

/// In which order the rungs of a step are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As listed.
    Listed,
    /// By priority, then as listed.
    Priority,
    /// By priority; drawn by weight within one.
    Spread,
}

/// One option: a model on a connection.
#[derive(Debug, Clone)]
pub struct Rung {
    /// The model, by its public name.
    pub model: Arc<Model>,
    /// The connection, and what the model is called there.
    pub serving: Serving,
}

/// Rungs of equal standing: they share a group, so that one script can choose among them.
#[derive(Debug, Clone)]
pub struct Step {
    /// The slot their state lives in.
    pub group: GroupId,
    /// Who owns their connections.
    pub owner: Owner,
    /// How they are offered.
    pub order: Order,
    /// At least one.
    pub rungs: Vec<Rung>,
}

/// The ordered rungs of one request, most preferred first.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// The steps; from one to the next is a step down.
    pub steps: Vec<Step>,
}

/// The ladder of a request: the model on the key's own connections in the key's order, then on the account's other own
/// connections, then on the platform's groups where the key may use them.
pub fn plan(catalog: &Catalog, means: Means<'_>, model: &Arc<Model>) -> Ladder {
    let own = |serving: &&Serving| serving.connection.owner == Owner::Account(means.account.clone());
    let named = means.byok.iter().filter_map(|id| model.serving.iter().filter(own).find(|s| s.connection.id == *id));
    let others = model.serving.iter().filter(own).filter(|s| !means.byok.contains(&s.connection.id));
    let platform =
        model.serving.iter().filter(|s| means.platform == Platform::Allowed && s.connection.owner == Owner::Platform);

    let mut steps: Vec<Step> = Vec::new();
    // A key names its own connections in order: they are offered as listed, never drawn by weight, and only neighbours of a
    // group share a step.
    for serving in named.chain(others) {
        let fresh = Step::of(model, serving, Order::Listed);
        match steps.last_mut() {
            Some(last) if last.is_like(&fresh) => last.rungs.extend(fresh.rungs),
            _ => steps.push(fresh),
        }
    }
    for serving in platform {
        let fresh = Step::of(model, serving, catalog.order(&serving.connection.group));
        match steps.iter_mut().find(|step| step.is_like(&fresh)) {
            Some(step) => step.rungs.extend(fresh.rungs),
            None => steps.push(fresh),
        }
    }
    Ladder { steps }
}

impl Step {
    fn of(model: &Arc<Model>, serving: &Serving, order: Order) -> Self {
        let connection = &serving.connection;
        let rung = Rung { model: Arc::clone(model), serving: serving.clone() };
        Self { group: connection.group.clone(), owner: connection.owner.clone(), order, rungs: vec![rung] }
    }

    /// Whether the connections of both are of equal standing.
    pub fn is_like(&self, other: &Self) -> bool {
        self.group == other.group && self.owner == other.owner
    }
}

impl Ladder {
    /// The distinct models of the ladder, in order.
    pub fn models(&self) -> Vec<&ModelName> {
        let mut names: Vec<&ModelName> = Vec::new();
        for rung in self.steps.iter().flat_map(|step| &step.rungs) {
            if !names.contains(&&rung.model.name) {
                names.push(&rung.model.name);
            }
        }
        names
    }

    /// The rungs of one connection only.
    pub fn only(mut self, connection: &ConnectionId) -> Self {
        for step in &mut self.steps {
            step.rungs.retain(|rung| rung.serving.connection.id == *connection);
        }
        self.steps.retain(|step| !step.rungs.is_empty());
        self
    }

    /// Whether one connection is all there is.
    pub fn sole(&self) -> Sole {
        let rungs = self.steps.iter().flat_map(|step| &step.rungs);
        let connections: HashSet<&ConnectionId> = rungs.map(|rung| &rung.serving.connection.id).collect();
        if connections.len() == 1 { Sole::Yes } else { Sole::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::catalog;

    const FILE: &str = "
providers: {p: {dialect: openai, base_url: http://localhost:1}}
models: {m: {provider: p}, own-only: {provider: p}}
groups: {fixed: {strategy: priority}}
connections:
  - {id: p1, provider: p, api_key: k, models: [m]}
  - {id: p2, provider: p, api_key: k, models: [m], group: fixed}
  - {id: p3, provider: p, api_key: k, models: [m]}
  - {id: a1, provider: p, api_key: k, owner: acme, group: g1}
  - {id: a2, provider: p, api_key: k, owner: acme, group: g2}
  - {id: a3, provider: p, api_key: k, owner: acme, group: g1}
  - {id: a4, provider: p, api_key: k, owner: acme}
  - {id: z1, provider: p, api_key: k, owner: zeta}
accounts: [{id: acme}, {id: zeta}]
";

    /// The ladder as text: steps by `|`, rungs by a space.
    fn ladder(model: &str, account: &str, byok: &[&str], platform: Platform) -> String {
        let catalog = catalog(FILE);
        let byok: Vec<ConnectionId> = byok.iter().map(|id| id.parse().unwrap()).collect();
        let account = account.parse().unwrap();
        let means = Means { account: &account, byok: &byok, platform };
        let ladder = plan(&catalog, means, catalog.model(model).unwrap());
        let step = |step: &Step| {
            let ids: Vec<&str> = step.rungs.iter().map(|rung| rung.serving.connection.id.as_str()).collect();
            ids.join(" ")
        };
        ladder.steps.iter().map(step).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_keys_own_connections_come_first_in_its_order_then_the_accounts_others_then_the_platforms() {
        let named = ladder("m", "acme", &["a3", "a1"], Platform::Allowed);
        assert_eq!(named, "a3 a1 | a2 | a4 | p1 p3 | p2");
    }

    #[test]
    fn what_a_key_names_between_two_connections_of_a_group_comes_between_them() {
        let named = ladder("m", "acme", &["a1", "a2", "a3"], Platform::Denied);
        assert_eq!(named, "a1 | a2 | a3 | a4");
    }

    #[test]
    fn a_platform_that_is_denied_is_not_used_whether_or_not_the_key_names_own_connections() {
        assert_eq!(ladder("m", "acme", &[], Platform::Denied), "a1 | a2 | a3 | a4");
        assert_eq!(ladder("m", "acme", &["a4"], Platform::Denied), "a4 | a1 | a2 | a3");
    }

    #[test]
    fn another_accounts_own_connections_are_never_used_even_if_a_key_names_them() {
        assert_eq!(ladder("m", "zeta", &["a1", "a2"], Platform::Denied), "z1");
        assert_eq!(ladder("m", "nobody", &["a1", "z1"], Platform::Allowed), "p1 p3 | p2");
        assert_eq!(ladder("own-only", "nobody", &[], Platform::Allowed), "");
    }

    #[test]
    fn the_platforms_connections_cannot_be_named_as_ones_own() {
        assert_eq!(ladder("m", "zeta", &["p2"], Platform::Denied), "z1");
    }

    #[test]
    fn connections_of_a_group_are_equals_and_groups_come_in_the_order_of_the_file() {
        let catalog = catalog(FILE);
        let nobody = "nobody".parse().unwrap();
        let means = Means { account: &nobody, byok: &[], platform: Platform::Allowed };
        let ladder = plan(&catalog, means, catalog.model("m").unwrap());
        let steps: Vec<(&str, Order)> = ladder.steps.iter().map(|step| (step.group.as_str(), step.order)).collect();
        assert_eq!(steps, [("p", Order::Spread), ("fixed", Order::Priority)]);
        assert_eq!(ladder.sole(), Sole::No);
    }
}
