//! Goes down the ladder: acquire a slot, attempt, record, until one rung answers or none is left.

use std::time::Duration;

use shared::failure::{Class, Owner};
use shared::ids::ModelName;
use shared::state::capacity::{Candidate, Mark, Turn};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Fall;
use super::admit::FALLBACK;
use super::attempt::{Attempted, Committed, Exchange, Failure, Origin, attempt};
use super::conversation::Conversation;
use super::held::Held;
use super::journey::{Journey, Tried};
use super::offer::offer;
use super::plan::{Ladder, Rung, Step};
use super::record::mark;
use crate::app::Shared;
use crate::catalog::Catalog;
use crate::error::Refusal;
use crate::metrics::AttemptLabels;

mod budget;
mod chain;
mod fit;
mod slot;
mod verdict;

use budget::Calls;
use slot::{Chain, Offer, Slot, Taken};

/// Before the same rung is asked again, at most so long.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(250);

/// While a closed ladder is waited for, it is looked at again at least so often: someone may open it by hand.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
    /// The model that was asked for.
    pub model: &'a ModelName,
    /// Whose turn it takes in lines.
    pub turn: &'a Turn,
    /// The conversation it belongs to.
    pub conversation: &'a Conversation<'a>,
    /// How rungs are called.
    pub exchange: Exchange<'a>,
}

/// How far a part of the ladder was climbed.
enum Ended {
    /// A rung answers.
    Answered(Box<Answered>),
    /// Its open rungs are only full.
    Full(Duration),
    /// All that could be tried was tried; the rest is closed.
    Spent,
    /// No rung of this model is of any use to the request.
    Unfit,
}

/// What became of a call that brought no answer.
enum Missed {
    /// Another endpoint of the rung may bring one; whether the rung may be asked again when none does.
    Endpoint(Again),
    /// Another rung may.
    Rung(Again),
    /// Another model may.
    Model,
}

/// Whether a failure may have passed by the time the rung is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

/// Whether a step may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Ask once: other steps come after it.
    Pass,
    /// Stand in its lines.
    Stand,
}

/// What one climb has seen.
struct Walk<'a> {
    climb: Climb<'a>,
    journey: &'a mut Journey,
    /// Names the leases of this request.
    leases: u32,
    /// The rungs that were called: none is offered twice, however often its step is visited.
    tried: Vec<&'a Rung>,
    /// All calls, retries included.
    calls: Calls<'a>,
    /// Time stood in lines and before closed ladders.
    stood: Duration,
    /// That of it which was stood for preferred connections alone.
    stood_alone: Duration,
    /// The failure of the most preferred rung that was really tried, and the rank of its step.
    first: Option<(usize, Failure, Owner)>,
    /// The last rung of this level that failed in passing.
    again: Option<(&'a Step, &'a Rung)>,
    /// The most preferred rung that is closed for nothing but its endpoints.
    resort: Option<(&'a Step, &'a Rung)>,
    /// How many endpoints of the rung that is called are left.
    endpoints_left: usize,
    /// The slot of a rung whose next endpoint is to be called.
    kept: Option<Held>,
    /// A step that is only full and may be left for lower ones.
    spilled: Option<&'a Step>,
    /// The larger model that a request which was too long goes to.
    larger: Option<&'a ModelName>,
    /// True while nothing but rate limits and billing stood in the way.
    only_limits: bool,
    /// True while every call met a credential that is refused or out of money.
    only_dead: bool,
    /// The soonest moment something opens.
    soonest: Option<Instant>,
    /// Someone else's probe is under way: its verdict may come at any moment.
    probing: bool,
}

/// A rung as `acquire` is asked about it at first, with all its endpoints.
pub fn candidate(rung: &Rung) -> Candidate {
    Offer { rung, chain: Chain::Whole }.candidate()
}

/// Climbs until one rung answers. A model whose groups are only full is waited for, at most `limits.capacity_wait` in all, before its
/// peers are asked (unless the group spills); so is a ladder of which nothing could be tried because all of it is closed, if that helps.
pub async fn climb(climb: Climb<'_>, journey: &mut Journey) -> Result<Box<Answered>, Fall> {
    let mut walk = Walk::new(climb, journey);
    loop {
        if let Some(answered) = walk.pass().await? {
            return Ok(answered);
        }
        let Some(pause) = walk.opening() else { return Err(walk.fall()) };
        walk.wait_closed(pause).await?;
    }
}

