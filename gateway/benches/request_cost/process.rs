//! Processes: their CPU time and memory, and this program in one of its roles.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use axum::serve::ListenerExt as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long a process may take until it listens.
pub(crate) const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// Both ends of two thousand streams, and some.
const SOCKETS: u64 = 8_192;

/// CPU time a process has used so far, user and system, of all its threads.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything; what follows it does not.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat without a name")?;
    let ticks = |nth: usize| fields.split(' ').nth(nth).and_then(|field| field.parse::<u64>().ok());
    let (Some(user), Some(system)) = (ticks(11), ticks(12)) else { bail!("/proc/PID/stat without times") };
    let nanos_per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    Ok(Duration::from_nanos((user + system) * nanos_per_tick))
}

/// Memory of a process that is in RAM, in bytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1_024)
}

/// Raises the limit of open files for this process and its children, as far as that is allowed.
pub(crate) fn allow_many_sockets() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < SOCKETS) {
        let current = limit.maximum.map_or(SOCKETS, |maximum| maximum.min(SOCKETS));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum })?;
    }
    Ok(())
}

/// This program as a child in one of its roles; killed through its handle when dropped.
#[derive(Debug)]
pub(crate) struct Role {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Role {
    /// Starts it and waits until it listens.
    pub(crate) async fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = timeout(STARTS_WITHIN, lines.next_line()).await??;
        let address = first.with_context(|| format!("{arguments:?} ended at once"))?.parse()?;
        Ok(Self { child, address })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the role has ended")
    }
}

/// The other side of [`Role::start`]: listens, says where, and ends with the parent.
pub(crate) async fn play(router: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        // Its end is the parent's end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
