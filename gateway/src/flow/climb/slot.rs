//! Asks for a slot at one of a step's rungs, in line as long as that can help.

use std::sync::Arc;
use std::time::Duration;

use shared::config::Fairness;
use shared::state::admission::Place;
use shared::state::capacity::{
    Acquire, AcquireAsk, Candidate, LeaseId, LeaveAsk, Mark, RecordAsk, SIBLINGS_MAX, Sibling, Turn,
};
use shared::state::wake;
use tokio::time::Instant;

use super::{Climb, Line, Walk};
use crate::app::Shared;
use crate::error::Refusal;
use crate::flow::Fall;
use crate::flow::admit::{FALLBACK, unanswered};
use crate::flow::held::Held;
use crate::flow::plan::{Rung, Step};
use crate::metrics::{Counted, Waiting};

/// What `acquire` answered about the open rungs of a step.
pub(super) enum Taken<'r> {
    Slot { rung: &'r Rung, held: Held },
    Full(Duration),
    Closed,
}

impl<'a> Walk<'a> {
    /// Whose turn it takes in the lines of a step.
    fn turn(&self, step: &Step) -> Turn {
        match self.climb.catalog.fairness(&step.group) {
            Fairness::Account => self.climb.turn.clone(),
            Fairness::Fifo => Turn { account: None, priority: self.climb.turn.priority },
        }
    }

    /// How long this request may still stand in lines.
    fn patience(&self) -> Duration {
        let left = self.climb.exchange.deadline.saturating_duration_since(Instant::now());
        self.climb.catalog.limits.capacity_wait.saturating_sub(self.stood).min(left)
    }

    /// Asks for a slot at one of the rungs, in line as long as that can help, a last time when the wait is over.
    pub(super) async fn take(&mut self, step: &Step, rungs: &[&'a Rung], line: Line) -> Result<Taken<'a>, Fall> {
        let Climb { app, catalog, exchange, .. } = self.climb;
        let mut ask = AcquireAsk {
            group: step.group.clone(),
            lease: LeaseId { request: self.journey.request.clone(), attempt: self.leases + 1 },
            max_lock: catalog.limits.max_lock,
            place: Place::Pass,
            turn: self.turn(step),
            candidates: rungs.iter().map(|rung| candidate(rung)).collect(),
        };
        // Subscribed before the place is taken: a slot freed in between is not missed.
        let place = (line == Line::Stand).then(|| app.waker.place(self.journey.request.as_str()));
        let mut in_line = None;
        while !exchange.gone.is_cancelled() {
            let left = self.patience();
            let stand = place.as_ref().filter(|_| !left.is_zero());
            ask.place = stand.map_or(Place::Pass, |_| Place::Stand { max_wait: left });
            let answer = app.store.acquire(&ask).await.map_err(|error| unanswered(app, &error))?;
            let (taken, holds_place) = self.heard(answer, step, rungs, &ask)?;
            let Some(place) = stand.filter(|_| holds_place) else {
                if in_line.is_some() && !matches!(taken, Taken::Slot { .. }) {
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
        step: &Step,
        rungs: &[&'a Rung],
        ask: &AcquireAsk,
    ) -> Result<(Taken<'a>, bool), Fall> {
        match answer {
            Acquire::Acquired { index, begun_ms, probe, .. } => {
                let Some(rung) = rungs.get(index) else { return Err(Refusal::Internal.into()) };
                self.leases += 1;
                let held = Held::new(self.climb.app, Self::receipt(step, rung, ask, begun_ms), probe);
                Ok((Taken::Slot { rung, held }, false))
            }
            Acquire::Closed { wait, states } => {
                self.note_closed(Some(wait), &states);
                Ok((Taken::Closed, false))
            }
            Acquire::Full { wait, position, states } => {
                self.note_closed(wait, &states);
                Ok((Taken::Full(wait.unwrap_or(FALLBACK)), position.is_some()))
            }
        }
    }

    /// Waits to be woken.
    async fn wait(&mut self, place: &wake::Place, most: Duration) {
        let began = Instant::now();
        tokio::select! {
            () = self.climb.exchange.gone.cancelled() => {}
            _ = place.woken(most) => {}
        }
        self.stood += began.elapsed();
        self.journey.waited += began.elapsed();
    }

    /// What gives the slot back, and as whose.
    fn receipt(step: &Step, rung: &Rung, ask: &AcquireAsk, begun_ms: i64) -> RecordAsk {
        RecordAsk {
            group: ask.group.clone(),
            connection: rung.serving.connection.id.clone(),
            model: rung.model.name.clone(),
            bucket: rung.serving.bucket.clone(),
            lease: ask.lease.clone(),
            begun_ms,
            mark: Mark::Nothing,
            jitter_percent: rand::random_range(80..=120),
            max_lock: ask.max_lock,
            endpoint: None,
            told: Vec::new(),
            siblings: siblings(step, rung),
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

fn candidate(rung: &Rung) -> Candidate {
    let connection = &rung.serving.connection;
    Candidate {
        connection: connection.id.clone(),
        model: rung.model.name.clone(),
        bucket: rung.serving.bucket.clone(),
        max_concurrent: connection.max_concurrent,
        rpm: connection.rpm,
        credential_mark: Arc::clone(&connection.credential_mark),
        endpoints: Vec::new(),
    }
}
