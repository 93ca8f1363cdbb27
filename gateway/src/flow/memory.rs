//! Remembers for an account what proves an upstream's thoughts, where its callers cannot: any replica finds it again. When Redis is
//! away the request goes on without.

use shared::ids::AccountId;
use shared::state::Store;

use crate::catalog::Connection;
use crate::dialect::thoughts::{Kept, Maker, Thoughts};
use crate::dialect::wanted::Wanted;

/// The memory of one account.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Store,
    account: AccountId,
}

impl Memory {
    /// Of this account.
    pub fn new(store: Store, account: AccountId) -> Self {
        Self { store, account }
    }

    /// What is known of the calls of a conversation that goes to this connection.
    pub async fn recall(&self, wanted: &Wanted, connection: &Connection) -> Thoughts {
        let mut thoughts = Thoughts::default();
        let calls = wanted.needs_thoughts(connection.dialect);
        if calls.is_empty() {
            return thoughts;
        }
        match self.store.thoughts(&self.account, &calls).await {
            Ok(found) => {
                for (call, proof) in calls.iter().zip(found) {
                    if let Some(proof) = proof {
                        thoughts.add(call, &proof, maker(connection));
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "earlier thoughts could not be looked up"),
        }
        thoughts
    }

    /// Keeps what this connection's answer brought.
    pub async fn keep(&self, kept: &[Kept], connection: &Connection) {
        let at_rest = |kept: &Kept| Some((kept.call_id.clone(), kept.at_rest(maker(connection))?));
        let proofs: Vec<(String, Vec<u8>)> = kept.iter().filter_map(at_rest).collect();
        let proofs = proofs.iter().map(|(call, proof)| (call.as_str(), proof.as_slice()));
        if let Err(error) = self.store.keep_thoughts(&self.account, proofs).await {
            tracing::debug!(%error, "thoughts could not be kept");
        }
    }
}

fn maker(connection: &Connection) -> Maker<'_> {
    Maker { dialect: connection.dialect, provider: &connection.provider }
}
