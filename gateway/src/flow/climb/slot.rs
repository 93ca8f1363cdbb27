//! Asks for a slot at one of a step's rungs, in line as long as that can help.

use std::sync::Arc;
use std::time::Duration;

use shared::config::Fairness;
use shared::limit::Weighed;
use shared::state::admission::Place;
use shared::state::capacity::{
    Acquire, AcquireAsk, Candidate, LeaseId, LeaveAsk, Mark, Pin, RecordAsk, RungState, SIBLINGS_MAX, Sibling, Turn,
};
use shared::state::wake;
use tokio::time::Instant;

use super::{Climb, Line, Walk};
use crate::app::Shared;
use crate::catalog::Serving;
use crate::dialect::conversation::Stage;
use crate::error::Refusal;
use crate::flow::Fall;
use crate::flow::admit::{FALLBACK, unanswered};
use crate::flow::held::Held;
use crate::flow::plan::{Rung, Step};
use crate::flow::tally::expected;
use crate::metrics::{Counted, Waiting};

/// What `acquire` answered about the open rungs of a step.
pub(super) enum Taken<'r> {
    Slot(Slot<'r>),
    Full(Duration),
    Closed,
}

/// A slot at a rung, and which of its endpoints is to be called.
pub(super) struct Slot<'r> {
    pub(super) rung: &'r Rung,
    pub(super) endpoint: usize,
    pub(super) held: Held,
}

/// A rung that is asked for.
#[derive(Debug, Clone)]
pub(super) struct Offer<'r> {
    pub(super) rung: &'r Rung,
    pub(super) chain: Chain,
}

/// Which of a rung's endpoints may be called.
#[derive(Debug, Clone)]
pub(super) enum Chain {
    /// The first that does not rest.
    Whole,
    /// Of these, the first that does not rest.
    Rest(Vec<usize>),
    /// The first, though it rests: nothing else is left.
    First,
}

impl Offer<'_> {
    /// The endpoint that the script chose, by its place in the whole chain.
    fn endpoint(&self, chosen: usize) -> usize {
        match &self.chain {
            Chain::Whole => chosen,
            Chain::Rest(rest) => rest.get(chosen).copied().unwrap_or_default(),
            Chain::First => 0,
        }
    }

    /// What the script is asked about it.
    pub(super) fn candidate(&self) -> Candidate {
        let Serving { connection, trust, bucket, endpoints, .. } = &self.rung.serving;
        let id = |number: usize| endpoints.get(number).map(|endpoint| endpoint.id.clone());
        let endpoints = match &self.chain {
            _ if connection.endpoint_rest.is_none() => Vec::new(),
            Chain::Whole => endpoints.iter().map(|endpoint| endpoint.id.clone()).collect(),
            Chain::Rest(rest) => rest.iter().copied().filter_map(id).collect(),
            Chain::First => Vec::new(),
        };
        Candidate {
            connection: connection.id.clone(),
            model: trust.clone(),
            bucket: bucket.clone(),
            max_concurrent: connection.max_concurrent,
            rpm: connection.rpm,
            tpm: connection.tpm,
            credential_mark: Arc::clone(&connection.credential_mark),
            endpoints,
        }
    }
}

impl<'a> Walk<'a> {
    /// Whose turn it takes in the lines of a step.
    fn turn(&self, step: &Step) -> Turn {
        match self.climb.catalog.fairness(&step.group) {
            Fairness::Account => self.climb.turn.clone(),
            Fairness::Fifo => Turn { account: None, priority: self.climb.turn.priority },
        }
    }

    /// A question for some of a step's rungs, without a place in line.
    pub(super) fn ask(&self, step: &Step, lease: LeaseId, candidates: Vec<Candidate>) -> AcquireAsk {
        let Climb { catalog, exchange, .. } = self.climb;
        AcquireAsk {
            group: step.group.clone(),
            lease,
            max_lock: catalog.limits.max_lock,
            place: Place::Pass,
            turn: self.turn(step),
            estimate: expected(exchange.wanted.look(), &catalog.limits.token_weights),
            pin: None,
            candidates,
        }
    }

