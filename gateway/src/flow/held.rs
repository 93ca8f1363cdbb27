//! A slot at a connection while it is held. However the attempt ends, it is given back.

use std::time::Duration;

use shared::ids::EndpointId;
use shared::limit::Weighed;
use shared::state::capacity::{LeaseId, Mark, Probe, RecordAsk, ToldLimit};

use crate::app::Shared;
use crate::lease_keeper::Parcel;

/// A held slot. Dropped without a word it is given back without blame.
#[derive(Debug)]
pub struct Held {
    app: Shared,
    probe: Probe,
    /// Present until it is given back.
    receipt: Option<Box<RecordAsk>>,
}

impl Held {
    /// A slot that was just acquired: its lease is renewed from now on.
    pub fn new(app: &Shared, receipt: RecordAsk, probe: Probe) -> Self {
        let (lease, group, connection) = (receipt.lease.clone(), receipt.group.clone(), receipt.connection.clone());
        app.keeper.hold_connection(lease, group, connection);
        Self { app: Shared::clone(app), probe, receipt: Some(Box::new(receipt)) }
    }

    /// What the upstream told of its limits: kept when the slot is given back.
    pub fn tell(&mut self, told: Vec<ToldLimit>) {
        if let Some(receipt) = &mut self.receipt {
            receipt.told = told;
        }
    }

    /// What the attempt used: counted against the connection's tokens per minute, where it has such a limit, when the slot is given
    /// back.
    pub fn used(&mut self, tokens: Weighed) {
        if let Some(used) = self.receipt.as_mut().and_then(|receipt| receipt.tokens.as_mut()) {
            *used = tokens;
        }
    }

    /// The lease of the slot, until it is given back.
    pub fn lease(&self) -> Option<&LeaseId> {
        self.receipt.as_ref().map(|receipt| &receipt.lease)
    }

    /// The endpoint that is called with the slot from now on.
    pub fn calls(&mut self, endpoint: EndpointId) {
        if let Some(receipt) = &mut self.receipt {
            receipt.endpoint = Some(endpoint);
        }
    }

    /// The endpoint that was called failed; the slot is kept for the next one. Waits until all know of it.
    pub async fn passes_on(&self, rest: Duration) {
        let Some(receipt) = &self.receipt else { return };
        let ask = RecordAsk { mark: Mark::EndpointOnly { rest }, ..(**receipt).clone() };
        if let Err(error) = self.app.store.record(&ask).await {
            tracing::debug!(%error, "an endpoint's failure was not recorded");
        }
    }

    /// Content flows: a probe has succeeded, however long the answer goes on.
    pub fn committed(&self) {
        let Some(receipt) = self.receipt.as_ref().filter(|_| self.probe == Probe::Yes) else { return };
        let ask = RecordAsk { mark: Mark::Committed, ..(**receipt).clone() };
        let store = self.app.store.clone();
        self.app.keeper.spawn(async move {
            if let Err(error) = store.record(&ask).await {
                tracing::debug!(%error, "the success of a probe was not recorded; its end will be");
            }
        });
    }

    /// Gives the slot back and waits until that is known to all. Answers how long the rung stays closed, if it does.
    pub async fn give_back(mut self, mark: Mark) -> Option<Duration> {
        let receipt = self.receipt.take()?;
        self.app.keeper.give_back(RecordAsk { mark, ..*receipt }).await
    }

    /// Gives the slot back in the background: the attempt worked. The time to the first token counts for the connection's health,
    /// where there was one.
    pub fn succeeded(mut self, first_token: Option<Duration>) {
        self.hand_over(Mark::Success { first_token });
    }

    /// Gives the slot back in the background.
    pub fn ended(mut self, mark: Mark) {
        self.hand_over(mark);
    }

    fn hand_over(&mut self, mark: Mark) {
        if let Some(receipt) = self.receipt.take() {
            self.app.keeper.hand_over(Parcel::Record(Box::new(RecordAsk { mark, ..*receipt })));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hand_over(Mark::Nothing);
    }
}
