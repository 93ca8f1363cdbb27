//! The command line. Exit codes: 0 done, 1 failed, 2 a bad configuration or command line, 3 Redis did not answer.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::startup::{self, StartError};
use crate::telemetry;

mod check;
mod demo;
mod explain;
mod health;
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
    /// Try Headgate: a private Redis, a fake upstream and two replicas in one command.
    Demo(demo::Demo),
}

/// Where the configuration is.
#[derive(Debug, Clone, clap::Args)]
struct ConfigFile {
    /// The YAML file, the same for every replica.
    #[arg(long, env = "HEADGATE_CONFIG", default_value = "headgate.yaml", value_name = "FILE")]
    config: PathBuf,
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

fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("headgate: {error:#}");
    match error.downcast_ref::<StartError>() {
        Some(StartError::Config(_)) => BAD_INPUT.into(),
        Some(StartError::Redis { .. }) => NO_REDIS.into(),
        _ if error.is::<Unknown>() => BAD_INPUT.into(),
        _ => ExitCode::FAILURE,
    }
}
