//! Calls of one rung: its endpoints one after another with the same slot, and the whole rung once more.

use shared::failure::Effect;
use shared::state::capacity::Acquire;
use tokio::time::Instant;

use super::slot::{Chain, Offer, Slot, Taken};
use super::{Answered, Line, Missed, Walk};
use crate::flow::Fall;
use crate::flow::admit::unanswered;
use crate::flow::held::Held;
use crate::flow::plan::{Rung, Step};

impl<'a> Walk<'a> {
    /// Calls the endpoints of a rung one after another, as long as the failure is one of the endpoint.
    pub(super) async fn chain(
        &mut self,
        step: &'a Step,
        slot: Slot<'a>,
    ) -> Result<Result<Box<Answered>, Missed>, Fall> {
        let rung = slot.rung;
        let mut rest: Vec<usize> = (0..rung.serving.endpoints.len()).collect();
        let mut slot = slot;
        self.calls.count(step);
        loop {
            rest.retain(|other| *other != slot.endpoint);
            self.endpoints_left = rest.len();
            let missed = match self.call(slot).await? {
                Ok(answered) => return Ok(Ok(answered)),
                Err(missed) => missed,
            };
            let Some(held) = self.kept.take() else { return Ok(Err(missed)) };
            let Some(next) = self.next_endpoint(step, rung, &rest, held).await? else { return Ok(Err(missed)) };
            self.calls.count_endpoint(step);
            slot = next;
        }
    }

    /// The slot that is held, for the next endpoint of its rung that does not rest; without one it is given back.
    async fn next_endpoint(
        &mut self,
        step: &'a Step,
        rung: &'a Rung,
        rest: &[usize],
        mut held: Held,
    ) -> Result<Option<Slot<'a>>, Fall> {
        let app = self.climb.app;
        let offer = Offer { rung, chain: Chain::Rest(rest.to_vec()) };
        let (candidate, lease) = (offer.candidate(), held.lease().cloned());
        if candidate.endpoints.is_empty() {
            return Ok(rest.first().map(|&endpoint| Slot { rung, endpoint, held }));
        }
        let Some(lease) = lease else { return Ok(None) };
        let ask = self.ask(step, lease, vec![candidate]);
        let answer = app.store.acquire(&ask).await.map_err(|error| unanswered(app, &error))?;
        let Acquire::Acquired { endpoint, .. } = answer else { return Ok(None) };
        let Some(&endpoint) = rest.get(endpoint) else { return Ok(None) };
        held.calls(rung.serving.endpoints[endpoint].id.clone());
        Ok(Some(Slot { rung, endpoint, held }))
    }

    /// Whether the same slot calls another endpoint.
    pub(super) fn goes_on_with_chain(&self, effect: Effect) -> bool {
        let in_time = Instant::now() < self.climb.exchange.deadline;
        effect.tries_next_endpoint() && self.endpoints_left > 0 && in_time && !self.calls.request_spent()
    }

    /// The last rung of a level that failed in passing, once more before the step down.
    pub(super) async fn retry(&mut self) -> Result<Option<Box<Answered>>, Fall> {
        let Some((step, rung)) = self.again.take() else { return Ok(None) };
        if self.budget_spent(step) {
            return Ok(None);
        }
        self.pause().await?;
        // With nothing below it is worth a place in line.
        let is_last = self.climb.ladder.steps.last().is_some_and(|last| last.is_level_with(step));
        let line = if is_last { Line::Stand } else { Line::Pass };
        self.once_more(step, Offer { rung, chain: Chain::Whole }, line).await
    }

    /// One call outside the order.
    pub(super) async fn once_more(
        &mut self,
        step: &'a Step,
        offer: Offer<'a>,
        line: Line,
    ) -> Result<Option<Box<Answered>>, Fall> {
        if self.budget_spent(step) {
            return Ok(None);
        }
        let Taken::Slot(slot) = self.take(step, &[offer], line).await? else { return Ok(None) };
        self.tried.push(slot.rung);
        self.calls.count(step);
        self.endpoints_left = 0;
        Ok(self.call(slot).await?.ok())
    }
}
