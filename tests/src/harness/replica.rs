//! One replica: a real `headgate serve` process.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::binary;
use super::client::Client;
use super::config::ADMIN_TOKEN;

/// How long a replica may take until it listens.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// How much of its log is kept for a failure.
const LOG_LINES: usize = 200;

/// A running replica; killed through its handle when it is dropped.
#[derive(Debug)]
pub struct Replica {
    child: Child,
    listen: SocketAddr,
    admin_listen: SocketAddr,
    log: Log,
}

/// The last lines of its log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Replica {
    /// Starts one on a configuration file and waits until it listens; panics with its log if it does not.
    pub async fn start(config: &Path) -> Self {
        Self::start_with(config, &[]).await
    }

    /// The same with more environment variables.
    pub async fn start_with(config: &Path, environment: &[(String, String)]) -> Self {
        let mut command = Command::new(binary::path());
        command
            .args(["serve", "--config"])
            .arg(config)
            .env("HEADGATE_LOG_FORMAT", "json")
            .env("HEADGATE_ADMIN_TOKEN", ADMIN_TOKEN)
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("headgate can be started");
        let log = Log::default();
        let (tell, told) = oneshot::channel();
        let stderr = child.stderr.take().expect("stderr is piped");
        tokio::spawn(read_log(stderr, log.clone(), tell));
        match timeout(STARTS_WITHIN, told).await {
            Ok(Ok((listen, admin_listen))) => Self { child, listen, admin_listen, log },
            Ok(Err(_)) => panic!("the replica ended at once ({:?}); its log:\n{}", child.wait().await, log.text()),
            Err(late) => panic!("the replica does not listen ({late}, {STARTS_WITHIN:?}); its log:\n{}", log.text()),
        }
    }

    /// A caller of its data plane.
    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.listen))
    }

    /// A caller of its admin plane.
    pub fn admin(&self) -> Client {
        Client::new(&format!("http://{}", self.admin_listen))
    }

    /// A gauge or counter of its `/metrics`, labels and all; absent if it was never touched.
    pub async fn metric(&self, name: &str) -> Option<i64> {
        let token = format!("Bearer {ADMIN_TOKEN}");
        let headers = [("authorization", token.as_str())];
        let answer = self.admin().send(http::Method::GET, "/metrics", &headers, "").await.expect("metrics are told");
        let line = answer.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(line.parse().expect("a whole number"))
    }

    /// Its process id; panics if it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_else(|| panic!("the replica has ended; its log:\n{}", self.log()))
    }

    /// The last 200 lines of its log.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Kills it without warning, as a crash would, and waits for its end.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the replica can be killed");
    }

    /// Asks it to stop (SIGTERM) and returns at once.
    pub fn terminate(&self) {
        signal(self.child.id(), "TERM");
    }

    /// Asks it to read its configuration again (SIGHUP).
    pub fn hang_up(&self) {
        signal(self.child.id(), "HUP");
    }

    /// Freezes it: its sockets stay open, nothing answers.
    pub fn freeze(&self) {
        signal(self.child.id(), "STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        signal(self.child.id(), "CONT");
    }

    /// Waits for its end; panics with its log if it does not come in time.
    pub async fn wait(&mut self, within: Duration) -> ExitStatus {
        match timeout(within, self.child.wait()).await {
            Ok(status) => status.expect("a child can be waited for"),
            Err(late) => panic!("the replica still runs ({late}, {within:?}); its log:\n{}", self.log()),
        }
    }
}

impl Log {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > LOG_LINES {
            lines.pop_front();
        }
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

/// Keeps the log, and tells the two addresses once they are in it. Ends with the replica.
async fn read_log(stderr: impl AsyncRead + Unpin, log: Log, tell: oneshot::Sender<(SocketAddr, SocketAddr)>) {
    let mut lines = BufReader::new(stderr).lines();
    let mut tell = Some(tell);
    while let Ok(Some(line)) = lines.next_line().await {
        if tell.is_some()
            && let Some(addresses) = addresses(&line)
            && let Some(tell) = tell.take()
        {
            let _ = tell.send(addresses);
        }
        log.push(line);
    }
}

/// The addresses of the line that says `listening`; its fields may be flat or nested.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields").unwrap_or(&line);
    let field = |name: &str| fields.get(name).or_else(|| line.get(name)).and_then(Value::as_str);
    (field("message")? == "listening").then_some(())?;
    Some((field("listen")?.parse().ok()?, field("admin_listen")?.parse().ok()?))
}

/// Sends a signal to one process of ours, by its (positive) id.
pub(super) fn signal(pid: Option<u32>, name: &str) {
    let pid = pid.filter(|pid| *pid > 1).expect("the process runs");
    let status = std::process::Command::new("kill").args(["-s", name]).arg(pid.to_string()).status();
    assert!(status.expect("kill can be started").success(), "no {name} to {pid}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_found_flat_or_nested_and_only_in_the_right_line() {
        let expected = Some(("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()));
        let flat = r#"{"message":"listening","listen":"127.0.0.1:1","admin_listen":"127.0.0.1:2"}"#;
        assert_eq!(addresses(flat), expected);
        assert_eq!(addresses(&format!(r#"{{"level":"INFO","fields":{flat}}}"#)), expected);
        assert_eq!(addresses(&flat.replace("listening", "ended")), None);
        assert_eq!(addresses("not json"), None);
    }
}