impl<'a> Walk<'a> {
    fn new(climb: Climb<'a>, journey: &'a mut Journey) -> Self {
        Self {
            climb,
            journey,
            leases: 0,
            tried: Vec::new(),
            calls: Calls::new(&climb.catalog.limits.attempts),
            stood: Duration::ZERO,
            stood_alone: Duration::ZERO,
            first: None,
            again: None,
            resort: None,
            endpoints_left: 0,
            kept: None,
            spilled: None,
            larger: None,
            only_limits: true,
            only_dead: true,
            soonest: None,
            probing: false,
        }
    }

    /// Once down the whole ladder: the model that was asked for and its peers, or the larger model where the request was too long; then
    /// what spilled; then the first endpoint of a rung whose endpoints all rest.
    async fn pass(&mut self) -> Result<Option<Box<Answered>>, Fall> {
        (self.soonest, self.probing, self.resort, self.spilled) = (None, false, None, None);
        for run in self.climb.ladder.runs() {
            if let Ended::Answered(answered) = self.model(run).await? {
                return Ok(Some(answered));
            }
            while let Some(run) = self.larger.take().and_then(|name| self.climb.ladder.larger_run(name)) {
                match self.model(run).await? {
                    Ended::Answered(answered) => return Ok(Some(answered)),
                    _ if self.larger.is_none() => return Err(self.fall()),
                    _ => {}
                }
            }
        }
        if let Some(step) = self.spilled.take() {
            match self.step(step, Line::Stand).await? {
                Ended::Answered(answered) => return Ok(Some(answered)),
                Ended::Full(wait) => return Err(self.busy(wait)),
                Ended::Spent | Ended::Unfit => {}
            }
        }
        match self.resort.take() {
            Some((step, rung)) => self.once_more(step, Offer { rung, chain: Chain::First }, Line::Pass).await,
            None => Ok(None),
        }
    }

    /// Tries the steps of one model. Those that are only full are waited for last, in the most preferred of them.
    async fn model(&mut self, run: &'a [Step]) -> Result<Ended, Fall> {
        if !self.fits(run) {
            return Ok(Ended::Unfit);
        }
        let mut full: Option<&'a Step> = None;
        for (index, step) in run.iter().enumerate() {
            let next = run.get(index + 1);
            // With no other place left to wait in, one call both asks and stands in line.
            let stands = next.is_none() && full.is_none() && !self.climb.catalog.spills(&step.group);
            match self.step(step, if stands { Line::Stand } else { Line::Pass }).await? {
                // Where something failed in passing, that is tried once more before anything is waited for.
                Ended::Full(wait) if stands && self.again.is_none() => return Err(self.busy(wait)),
                Ended::Full(_) => full = full.or(Some(step)),
                Ended::Spent => {}
                done => return Ok(done),
            }
            if next.is_none_or(|next| !next.is_level_with(step))
                && let Some(answered) = self.retry().await?
            {
                return Ok(Ended::Answered(answered));
            }
        }
        let Some(step) = full else { return Ok(Ended::Spent) };
        if self.climb.catalog.spills(&step.group) {
            self.spilled = self.spilled.or(Some(step));
            return Ok(Ended::Spent);
        }
        match self.step(step, Line::Stand).await? {
            Ended::Full(wait) => Err(self.busy(wait)),
            ended => Ok(ended),
        }
    }

    /// Tries the rungs of one step that were not tried yet: equals at once, each at most once.
    async fn step(&mut self, step: &'a Step, line: Line) -> Result<Ended, Fall> {
        let mut open = self.untried(step);
        while !open.is_empty() {
            if self.budget_spent(step) {
                // Something is open, only this request may not try it any more.
                self.opens_in(Duration::ZERO);
                break;
            }
            let offers: Vec<Offer<'a>> = open.iter().map(|rung| Offer { rung, chain: Chain::Whole }).collect();
            let line = if self.again.is_some() { Line::Pass } else { line };
            let slot = match self.take(step, &offers, line).await? {
                Taken::Slot(slot) => slot,
                Taken::Full(wait) => return Ok(Ended::Full(wait)),
                Taken::Closed => break,
            };
            let rung = slot.rung;
            open.retain(|other| !std::ptr::eq(*other, rung));
            self.tried.push(rung);
            match self.chain(step, slot).await? {
                Ok(answered) => return Ok(Ended::Answered(answered)),
                Err(Missed::Model) => return Ok(Ended::Unfit),
                Err(Missed::Endpoint(Again::Yes) | Missed::Rung(Again::Yes)) => self.again = Some((step, rung)),
                Err(Missed::Endpoint(Again::No) | Missed::Rung(Again::No)) => {}
            }
        }
        Ok(Ended::Spent)
    }

