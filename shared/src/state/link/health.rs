//! Whether Redis is there: one log line when it goes, one when it returns, and no dialling in between without a pause.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::RngExt as _;
use tokio::time::Instant;

use super::StateError;

/// How long a failed dial is remembered, at least and at most: a thousand callers share its error instead of dialling each.
const HOLD_OFF_MS: std::ops::Range<u64> = 75..150;
/// Redis counts as back after a success this long after the last failure, so that a mix of both is one line, not thousands.
const QUIET: Duration = Duration::from_millis(250);

/// The one view of all calls of a link on whether Redis is there.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
    /// Mirrors `state.away`, so that a success while all is well takes no lock.
    away: std::sync::atomic::AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    away: Option<Away>,
    held: Option<(Instant, StateError)>,
}

#[derive(Debug)]
struct Away {
    since: Instant,
    last: Instant,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Whether the last calls found no server.
    pub(crate) fn is_away(&self) -> bool {
        self.away.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Takes note of how a call ended.
    pub(crate) fn note(&self, error: Option<&StateError>) {
        match error {
            Some(error) if error.is_transient() => self.failed(error),
            // An answer, even a no, means that a server is there.
            Some(StateError::Refused(_) | StateError::Reply(_)) | None if self.is_away() => self.answered(),
            _ => {}
        }
    }

    /// Remembers for a short, jittered time that dialling is no use.
    pub(crate) fn hold_off(&self, error: &StateError) {
        let pause = Duration::from_millis(rand::rng().random_range(HOLD_OFF_MS));
        self.lock().held = Some((Instant::now() + pause, error.clone()));
    }

    /// The error of the last dial, while it is too soon for the next.
    pub(crate) fn held_off(&self) -> Option<StateError> {
        let mut state = self.lock();
        match &state.held {
            Some((until, error)) if Instant::now() < *until => Some(error.clone()),
            Some(_) => {
                state.held = None;
                None
            }
            None => None,
        }
    }

    fn failed(&self, error: &StateError) {
        let now = Instant::now();
        let mut state = self.lock();
        if let Some(away) = &mut state.away {
            away.last = now;
            return;
        }
        state.away = Some(Away { since: now, last: now });
        self.away.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(state);
        tracing::warn!(%error, "redis is away");
    }

    fn answered(&self) {
        let mut state = self.lock();
        let Some(away) = state.away.take_if(|away| away.last.elapsed() >= QUIET) else {
            return;
        };
        self.away.store(false, std::sync::atomic::Ordering::Relaxed);
        drop(state);
        let away_ms = u64::try_from(away.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(away_ms, "redis is back");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
