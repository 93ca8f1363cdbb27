//! The `headgate` binary: found, or built once per test run, and run to its end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::process::Command;

/// How long a command that is expected to end may run.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; absent if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it logged.
    pub stderr: String,
}

/// Runs `headgate` with these arguments until it ends; panics if it does not within 20 s.
pub async fn headgate(arguments: &[&str]) -> Exit {
    let mut command = Command::new(path());
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(ENDS_WITHIN, command.output()).await;
    let output = ended.unwrap_or_else(|_| panic!("headgate {arguments:?} did not end within {ENDS_WITHIN:?}"));
    let output = output.expect("headgate can be started");
    Exit {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Where the binary is: `HEADGATE_BIN`, or beside this test in the target folder, built first.
pub(super) fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| std::env::var_os("HEADGATE_BIN").map_or_else(built, PathBuf::from))
}

fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "deps"));
    let profile = folder.and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let binary = profile.join("headgate");
    // Under nextest each test is a process of its own: the first of a run builds, the others find its note.
    let run = std::env::var("NEXTEST_RUN_ID").ok();
    let note = profile.join(".headgate-built-for");
    let fresh = run.is_some() && std::fs::read_to_string(&note).ok() == run;
    if !(fresh && binary.is_file()) {
        build(profile);
        if let Some(run) = run {
            // Without the note the next test builds again, which is only slower.
            let _ = std::fs::write(note, run);
        }
    }
    binary
}

fn build(profile: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let target = profile.parent().expect("a profile lies in a target folder");
    let status = std::process::Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "-p", "gateway", "--bin", "headgate", "--profile", name, "--target-dir"])
        .arg(target)
        .status();
    assert!(status.expect("cargo can be started").success(), "headgate does not build");
}
