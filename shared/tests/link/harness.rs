//! What the tests of this folder share: servers of their own, a clock for waiting, a log to read.

use std::{
    fmt,
    net::TcpListener,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use redis::Value;
use rustix::process::{Pid, Signal, kill_process};
use shared::state::{
    link::{Link, StateError},
    managed::{AppendOnly, ManagedOptions, ManagedRedis},
};
use tempfile::TempDir;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// The budget of a call in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(300);
/// What a busy machine may add to it.
pub(crate) const SLACK: Duration = Duration::from_millis(250);
/// How long anything may take to come true.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A server of one test alone, and its folder, which goes with it.
pub(crate) struct Server {
    pub(crate) redis: ManagedRedis,
    pub(crate) dir: TempDir,
}

impl Server {
    /// On a unix socket.
    pub(crate) async fn start() -> Self {
        Self::with(None, &[]).await
    }

    /// On a TCP port too, with more settings.
    pub(crate) async fn with(port: Option<u16>, extra: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redis = ManagedRedis::start(options(&dir, port, extra)).await.unwrap();
        Self { redis, dir }
    }

    /// A link of two connections.
    pub(crate) fn link(&self) -> Link {
        link(&self.redis.url())
    }

    /// A command over a connection that is not the link's.
    pub(crate) async fn admin(&self, command: &str) -> Value {
        let client = redis::Client::open(self.redis.socket_url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        words(command).query_async(&mut connection).await.unwrap()
    }

    /// Freezes it.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, kind: Signal) {
        signal(self.redis.pid().unwrap(), kind);
    }
}

/// Sends a signal to one child by its process id.
pub(crate) fn signal(pid: u32, kind: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, kind).unwrap();
}

pub(crate) fn options(dir: &TempDir, port: Option<u16>, extra: &[&str]) -> ManagedOptions {
    let mut options = ManagedOptions::new(dir.path());
    options.port = port;
    options.appendonly = AppendOnly::Off;
    options.extra = extra.iter().map(ToString::to_string).collect();
    options
}

pub(crate) fn link(url: &str) -> Link {
    Link::open(url, TIMEOUT, 2).unwrap()
}

/// A command from words.
pub(crate) fn words(command: &str) -> redis::Cmd {
    let mut cmd = redis::Cmd::new();
    for word in command.split_whitespace() {
        cmd.arg(word);
    }
    cmd
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A reply as text.
pub(crate) fn text(value: Value) -> String {
    redis::from_redis_value(value).unwrap()
}

/// Asks again and again until the answer is yes.
pub(crate) async fn eventually(within: Duration, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < within, "not within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    started.elapsed()
}

/// Its result and how long it took.
pub(crate) async fn timed<T>(call: impl Future<Output = Result<T, StateError>>) -> (Result<T, StateError>, Duration) {
    let started = Instant::now();
    let result = call.await;
    (result, started.elapsed())
}

/// The messages logged while it is the thread's subscriber.
#[derive(Clone, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("shared")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.lines.lock().unwrap().push(message.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
