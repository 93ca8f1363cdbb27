//! The store: one typed call per decision, each beside its script.

use std::sync::Arc;

use super::capacity::Turn;
use super::keys::Keys;
use super::link::Link;
use super::scripts::Scripts;
use crate::ids::{ReplicaId, RequestId};

/// The decisions that are made in Redis, as seen by one replica. Clones share everything.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) link: Link,
    pub(super) keys: Arc<Keys>,
    pub(super) scripts: Arc<Scripts>,
    pub(super) replica: ReplicaId,
    pub(super) wake_prefix: Arc<str>,
}

impl Store {
    /// A store behind `link` whose keys all begin with `prefix`, used by this replica.
    pub fn new(link: Link, prefix: &str, replica: ReplicaId) -> Self {
        Self::with_scripts(link, prefix, replica, Scripts::new())
    }

    /// The same with other scripts: tests give them a clock of their own.
    pub fn with_scripts(link: Link, prefix: &str, replica: ReplicaId, scripts: Scripts) -> Self {
        let keys = Keys::new(prefix);
        let wake_prefix = keys.wake_prefix().into();
        Self { link, keys: Arc::new(keys), scripts: Arc::new(scripts), replica, wake_prefix }
    }

    /// The connections to Redis.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// This replica.
    pub fn replica(&self) -> &ReplicaId {
        &self.replica
    }

    /// The names of all keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The channel on which this replica's waiters are woken; each message is the id of a request.
    pub fn wake_channel(&self) -> String {
        self.keys.wake(&self.replica)
    }

    /// What stands in a connection's line: the same and whose turn it takes.
    pub(super) fn member_in_turn(&self, request: &RequestId, turn: &Turn) -> String {
        format!("{}|{turn}", self.member(request))
    }

    /// What stands in a key's line: the replica to wake, and the request.
    pub(super) fn member(&self, request: &RequestId) -> String {
        format!("{}|{request}", self.replica)
    }
}
