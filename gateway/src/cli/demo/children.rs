//! Child processes of the demo: started with a log file each, stopped by SIGTERM to their own process, killed if they stay.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How long the fake upstream may take to say where it listens.
const START_WITHIN: Duration = Duration::from_secs(10);
/// How many lines of a log are shown when its process failed.
const TAIL: usize = 8;
/// What the fake upstream says once it listens.
const FAKE_LISTENS: &str = "fake-upstream listening on ";

/// A running child. Dropping it kills the process.
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program whose standard error goes to `NAME.log` in `dir`. It gets no Ctrl-C of the terminal: the demo stops its
    /// children in order.
    pub(super) fn start(name: &str, mut command: Command, dir: &Path) -> anyhow::Result<Self> {
        let log = dir.join(format!("{}.log", name.replace(' ', "-")));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let program = command.as_std().get_program().to_owned();
        let child = command
            .stdin(Stdio::null())
            .stderr(file)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", Path::new(&program).display()))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until it ends by itself, and says so. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => self.obituary(status),
            Err(error) => anyhow::Error::new(error).context(format!("{} cannot be waited for", self.name)),
        }
    }

    /// Asks it to end (`SIGTERM`) and waits for `patience`; then kills it.
    pub(super) async fn stop(mut self, patience: Duration) -> anyhow::Result<()> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        if let Some(pid) = pid
            && kill_process(pid, Signal::TERM).is_ok()
            && timeout(patience, self.child.wait()).await.is_ok()
        {
            return Ok(());
        }
        self.child.kill().await.with_context(|| format!("{} cannot be stopped", self.name))
    }

    fn obituary(&self, status: ExitStatus) -> anyhow::Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        anyhow::anyhow!("{} ended ({status}); the end of {}:\n{tail}", self.name, self.log.display())
    }
}

/// The fake upstream, and where it listens.
pub(super) struct FakeUpstream {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    /// Kept open: a program whose standard output is gone may fail at its next line.
    _stdout: ChildStdout,
}

impl FakeUpstream {
    /// Starts it on a port of its own and waits until it listens.
    pub(super) async fn start(program: Option<&Path>, dir: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(find(program)?);
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut process = Process::start("fake-upstream", command, dir)?;
        let mut lines = BufReader::new(process.child.stdout.take().context("fake-upstream has no standard output")?);
        let mut line = String::new();
        timeout(START_WITHIN, lines.read_line(&mut line)).await.context("fake-upstream does not listen")??;
        let Some(address) = line.trim_end().strip_prefix(FAKE_LISTENS) else {
            return Err(process.ended().await);
        };
        let address = address.parse().with_context(|| format!("fake-upstream listens on {address:?}"))?;
        Ok(Self { process, address, _stdout: lines.into_inner() })
    }
}

/// The program named, else the one beside this program, else the one on PATH.
fn find(program: Option<&Path>) -> anyhow::Result<PathBuf> {
    const NAME: &str = "fake-upstream";
    if let Some(program) = program {
        return Ok(program.to_owned());
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(NAME)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = beside.into_iter().chain(std::env::split_paths(&path).map(|folder| folder.join(NAME)));
    places.into_iter().find(|place| place.is_file()).context(
        "fake-upstream is neither beside this program nor on PATH. Build it with \
         `cargo build --release -p cluster --bin fake-upstream`, or name it with --fake-upstream",
    )
}