    fn untried(&self, step: &'a Step) -> Vec<&'a Rung> {
        let mut rungs = offer(step, self.climb.app.keeper.healths());
        rungs.retain(|rung| !self.tried.iter().any(|tried| std::ptr::eq(*tried, *rung)));
        rungs
    }

    fn budget_spent(&self, step: &Step) -> bool {
        self.calls.spent(step) || Instant::now() >= self.climb.exchange.deadline
    }

    async fn pause(&self) -> Result<(), Fall> {
        let pause = RETRY_PAUSE_MAX.mul_f64(rand::random_range(0.2..1.0));
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.climb.exchange.gone.cancelled() => Err(Fall::Gone),
        }
    }

    /// Whether a closed ladder is worth waiting for, and how long until it is looked at again: only if nothing was tried, for what was
    /// tried has an answer.
    fn opening(&self) -> Option<Duration> {
        let wait = self.soonest?.saturating_duration_since(Instant::now());
        let patience = self.patience();
        if !self.tried.is_empty() || patience.is_zero() {
            None
        } else if self.probing {
            Some(FALLBACK.min(patience))
        } else {
            (wait <= patience).then(|| wait.clamp(Duration::from_millis(1), LOOK_AGAIN))
        }
    }

    /// Calls a rung and records a failure before anything else is asked: the next decision must see it.
    async fn call(&mut self, slot: Slot<'a>) -> Result<Result<Box<Answered>, Missed>, Fall> {
        let Slot { rung, endpoint, mut held } = slot;
        let began = Instant::now();
        let connection = &rung.serving.connection;
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
        let outcome = attempt(self.climb.exchange, rung, endpoint).instrument(span.clone()).await;
        self.journey.upstream += began.elapsed();
        match outcome {
            Attempted::Answers(mut committed) => {
                if committed.origin == Origin::Upstream {
                    self.note(rung, "ok", &span);
                    held.tell(std::mem::take(&mut committed.told));
                    held.committed();
                }
                Ok(Ok(Box::new(Answered { rung: rung.clone(), held, committed: *committed })))
            }
            // Another model may be able to say it; the one that was asked for is the caller's own choice.
            Attempted::Inexpressible(bad) if self.first.is_none() && !self.stands_in(rung) => {
                Err(Refusal::BadRequest(bad).into())
            }
            Attempted::Inexpressible(_) => Ok(Err(Missed::Model)),
            Attempted::Gone => {
                self.note(rung, Class::Cancelled.as_str(), &span);
                Err(Fall::Gone)
            }
            Attempted::Failed(mut failure) => {
                let class = failure.verdict.class;
                self.note(rung, class.as_str(), &span);
                span.record("error.type", class.as_str());
                self.alert(rung, class);
                held.tell(std::mem::take(&mut failure.told));
                if let Some(tokens) = &failure.usage {
                    held.used(self.climb.catalog.limits.token_weights.weigh(tokens));
                }
                let mark = mark(&failure, rung, self.climb.ladder.sole(&rung.model.name));
                if self.goes_on_with_chain(failure.effect) {
                    if let Mark::Endpoint { rest } = mark {
                        held.passes_on(rest).await;
                    }
                    self.kept = Some(held);
                } else {
                    let closed = held.give_back(mark).await;
                    self.opens_in(closed.unwrap_or_default());
                }
                self.failed(rung, *failure)
            }
        }
    }

    fn note(&mut self, rung: &Rung, outcome: &'static str, span: &tracing::Span) {
        span.record("headgate.class", outcome);
        let connection = rung.serving.connection.id.clone();
        let labels = AttemptLabels { connection: connection.as_str().into(), class: outcome };
        self.climb.app.metrics.attempts.get_or_create(&labels).inc();
        self.journey.trail.push(Tried { connection, model: rung.model.name.clone(), outcome });
    }
}