    /// How long this request may still stand in lines.
    pub(super) fn patience(&self) -> Duration {
        let left = self.climb.exchange.deadline.saturating_duration_since(Instant::now());
        self.climb.catalog.limits.capacity_wait.saturating_sub(self.stood).min(left)
    }

    /// Asks for a slot at one of the rungs, in line as long as that can help, a last time when the wait is over.
    pub(super) async fn take(&mut self, step: &'a Step, offers: &[Offer<'a>], line: Line) -> Result<Taken<'a>, Fall> {
        let Climb { app, catalog, exchange, .. } = self.climb;
        let lease = LeaseId { request: self.journey.request.clone(), attempt: self.leases + 1 };
        let mut ask = self.ask(step, lease, offers.iter().map(Offer::candidate).collect());
        ask.pin = self.pin(step, offers);
        // Subscribed before the place is taken: a slot freed in between is not missed.
        let place = (line == Line::Stand || ask.pin.is_some()).then(|| app.waker.place(self.journey.request.as_str()));
        let mut in_line = None;
        while !exchange.gone.is_cancelled() {
            let left = self.patience();
            let stand = place.as_ref().filter(|_| line == Line::Stand && !left.is_zero());
            ask.place = stand.map_or(Place::Pass, |_| Place::Stand { max_wait: left });
            let alone = catalog.pin_patience(&step.group).saturating_sub(self.stood_alone).min(left);
            if let Some(pin) = &mut ask.pin {
                pin.patience = alone;
            }
            let answer = app.store.acquire(&ask).await.map_err(|error| unanswered(app, &error))?;
            if let (Acquire::Pinned { .. }, Some(place)) = (&answer, &place) {
                in_line.get_or_insert_with(|| stands(app, &ask));
                let waited = self.wait(place, FALLBACK.min(alone)).await;
                self.stood_alone += waited;
                continue;
            }
            let (taken, holds_place) = self.heard(answer, step, offers, &ask)?;
            let Some(place) = stand.filter(|_| holds_place) else {
                if in_line.is_some() && !matches!(taken, Taken::Slot(_)) {
                    leave(app, &ask).await;
                }
                return Ok(taken);
            };
            in_line.get_or_insert_with(|| stands(app, &ask));
            self.wait(place, FALLBACK.min(left)).await;
        }
        if in_line.is_some() {
            leave(app, &ask).await;
        }
        Err(Fall::Gone)
    }

    /// What an answer means, and whether it leaves us with a place in line.
    fn heard(
        &mut self,
        answer: Acquire,
        step: &'a Step,
        offers: &[Offer<'a>],
        ask: &AcquireAsk,
    ) -> Result<(Taken<'a>, bool), Fall> {
        match answer {
            Acquire::Acquired { index, begun_ms, probe, endpoint, .. } => {
                let Some(offer) = offers.get(index) else { return Err(Refusal::Internal.into()) };
                self.leases += 1;
                let (rung, endpoint) = (offer.rung, offer.endpoint(endpoint));
                let receipt = self.receipt(step, (rung, endpoint), ask, begun_ms);
                Ok((Taken::Slot(Slot { rung, endpoint, held: Held::new(self.climb.app, receipt, probe) }), false))
            }
            Acquire::Closed { wait, states } => {
                self.note_resort(step, offers, &states);
                self.note_closed(Some(wait), &states);
                Ok((Taken::Closed, false))
            }
            // There is a place whenever a pin is asked for, so this is waited for and asked again.
            Acquire::Pinned { .. } => Ok((Taken::Full(FALLBACK), true)),
            Acquire::Full { wait, position, states } => {
                self.note_resort(step, offers, &states);
                self.note_closed(wait, &states);
                Ok((Taken::Full(wait.unwrap_or(FALLBACK)), position.is_some()))
            }
        }
    }

    /// What the conversation prefers among these rungs. One that only opens prefers nothing yet.
    fn pin(&self, step: &Step, offers: &[Offer<'_>]) -> Option<Pin> {
        let known = self.climb.conversation.among(step)?;
        if offers.len() < 2 || known.stage == Stage::Opens {
            return None;
        }
        let connections = offers.iter().map(|offer| &offer.rung.serving.connection.id);
        let given_up = self.climb.app.keeper.healths().unwell(connections);
        Some(Pin { conversation: known.hash, patience: Duration::ZERO, given_up })
    }

    /// Remembers the first rung that nothing but its endpoints keeps closed.
    fn note_resort(&mut self, step: &'a Step, offers: &[Offer<'a>], states: &[RungState]) {
        let rests = |(offer, state): &(&Offer<'a>, &RungState)| {
            matches!((&offer.chain, state), (Chain::Whole, RungState::Endpoints { .. }))
        };
        if self.resort.is_none() {
            self.resort = offers.iter().zip(states).find(rests).map(|(offer, _)| (step, offer.rung));
        }
    }

    /// Waits before a ladder that is closed altogether.
    pub(super) async fn wait_closed(&mut self, pause: Duration) -> Result<(), Fall> {
        let began = Instant::now();
        let _waiting = self.climb.app.metrics.stand_in_line();
        let gone = tokio::select! {
            () = self.climb.exchange.gone.cancelled() => true,
            () = tokio::time::sleep(pause) => false,
        };
        self.stood += began.elapsed();
        self.journey.waited += began.elapsed();
        if gone { Err(Fall::Gone) } else { Ok(()) }
    }

    /// Waits to be woken; answers how long.
    async fn wait(&mut self, place: &wake::Place, most: Duration) -> Duration {
        let began = Instant::now();
        tokio::select! {
            () = self.climb.exchange.gone.cancelled() => {}
            _ = place.woken(most) => {}
        }
        let waited = began.elapsed();
        self.stood += waited;
        self.journey.waited += waited;
        waited
    }

    /// What gives the slot back, and as whose.
    fn receipt(&self, step: &Step, (rung, endpoint): (&Rung, usize), ask: &AcquireAsk, begun_ms: i64) -> RecordAsk {
        let rests = rung.serving.connection.endpoint_rest.is_some();
        RecordAsk {
            group: ask.group.clone(),
            connection: rung.serving.connection.id.clone(),
            model: rung.serving.trust.clone(),
            bucket: rung.serving.bucket.clone(),
            lease: ask.lease.clone(),
            begun_ms,
            mark: Mark::Nothing,
            max_concurrent: rung.serving.connection.max_concurrent,
            jitter_percent: rand::random_range(80..=120),
            max_lock: ask.max_lock,
            tokens: rung.serving.connection.tpm.map(|_| Weighed::default()),
            endpoint: rung.serving.endpoints.get(endpoint).filter(|_| rests).map(|endpoint| endpoint.id.clone()),
            told: Vec::new(),
            siblings: siblings(step, rung),
            pin: self.climb.conversation.among(step).map(|known| known.hash),
        }
    }
}

/// Counts a request that waits, until what is answered is dropped.
fn stands<'a>(app: &'a Shared, ask: &AcquireAsk) -> (Waiting<'a>, Counted) {
    let connections = ask.candidates.iter().map(|candidate| &candidate.connection);
    (app.metrics.stand_in_line(), app.metrics.occupancy.waits_for_slot(&ask.group, connections))
}

async fn leave(app: &Shared, ask: &AcquireAsk) {
    if let Err(error) = app.store.leave_lines(&LeaveAsk::after(ask)).await {
        // The places lapse by themselves within two seconds.
        tracing::debug!(%error, "places in line were not given up");
    }
}

/// The other connections of the step that serve the model.
fn siblings(step: &Step, rung: &Rung) -> Vec<Sibling> {
    let connection = &rung.serving.connection.id;
    let same_model = step.rungs.iter().filter(|other| other.model.name == rung.model.name);
    let others = same_model.map(|other| &other.serving).filter(|serving| serving.connection.id != *connection);
    others
        .take(SIBLINGS_MAX)
        .map(|serving| Sibling { connection: serving.connection.id.clone(), bucket: serving.bucket.clone() })
        .collect()
}
