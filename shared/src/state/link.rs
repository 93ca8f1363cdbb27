//! The connections to Redis: one deadline per call, and a connection that proved bad is replaced.
//!
//! ```text
//! let link = Link::open("redis://127.0.0.1:6379", Duration::from_millis(500), 2)?;
//! let script = Script::new("admit", "#!lua\nreturn {'admitted', ARGV[1]}");
//! let reply: redis::Value = link.run(&script, &["hg:{a:acct}:balance"], &[Arg::Text("req"), Arg::Int(7)]).await?;
//! let text: redis::Value = link.command(redis::cmd("GET").arg("key")).await?;
//! let both: Vec<redis::Value> = link.pipeline(redis::pipe().atomic().incr("a", 1).incr("b", 1)).await?;
//! ```
//!
//! Replies are RESP3: a script's reply has the same shape as ever (its nulls are `Value::Nil`), but a plain `HGETALL` answers
//! a `Value::Map`.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use deadpool::managed::{Pool, PoolError, QueueMode};
use deadpool_redis::{PoolConfig, Timeouts};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::time::{Instant, timeout_at};

use super::script::{Arg, Form, Script};

pub use error::StateError;

mod address;
mod dial;
mod error;
mod health;
mod wire;

use dial::Dialer;
use health::Health;
use wire::Wire;

/// Most connections a link keeps. One carries the load: the one used last is used next, so that calls that meet share a write.
const CONNECTIONS_MAX: usize = 8;

/// What is told about every call: for metrics. It runs on the path of the call, so it must not block.
pub trait Observer: Send + Sync {
    /// The script or command `name` took `took`, waiting for a connection included.
    fn called(&self, name: &'static str, took: Duration, result: Result<(), &StateError>);
}

/// A handle to the store; clones share the connections.
///
/// Every call, whatever happens to Redis or the network, ends within the `timeout` given at `open`: waiting for a connection,
/// dialling and the reply are one budget.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool<Dialer>,
    health: Arc<Health>,
    timeout: Duration,
    topology: Topology,
    observer: OnceLock<Arc<dyn Observer>>,
}

/// How many servers stand behind the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// One server (or one address that always leads to the current one).
    Standalone,
    /// A master found through Sentinel.
    Sentinel,
    /// Redis Cluster: all keys of one call must share a hash tag.
    Cluster,
}

/// What the server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// `redis_version` (Valkey answers the Redis version it is compatible with).
    pub version: String,
    /// `valkey_version`, if it is a Valkey.
    pub valkey_version: Option<String>,
    /// `run_id`: changes with every start of the server.
    pub run_id: String,
}

impl Link {
    /// A link to the store at `url`. Dials nothing yet: the first call does, so that a process can start while Redis is away.
    ///
    /// - `redis://[user:pass@]host[:port][/db]`, `rediss://` for TLS (system roots, or those in the file `SSL_CERT_FILE` names)
    /// - `redis+unix:///path/to.sock?db=0&username=..&password=..`
    /// - `redis+sentinel://[user:pass@]host[:port],host[:port]/master[/db]`, with `?sentinel_password=..` (and `sentinel_user`) if
    ///   the Sentinels want one of their own
    /// - `redis+cluster://[user:pass@]host[:port],host[:port]`
    /// - `rediss+sentinel://` and `rediss+cluster://` with TLS
    ///
    /// `?protocol=resp2` serves proxies that do not know `HELLO`. `timeout` bounds every call; `connections` (1 to 8) is how
    /// many multiplexed connections there are at most.
    pub fn open(url: &str, timeout: Duration, connections: usize) -> Result<Self, StateError> {
        let target = address::parse(url)?;
        let topology = target.topology();
        let health = Arc::new(Health::new());
        let dialer = Dialer::new(target, timeout, Arc::clone(&health))?;
        let pool = Pool::builder(dialer)
            .config(PoolConfig {
                max_size: connections.clamp(1, CONNECTIONS_MAX),
                timeouts: Timeouts::new(),
                queue_mode: QueueMode::Lifo,
            })
            .build()
            .map_err(|error| StateError::BadUrl(error.to_string()))?;
        Ok(Self { inner: Arc::new(Inner { pool, health, timeout, topology, observer: OnceLock::new() }) })
    }

