//! What proves an upstream's thoughts, kept for callers whose dialect cannot carry it: by account and call, for an hour since it was
//! last asked for. Opaque here; losing it costs the model its earlier thoughts, never an answer.

use std::time::Duration;

use super::link::StateError;
use super::store::Store;
use crate::ids::AccountId;

/// How long proofs are kept since they were last asked for.
pub const KEPT: Duration = Duration::from_hours(1);

impl Store {
    /// Keeps proofs, each by the id of its call as the caller sees it. A later one for the same call replaces it.
    pub async fn keep_thoughts<'a>(
        &self,
        account: &AccountId,
        proofs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), StateError> {
        let slot = self.keys.of_account(account);
        let mut pipeline = redis::pipe();
        for (call, proof) in proofs {
            pipeline.cmd("SET").arg(slot.thought(call)).arg(proof).arg("PX").arg(milliseconds(KEPT));
        }
        if pipeline.is_empty() { Ok(()) } else { self.link.pipeline(&pipeline).await.map(drop) }
    }

    /// The proofs kept for these calls, in their order, all of them for another hour. `None`: nothing is kept for that call.
    pub async fn thoughts(
        &self,
        account: &AccountId,
        calls: &[impl AsRef<str>],
    ) -> Result<Vec<Option<Vec<u8>>>, StateError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let slot = self.keys.of_account(account);
        let mut pipeline = redis::pipe();
        for call in calls {
            pipeline.cmd("GETEX").arg(slot.thought(call.as_ref())).arg("PX").arg(milliseconds(KEPT));
        }
        let replies = self.link.pipeline(&pipeline).await?;
        let read = |reply| {
            redis::from_redis_value(reply)
                .map_err(|_| StateError::Reply("a kept thought is neither text nor nil".into()))
        };
        replies.into_iter().map(read).collect()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
