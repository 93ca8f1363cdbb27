//! Orders the rungs of one request. Pure: caller + model + catalog → ladder. No I/O, no clock.

use std::collections::HashSet;
use std::sync::Arc;

use shared::config::ModelPattern;
use shared::ids::{AccountId, ConnectionId, GroupId, ModelName, PoolId};
use shared::state::capacity::Sole;
use shared::state::records::CallerRecord;

use crate::catalog::{Catalog, Model, Owner, Serving};

/// What a request may use.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// The caller's account.
    pub account: &'a AccountId,
    /// The key's own connections, in order.
    pub byok: &'a [ConnectionId],
    /// May the platform's connections be used?
    pub platform: Platform,
    /// May a peer stand in for the model?
    pub peers: Peers,
    /// Patterns of the models the key may use; empty: all. A model that the key may not name does not stand in for another.
    pub models: &'a [String],
    /// The region the account must stay in.
    pub residency: Option<&'a str>,
    /// Does it matter what a request costs?
    pub money: Money,
}

/// Whether what a request costs matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Money {
    /// No limit of money stands in its way.
    Unlimited,
    /// Some does: the platform's connections serve it no model without a price.
    Counts,
}

/// Whether a key may fall back to the platform's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Its own connections only.
    Denied,
    /// The platform's too.
    Allowed,
}

/// Whether a peer may stand in for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// Only the model itself.
    Denied,
    /// Models of its tier at other providers, too.
    Allowed,
}

impl<'a> Means<'a> {
    /// What an account without connections, restrictions or residency may use.
    pub fn of(account: &'a AccountId) -> Self {
        Self {
            account,
            byok: &[],
            platform: Platform::Allowed,
            peers: Peers::Allowed,
            models: &[],
            residency: None,
            money: Money::Unlimited,
        }
    }

    /// What a client key's record says.
    pub fn of_caller(caller: &'a CallerRecord) -> Self {
        let rights = &caller.rights;
        Self {
            account: &caller.account,
            byok: &rights.byok,
            platform: if rights.platform_fallback { Platform::Allowed } else { Platform::Denied },
            peers: if rights.peers { Peers::Allowed } else { Peers::Denied },
            models: &rights.models,
            residency: caller.residency.as_deref(),
            money: if caller.money_counts() { Money::Counts } else { Money::Unlimited },
        }
    }

    /// A key without patterns may use every model; one with patterns those of which a name matches.
    pub fn may_use(&self, name: &ModelName) -> bool {
        let mut patterns = self.models.iter().filter_map(|text| ModelPattern::named(text));
        self.models.is_empty() || patterns.any(|pattern| pattern.matches(name))
    }

    /// Whether the account may be served there. Where the file does not say where a connection works, that is taken for an answer
    /// only for the model that was asked for: nothing stands in for a model without a known region.
    fn resides(&self, serving: &Serving, part: Part) -> bool {
        match (self.residency, &serving.connection.region) {
            (None, _) => true,
            (Some(home), Some(region)) => region.as_str() == home,
            (Some(_), None) => part == Part::Asked,
        }
    }
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

/// One option: a model on a connection, in one pool of it, with its endpoints.
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
    /// The model.
    pub model: Arc<Model>,
    /// The pool, where they have one.
    pub pool: Option<PoolId>,
    /// How they are offered.
    pub order: Order,
    /// At least one.
    pub rungs: Vec<Rung>,
}

/// The ordered rungs of one request, most preferred first.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// The steps, those of one model together: the model that was asked for, then its peers. A step down is one to another owner, pool or
    /// model.
    pub steps: Vec<Step>,
    /// The steps of larger models: only for a request that was too long for one of the steps.
    pub larger: Vec<Step>,
}

/// Whether a step serves the model that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Asked,
    StandsIn,
}

/// The ladder of a request: the model on the key's own connections in the key's order, then on the account's other own
/// connections, then on the platform's groups where the key may use them; the same in each other pool that the model declares; then each of
/// its peers likewise, where the key may use them. A caller that names a pool gets no other.
pub fn plan(catalog: &Catalog, means: Means<'_>, model: &Arc<Model>, pool: Option<&PoolId>) -> Ladder {
    let mut steps = match pool {
        Some(pool) => {
            of_all_owners(catalog, means, model, &|s| s.pool.as_ref().is_some_and(|p| p.id == *pool), Part::Asked)
        }
        None => in_all_pools(catalog, means, model, Part::Asked),
    };
    let may_stand_in = |name: &&ModelName| means.may_use(name);
    if means.peers == Peers::Allowed {
        for peer in model.peers.iter().filter(may_stand_in).filter_map(|name| catalog.model(name.as_str())) {
            steps.extend(in_all_pools(catalog, means, peer, Part::StandsIn));
        }
    }
    let larger = larger(catalog, means, &steps);
    Ladder { steps, larger }
}

