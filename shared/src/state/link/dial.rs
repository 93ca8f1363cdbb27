//! Opens connections for the pool, and judges them after a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisError, Value,
    aio::MultiplexedConnection,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use super::{StateError, address::Target, error::Verdict, health::Health};

/// Requests that may queue up for one socket before a sender has to wait.
const PIPELINE_BUFFER: usize = 1024;
/// When the kernel starts asking whether the other side of an idle connection is still there, and how often.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// The pool's manager. Ours, because the stock one asks the server `UNWATCH` and `PING` each time a connection is taken.
pub(crate) struct Dialer {
    target: Target,
    timeout: Duration,
    health: Arc<Health>,
}

/// One multiplexed connection; clones share the socket and the verdict on it.
#[derive(Clone)]
pub(crate) struct Wire {
    connection: MultiplexedConnection,
    dead: Arc<AtomicBool>,
    health: Arc<Health>,
}

impl Dialer {
    pub(crate) fn new(target: Target, timeout: Duration, health: Arc<Health>) -> Result<Self, StateError> {
        Ok(Self { target, timeout, health })
    }

    async fn dial(&self) -> Result<Wire, RedisError> {
        let dead = Arc::new(AtomicBool::new(false));
        let Target::Standalone(info) = &self.target;
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            // The caller's deadline covers the reply; a second timer per call would only cost.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        if info.redis_settings().protocol() != ProtocolVersion::RESP2 {
            let dead = Arc::clone(&dead);
            config = config.set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    dead.store(true, Ordering::Release);
                }
                Ok::<(), std::convert::Infallible>(())
            });
        }
        let client = Client::open(info.clone().set_tcp_settings(tcp_settings()))?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Wire { connection, dead, health: Arc::clone(&self.health) })
    }
}

impl Manager for Dialer {
    type Type = Wire;
    type Error = StateError;

    async fn create(&self) -> Result<Wire, StateError> {
        if let Some(error) = self.health.held_off() {
            return Err(error);
        }
        self.dial().await.map_err(|error| {
            let error = StateError::of(&error).scrubbed(self.target.password());
            self.health.hold_off(&error);
            error
        })
    }

    async fn recycle(&self, wire: &mut Wire, _: &Metrics) -> RecycleResult<StateError> {
        if wire.dead.load(Ordering::Acquire) {
            return Err(RecycleError::message("replaced"));
        }
        Ok(())
    }
}

impl Wire {
    /// Sends one command.
    pub(crate) async fn send(&mut self, cmd: &Cmd) -> Result<Value, RedisError> {
        self.connection.send_packed_command(cmd).await?.extract_error()
    }

    /// Sends several.
    pub(crate) async fn send_all(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        pipeline.query_async(&mut self.connection).await
    }

    /// Judges the connection by an error that came over it, and translates the error.
    pub(crate) fn failed(&self, error: &RedisError) -> StateError {
        let ours = StateError::of(error);
        match Verdict::on(error) {
            Verdict::Keep => {}
            Verdict::Replace => self.dead.store(true, Ordering::Release),
            Verdict::ReplaceLater => {
                self.dead.store(true, Ordering::Release);
                self.health.hold_off(&ours);
            }
        }
        ours
    }

    /// No reply in time: a multiplexed connection never recovers from a lost peer by itself.
    pub(crate) fn timed_out(&self) -> StateError {
        self.dead.store(true, Ordering::Release);
        StateError::Timeout
    }
}

/// Small messages leave at once, and a peer that vanished is noticed.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_EVERY);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_MAX);
    settings
}
