//! What failures and closed rungs mean for the rest of a climb, and what the caller is told when none of it answered.

use std::time::Duration;

use shared::failure::{Class, Effect, Next};
use shared::state::capacity::{LockCause, ProbeOf, RungState};
use tokio::time::Instant;

use super::{Again, Answered, Missed, Walk};
use crate::error::{After, Closed, Failed, Refusal};
use crate::flow::Fall;
use crate::flow::admit::FALLBACK;
use crate::flow::attempt::Failure;
use crate::flow::plan::Rung;
use crate::metrics::AttemptLabels;

impl<'a> Walk<'a> {
    /// Keeps the failure of the most preferred rung, and ends the climb where the caller must be told.
    pub(super) fn failed(&mut self, rung: &'a Rung, failure: Failure) -> Result<Result<Box<Answered>, Missed>, Fall> {
        let effect = failure.effect;
        let class = failure.verdict.class;
        self.only_limits &= matches!(class, Class::RateLimited | Class::Billing);
        let dead = failure.credential_is_dead();
        self.only_dead &= dead;
        if dead {
            self.calls.forgive();
        }
        let owner = rung.serving.connection.owner_kind();
        let missed = self.missed(rung, effect);
        // What a model that stands in objects to is not the caller's fault; that its own credential is refused is its to know.
        let tell = missed.is_none() && (!self.stands_in(rung) || class == Class::Auth);
        // A step that was full at first is tried after steps that are less preferred.
        let rank = self.rank();
        if tell || self.first.as_ref().is_none_or(|(before, ..)| rank < *before) {
            self.first = Some((rank, failure, owner));
        }
        if tell { Err(self.fall()) } else { Ok(Err(missed.unwrap_or(Missed::Model))) }
    }

    /// Where the request goes next; `None`: nowhere with this model.
    fn missed(&mut self, rung: &'a Rung, effect: Effect) -> Option<Missed> {
        let again = if effect.retries_same_rung() { Again::Yes } else { Again::No };
        match effect.next {
            Next::Tell | Next::Drop => None,
            Next::Rung | Next::RetryThenRung => Some(Missed::Rung(again)),
            Next::Endpoint | Next::EndpointThenRetry => Some(Missed::Endpoint(again)),
            Next::Larger => {
                let larger = rung.model.larger.as_ref();
                let run = larger.and_then(|name| self.climb.ladder.larger_run(name))?;
                self.larger = larger.filter(|_| self.fits(run));
                self.larger.map(|_| Missed::Model)
            }
        }
    }

    /// Whether a rung's model is not the one that was asked for.
    pub(super) fn stands_in(&self, rung: &Rung) -> bool {
        rung.model.name != *self.climb.model
    }

    /// The place in the ladder of the step that was called last.
    fn rank(&self) -> usize {
        let mut steps = self.climb.ladder.steps.iter().chain(&self.climb.ladder.larger);
        let last = self.calls.last();
        steps.position(|step| last.is_some_and(|last| std::ptr::eq(last, step))).unwrap_or(usize::MAX)
    }

    /// A credential that is refused needs a person.
    pub(super) fn alert(&self, rung: &Rung, class: Class) {
        if class == Class::Auth {
            let connection = &rung.serving.connection.id;
            let labels = AttemptLabels { connection: connection.as_str().into(), class: class.as_str() };
            self.climb.app.metrics.auth_locks.get_or_create(&labels).inc();
            tracing::warn!(%connection, "an upstream refuses the credential of this connection");
        }
    }

    /// A full rung is no failure; of those that are closed only limits keep the answer a 429.
    pub(super) fn note_closed(&mut self, wait: Option<Duration>, states: &[RungState]) {
        if let Some(wait) = wait {
            self.opens_in(wait);
        }
        let dead =
            |state: &RungState| matches!(state, RungState::Locked { cause: LockCause::Auth | LockCause::Billing, .. });
        self.only_dead &= states.iter().all(dead);
        self.probing |= states.iter().any(|state| matches!(state, RungState::Probing { .. }));
        self.only_limits &= states.iter().all(|state| match state {
            RungState::Locked { cause, .. } => *cause != LockCause::Auth,
            RungState::Full | RungState::OverRate { .. } | RungState::OverTokens { .. } => true,
            RungState::Probing { of, .. } => *of == ProbeOf::Limits,
            RungState::Cooling { .. } | RungState::Endpoints { .. } => false,
        });
    }

    pub(super) fn opens_in(&mut self, wait: Duration) {
        let at = Instant::now() + wait;
        self.soonest = Some(self.soonest.map_or(at, |soonest| soonest.min(at)));
    }

    /// What the caller is told when the rest of the ladder stayed full.
    pub(super) fn busy(&mut self, wait: Duration) -> Fall {
        if self.first.is_some() { self.fall() } else { Refusal::NoCapacity { wait }.into() }
    }

    /// What the caller is told when no rung answered.
    pub(super) fn fall(&mut self) -> Fall {
        let max_lock = self.climb.catalog.limits.max_lock;
        let wait = self.soonest.map_or(FALLBACK, |at| at.saturating_duration_since(Instant::now())).min(max_lock);
        match self.first.take() {
            // Nobody was even asked: the time was over.
            None if self.soonest.is_none() => Refusal::NoCapacity { wait }.into(),
            None => {
                let by = if self.only_limits { Closed::Limits } else { Closed::Failures };
                Refusal::AllClosed { by, wait }.into()
            }
            Some((_, failure, owner)) => {
                let after = match (self.only_limits, self.only_dead) {
                    (true, _) => After::AllLimited(wait),
                    (false, true) => After::AllDead,
                    (false, false) => After::Mixed,
                };
                let told = Failed { class: failure.verdict.class, owner, error: &failure.error, after };
                Fall::Failed(Box::new(told.fault()))
            }
        }
    }
}
