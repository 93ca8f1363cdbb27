//! Goes down the ladder: acquire a slot, attempt, record, until one rung answers or none is left.

use std::time::Duration;

use shared::failure::{Class, Effect, Next, Owner};
use shared::state::capacity::{LockCause, ProbeOf, RungState};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Fall;
use super::admit::FALLBACK;
use super::attempt::{Attempted, Committed, Exchange, Failure, attempt};
use super::conversation::Conversation;
use super::held::Held;
use super::journey::{Journey, Tried};
use super::offer::offer;
use super::plan::{Ladder, Rung, Step};
use super::record::mark;
use crate::app::Shared;
use crate::catalog::Catalog;
use crate::error::{After, Closed, Failed, Refusal};
use crate::metrics::AttemptLabels;

mod slot;

use slot::Taken;

/// Before the same rung is asked again, at most so long.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(250);

/// A rung that answers, and the slot it holds.
#[derive(Debug)]
pub struct Answered {
    /// Which rung.
    pub rung: Rung,
    /// The slot at its connection, given back when the answer has ended.
    pub held: Held,
    /// The answer.
    pub committed: Committed,
}

/// What the climb works with.
#[derive(Debug, Clone, Copy)]
pub struct Climb<'a> {
    /// Store, keeper, metrics.
    pub app: &'a Shared,
    /// Limits.
    pub catalog: &'a Catalog,
    /// The ladder.
    pub ladder: &'a Ladder,
    /// The conversation it belongs to.
    pub conversation: &'a Conversation<'a>,
    /// How rungs are called.
    pub exchange: Exchange<'a>,
}

/// How far a step was climbed.
enum Ended {
    /// A rung answers.
    Answered(Box<Answered>),
    /// Its open rungs are only full.
    Full(Duration),
    /// All that could be tried was tried; the rest is closed.
    Spent,
}

/// What one climb has seen.
struct Walk<'a> {
    climb: Climb<'a>,
    journey: &'a mut Journey,
    /// Names the leases of this request.
    leases: u32,
    /// The rungs that were called: none is offered twice, however often its step is visited.
    tried: Vec<&'a Rung>,
    /// The steps of all calls, retries included: what the budgets count.
    calls: Vec<&'a Step>,
    /// Time stood in lines, over all steps.
    stood: Duration,
    /// That of it which was stood for preferred connections alone.
    stood_alone: Duration,
    /// The failure of the most preferred rung that was really tried, and the rank of its step.
    first: Option<(usize, Failure, Owner)>,
    /// True while nothing but rate limits and billing stood in the way.
    only_limits: bool,
    /// The soonest moment something opens.
    soonest: Option<Instant>,
}

/// Whether a step may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Ask once: other steps come after it.
    Pass,
    /// Stand in its lines.
    Stand,
}

/// Climbs until one rung answers. Steps that are only full are waited for last, in the most preferred of them, at most
/// `limits.capacity_wait` in all.
pub async fn climb(climb: Climb<'_>, journey: &mut Journey) -> Result<Box<Answered>, Fall> {
    let mut walk = Walk {
        stood: Duration::ZERO,
        stood_alone: Duration::ZERO,
        climb,
        journey,
        leases: 0,
        tried: Vec::new(),
        calls: Vec::new(),
        first: None,
        only_limits: true,
        soonest: None,
    };
    let mut full: Option<(&Step, Duration)> = None;
    let mut steps = climb.ladder.steps.iter().peekable();
    while let Some(step) = steps.next() {
        // With no other place left to wait in, one call both asks and stands in line.
        let line = if steps.peek().is_none() && full.is_none() { Line::Stand } else { Line::Pass };
        match walk.step(step, line).await? {
            Ended::Answered(answered) => return Ok(answered),
            Ended::Full(wait) if line == Line::Stand => return Err(Refusal::NoCapacity { wait }.into()),
            Ended::Full(wait) => full = full.or(Some((step, wait))),
            Ended::Spent => {}
        }
    }
    let Some((step, _)) = full else { return Err(walk.fall()) };
    match walk.step(step, Line::Stand).await? {
        Ended::Answered(answered) => Ok(answered),
        Ended::Full(wait) => Err(Refusal::NoCapacity { wait }.into()),
        Ended::Spent => Err(walk.fall()),
    }
}

