//! What is measured, as processes: a Redis, one replica on it, the upstream, and the plain proxy.

use std::fmt::Write as _;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use shared::state::link::Link;
use shared::state::managed::{ManagedOptions, ManagedRedis};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::process::{Role, STARTS_WITHIN};
use crate::upstream::{ANSWER, BATCHED, IDLE, PACED};

/// The client key's secret.
pub(crate) const SECRET: &str = "hg-bench-secret";
/// Settlement is off the client's path; after the last answer it takes at most so long.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// All processes; each is stopped through its handle when the rig is dropped.
pub(crate) struct Rig {
    _upstream: Role,
    plain: Role,
    pub(crate) link: Link,
    redis: ManagedRedis,
    headgate: Child,
    headgate_at: SocketAddr,
    _folder: TempDir,
}

/// What answers the callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// `headgate serve`.
    Headgate,
    /// axum and reqwest.
    Plain,
}

impl Rig {
    /// Starts everything, with nothing in Redis but what the replica writes.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("hg-bench-").tempdir()?;
        let upstream = Role::start(&["upstream"]).await?;
        let plain = Role::start(&["plain", &upstream.address.to_string()]).await?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let options = ManagedOptions { port: Some(port), ..ManagedOptions::new(folder.path().join("redis")) };
        let redis = ManagedRedis::start(options).await?;
        // Its own connection, by the socket: the load is on the port.
        let link = Link::open(&redis.socket_url(), Duration::from_secs(5), 1)?;
        let (headgate, headgate_at) = serve(folder.path(), &config(&redis.url(), upstream.address)).await?;
        Ok(Self { _upstream: upstream, plain, link, redis, headgate, headgate_at, _folder: folder })
    }

    /// Where callers send to.
    pub(crate) fn url(&self, proxy: Proxy) -> String {
        let address = match proxy {
            Proxy::Headgate => self.headgate_at,
            Proxy::Plain => self.plain.address,
        };
        format!("http://{address}/v1/chat/completions")
    }

    /// The process id of a proxy.
    pub(crate) fn pid(&self, proxy: Proxy) -> anyhow::Result<u32> {
        match proxy {
            Proxy::Headgate => self.headgate.id().context("headgate has ended"),
            Proxy::Plain => self.plain.pid(),
        }
    }

    /// The process id of the Redis.
    pub(crate) fn redis_pid(&self) -> anyhow::Result<u32> {
        self.redis.pid().context("redis has ended")
    }

    /// Waits until every lease is given back: what was answered is then settled, and its cost measured.
    pub(crate) async fn settled(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        let leases = ["{a:bench}:key:caller", "{g:up}:conn:c1", "{g:up}:conn:c2", "{g:up}:conn:c3"];
        let mut exists = redis::cmd("EXISTS");
        for of in leases {
            exists.arg(format!("hg:{of}:leases"));
        }
        while self.link.command(&exists).await? != redis::Value::Int(0) {
            if Instant::now() > deadline {
                bail!("leases are still held long after the last answer");
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

/// Starts a replica whose log goes to a file, and waits until it listens.
async fn serve(folder: &Path, config: &str) -> anyhow::Result<(Child, SocketAddr)> {
    let (file, log) = (folder.join("headgate.yaml"), folder.join("headgate.log"));
    std::fs::write(&file, config)?;
    let child = Command::new(env!("CARGO_BIN_EXE_headgate"))
        .args(["serve", "--config"])
        .arg(&file)
        .env("HEADGATE_LOG_FORMAT", "json")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .kill_on_drop(true)
        .spawn()?;
    let deadline = Instant::now() + STARTS_WITHIN;
    loop {
        let text = std::fs::read_to_string(&log)?;
        if let Some(address) = text.lines().find_map(listening) {
            return Ok((child, address));
        }
        if Instant::now() > deadline {
            bail!("headgate does not listen; its log:\n{text}");
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn listening(line: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line.get("message")? == "listening").then(|| line.get("listen")?.as_str()?.parse().ok())?
}

/// Every limit of the first features is on; none is reached.
fn config(redis: &str, upstream: SocketAddr) -> String {
    let mut text = format!(
        "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {{url: \"{redis}\", timeout: 2s}}\n\
         providers:\n  up: {{dialect: openai, base_url: \"http://{upstream}/v1\"}}\nmodels:\n"
    );
    for model in [ANSWER, PACED, BATCHED, IDLE] {
        let _ = writeln!(text, "  {model}: {{provider: up, price: {{input: 1, cached_input: 0.1, output: 10}}}}");
    }
    text += "connections:
";
    for connection in ["c1", "c2", "c3"] {
        let _ = write!(text, "  - {{id: {connection}, provider: up, api_key: sk-{connection}, ");
        text += "max_concurrent: 1000, rpm: 1000000}
";
    }
    text += "accounts:
  - {id: bench, balance: 100000.00}
keys:
";
    let _ = writeln!(text, "  - {{id: caller, account: bench, secret: {SECRET}, rpm: 1000000, max_concurrent: 2500}}");
    text
}