/// The steps of all models that are larger than one of these, and so on.
fn larger(catalog: &Catalog, means: Means<'_>, steps: &[Step]) -> Vec<Step> {
    let mut larger: Vec<Step> = Vec::new();
    let mut smaller: Vec<Arc<Model>> = steps.iter().map(|step| Arc::clone(&step.model)).collect();
    while let Some(model) = smaller.pop() {
        let name = model.larger.as_ref().filter(|name| means.may_use(name));
        let Some(model) = name.and_then(|name| catalog.model(name.as_str())) else { continue };
        if larger.iter().all(|step| step.model.name != model.name) {
            larger.extend(in_all_pools(catalog, means, model, Part::StandsIn));
            smaller.push(Arc::clone(model));
        }
    }
    larger
}

/// The steps of one model: the pool its rules choose, then the others it declares.
fn in_all_pools(catalog: &Catalog, means: Means<'_>, model: &Arc<Model>, part: Part) -> Vec<Step> {
    let turns = model.serving.iter().filter_map(|serving| serving.turn).max().map_or(0, |last| last + 1);
    let steps = (0..turns).flat_map(|turn| of_all_owners(catalog, means, model, &|s| s.turn == Some(turn), part));
    steps.collect()
}

/// The steps of one model in one pool: the key's own connections in its order, the account's others, the platform's.
fn of_all_owners(
    catalog: &Catalog,
    means: Means<'_>,
    model: &Arc<Model>,
    takes: &dyn Fn(&Serving) -> bool,
    part: Part,
) -> Vec<Step> {
    let open: Vec<&Serving> = model.serving.iter().filter(|s| takes(s) && means.resides(s, part)).collect();
    let own = |serving: &&&Serving| serving.connection.owner == Owner::Account(means.account.clone());
    let named = means.byok.iter().filter_map(|id| open.iter().filter(own).find(|s| s.connection.id == *id));
    let others = open.iter().filter(own).filter(|s| !means.byok.contains(&s.connection.id));
    let may_use_platform =
        means.platform == Platform::Allowed && (means.money == Money::Unlimited || model.price.is_some());
    let platform = open.iter().filter(|s| may_use_platform && s.connection.owner == Owner::Platform);

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
    steps
}

impl Step {
    fn of(model: &Arc<Model>, serving: &Serving, order: Order) -> Self {
        let connection = &serving.connection;
        Self {
            group: connection.group.clone(),
            owner: connection.owner.clone(),
            model: Arc::clone(model),
            pool: serving.pool.as_ref().map(|pool| pool.id.clone()),
            order,
            rungs: vec![Rung { model: Arc::clone(model), serving: serving.clone() }],
        }
    }

    /// Whether the connections of both are of equal standing.
    pub fn is_like(&self, other: &Self) -> bool {
        self.group == other.group && self.is_level_with(other)
    }

    /// Whether a step from one to the other leads neither up nor down.
    pub fn is_level_with(&self, other: &Self) -> bool {
        self.owner == other.owner && self.model.name == other.model.name && self.pool == other.pool
    }

    /// Whether the attempts of both count together.
    pub fn shares_attempts(&self, other: &Self) -> bool {
        self.group == other.group && self.owner == other.owner
    }
}

impl Ladder {
    /// Every rung there is, those of larger models last.
    pub fn rungs(&self) -> impl Iterator<Item = &Rung> {
        self.steps.iter().chain(&self.larger).flat_map(|step| &step.rungs)
    }

    /// The rungs of one connection only.
    #[must_use]
    pub fn only(mut self, connection: &ConnectionId) -> Self {
        for steps in [&mut self.steps, &mut self.larger] {
            for step in steps.iter_mut() {
                step.rungs.retain(|rung| rung.serving.connection.id == *connection);
            }
            steps.retain(|step| !step.rungs.is_empty());
        }
        self
    }

    /// The steps in runs of one model each.
    pub fn runs(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|one, next| one.model.name == next.model.name)
    }

    /// The steps of one of the larger models.
    pub fn larger_run(&self, name: &ModelName) -> Option<&[Step]> {
        self.larger.chunk_by(|one, next| one.model.name == next.model.name).find(|run| run[0].model.name == *name)
    }

    /// Whether one connection is all there is for a model.
    pub fn sole(&self, model: &ModelName) -> Sole {
        let rungs = self.rungs().filter(|rung| rung.model.name == *model);
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
        let means = Means { byok: &byok, platform, ..Means::of(&account) };
        let ladder = plan(&catalog, means, catalog.model(model).unwrap(), None);
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
        let ladder = plan(&catalog, Means::of(&nobody), catalog.model("m").unwrap(), None);
        let steps: Vec<(&str, Order)> = ladder.steps.iter().map(|step| (step.group.as_str(), step.order)).collect();
        assert_eq!(steps, [("p", Order::Spread), ("fixed", Order::Priority)]);
        assert_eq!(ladder.sole(&"m".parse().unwrap()), Sole::No);
    }
}
