//! Whether Redis is there: one log line when it goes, one when it returns, and no dialling in between without a pause.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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
pub(super) struct Health {
    state: Mutex<State>,
    /// Mirrors `state.away`, so that a success while all is well takes no lock.
    away: AtomicBool,
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
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Whether the last calls found no server.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Remembers for a short, jittered time that dialling is no use.
    pub(super) fn hold_off(&self, error: &StateError) {
        let pause = Duration::from_millis(rand::rng().random_range(HOLD_OFF_MS));
        self.lock().held = Some((Instant::now() + pause, error.clone()));
    }

    /// The error of the last dial, while it is too soon for the next.
    pub(super) fn held_off(&self) -> Option<StateError> {
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

    /// A call got no answer, or no connection.
    pub(super) fn failed(&self, error: &StateError) {
        let now = Instant::now();
        let mut state = self.lock();
        if let Some(away) = &mut state.away {
            away.last = now;
            return;
        }
        state.away = Some(Away { since: now, last: now });
        self.away.store(true, Ordering::Relaxed);
        drop(state);
        tracing::warn!(%error, "redis is away");
    }

    /// A call got an answer (a no is one, too).
    pub(super) fn answered(&self) {
        if !self.is_away() {
            return;
        }
        let mut state = self.lock();
        let Some(away) = state.away.take_if(|away| away.last.elapsed() >= QUIET) else {
            return;
        };
        self.away.store(false, Ordering::Relaxed);
        drop(state);
        let away_ms = u64::try_from(away.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(away_ms, "redis is back");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn redis_is_back_only_once_failures_have_stopped_for_a_moment() {
        let health = Health::new();
        for _ in 0..10 {
            health.failed(&StateError::Timeout);
            advance(QUIET / 2).await;
            health.answered();
            assert!(health.is_away());
        }
        advance(QUIET / 2).await;
        health.answered();
        assert!(!health.is_away());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_dial_is_remembered_for_about_a_tenth_of_a_second() {
        let health = Health::new();
        assert_eq!(health.held_off(), None);
        health.hold_off(&StateError::Timeout);
        advance(Duration::from_millis(HOLD_OFF_MS.start - 1)).await;
        assert_eq!(health.held_off(), Some(StateError::Timeout));
        advance(Duration::from_millis(HOLD_OFF_MS.end - HOLD_OFF_MS.start + 1)).await;
        assert_eq!(health.held_off(), None);
    }
}
