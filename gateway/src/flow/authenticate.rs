//! Who calls? A look-up by the secret's hash, cached: whether the key still counts is decided by `admit`, every time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shared::ids::SecretHash;
use shared::state::records::CallerRecord;
use shared::state::{StateError, Store};
use tokio::time::Instant;

use crate::error::{KeyFault, Refusal};

/// How long a record is believed to be current. A stale one is found out by `admit`, so this only bounds memory of the unused.
const REMEMBERED: Duration = Duration::from_mins(1);
/// At most so many callers are remembered.
const CALLERS_MAX: usize = 10_000;

/// A caller, and how it is known. Its record is compared by `admit` with the one in Redis.
#[derive(Debug, Clone)]
pub struct Known {
    /// What it sent.
    pub secret: SecretHash,
    /// What that leads to.
    pub caller: Arc<CallerRecord>,
    /// When that was read.
    pub read: Read,
}

/// When a record was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// For this request.
    Now,
    /// For an earlier one: a refusal must not rest on it.
    Before,
}

/// The callers this replica knows.
#[derive(Debug)]
pub struct Callers {
    store: Store,
    known: Mutex<HashMap<SecretHash, (Arc<CallerRecord>, Instant)>>,
}

impl Callers {
    /// Knows nobody yet.
    pub fn new(store: Store) -> Self {
        Self { store, known: Mutex::default() }
    }

    fn recall(&self, secret: &SecretHash) -> Option<Arc<CallerRecord>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(secret).filter(|(_, read)| read.elapsed() < REMEMBERED).map(|(caller, _)| Arc::clone(caller))
    }

    fn remember(&self, secret: SecretHash, caller: &Arc<CallerRecord>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CALLERS_MAX {
            known.retain(|_, (_, read)| read.elapsed() < REMEMBERED);
            if known.len() >= CALLERS_MAX {
                known.clear();
            }
        }
        known.insert(secret, (Arc::clone(caller), Instant::now()));
    }

    fn forget(&self, secret: &SecretHash) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(secret);
    }
}

/// Who sent this secret. Unknown ones are refused; none is remembered, so a key works from the moment it exists.
pub async fn authenticate(callers: &Callers, secret: Option<SecretHash>) -> Result<Known, Refusal> {
    let secret = secret.ok_or(Refusal::Key(KeyFault::Missing))?;
    match callers.recall(&secret) {
        Some(caller) => Ok(Known { secret, caller, read: Read::Before }),
        None => look_up(callers, secret).await,
    }
}

/// The same, when the record that is remembered will not do.
pub async fn authenticate_again(callers: &Callers, known: Known) -> Result<Known, Refusal> {
    callers.forget(&known.secret);
    look_up(callers, known.secret).await
}

async fn look_up(callers: &Callers, secret: SecretHash) -> Result<Known, Refusal> {
    let record = callers.store.look_up(secret).await.map_err(|error: StateError| {
        tracing::debug!(%error, "look-up of a client key was not answered");
        Refusal::StateUnavailable
    })?;
    let caller = Arc::new(record.ok_or(Refusal::Key(KeyFault::Unknown))?);
    callers.remember(secret, &caller);
    Ok(Known { secret, caller, read: Read::Now })
}