    /// Tells `observer` about every call from now on. The first one given stays.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let _ = self.inner.observer.set(observer);
    }

    /// How many servers stand behind it.
    pub fn topology(&self) -> Topology {
        self.inner.topology
    }

    /// Whether the keys of one call must share a hash tag.
    pub fn is_cluster(&self) -> bool {
        self.inner.topology == Topology::Cluster
    }

    /// The budget of one call.
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// Whether the last calls failed because no server could serve them.
    pub fn is_away(&self) -> bool {
        self.inner.health.is_away()
    }

    /// Runs a script. A server that does not know it yet (`NOSCRIPT`) is sent the source once, on the same connection.
    ///
    /// After an error the script may or may not have run: call it again only if it is idempotent in its id.
    pub async fn run<K: AsRef<[u8]> + Sync>(
        &self,
        script: &Script,
        keys: &[K],
        args: &[Arg<'_>],
    ) -> Result<Value, StateError> {
        self.call(script.name(), async |wire| {
            let hash = script.command(Form::Hash, keys, args);
            match wire.send(&hash).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    wire.send(&script.command(Form::Source, keys, args)).await
                }
                result => result,
            }
        })
        .await
    }

    /// Sends one command.
    pub async fn command(&self, cmd: &Cmd) -> Result<Value, StateError> {
        self.call("command", async |wire| wire.send(cmd).await).await
    }

    /// Sends several commands at once, one reply each; all or nothing if the pipeline is `atomic()`.
    pub async fn pipeline(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StateError> {
        self.call("pipeline", async |wire| wire.send_all(pipeline).await).await
    }

    /// Whether the store answers (of a cluster: any one node, for the others may still serve their accounts).
    pub async fn ping(&self) -> Result<(), StateError> {
        let cmd = redis::cmd("PING");
        self.call("ping", async |wire| wire.send_anywhere(&cmd).await).await.map(drop)
    }

    /// Version and identity of the server (of any one node of a cluster).
    pub async fn server_info(&self) -> Result<ServerInfo, StateError> {
        let mut cmd = redis::cmd("INFO");
        cmd.arg("server");
        let reply = self.call("info", async |wire| wire.send_anywhere(&cmd).await).await?;
        ServerInfo::parse(reply)
    }

    /// A client of one server that hears every message published; connects to nothing yet (but asks the Sentinels).
    pub(super) async fn subscriber(&self) -> Result<Client, StateError> {
        self.inner.pool.manager().subscriber().await
    }

    /// An error of the client library as ours, free of secrets.
    pub(super) fn explain(&self, error: &RedisError) -> StateError {
        self.inner.pool.manager().explain(error)
    }

    /// One call, all of it within the timeout: a connection, the exchange, the verdict on both, and what is told about it.
    async fn call<T>(
        &self,
        name: &'static str,
        exchange: impl AsyncFnOnce(&mut Wire) -> Result<T, RedisError>,
    ) -> Result<T, StateError> {
        let inner = &*self.inner;
        let started = Instant::now();
        let result = self.attempt(started + inner.timeout, exchange).await;
        if let Some(observer) = inner.observer.get() {
            observer.called(name, started.elapsed(), result.as_ref().map(drop));
        }
        result
    }

    async fn attempt<T>(
        &self,
        deadline: Instant,
        exchange: impl AsyncFnOnce(&mut Wire) -> Result<T, RedisError>,
    ) -> Result<T, StateError> {
        let health = &self.inner.health;
        let mut wire = self.take(deadline).await.inspect_err(|error| health.failed(error))?;
        let result = match timeout_at(deadline, exchange(&mut wire)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(wire.failed(&error)),
            Err(_elapsed) => Err(wire.timed_out()),
        };
        match &result {
            Err(error) if error.is_transient() => health.failed(error),
            _ => health.answered(),
        }
        result
    }

    /// A connection from the pool, or a new one. What is handed out is a clone, and the pooled object goes back at once: a slow
    /// reply never keeps others waiting. A crowd that meets at the pool opens more connections, up to its size.
    async fn take(&self, deadline: Instant) -> Result<Wire, StateError> {
        match timeout_at(deadline, self.inner.pool.get()).await {
            Ok(Ok(pooled)) => Ok(pooled.clone()),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(error)) => Err(StateError::Unreachable(error.to_string())),
            Err(_elapsed) => {
                self.inner.health.hold_off(&StateError::Timeout);
                Err(StateError::Timeout)
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("topology", &self.inner.topology)
            .field("timeout", &self.inner.timeout)
            .finish_non_exhaustive()
    }
}

impl ServerInfo {
    /// Reads the reply to `INFO server`.
    fn parse(reply: Value) -> Result<Self, StateError> {
        let text: String = redis::from_redis_value(reply).map_err(|_| StateError::Reply("INFO is not text".into()))?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        Ok(Self {
            version: field("redis_version").ok_or_else(|| StateError::Reply("INFO names no redis_version".into()))?,
            valkey_version: field("valkey_version"),
            run_id: field("run_id").unwrap_or_default(),
        })
    }
}
