//! One connection of a link, and the verdict on it after a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    Cmd, Pipeline, RedisError, Value,
    aio::ConnectionLike as _,
    aio::MultiplexedConnection,
    cluster_async::ClusterConnection,
    cluster_routing::{RoutingInfo, SingleNodeRoutingInfo},
};
use tokio::time::Instant;

use super::{StateError, error::Verdict, health::Health};

/// A cluster connection younger than this is not replaced: it mends most trouble itself, and its other nodes are in use.
const CLUSTER_REPLACE_EVERY: Duration = Duration::from_secs(1);

/// One multiplexed connection; clones share the socket and the verdict on it.
#[derive(Clone)]
pub(super) struct Wire {
    line: Line,
    unusable: Arc<AtomicBool>,
    opened: Instant,
    health: Arc<Health>,
}

/// The two kinds of connection.
#[derive(Clone)]
pub(super) enum Line {
    /// To one server.
    One(MultiplexedConnection),
    /// To all nodes of a cluster; a call goes to the node that owns the slot of its first key.
    Cluster(ClusterConnection),
}

impl Wire {
    /// A connection just opened; `unusable` may also be set by whoever sees it close.
    pub(super) fn new(line: Line, unusable: Arc<AtomicBool>, health: Arc<Health>) -> Self {
        Self { line, unusable, opened: Instant::now(), health }
    }

    /// Whether the next call may use it.
    pub(super) fn is_usable(&self) -> bool {
        !self.unusable.load(Ordering::Acquire)
    }

    /// Sends one command.
    pub(super) async fn send(&mut self, cmd: &Cmd) -> Result<Value, RedisError> {
        let reply = match &mut self.line {
            Line::One(connection) => connection.send_packed_command(cmd).await,
            Line::Cluster(connection) => connection.req_packed_command(cmd).await,
        };
        reply?.extract_error()
    }

    /// Sends one command that any node can answer; the client library would ask all of a cluster, and fail if one is away.
    pub(super) async fn send_anywhere(&mut self, cmd: &Cmd) -> Result<Value, RedisError> {
        match &mut self.line {
            Line::One(_) => self.send(cmd).await,
            Line::Cluster(connection) => {
                let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
                connection.route_command(cmd.clone(), any).await?.extract_error()
            }
        }
    }

    /// Sends several.
    pub(super) async fn send_all(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        match &mut self.line {
            Line::One(connection) => pipeline.query_async(connection).await,
            Line::Cluster(connection) => pipeline.query_async(connection).await,
        }
    }

    /// Judges the connection by an error that came over it, and translates the error.
    pub(super) fn failed(&self, error: &RedisError) -> StateError {
        let ours = StateError::of(error);
        match Verdict::on(error) {
            Verdict::Keep => {}
            Verdict::Replace => self.replace(),
            Verdict::ReplaceLater => {
                self.replace();
                if !self.is_usable() {
                    self.health.hold_off(&ours);
                }
            }
        }
        ours
    }

    /// Judges the connection after a reply that did not come in time: a multiplexed connection never notices a lost peer itself,
    /// and what answers late may be a master that was replaced meanwhile.
    pub(super) fn timed_out(&self) -> StateError {
        self.replace();
        StateError::Timeout
    }

    fn replace(&self) {
        let spared = matches!(self.line, Line::Cluster(_)) && self.opened.elapsed() < CLUSTER_REPLACE_EVERY;
        if !spared {
            self.unusable.store(true, Ordering::Release);
        }
    }
}
