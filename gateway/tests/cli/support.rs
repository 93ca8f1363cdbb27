//! What the tests of this folder share: running the program, files, free ports.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

/// How long a command may take that does its work and ends.
const RUN_WITHIN: Duration = Duration::from_secs(20);

/// How a command ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program under test.
pub(crate) fn headgate() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_headgate"))
}

/// A command of the program, of no environment but PATH; killed with its handle.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(headgate());
    command.args(args).env_clear().kill_on_drop(true).stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs a command to its end.
pub(crate) async fn run(mut command: Command) -> Outcome {
    let output = timeout(RUN_WITHIN, command.output()).await.expect("the command does not end").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A folder with a configuration of this text, and the path of that.
pub(crate) fn file(text: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("headgate.yaml");
    std::fs::write(&path, text).unwrap();
    (dir, path.to_str().unwrap().to_owned())
}

/// An address of this machine that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Asks until there is an answer; panics with the last reason once the time is over.
pub(crate) async fn eventually<T>(within: Duration, mut probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + within;
    loop {
        match probe().await {
            Ok(answer) => return answer,
            Err(reason) => assert!(Instant::now() < deadline, "not within {within:?}: {reason}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The fake upstream beside the program, built if it is not there.
pub(crate) fn fake_upstream() -> PathBuf {
    let profile = headgate().parent().unwrap();
    let binary = profile.join("fake-upstream");
    if !binary.is_file() {
        let name = match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = std::process::Command::new(cargo)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["build", "--quiet", "-p", "cluster", "--bin", "fake-upstream", "--profile", name, "--target-dir"])
            .arg(profile.parent().unwrap())
            .status();
        assert!(status.unwrap().success(), "fake-upstream does not build");
    }
    binary
}
