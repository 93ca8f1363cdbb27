//! What the demo looks at: the addresses to try, and the state of Redis at one moment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use shared::config::{self, Config, Key};
use shared::ids::{AccountId, GroupId, ReplicaId};
use shared::state::link::Link;
use shared::state::managed::ManagedRedis;
use shared::state::settlement::LedgerRow;
use shared::state::survey::{AccountView, ConnectionQuery, ConnectionView, KeyQuery};
use shared::state::{StateError, Store};

use super::stage::Places;
use crate::catalog::Catalog;

/// How long one look at Redis may take.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// The demo as it is shown.
pub(super) struct Scene {
    /// Base URLs of the replicas, without a path.
    pub(super) replicas: [String; 2],
    /// Where Prometheus finds the metrics of each.
    pub(super) metrics: [String; 2],
    /// The folder of everything.
    pub(super) data: PathBuf,
    /// What is not as asked for.
    pub(super) remarks: Vec<String>,
    /// The configuration of the replicas.
    pub(super) config: Config,
    /// The account that pays.
    account: AccountId,
    groups: Vec<(GroupId, Vec<ConnectionQuery>)>,
    store: Store,
    redis: PathBuf,
}

/// Redis at one moment.
pub(super) struct Snapshot {
    pub(super) account: AccountView,
    pub(super) connections: Vec<ConnectionView>,
    pub(super) ledger: Vec<LedgerRow>,
}

impl Scene {
    /// Reads the configuration that the replicas are given, and opens a connection of its own.
    pub(super) fn open(
        file: &Path,
        redis: &ManagedRedis,
        places: &Places,
        remarks: Vec<String>,
    ) -> anyhow::Result<Self> {
        let config = config::load(file).map_err(|faults| anyhow::anyhow!(config::report(&faults)))?;
        let catalog = Catalog::new(&config)?;
        let link = Link::open(&redis.socket_url(), LOOK_WITHIN, 1)?;
        let url = |address: SocketAddr| format!("http://{address}");
        Ok(Self {
            replicas: places.data.map(url),
            metrics: places.admin.map(|address| format!("{}/metrics", url(address))),
            data: file.parent().unwrap_or(Path::new(".")).to_owned(),
            remarks,
            account: config.keys.first().context("the demo has no client key")?.account.clone(),
            groups: queries(&config, &catalog),
            store: Store::new(link, config.redis.prefix.as_str(), ReplicaId::fresh()),
            config,
            redis: redis.dir().to_owned(),
        })
    }

    /// The log of the demo's Redis.
    pub(super) fn redis_log(&self) -> PathBuf {
        self.redis.join("redis.log")
    }

    /// The unix socket of the demo's Redis.
    pub(super) fn redis_socket(&self) -> PathBuf {
        self.redis.join("redis.sock")
    }

    /// Looks at Redis; `rows` of the ledger, newest first.
    pub(super) async fn look(&self, rows: usize) -> Result<Snapshot, StateError> {
        let keys: Vec<KeyQuery> = self.config.keys.iter().map(key_query).collect();
        let mut connections = Vec::new();
        for (group, queries) in &self.groups {
            let view = self.store.survey_group(group, queries, self.config.limits.max_lock).await?;
            connections.extend(view.connections);
        }
        Ok(Snapshot {
            account: self.store.survey_account(&self.account, &keys).await?,
            connections,
            ledger: self.store.ledger(&self.account, rows).await?,
        })
    }
}

fn key_query(key: &Key) -> KeyQuery {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let label = key.spend_limit.as_ref().map(|limit| limit.period.span_at(now_ms).label);
    KeyQuery { key: key.id.clone(), label, quotas: Vec::new() }
}

/// Every connection with all the buckets and models it may be closed for, by group.
fn queries(config: &Config, catalog: &Catalog) -> Vec<(GroupId, Vec<ConnectionQuery>)> {
    let mut groups: Vec<(GroupId, Vec<ConnectionQuery>)> = Vec::new();
    for (id, connection) in &config.connections {
        let mut query = ConnectionQuery { connection: id.clone(), buckets: Vec::new(), models: Vec::new() };
        for model in config.models.keys().filter_map(|name| catalog.model(name.as_str())) {
            for serving in model.serving.iter().filter(|serving| serving.connection.id == *id) {
                query.models.push(model.name.clone());
                if !query.buckets.contains(&serving.bucket) {
                    query.buckets.push(serving.bucket.clone());
                }
            }
        }
        match groups.iter_mut().find(|(group, _)| *group == connection.group) {
            Some((_, queries)) => queries.push(query),
            None => groups.push((connection.group.clone(), vec![query])),
        }
    }
    groups
}
