//! The fake upstream as a process: see `cluster::fake`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;
use cluster::fake::{Fake, LOG_LIMIT, Rule};
use tokio::signal::unix::{SignalKind, signal};

/// An upstream that speaks OpenAI, Anthropic, Gemini and Code Assist, and fails as scripted.
///
/// Scripts are sent to `POST /__fake/rules` on the same port; `GET /__fake/calls` and `/__fake/peak` tell what was seen.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where to listen; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:9100")]
    listen: String,
    /// A JSON file with the rules to start with.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// How many calls the log keeps.
    #[arg(long, value_name = "N", default_value_t = LOG_LIMIT)]
    log_limit: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let rules = args.script.as_deref().map(read_script).transpose()?.unwrap_or_default();
    let mut terminate = signal(SignalKind::terminate())?;
    let fake = Fake::bind(&args.listen, rules, args.log_limit).await?;
    println!("fake-upstream listening on {}", fake.address());
    tokio::select! {
        ended = fake.wait() => ended,
        _ = terminate.recv() => Ok(()),
        pressed = tokio::signal::ctrl_c() => pressed.context("cannot listen for ctrl-c"),
    }
}

fn read_script(path: &Path) -> anyhow::Result<Vec<Rule>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a list of rules", path.display()))
}