impl<'a> Walk<'a> {
    /// Tries the rungs of one step that were not tried yet: equals at once, each at most once; before leaving it, the last one
    /// that failed in passing once more.
    async fn step(&mut self, step: &'a Step, line: Line) -> Result<Ended, Fall> {
        let mut open = self.untried(step);
        let mut again: Option<&'a Rung> = None;
        let mut full: Option<Duration> = None;
        loop {
            let retry = open.is_empty();
            let candidates = if retry { again.take().into_iter().collect() } else { open.clone() };
            if candidates.is_empty() || self.budget_spent(step) {
                if !candidates.is_empty() {
                    // Something is open, only this request may not try it any more.
                    self.opens_in(Duration::ZERO);
                }
                return Ok(full.map_or(Ended::Spent, Ended::Full));
            }
            if retry {
                self.pause().await?;
            }
            let (rung, held) = match self.take(step, &candidates, line).await? {
                Taken::Slot { rung, held } => (rung, held),
                Taken::Full(wait) => {
                    full = full.or(Some(wait));
                    open.clear();
                    continue;
                }
                Taken::Closed => {
                    open.clear();
                    continue;
                }
            };
            self.calls.push(step);
            self.tried.push(rung);
            open.retain(|other| !std::ptr::eq(*other, rung));
            match self.call(rung, held).await? {
                Ok(answered) => return Ok(Ended::Answered(answered)),
                Err(effect) if retry || !effect.retries_same_rung() => {}
                Err(_) => again = Some(rung),
            }
        }
    }

    fn untried(&self, step: &'a Step) -> Vec<&'a Rung> {
        let mut rungs = offer(step, self.climb.app.keeper.healths());
        rungs.retain(|rung| !self.tried.iter().any(|tried| std::ptr::eq(*tried, *rung)));
        rungs
    }

    fn budget_spent(&self, step: &Step) -> bool {
        let most = &self.climb.catalog.limits.attempts;
        let within = |count: usize, most: u32| u32::try_from(count).is_ok_and(|count| count < most);
        let in_step = self.calls.iter().filter(|called| called.is_like(step)).count();
        !within(in_step, most.group.get())
            || !within(self.calls.len(), most.request.get())
            || Instant::now() >= self.climb.exchange.deadline
    }

    async fn pause(&self) -> Result<(), Fall> {
        let pause = RETRY_PAUSE_MAX.mul_f64(rand::random_range(0.2..1.0));
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.climb.exchange.gone.cancelled() => Err(Fall::Gone),
        }
    }

    /// Calls a rung and records a failure before anything else is asked: the next decision must see it.
    async fn call(&mut self, rung: &'a Rung, held: Held) -> Result<Result<Box<Answered>, Effect>, Fall> {
        let connection = &rung.serving.connection;
        let began = Instant::now();
        let operation = self.climb.exchange.wanted.api().operation();
        let span = tracing::info_span!(
            "attempt",
            otel.kind = "client",
            otel.name = format_args!("{operation} {}", rung.serving.upstream_model),
            gen_ai.operation.name = operation,
            gen_ai.provider.name = %connection.provider,
            gen_ai.request.model = %rung.serving.upstream_model,
            headgate.connection = %connection.id,
            headgate.class = tracing::field::Empty,
            error.type = tracing::field::Empty,
        );
        let outcome = attempt(self.climb.exchange, rung).instrument(span.clone()).await;
        self.journey.upstream += began.elapsed();
        match outcome {
            Attempted::Answers(committed) => {
                self.tried(rung, "ok", &span);
                held.committed();
                Ok(Ok(Box::new(Answered { rung: rung.clone(), held, committed: *committed })))
            }
            Attempted::Inexpressible(bad) => Err(Refusal::BadRequest(bad).into()),
            Attempted::Gone => {
                self.tried(rung, Class::Cancelled.as_str(), &span);
                Err(Fall::Gone)
            }
            Attempted::Failed(failure) => {
                let class = failure.verdict.class;
                self.tried(rung, class.as_str(), &span);
                span.record("error.type", class.as_str());
                self.alert(rung, class);
                let mark = mark(&failure, &rung.serving.connection, self.climb.ladder.sole());
                let closed = held.give_back(mark).await;
                self.opens_in(closed.unwrap_or_default());
                self.failed(rung, *failure)
            }
        }
    }

