//! Asks for a slot at one of a step's rungs, in line as long as that can help.

use std::sync::Arc;
use std::time::Duration;

use shared::state::admission::Place;
use shared::state::capacity::{
    Acquire, AcquireAsk, Candidate, LeaseId, Mark, RecordAsk, RungState, SIBLINGS_MAX, Sibling,
};
use shared::state::wake;
use tokio::time::Instant;

use super::{Climb, Line, Walk};
use crate::app::Shared;
use crate::catalog::Serving;
use crate::error::Refusal;
use crate::flow::Fall;
use crate::flow::admit::{FALLBACK, unanswered};
use crate::flow::held::Held;
use crate::flow::plan::{Rung, Step};

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
            credential_mark: Arc::clone(&connection.credential_mark),
            endpoints,
        }
    }
}

impl<'a> Walk<'a> {
    /// How long this request may still stand in lines.
    pub(super) fn patience(&self) -> Duration {
        let left = self.climb.exchange.deadline.saturating_duration_since(Instant::now());
        self.climb.catalog.limits.capacity_wait.saturating_sub(self.stood).min(left)
    }

    /// Asks for a slot at one of the rungs, in line as long as that can help, a last time when the wait is over.
    pub(super) async fn take(&mut self, step: &'a Step, offers: &[Offer<'a>], line: Line) -> Result<Taken<'a>, Fall> {
        let Climb { app, catalog, exchange, .. } = self.climb;
        let mut ask = AcquireAsk {
            group: step.group.clone(),
            lease: LeaseId { request: self.journey.request.clone(), attempt: self.leases + 1 },
            max_lock: catalog.limits.max_lock,
            place: Place::Pass,
            candidates: offers.iter().map(Offer::candidate).collect(),
        };
        // Subscribed before the place is taken: a slot freed in between is not missed.
        let place = (line == Line::Stand).then(|| app.waker.place(self.journey.request.as_str()));
        let mut in_line = false;
        while !exchange.gone.is_cancelled() {
            let left = self.patience();
            let stand = place.as_ref().filter(|_| !left.is_zero());
            ask.place = stand.map_or(Place::Pass, |_| Place::Stand { max_wait: left });
            let answer = app.store.acquire(&ask).await.map_err(|error| unanswered(app, &error))?;
            let (taken, holds_place) = self.heard(answer, step, offers, &ask)?;
            let Some(place) = stand.filter(|_| holds_place) else {
                if in_line && !matches!(taken, Taken::Slot(_)) {
                    leave(app, &ask).await;
                }
                return Ok(taken);
            };
            in_line = true;
            self.wait(place, FALLBACK.min(left)).await;
        }
        if in_line {
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
                let receipt = Self::receipt(step, (rung, endpoint), ask, begun_ms);
                Ok((Taken::Slot(Slot { rung, endpoint, held: Held::new(self.climb.app, receipt, probe) }), false))
            }
            Acquire::Closed { wait, states } => {
                self.note_resort(step, offers, &states);
                self.note_closed(Some(wait), &states);
                Ok((Taken::Closed, false))
            }
            Acquire::Full { wait, position, states } => {
                self.note_resort(step, offers, &states);
                self.note_closed(wait, &states);
                Ok((Taken::Full(wait.unwrap_or(FALLBACK)), position.is_some()))
            }
        }
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

    /// Waits to be woken.
    async fn wait(&mut self, place: &wake::Place, most: Duration) {
        let began = Instant::now();
        let _waiting = self.climb.app.metrics.stand_in_line();
        tokio::select! {
            () = self.climb.exchange.gone.cancelled() => {}
            _ = place.woken(most) => {}
        }
        self.stood += began.elapsed();
        self.journey.waited += began.elapsed();
    }

    /// What gives the slot back, and as whose.
    fn receipt(step: &Step, (rung, endpoint): (&Rung, usize), ask: &AcquireAsk, begun_ms: i64) -> RecordAsk {
        let rests = rung.serving.connection.endpoint_rest.is_some();
        RecordAsk {
            group: ask.group.clone(),
            connection: rung.serving.connection.id.clone(),
            model: rung.serving.trust.clone(),
            bucket: rung.serving.bucket.clone(),
            lease: ask.lease.clone(),
            begun_ms,
            mark: Mark::Nothing,
            jitter_percent: rand::random_range(80..=120),
            max_lock: ask.max_lock,
            endpoint: rung.serving.endpoints.get(endpoint).filter(|_| rests).map(|endpoint| endpoint.id.clone()),
            told: Vec::new(),
            siblings: siblings(step, rung),
        }
    }
}

async fn leave(app: &Shared, ask: &AcquireAsk) {
    let connections = ask.candidates.iter().map(|candidate| &candidate.connection);
    if let Err(error) = app.store.leave_group(&ask.group, connections, &ask.lease.request).await {
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
