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

    /// Whether one connection is all there is.
    pub fn sole(&self) -> Sole {
        let rungs = self.steps.iter().flat_map(|step| &step.rungs);
        let connections: HashSet<&ConnectionId> = rungs.map(|rung| &rung.serving.connection.id).collect();
        if connections.len() == 1 { Sole::Yes } else { Sole::No }
    }
}
