//! Several replicas over one Redis and one fake upstream.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::client::{Client, Response};
use super::config::Config;
use super::eventually::eventually_ok;
use super::redis::{Durability, Redis};
use super::replica::Replica;
use crate::fake::Fake;

/// How long an upstream may take to see that its client is gone.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// Replicas, Redis and the fake upstream; all end when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    /// The shared state.
    pub redis: Redis,
    /// The upstream of all connections.
    pub fake: Fake,
    config: PathBuf,
    environment: Vec<(String, String)>,
    turn: AtomicUsize,
    _folder: tempfile::TempDir,
}

/// What a cluster is started with.
#[derive(Debug)]
pub struct ClusterBuilder {
    replicas: usize,
    config: String,
    durability: Durability,
    environment: Vec<(String, String)>,
}

impl Cluster {
    /// One replica on a configuration.
    pub fn builder(config: &Config) -> ClusterBuilder {
        Self::on(config.yaml())
    }

    /// One replica on a configuration that is another than [`Config`] writes; `{REDIS}` and `{FAKE}` stand for the two URLs.
    pub fn on(yaml: impl Into<String>) -> ClusterBuilder {
        ClusterBuilder { replicas: 1, config: yaml.into(), durability: Durability::default(), environment: Vec::new() }
    }

    /// Three replicas on a configuration, started.
    pub async fn of_three(config: &Config) -> Self {
        Self::builder(config).replicas(3).start().await
    }

    /// A caller of replica `place`, counted from 0.
    pub fn client(&self, place: usize) -> &Client {
        &self.clients[place]
    }

    /// A caller of the replica whose turn it is.
    pub fn next(&self) -> &Client {
        &self.clients[self.turn.fetch_add(1, Ordering::Relaxed) % self.clients.len()]
    }

    /// So many calls at once, replicas in turn; the answers in the order of the calls.
    pub async fn burst(&self, count: usize, secret: &str, model: &str) -> Vec<Response> {
        join_all((0..count).map(|number| {
            let client = self.next();
            async move { client.chat(secret, model, &format!("call {number}")).await }
        }))
        .await
    }

    /// So many calls at once, all to one replica.
    pub async fn burst_of(&self, place: usize, count: usize, secret: &str, model: &str) -> Vec<Response> {
        join_all((0..count).map(|_| self.clients[place].chat(secret, model, "hi"))).await
    }

    /// Writes another configuration into the file of all replicas.
    pub fn reconfigure(&self, config: &Config) {
        write_config(&self.config, &config.yaml(), &self.redis, &self.fake);
    }

    /// The configuration file of all replicas.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Replica `place`, counted from 0.
    pub fn replica(&self, place: usize) -> &Replica {
        &self.replicas[place]
    }

    /// How many replicas there are.
    pub fn size(&self) -> usize {
        self.replicas.len()
    }

    /// Kills replica `place` without warning.
    pub async fn kill(&mut self, place: usize) {
        self.replicas[place].kill().await;
    }

    /// Puts a new process in the place of a replica, which is killed if it still runs. Its address is another.
    pub async fn replace(&mut self, place: usize) {
        self.kill(place).await;
        self.replicas[place] = Replica::start_with(&self.config, &self.environment).await;
        self.clients[place] = self.replicas[place].client();
    }

    /// Replaces every replica; at one moment none runs.
    pub async fn replace_all(&mut self) {
        for replica in &mut self.replicas {
            replica.kill().await;
        }
        for place in 0..self.size() {
            self.replace(place).await;
        }
    }

    /// Replica `place`, to be waited for.
    pub fn replica_mut(&mut self, place: usize) -> &mut Replica {
        &mut self.replicas[place]
    }

    /// The end of a scenario: nothing is held any more, and no upstream call is open.
    pub async fn assert_clean(&self) {
        self.redis.assert_nothing_held().await;
        // That a client is gone is seen a moment after it went.
        let open = async || if self.fake.open() == 0 { Ok(()) } else { Err("upstream calls are still open") };
        eventually_ok(CLOSED_WITHIN, open).await;
    }
}

impl ClusterBuilder {
    /// How many replicas.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// How durable Redis is.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// An environment variable of every replica.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts Redis, the fake upstream and the replicas, and waits until all of them listen.
    pub async fn start(self) -> Cluster {
        let redis = Redis::start(self.durability).await;
        let fake = Fake::start().await.expect("the fake upstream starts");
        let folder = tempfile::Builder::new().prefix("hg-cluster-").tempdir().expect("a temporary folder");
        let config = folder.path().join("headgate.yaml");
        write_config(&config, &self.config, &redis, &fake);
        let replicas = join_all((0..self.replicas).map(|_| Replica::start_with(&config, &self.environment))).await;
        let clients = replicas.iter().map(Replica::client).collect();
        let environment = self.environment;
        Cluster { replicas, clients, redis, fake, config, environment, turn: AtomicUsize::new(0), _folder: folder }
    }
}

/// Written beside and renamed, so that no replica ever reads half a file.
fn write_config(path: &Path, yaml: &str, redis: &Redis, fake: &Fake) {
    let text = yaml.replace("{REDIS}", redis.url()).replace("{FAKE}", &fake.url());
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("the configuration can be written");
    std::fs::rename(&beside, path).expect("the configuration can be renamed");
}
