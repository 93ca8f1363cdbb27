//! The command line. Exit codes: 0 done, 1 failed, 2 a bad configuration, command line or term of a key or account, 3 Redis did not
//! answer.

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::manage::ManageError;
use crate::startup::{self, StartError};
use crate::telemetry;

mod account;
mod check;
mod demo;
mod explain;
mod health;
mod key;
mod ledger;
mod store;
mod table;

/// An LLM gateway cluster: any replica, the same decision.
#[derive(Debug, Parser)]
#[command(name = "headgate", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a replica.
    Serve(ConfigFile),
    /// Check a configuration and print each model's ladder.
    Check(check::Check),
    /// Say what a client key would meet if it asked for a model now: its limits and every rung.
    Explain(explain::Explain),
    /// Ask the replica on this machine whether it is alive: exit code 0 or 1.
    Health(health::Health),
    /// Make client keys, look at them, change and revoke them.
    Key(key::Key),
    /// Make accounts, look at them, credit money.
    Account(account::Account),
    /// Show what requests cost.
    Ledger(ledger::Ledger),
    /// Try Headgate: a private Redis, a fake upstream and two replicas in one command.
    Demo(demo::Demo),
}

/// Where the configuration is.
#[derive(Debug, Clone, clap::Args)]
struct ConfigFile {
    /// The YAML file, the same for every replica.
    #[arg(long, env = "HEADGATE_CONFIG", default_value = "headgate.yaml", value_name = "FILE", global = true)]
    config: PathBuf,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Shape {
    /// As JSON, one value a line.
    #[arg(long, global = true)]
    json: bool,
}

const BAD_INPUT: u8 = 2;
const NO_REDIS: u8 = 3;

/// What was named on the command line is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unknown(String);

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(file) => serve(&file),
        Command::Check(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Health(command) => command.run(),
        Command::Key(command) => command.run(),
        Command::Account(command) => command.run(),
        Command::Ledger(command) => command.run(),
        Command::Demo(command) => command.run(),
    }
}

fn serve(file: &ConfigFile) -> ExitCode {
    let outcome = in_runtime(async {
        let telemetry = telemetry::start()?;
        let outcome = startup::serve(&file.config).await;
        tokio::task::spawn_blocking(|| telemetry.stop()).await?;
        outcome.map_err(anyhow::Error::from)
    });
    exit_code(outcome)
}

fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // Two TLS providers can be compiled in; the first use panics unless one was chosen.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// Runs a command that goes to Redis. What comes from the file is refused with the file's name.
fn within(file: &ConfigFile, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let outcome = in_runtime(work);
    exit_code(outcome.map_err(|error| match error.downcast_ref::<ManageError>() {
        Some(ManageError::FromFile(_)) => anyhow::anyhow!("{error} ({})", file.config.display()),
        _ => error,
    }))
}

/// Writes to standard output. A reader that went away (`| head`) is no failure of ours, but nothing more is for it.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        done => Ok(done?),
    }
}

/// The value of a flag as JSON: a number, true or false as themselves, `none` as null, all else as text.
fn flag(text: &str) -> serde_json::Value {
    match text {
        "none" => serde_json::Value::Null,
        "true" => true.into(),
        "false" => false.into(),
        _ => text.parse::<serde_json::Number>().map_or_else(|_| text.into(), serde_json::Value::Number),
    }
}

fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("headgate: {error:#}");
    match error.downcast_ref::<StartError>() {
        Some(StartError::Config(_)) => BAD_INPUT.into(),
        Some(StartError::Redis { .. }) => NO_REDIS.into(),
        _ => match error.downcast_ref::<ManageError>() {
            Some(ManageError::Terms(_)) => BAD_INPUT.into(),
            Some(ManageError::Store(_)) => NO_REDIS.into(),
            _ if error.is::<Unknown>() => BAD_INPUT.into(),
            _ => ExitCode::FAILURE,
        },
    }
}
