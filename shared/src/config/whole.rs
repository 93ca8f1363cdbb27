//! What the parts of a file say together: aliases, tiers, larger models, groups, and who serves what.

use indexmap::{IndexMap, IndexSet};

use super::accounts::{Account, Overdraft};
use super::connections::{Connection, ConnectionSpec, UpstreamModel};
use super::groups::Group;
use super::keys::Key;
use super::models::Model;
use super::names::{Kind, ModelNames};
use super::reader::{At, Place, Reader};
use super::yaml::{self, Node, Position};
use crate::ids::{AccountId, ConnectionId, GroupId, ModelName, TierId};

/// The place of an entry of one of the file's maps.
fn entry(map: &str, name: &str, at: Position) -> Place {
    Place { at, field: format!("{map}.{name}") }
}

/// Groups and aliases are known by their names alone, so their checks need not wait for readable values.
pub(super) fn check_declared(root: &Node, reader: &mut Reader<'_>) {
    for (key, _) in root.get("groups").map(Node::entries).unwrap_or_default() {
        reader.must_exist(Kind::Group, &key.name, &entry("groups", &key.name, key.at));
    }
    for (key, _) in root.get("aliases").map(Node::entries).unwrap_or_default() {
        if reader.names.has(Kind::Model, &key.name) {
            let place = entry("aliases", &key.name, key.at);
            reader.fault(&place, "a model has this name", "an alias that is no model");
        }
    }
    check_larger(reader);
}

/// Following `larger` must end: each circle is noted once.
fn check_larger(reader: &mut Reader<'_>) {
    let mut done = IndexSet::new();
    let mut circles = Vec::new();
    for (start, names) in &reader.names.models {
        let mut path = IndexSet::new();
        let mut next = Some((start, names));
        while let Some((name, names)) = next {
            if done.contains(name) {
                break;
            }
            if !path.insert(name) {
                circles.extend(larger_place(name, names));
                break;
            }
            next = names.larger.as_ref().and_then(|(larger, _)| reader.names.models.get_key_value(larger));
        }
        done.extend(path);
    }
    for place in circles {
        reader.fault(&place, "leads back to the model itself", "a chain of larger models that ends");
    }
}

fn larger_place(model: &str, names: &ModelNames) -> Option<Place> {
    let (_, at) = names.larger.as_ref()?;
    Some(Place { at: *at, field: format!("models.{model}.larger") })
}

/// An alias names a model, not another alias.
pub(super) fn aliases(
    aliases: IndexMap<ModelName, At<ModelName>>,
    reader: &mut Reader<'_>,
) -> IndexMap<ModelName, ModelName> {
    for model in aliases.values() {
        reader.must_exist(Kind::Model, model.value.as_str(), &model.place);
    }
    aliases.into_iter().map(|(alias, model)| (alias, model.value)).collect()
}

/// The models of the file; where it has no `models:`, those that connections list.
pub(super) fn models(
    listed: IndexMap<ModelName, Model>,
    connections: &[ConnectionSpec],
    root: &Node,
) -> IndexMap<ModelName, Model> {
    let mut models = listed;
    if root.get("models").is_none() {
        for connection in connections.iter().map(|spec| &spec.connection) {
            for name in connection.models.keys() {
                models.entry(name.clone()).or_insert_with(|| Model {
                    provider: connection.provider.clone(),
                    tier: None,
                    price: None,
                    context: None,
                    larger: None,
                    pools: Vec::new(),
                });
            }
        }
    }
    models
}

/// Joins the list of tiers with what models say of themselves: listed models first, then the others in the order of the file.
pub(super) fn tiers(
    listed: IndexMap<TierId, Vec<At<ModelName>>>,
    models: &mut IndexMap<ModelName, Model>,
    reader: &mut Reader<'_>,
) -> IndexMap<TierId, Vec<ModelName>> {
    let mut seen = IndexSet::new();
    let mut tiers: IndexMap<TierId, Vec<ModelName>> = IndexMap::with_capacity(listed.len());
    for (tier, members) in listed {
        for member in members {
            reader.must_exist(Kind::Model, member.value.as_str(), &member.place);
            if !seen.insert(member.value.clone()) {
                reader.fault(&member.place, "already in a tier above", "each model in one tier, once");
                continue;
            }
            let Some(model) = models.get_mut(&member.value) else { continue };
            if model.tier.get_or_insert_with(|| tier.clone()) != &tier {
                reader.fault(&member.place, "the model says it is of another tier", "the tier of the model itself");
            }
            tiers.entry(tier.clone()).or_default().push(member.value);
        }
        tiers.entry(tier).or_default();
    }
    for (name, model) in models.iter() {
        if let Some(tier) = &model.tier
            && !seen.contains(name)
        {
            tiers.entry(tier.clone()).or_default().push(name.clone());
        }
    }
    tiers
}

/// Connections by id, each with the models it serves.
pub(super) fn connections(
    specs: Vec<ConnectionSpec>,
    models: &IndexMap<ModelName, Model>,
) -> IndexMap<ConnectionId, Connection> {
    let serve_all = |spec: ConnectionSpec| {
        let mut connection = spec.connection;
        if !spec.lists_models {
            let own = models.iter().filter(|(_, model)| model.provider == connection.provider);
            connection.models = own.map(|(name, _)| (name.clone(), UpstreamModel::of(name))).collect();
        }
        (connection.id.clone(), connection)
    };
    specs.into_iter().map(serve_all).collect()
}

/// Every group that a connection is in; one that the file does not list has the defaults.
pub(super) fn groups(
    listed: &IndexMap<GroupId, Group>,
    connections: &IndexMap<ConnectionId, Connection>,
    reader: &mut Reader<'_>,
) -> Option<IndexMap<GroupId, Group>> {
    use super::reader::Value as _;
    let default = Group::read(&yaml::parse("{}").ok()?, reader)?;
    let group = |connection: &Connection| {
        let group = listed.get(&connection.group).unwrap_or(&default);
        (connection.group.clone(), group.clone())
    };
    Some(connections.values().map(group).collect())
}

/// The accounts of the file; where it has no `accounts:`, those that keys name.
pub(super) fn accounts(listed: Vec<Account>, keys: &[Key], root: &Node) -> IndexMap<AccountId, Account> {
    let mut accounts: IndexMap<AccountId, Account> =
        listed.into_iter().map(|account| (account.id.clone(), account)).collect();
    if root.get("accounts").is_none() {
        for id in keys.iter().map(|key| &key.account) {
            accounts.entry(id.clone()).or_insert_with(|| Account {
                id: id.clone(),
                balance: None,
                residency: None,
                overdraft: Overdraft::Soft,
            });
        }
    }
    accounts
}

/// Says which models nothing serves and which connections serve nothing.
pub(super) fn notice_unserved(
    models: &IndexMap<ModelName, Model>,
    connections: &IndexMap<ConnectionId, Connection>,
    root: &Node,
    reader: &mut Reader<'_>,
) {
    for (key, _) in root.get("models").map(Node::entries).unwrap_or_default() {
        let served = connections.values().any(|connection| connection.models.contains_key(key.name.as_str()));
        if models.contains_key(key.name.as_str()) && !served {
            reader.notice(&entry("models", &key.name, key.at), "no connection serves this model");
        }
    }
    let nodes = root.get("connections").map(Node::items).unwrap_or_default();
    for (index, (connection, node)) in connections.values().zip(nodes).enumerate() {
        if connection.models.is_empty() {
            let place = Place { at: node.start, field: format!("connections[{index}]") };
            reader.notice(&place, "serves no model: its provider has none and it lists none");
        }
    }
}
