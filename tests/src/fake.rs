//! The fake upstream: speaks the dialects of real services, fails as scripted, and remembers what it saw.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

mod control;
mod dialect;
mod log;
mod plan;
mod rule;
mod server;

pub use log::{Call, Outcome, Peak, Peaks};
pub use rule::{Eol, Finish, Rule, TokenCounts, ToolCall, UsageMode};

/// Calls kept in the log unless told otherwise.
pub const LOG_LIMIT: usize = 10_000;

/// A fake upstream that serves on its own port until it is dropped.
#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    state: log::State,
    server: JoinHandle<()>,
}

impl Fake {
    /// Serves on a port the OS chooses, healthy.
    pub async fn start() -> anyhow::Result<Self> {
        Self::bind("127.0.0.1:0", Vec::new(), LOG_LIMIT).await
    }

    /// Serves on this address with these rules, keeping the last `log_limit` calls.
    pub async fn bind(listen: &str, rules: Vec<Rule>, log_limit: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let state = log::State::new(rules, log_limit);
        let server = tokio::spawn(server::serve(listener, state.clone()));
        Ok(Self { address, state, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the rules.
    pub fn script(&self, rules: impl Into<Vec<Rule>>) {
        self.state.replace_rules(rules.into());
    }

    /// Adds a rule after the others.
    pub fn add(&self, rule: Rule) {
        self.state.add_rules(vec![rule]);
    }

    /// Forgets all rules: every answer is healthy.
    pub fn heal(&self) {
        self.state.replace_rules(Vec::new());
    }

    /// The calls seen, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.state.calls()
    }

    /// The calls seen with this credential, oldest first.
    pub fn calls_of(&self, credential: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.credential == credential).collect()
    }

    /// The calls seen at the endpoint whose base URL ends in this prefix, e.g. `/daily`, oldest first.
    pub fn calls_at(&self, prefix: &str) -> Vec<Call> {
        let here = |call: &Call| call.path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        self.calls().into_iter().filter(here).collect()
    }

    /// Forgets the calls seen.
    pub fn clear_calls(&self) {
        self.state.clear_calls();
    }

    /// Open, peak and total calls of a credential.
    pub fn peak(&self, credential: &str) -> Peak {
        self.state.peaks().credentials.get(credential).copied().unwrap_or_default()
    }

    /// Open, peak and total calls of everyone and everything.
    pub fn peaks(&self) -> Peaks {
        self.state.peaks()
    }

    /// Calls open now.
    pub fn open(&self) -> u64 {
        self.state.peaks().all.open
    }

    /// Forgets the peaks; open calls stay counted.
    pub fn clear_peaks(&self) {
        self.state.clear_peaks();
    }

    /// Serves until the process ends.
    pub async fn wait(mut self) -> anyhow::Result<()> {
        (&mut self.server).await.context("the server ended")
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}
