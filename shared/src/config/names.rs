//! Every name a file declares, gathered in a first sweep, so that a reference is checked where it stands and a fault in one
//! entry hides none in another.

use std::cell::RefCell;
use std::collections::HashSet;

use indexmap::{IndexMap, IndexSet};

use super::env::{self, Filled};
use super::yaml::{Content, Node, Position};

/// What a name may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Provider,
    Connection,
    Model,
    Tier,
    Account,
    Group,
}

/// What is declared, readable or not.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) providers: IndexMap<String, ProviderNames>,
    /// Connections and their owners.
    pub(super) connections: IndexMap<String, String>,
    pub(super) models: IndexMap<String, ModelNames>,
    pub(super) aliases: IndexSet<String>,
    /// `None` when the file lists no tiers: then models make them.
    pub(super) tiers: Option<IndexSet<String>>,
    pub(super) accounts: IndexSet<String>,
    pub(super) groups: IndexSet<String>,
    /// Names that came out of the environment: they are never shown.
    pub(super) from_env: HashSet<String>,
}

/// The names inside a provider.
#[derive(Debug, Default)]
pub(super) struct ProviderNames {
    pub(super) endpoints: IndexSet<String>,
    pub(super) pools: IndexSet<String>,
}

/// What a model refers to.
#[derive(Debug, Default)]
pub(super) struct ModelNames {
    pub(super) provider: Option<String>,
    pub(super) larger: Option<(String, Position)>,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Connection => "connection",
            Self::Model => "model",
            Self::Tier => "tier",
            Self::Account => "account",
            Self::Group => "group of any connection",
        }
    }
}

impl Names {
    pub(super) fn gather(root: &Node, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let sweep = Sweep { env, from_env: RefCell::default() };
        let mut names = Self {
            providers: keys(root, "providers").map(|(name, node)| (name, ProviderNames::gather(node, env))).collect(),
            aliases: keys(root, "aliases").map(|(name, _)| name).collect(),
            tiers: root.get("tiers").map(|_| keys(root, "tiers").map(|(name, _)| name).collect()),
            ..Self::default()
        };
        let connections = root.get("connections").map(Node::items).unwrap_or_default();
        for connection in connections {
            let provider = sweep.text(connection, "provider");
            names.groups.extend(sweep.text(connection, "group").or_else(|| provider.clone()));
            if let Some(id) = sweep.text(connection, "id") {
                let owner = sweep.text(connection, "owner").unwrap_or_else(|| "platform".to_owned());
                names.connections.entry(id).or_insert(owner);
            }
            if root.get("models").is_none() {
                for model in sweep.models_of(connection) {
                    let named = ModelNames { provider: provider.clone(), larger: None };
                    names.models.entry(model).or_insert(named);
                }
            }
        }
        names.models.extend(keys(root, "models").map(|(name, node)| (name, sweep.model(node))));
        names.accounts = sweep.accounts(root);
        names.from_env = sweep.from_env.into_inner();
        names
    }

    /// True when the file declares a name of this kind.
    pub(super) fn has(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Provider => self.providers.contains_key(name),
            Kind::Connection => self.connections.contains_key(name),
            Kind::Model => self.models.contains_key(name),
            Kind::Tier => self.tiers.as_ref().is_none_or(|tiers| tiers.contains(name)),
            Kind::Account => self.accounts.contains(name),
            Kind::Group => self.groups.contains(name),
        }
    }

    /// All names of a kind.
    pub(super) fn all(&self, kind: Kind) -> Vec<&str> {
        match kind {
            Kind::Provider => self.providers.keys().map(String::as_str).collect(),
            Kind::Connection => self.connections.keys().map(String::as_str).collect(),
            Kind::Model => self.models.keys().map(String::as_str).collect(),
            Kind::Tier => self.tiers.iter().flatten().map(String::as_str).collect(),
            Kind::Account => self.accounts.iter().map(String::as_str).collect(),
            Kind::Group => self.groups.iter().map(String::as_str).collect(),
        }
    }
}

impl ProviderNames {
    /// The names inside one provider.
    pub(super) fn gather(provider: &Node, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let sweep = Sweep { env, from_env: RefCell::default() };
        let endpoints = provider.get("endpoints").map(Node::items).unwrap_or_default();
        Self {
            endpoints: endpoints.iter().filter_map(|endpoint| sweep.text(endpoint, "name")).collect(),
            pools: keys(provider, "pools").map(|(name, _)| name).collect(),
        }
    }
}

fn keys<'n>(node: &'n Node, field: &str) -> impl Iterator<Item = (String, &'n Node)> {
    let entries = node.get(field).map(Node::entries).unwrap_or_default();
    entries.iter().map(|(key, value)| (key.name.clone(), value))
}

/// Reads texts without noting faults: the pass itself notes them.
struct Sweep<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    from_env: RefCell<HashSet<String>>,
}

impl Sweep<'_> {
    fn scalar(&self, node: &Node) -> Option<String> {
        match &*node.content {
            Content::Scalar { text, .. } => {
                let Filled { text, from_env } = env::fill(text, self.env).ok()?;
                if from_env {
                    self.from_env.borrow_mut().insert(text.clone());
                }
                Some(text)
            }
            _ => None,
        }
    }

    fn text(&self, node: &Node, field: &str) -> Option<String> {
        self.scalar(node.get(field)?)
    }

    fn model(&self, node: &Node) -> ModelNames {
        let larger = node.get("larger").and_then(|larger| Some((self.scalar(larger)?, larger.at)));
        ModelNames { provider: self.text(node, "provider"), larger }
    }

    /// The public names in a connection's list or map of models.
    fn models_of(&self, connection: &Node) -> Vec<String> {
        let listed = connection.get("models").map(Node::items).unwrap_or_default();
        listed
            .iter()
            .filter_map(|model| self.scalar(model))
            .chain(keys(connection, "models").map(|(name, _)| name))
            .collect()
    }

    /// The accounts listed; in a file that lists none, those that keys name.
    fn accounts(&self, root: &Node) -> IndexSet<String> {
        if let Some(accounts) = root.get("accounts") {
            return accounts.items().iter().filter_map(|account| self.text(account, "id")).collect();
        }
        let keys = root.get("keys").map(Node::items).unwrap_or_default();
        keys.iter()
            .filter_map(|key| match key.get("account") {
                Some(account) => self.scalar(account),
                None => Some("default".to_owned()),
            })
            .collect()
    }
}
