//! Opens the connections of a link. Every time anew through DNS, Sentinel or the cluster's nodes.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use rand::RngExt as _;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError,
    TlsMode,
    aio::MultiplexedConnection,
    cluster::{ClusterClient, ClusterClientBuilder},
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use tokio::time::timeout;

use super::{
    StateError,
    address::{SentinelTarget, Target},
    health::Health,
    wire::{Line, Wire},
};

/// Requests that may queue up for one socket before a sender has to wait.
const PIPELINE_BUFFER: usize = 1024;
/// When the kernel starts to ask whether the other side of a silent connection is still there, how often, and when it gives up.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
/// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// How often the cluster client may follow a redirect or reconnect within one call.
const CLUSTER_RETRIES: u32 = 3;
/// The longest pause between two of them, in milliseconds.
const CLUSTER_RETRY_WAIT_MS: u64 = 50;

/// The pool's manager. Ours, because the stock one asks the server `UNWATCH` and `PING` each time a connection is taken.
pub(super) struct Dialer {
    route: Route,
    timeout: Duration,
    health: Arc<Health>,
    secrets: Vec<String>,
}

/// The way to the servers, checked and ready to be used.
enum Route {
    Standalone(Client),
    Sentinel(SentinelTarget),
    /// The client, and the nodes by themselves for a subscriber.
    Cluster(Box<ClusterClient>, Vec<Client>),
}

impl Dialer {
    /// Checks the target; connects to nothing.
    pub(super) fn new(target: Target, timeout: Duration, health: Arc<Health>) -> Result<Self, StateError> {
        if target.is_encrypted() {
            // Without a provider the first TLS connection panics. One that the process has chosen already stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        let secrets = target.secrets();
        let route = Route::new(target, timeout).map_err(|error| StateError::BadUrl(error.to_string()))?;
        Ok(Self { route, timeout, health, secrets })
    }

    /// A client of one server that hears every message published: the master, or any node of a cluster.
    pub(super) async fn subscriber(&self) -> Result<Client, StateError> {
        let client = match &self.route {
            Route::Standalone(client) => Ok(client.clone()),
            Route::Sentinel(target) => match timeout(self.timeout, master(target)).await {
                Ok(client) => client,
                Err(_elapsed) => return Err(StateError::Timeout),
            },
            Route::Cluster(_, nodes) => Ok(nodes[rand::rng().random_range(0..nodes.len())].clone()),
        };
        client.map_err(|error| self.explain(&error))
    }

    /// The error as ours, free of secrets.
    pub(super) fn explain(&self, error: &RedisError) -> StateError {
        StateError::of(error).scrubbed(&self.secrets)
    }

    async fn dial(&self) -> Result<Wire, RedisError> {
        let closed = Arc::new(AtomicBool::new(false));
        let line = match &self.route {
            Route::Standalone(client) => Line::One(self.connect(client, &closed).await?),
            Route::Sentinel(target) => Line::One(self.connect(&master(target).await?, &closed).await?),
            Route::Cluster(client, _) => Line::Cluster(client.get_async_connection().await?),
        };
        Ok(Wire::new(line, closed, Arc::clone(&self.health)))
    }

    /// Connects to one server; `closed` is set once the connection has ended.
    async fn connect(&self, client: &Client, closed: &Arc<AtomicBool>) -> Result<MultiplexedConnection, RedisError> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            // The caller's deadline covers the reply; a second timer per call would only cost.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        if client.get_connection_info().redis_settings().protocol() == ProtocolVersion::RESP3 {
            let closed = Arc::clone(closed);
            config = config.set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    closed.store(true, Ordering::Release);
                }
                Ok::<(), Infallible>(())
            });
        }
        client.get_multiplexed_async_connection_with_config(&config).await
    }
}

impl Manager for Dialer {
    type Type = Wire;
    type Error = StateError;

    async fn create(&self) -> Result<Wire, StateError> {
        if let Some(error) = self.health.held_off() {
            return Err(error);
        }
        // Boxed, for it is long and rare: otherwise every call's future had room for it.
        Box::pin(self.dial()).await.map_err(|error| {
            let error = self.explain(&error);
            self.health.hold_off(&error);
            error
        })
    }

    async fn recycle(&self, wire: &mut Wire, _: &Metrics) -> RecycleResult<StateError> {
        if wire.is_usable() { Ok(()) } else { Err(RecycleError::message("replaced")) }
    }
}

impl Route {
    fn new(target: Target, timeout: Duration) -> Result<Self, RedisError> {
        match target {
            Target::Standalone(info) => Ok(Self::Standalone(client(info)?)),
            Target::Sentinel(target) => {
                sentinel_client(&target)?;
                Ok(Self::Sentinel(target))
            }
            Target::Cluster(nodes) => {
                let cluster = ClusterClientBuilder::new(nodes.clone())
                    // A node that does not answer is asked twice while connecting (as a seed, then as a master): the connection
                    // to the others must still be there before the caller's budget is spent.
                    .connection_timeout(timeout / 3)
                    // Not shorter than the caller's budget: what timed out is not sent again, its caller has gone.
                    .response_timeout(timeout)
                    .overall_response_timeout(None)
                    .retries(CLUSTER_RETRIES)
                    .max_retry_wait(CLUSTER_RETRY_WAIT_MS)
                    .tcp_settings(tcp_settings())
                    .build()?;
                let nodes = nodes.into_iter().map(client).collect::<Result<_, _>>()?;
                Ok(Self::Cluster(Box::new(cluster), nodes))
            }
        }
    }
}

/// A client of one server with our socket settings.
fn client(info: ConnectionInfo) -> Result<Client, RedisError> {
    Client::open(info.set_tcp_settings(tcp_settings()))
}

/// Asks the Sentinels for the current master, and that server whether it is one (`ROLE`).
async fn master(target: &SentinelTarget) -> Result<Client, RedisError> {
    // Made anew each time: a client kept would keep its connection to a Sentinel that may be frozen by now.
    sentinel_client(target)?.async_get_client().await
}

fn sentinel_client(target: &SentinelTarget) -> Result<SentinelClient, RedisError> {
    let mut builder = SentinelClientBuilder::new(target.sentinels.clone(), &target.master, SentinelServerType::Master)?
        .set_client_to_redis_db(target.server.db())
        .set_client_to_redis_protocol(target.server.protocol())
        .set_client_to_redis_tcp_settings(tcp_settings())
        .set_client_to_sentinel_tcp_settings(tcp_settings());
    if target.sentinels.iter().any(|address| matches!(address, ConnectionAddr::TcpTls { .. })) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(user) = target.server.username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = target.server.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(user) = target.sentinel.username() {
        builder = builder.set_client_to_sentinel_username(user);
    }
    if let Some(password) = target.sentinel.password() {
        builder = builder.set_client_to_sentinel_password(password);
    }
    builder.build()
}

/// Small messages leave at once, and a peer that vanished is noticed.
fn tcp_settings() -> TcpSettings {
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_EVERY).with_retries(KEEPALIVE_PROBES);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_MAX);
    settings
}