    fn tried(&mut self, rung: &Rung, outcome: &'static str, span: &tracing::Span) {
        span.record("headgate.class", outcome);
        let connection = rung.serving.connection.id.clone();
        let labels = AttemptLabels { connection: connection.as_str().into(), class: outcome };
        self.climb.app.metrics.attempts.get_or_create(&labels).inc();
        self.journey.trail.push(Tried { connection, model: rung.model.name.clone(), outcome });
    }

    /// Keeps the failure of the most preferred rung, and ends the climb where the caller must be told.
    fn failed(&mut self, rung: &Rung, failure: Failure) -> Result<Result<Box<Answered>, Effect>, Fall> {
        let effect = failure.effect;
        self.only_limits &= matches!(failure.verdict.class, Class::RateLimited | Class::Billing);
        let owner = rung.serving.connection.owner_kind();
        let stop = matches!(effect.next, Next::Tell | Next::Larger | Next::Drop);
        // A step that was full at first is tried after steps that are less preferred.
        let rank = self.rank();
        if stop || self.first.as_ref().is_none_or(|(before, ..)| rank < *before) {
            self.first = Some((rank, failure, owner));
        }
        if stop { Err(self.fall()) } else { Ok(Err(effect)) }
    }

    /// The place in the ladder of the step that was called last.
    fn rank(&self) -> usize {
        let last = self.calls.last();
        let mut steps = self.climb.ladder.steps.iter();
        steps.position(|step| last.is_some_and(|last| std::ptr::eq(*last, step))).unwrap_or(usize::MAX)
    }

    /// A credential that is refused needs a person.
    fn alert(&self, rung: &Rung, class: Class) {
        if class == Class::Auth {
            let connection = &rung.serving.connection.id;
            let labels = AttemptLabels { connection: connection.as_str().into(), class: class.as_str() };
            self.climb.app.metrics.auth_locks.get_or_create(&labels).inc();
            tracing::warn!(%connection, "an upstream refuses the credential of this connection");
        }
    }

    /// A full rung is no failure; of those that are closed only limits keep the answer a 429.
    fn note_closed(&mut self, wait: Option<Duration>, states: &[RungState]) {
        if let Some(wait) = wait {
            self.opens_in(wait);
        }
        self.only_limits &= states.iter().all(|state| match state {
            RungState::Locked { cause, .. } => *cause != LockCause::Auth,
            RungState::Full | RungState::OverRate { .. } => true,
            RungState::Probing { of, .. } => *of == ProbeOf::Limits,
            RungState::Cooling { .. } | RungState::Endpoints { .. } => false,
        });
    }

    fn opens_in(&mut self, wait: Duration) {
        let at = Instant::now() + wait;
        self.soonest = Some(self.soonest.map_or(at, |soonest| soonest.min(at)));
    }

    /// What the caller is told when no rung answered.
    fn fall(&mut self) -> Fall {
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
                let after = if self.only_limits { After::AllLimited(wait) } else { After::Mixed };
                let told = Failed { class: failure.verdict.class, owner, error: &failure.error, after };
                Fall::Failed(Box::new(told.fault()))
            }
        }
    }
}
