//! `leave`: a request gives up its places in line.

use super::{AcquireAsk, Turn};
use crate::ids::{ConnectionId, GroupId, RequestId};
use crate::state::Store;
use crate::state::link::StateError;
use crate::state::reply::Reply;
use crate::state::script::Arg;

/// Which places are given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveAsk {
    /// The group.
    pub group: GroupId,
    /// Whose lines.
    pub connections: Vec<ConnectionId>,
    /// Who leaves.
    pub request: RequestId,
    /// As whose turn it stood there.
    pub turn: Turn,
}

impl LeaveAsk {
    /// All places that such an ask may have taken.
    pub fn after(ask: &AcquireAsk) -> Self {
        Self {
            group: ask.group.clone(),
            connections: ask.candidates.iter().map(|candidate| candidate.connection.clone()).collect(),
            request: ask.lease.request.clone(),
            turn: ask.turn.clone(),
        }
    }
}

impl Store {
    /// Gives up the places a request holds in the lines of these connections; whoever is first then is woken. Answers how many
    /// there were.
    pub async fn leave_lines(&self, ask: &LeaveAsk) -> Result<u32, StateError> {
        let group = self.keys.of_group(&ask.group);
        let mut keys = Vec::with_capacity(ask.connections.len() * 3);
        for connection in &ask.connections {
            let connection = group.of_connection(connection);
            keys.extend([connection.waiters(), connection.alive(), connection.turns()]);
        }
        if keys.is_empty() {
            return Ok(0);
        }
        let member = self.member_in_turn(&ask.request, &ask.turn);
        let args = [Arg::Text(&member), Arg::Text(&self.wake_prefix)];
        let (tag, mut reply) = Reply::open("leave", self.link.run(&self.scripts.leave, &keys, &args).await?)?;
        if tag == "left" { reply.count() } else { Err(reply.unknown(&tag)) }
    }
}
