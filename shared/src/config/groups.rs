//! Channel groups: how traffic is spread over connections of equal standing.

use std::time::Duration;

use super::scalar::words;
use super::section::section;

words! {
    /// How a connection of a group is chosen.
    pub enum Strategy {
        /// By priority, then weight and health.
        Spread = "spread",
        /// By priority, then in the order of the file.
        Priority = "priority",
        /// The connection whose quota starts again soonest.
        EarliestReset = "earliest_reset",
    }
}

words! {
    /// Who is served next when requests wait.
    pub enum Fairness {
        /// Accounts in turn, arrival order within an account.
        Account = "account",
        /// Plain arrival order.
        Fifo = "fifo",
    }
}

section! {
    /// How traffic is spread over the connections of a channel group.
    pub struct Group, draft GroupDraft {
        /// How a connection is chosen.
        strategy: Strategy = "spread",
        /// Who is served next when requests wait.
        fairness: Fairness = "account",
        /// How long a conversation waits for its pinned connection before it takes another; `0s` for not at all.
        pin_patience: Duration = "1s",
        /// Whether a request steps down to a lower rung when the group is merely full, instead of waiting.
        spill_when_full: bool = "false",
    }
}
