//! What `acquire` is told of a conversation.

use std::time::Duration;

use super::Candidate;
use crate::ids::{ConnectionId, ConversationHash};

/// A conversation that may prefer one of the candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Which conversation.
    pub conversation: ConversationHash,
    /// How long it still waits for its connection alone when that is merely full; zero: the others are taken at once.
    pub patience: Duration,
    /// The candidates it does not prefer any more, whatever it is bound to.
    pub given_up: Vec<ConnectionId>,
}

impl Pin {
    /// The ids of the candidates between bars, nothing between them for those that were given up.
    pub(super) fn names(&self, candidates: &[Candidate]) -> String {
        let mut names = String::from("|");
        for candidate in candidates {
            if !self.given_up.contains(&candidate.connection) {
                names.push_str(candidate.connection.as_str());
            }
            names.push('|');
        }
        names
    }
}
