//! Brings a replica up in order, keeps it in line with its configuration, and takes it down without losing anything.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use secrecy::ExposeSecret as _;
use shared::config::{self, Config, RedisUrl};
use shared::ids::ReplicaId;
use shared::state::link::{Link, Observer};
use shared::state::managed::{ManagedOptions, ManagedRedis, Signals};
use shared::state::wake::Waker;
use shared::state::{StateError, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, AdminToken};
use crate::app::{App, Shared};
use crate::catalog::Catalog;
use crate::flow::authenticate::Callers;
use crate::lease_keeper::LeaseKeeper;
use crate::metrics::Metrics;
use crate::serve::{Until, serve as answer};
use crate::upstream::client::Client;
use crate::upstream::images::Fetcher;
use crate::{enrol, router, sweep};

/// Multiplexed connections to Redis.
const REDIS_CONNECTIONS: usize = 3;
/// How long a replica tries to reach Redis at start.
const REDIS_PATIENCE: Duration = Duration::from_secs(3);
/// After readiness went down, new requests are still taken for so long: load balancers need a moment to notice.
const NOTICE: Duration = Duration::from_secs(1);
/// After the drain, requests get so long to tell their callers.
const CUT_PATIENCE: Duration = Duration::from_secs(2);
/// After the last request, settlements get so long to reach Redis.
const OUTBOX_PATIENCE: Duration = Duration::from_secs(5);

/// How often the configuration file is looked at.
const LOOK_AT_FILE: Duration = Duration::from_secs(2);

