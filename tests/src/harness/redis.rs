//! A Redis of the test's own: restarted, crashed, frozen and looked into.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{AsyncConnectionConfig, FromRedisValue, Value};
use shared::state::managed::{AppendOnly, ManagedOptions, ManagedRedis};

use super::eventually::eventually_ok;
use super::replica::signal;

/// How long after the last answer leases, places in line and holds may linger: settlement is off the client's path.
const CLEAN_WITHIN: Duration = Duration::from_secs(5);

impl std::fmt::Display for Closure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.what, self.cause, self.length)
    }
}

/// How much of what was written outlives a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing.
    Memory,
    /// All but the last second.
    #[default]
    EverySecond,
    /// All that was acknowledged.
    Always,
}

/// A private server with its own folder. Its URL stays the same over restarts.
#[derive(Debug)]
pub struct Redis {
    options: ManagedOptions,
    server: Option<ManagedRedis>,
    url: String,
    _folder: tempfile::TempDir,
}

/// How long a look into Redis may take: on a busy machine its disk can hold it up for seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A lock or cooldown of a connection, as it lies in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// What it is about: the key from the connection's id on, e.g. `conn-1:bucket:m1:lock`.
    pub what: String,
    /// A lock's cause; `cooling` for a cooldown, `counting` for one that only counts failures.
    pub cause: String,
    /// From its setting to its end; the failures so far where it only counts.
    pub length: i64,
}

/// A row of an account's ledger, field by field.
pub type LedgerRow = BTreeMap<String, String>;

impl Redis {
    /// A server on a unix socket.
    pub async fn start(durability: Durability) -> Self {
        Self::launch(durability, None).await
    }

    /// A server on a TCP port of 127.0.0.1 as well, for a proxy in between.
    pub async fn start_on_tcp(durability: Durability) -> Self {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = probe.local_addr().expect("a bound address").port();
        drop(probe);
        Self::launch(durability, Some(port)).await
    }

    async fn launch(durability: Durability, port: Option<u16>) -> Self {
        let folder = tempfile::Builder::new().prefix("hg-redis-").tempdir().expect("a temporary folder");
        let mut options = ManagedOptions::new(folder.path());
        options.port = port;
        match durability {
            Durability::Memory => options.appendonly = AppendOnly::Off,
            Durability::EverySecond => {}
            Durability::Always => options.extra = vec!["--appendfsync".into(), "always".into()],
        }
        let server = ManagedRedis::start(options.clone()).await.expect("redis starts");
        let url = server.url();
        Self { options, server: Some(server), url, _folder: folder }
    }

    /// Its URL, for a configuration.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Shuts it down as an operator would.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("redis stops");
        }
    }

    /// Kills it without warning.
    pub async fn crash(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await.expect("redis is killed");
        }
    }

    /// Starts it again on the same folder.
    pub async fn start_again(&mut self) {
        self.server = Some(ManagedRedis::start(self.options.clone()).await.expect("redis starts again"));
    }

    /// Stops and starts it.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    /// Freezes it: the socket stays open, nothing answers.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        signal(self.server.as_ref().and_then(ManagedRedis::pid), name);
    }

    /// Runs one command, as `redis-cli` would: `cli(&["GET", "key"])`.
    pub async fn cli(&self, command: &[&str]) -> Value {
        self.ask(command).await
    }

    /// Runs one command and reads its answer as the wanted type.
    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let client = redis::Client::open(self.url.as_str()).expect("a redis url");
        let patient =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let connection = client.get_multiplexed_async_connection_with_config(&patient);
        let mut connection = connection.await.expect("redis answers");
        let mut query = redis::cmd(command[0]);
        query.arg(&command[1..]);
        query.query_async(&mut connection).await.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// The names of all keys that match a pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", pattern]).await;
        keys.sort();
        keys
    }

    /// Every key and its whole content, but for the time it still lives: two of these are equal if nothing was written between.
    pub async fn content(&self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        for key in self.keys("*").await {
            let dump = self.cli(&["DUMP", &key]).await;
            all.push((key, dump));
        }
        all
    }

    /// A hash, field by field.
    pub async fn hash(&self, key: &str) -> BTreeMap<String, String> {
        self.ask(&["HGETALL", key]).await
    }

    /// All locks and cooldowns that are set, by key. What a success has cleared is none.
    pub async fn closures(&self) -> Vec<Closure> {
        let mut found = Vec::new();
        for key in self.keys("hg:{g:*}:conn:*").await {
            if !key.ends_with(":lock") && !key.ends_with(":cooldown") {
                continue;
            }
            let what = key.split_once(":conn:").map_or(key.as_str(), |(_, what)| what).to_owned();
            let fields = self.hash(&key).await;
            let number = |name: &str| fields.get(name).and_then(|text| text.parse::<i64>().ok());
            let cause = fields.get("cause").map_or("cooling", String::as_str).to_owned();
            match (number("until").zip(number("set_at")), number("fails")) {
                (Some((until, set_at)), _) => found.push(Closure { what, cause, length: until - set_at }),
                (None, Some(fails)) => found.push(Closure { what, cause: "counting".into(), length: fails }),
                (None, None) => {}
            }
        }
        found
    }

    /// Unlocks by hand: deletes all that is known of connections.
    pub async fn unlock_all(&self) {
        for key in self.keys("hg:{g:*}:conn:*").await {
            self.cli(&["DEL", &key]).await;
        }
    }

    /// An account's balance in nano-dollars.
    pub async fn balance(&self, account: &str) -> i64 {
        self.ask(&["GET", &format!("hg:{{a:{account}}}:balance")]).await
    }

    /// An account's ledger, oldest row first.
    pub async fn ledger(&self, account: &str) -> Vec<LedgerRow> {
        let rows: Vec<(String, LedgerRow)> =
            self.ask(&["XRANGE", &format!("hg:{{a:{account}}}:ledger"), "-", "+"]).await;
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// The server's clock, Unix milliseconds.
    pub async fn now_ms(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.ask(&["TIME"]).await;
        seconds * 1000 + micros / 1000
    }

    /// Panics unless within 5 s no lease and no place in line lives and nothing is reserved.
    pub async fn assert_nothing_held(&self) {
        eventually_ok(CLEAN_WITHIN, async || match self.held().await {
            held if held.is_empty() => Ok(()),
            held => Err(format!("still held: {held:?}")),
        })
        .await;
    }

    /// What is held now: live leases, live places in line, reserved money, and what open requests hold of limits.
    pub async fn held(&self) -> Vec<String> {
        let mut held = Vec::new();
        let live = format!("({}", self.now_ms().await);
        for key in self.keys("hg:*").await {
            let what = key.rsplit(':').next().unwrap_or_default();
            match what {
                "leases" | "alive" => {
                    let members: Vec<String> = self.ask(&["ZRANGE", &key, &live, "+inf", "BYSCORE"]).await;
                    held.extend(members.into_iter().map(|member| format!("{key} {member}")));
                }
                "reserved" | "held" => {
                    let holds = self.hash(&key).await.into_iter().filter(|(_, amount)| amount != "0");
                    held.extend(holds.map(|(request, amount)| format!("{key} {request} {amount}")));
                }
                _ => {}
            }
        }
        held
    }
}