/// What tells a changed file: its time and its size. `None` while it is not there, as in the midst of a replacement.
fn stamp(path: &Path) -> Option<(std::time::SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Why a replica did not start or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration has faults: one line each.
    #[error("the configuration is refused\n{0}")]
    Config(String),
    /// Redis did not answer, or not as it must.
    #[error("Redis did not answer at start ({at}): {source}")]
    Redis {
        /// Where it was looked for; no credentials.
        at: String,
        /// What went wrong.
        source: StateError,
    },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// A caller and its upstream take a descriptor each, and the usual soft limit of 1,024 is left over from `select`: takes what
/// the hard limit allows.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Runs a replica until it is told to stop (SIGTERM, SIGINT).
pub async fn serve(path: &Path) -> Result<(), StartError> {
    raise_file_limit();
    let config = config::load(path).map_err(|faults| StartError::Config(config::report(&faults)))?;
    for notice in &config.notices {
        tracing::warn!("{notice}");
    }
    // Asked first: whether it answers is known sooner than what every model costs.
    let (link, redis) = connect(&config).await?;
    let catalog = Catalog::new(&config)?;
    let app = assemble(&config, catalog, &link).await?;
    let data = bind(config.listen).await?;
    let admin = bind(config.admin_listen).await?;
    tracing::info!(
        listen = %address(&data)?,
        admin_listen = %address(&admin)?,
        replica = %app.store.replica(),
        config = config.version,
        "listening"
    );
    let replica = Replica::start(path, &app, data, admin)?;
    replica.run(&config).await?;
    if let Some(redis) = redis {
        redis.stop().await.context("the managed Redis did not stop")?;
    }
    Ok(())
}

/// Opens the store's connections and asks once; a managed Redis is started first.
async fn connect(config: &Config) -> Result<(Link, Option<ManagedRedis>), StartError> {
    let (url, managed) = match &config.redis.url {
        RedisUrl::Url(url) => (url.expose_secret().to_owned(), None),
        RedisUrl::Managed => {
            let dir = std::env::var_os("HEADGATE_DATA_DIR").map_or_else(|| PathBuf::from("data"), PathBuf::from);
            let redis = ManagedRedis::start(ManagedOptions {
                signals: Signals::Shielded,
                ..ManagedOptions::new(dir.join("redis"))
            })
            .await
            .context("redis.url: managed")?;
            (redis.url(), Some(redis))
        }
    };
    let failed = |source| StartError::Redis { at: without_credentials(&url), source };
    let link = Link::open(&url, config.redis.timeout, REDIS_CONNECTIONS).map_err(failed)?;
    let deadline = Instant::now() + REDIS_PATIENCE;
    loop {
        match link.ping().await {
            Ok(()) => return Ok((link, managed)),
            Err(error) if error.is_transient() && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// A URL as it may be shown.
pub(crate) fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "redis.url".to_owned() };
    let place = rest.split_once('?').map_or(rest, |(place, _)| place);
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{scheme}://{host}")
}

async fn assemble(config: &Config, catalog: Catalog, link: &Link) -> Result<Shared, StartError> {
    let metrics = Arc::new(Metrics::new());
    link.observe(Arc::new(Scripts(Arc::clone(&metrics))));
    let store = Store::new(link.clone(), config.redis.prefix.as_str(), ReplicaId::fresh());
    enrol::enrol(&store, config)
        .await
        .map_err(|source| StartError::Redis { at: "writing accounts and keys".to_owned(), source })?;
    let upstream = Client::new(config.timeouts.connect).context("the upstream client did not start")?;
    Ok(Arc::new(App {
        catalog: ArcSwap::from_pointee(catalog),
        waker: Waker::start(link.clone(), store.wake_channel()),
        upstream,
        images: Fetcher::new().context("the client for images did not start")?,
        keeper: LeaseKeeper::new(store.clone(), Arc::clone(&metrics)),
        callers: Callers::new(store.clone()),
        metrics,
        draining: CancellationToken::new(),
        cut: CancellationToken::new(),
        store,
    }))
}

/// Tells the metrics about every call of the store.
struct Scripts(Arc<Metrics>);

impl Observer for Scripts {
    fn called(&self, script: &'static str, took: Duration, _: Result<(), &StateError>) {
        self.0.script(script, took);
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

fn address(listener: &TcpListener) -> anyhow::Result<SocketAddr> {
    listener.local_addr().context("a listener without an address")
}

/// A running replica and the tasks it owns.
struct Replica {
    path: PathBuf,
    app: Shared,
    /// Ends the data plane.
    until: Until,
    /// Ends the background tasks and the admin plane.
    stop: CancellationToken,
    data: JoinHandle<()>,
    admin: JoinHandle<()>,
    background: Vec<JoinHandle<()>>,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Replica {
    fn start(path: &Path, app: &Shared, data: TcpListener, admin: TcpListener) -> anyhow::Result<Self> {
        let (until, stop) = (Until::default(), CancellationToken::new());
        let token = AdminToken::from_env();
        let reach = admin.local_addr()?.ip();
        if !token.is_set() && !reach.is_loopback() {
            tracing::warn!(%reach, "the admin plane is open to whoever reaches it: set HEADGATE_ADMIN_TOKEN");
        }
        let admin_until = Until { closing: stop.clone(), ..Until::default() };
        Ok(Self {
            path: path.to_owned(),
            data: tokio::spawn(answer(data, router::router(Arc::clone(app)), until.clone())),
            admin: tokio::spawn(answer(admin, admin::router(Arc::clone(app), token), admin_until)),
            background: vec![
                tokio::spawn(app.keeper.clone().run(stop.clone())),
                tokio::spawn(sweep::run(Arc::clone(app), stop.clone())),
            ],
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            app: Arc::clone(app),
            until,
            stop,
        })
    }

    /// Serves until told to stop, then drains.
    async fn run(mut self, config: &Config) -> anyhow::Result<()> {
        let mut look = tokio::time::interval(LOOK_AT_FILE);
        let mut seen = stamp(&self.path);
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hang_up.recv() => {
                    seen = stamp(&self.path);
                    self.reload(config).await;
                }
                _ = look.tick() => {
                    let now = stamp(&self.path);
                    if now.is_some() && now != seen {
                        seen = now;
                        self.reload(config).await;
                    }
                }
                ended = &mut self.data => return ended.context("the data plane ended"),
            }
        }
        self.drain(config.drain_timeout).await
    }

    /// Loads the file again; a bad one is refused and the old one stays.
    async fn reload(&self, begun_with: &Config) {
        let config = match config::load(&self.path) {
            Ok(config) => config,
            Err(faults) => {
                return tracing::error!(faults = config::report(&faults), "the changed configuration is refused");
            }
        };
        let catalog = match Catalog::new(&config) {
            Ok(catalog) => catalog,
            Err(error) => return tracing::error!(%error, "the changed configuration is refused"),
        };
        if let Err(error) = enrol::enrol(&self.app.store, &config).await {
            return tracing::error!(%error, "the changed configuration did not reach Redis; the old one stays");
        }
        self.app.catalog.store(Arc::new(catalog));
        if config.listen != begun_with.listen
            || config.admin_listen != begun_with.admin_listen
            || config.redis.prefix != begun_with.redis.prefix
        {
            tracing::warn!("listen, admin_listen and redis are read at start only: restart the replica for them");
        }
        tracing::info!(config = config.version, "the changed configuration is in use");
    }

    /// Readiness goes down, running requests end or are cut after `patience`, everything is settled and released.
    async fn drain(mut self, patience: Duration) -> anyhow::Result<()> {
        tracing::info!(open_requests = self.app.metrics.open_requests.get(), "draining");
        let deadline = Instant::now() + patience;
        self.app.draining.cancel();
        tokio::time::sleep(NOTICE.min(patience)).await;
        self.until.closing.cancel();
        if tokio::time::timeout_at(deadline, &mut self.data).await.is_err() {
            tracing::warn!(
                open_requests = self.app.metrics.open_requests.get(),
                "the drain took too long: requests are cut"
            );
            self.app.cut.cancel();
            let told = tokio::time::timeout(CUT_PATIENCE, &mut self.data).await;
            self.until.cut.cancel();
            if told.is_err() {
                // Connections of callers that do not read: dropped, which settles their requests.
                let _ = (&mut self.data).await;
            }
        }
        self.app.keeper.drain(OUTBOX_PATIENCE).await;
        self.stop.cancel();
        for task in self.background {
            task.await.context("a background task failed")?;
        }
        let _ = tokio::time::timeout(CUT_PATIENCE, self.admin).await;
        tracing::info!("stopped");
        Ok(())
    }
}
