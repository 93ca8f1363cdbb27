//! What a request finally cost, handed over once, whatever way it ended.

use std::sync::Arc;

use shared::ids::{AccountId, KeyId, ModelName, RequestId};
use shared::limit::{Priority, TokenWeights};
use shared::state::admission::SpendSpan;
use shared::state::capacity::Turn;
use shared::state::quotas::QuotaTurn;
use shared::state::settlement::{Basis, Outcome, Settlement, Upstream};
use tokio::time::Instant;
use tracing::Span;

use super::journey::Journey;
use super::tally::{Bill, Tally};
use crate::app::Shared;
use crate::lease_keeper::{Parcel, RequestHold};
use crate::metrics::{Counted, ModelLabel, RequestLabels, TokenLabels};

/// An admitted request. It is settled when it is ended, and as failed when it is dropped before.
#[derive(Debug)]
pub struct Open {
    app: Shared,
    facts: Facts,
    tally: Arc<Tally>,
    span: Span,
    _in_flight: Counted,
    /// Present until it is settled.
    pending: Option<Pending>,
}

/// What is known of a request when it is admitted.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Whose money.
    pub account: AccountId,
    /// Which client key.
    pub key: KeyId,
    /// The key's.
    pub priority: Priority,
    /// The request.
    pub request: RequestId,
    /// When it was admitted, by Redis' clock (Unix ms).
    pub admitted_ms: i64,
    /// The model asked for, by its public name.
    pub model: ModelName,
    /// The spend period it was admitted in.
    pub span: Option<SpendSpan>,
    /// The counters of quotas it was admitted under.
    pub quotas: Vec<QuotaTurn>,
    /// Bytes of its prompt.
    pub prompt_chars: u64,
    /// What its tokens count towards the key's tokens per minute.
    pub weights: TokenWeights,
    /// The caller's dialect, as a word.
    pub dialect: &'static str,
}

/// What the log line at the end says of the way there.
#[derive(Debug, Default)]
struct Pending {
    attempts: String,
    /// Nothing is known of the way if a stage was abandoned.
    spared: bool,
    queued_ms: u64,
    started: Option<Instant>,
}

impl Open {
    /// A request that was just admitted: its lease is renewed from now on.
    pub fn new(app: Shared, facts: Facts) -> Self {
        let tally = Arc::new(Tally::new(facts.prompt_chars, facts.weights));
        let hold = RequestHold { account: facts.account.clone(), key: facts.key.clone(), tally: Arc::clone(&tally) };
        app.keeper.hold_request(facts.request.clone(), hold);
        app.metrics.open_requests.inc();
        let in_flight = app.metrics.occupancy.admitted(&facts.account, &facts.key);
        Self { app, facts, tally, span: Span::current(), _in_flight: in_flight, pending: Some(Pending::default()) }
    }

    /// Whose turn it takes where accounts take turns.
    pub fn turn(&self) -> Turn {
        Turn { account: Some(self.facts.account.clone()), priority: self.facts.priority }
    }

    /// The running count of this request.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// The first content goes to the caller. Redis is told at once, so that a crash from now on leaves it to be charged.
    pub fn deliver(&self, chars: u64) {
        self.tally.delivered(chars);
        self.app.keeper.committed();
    }

    /// Keeps the request's story for the log line at its end.
    pub fn remember(&mut self, journey: &Journey) {
        if let Some(pending) = &mut self.pending {
            *pending = Pending {
                attempts: journey.trail_text(),
                spared: journey.trail.is_empty(),
                queued_ms: milliseconds(journey.waited),
                started: Some(journey.started),
            };
        }
    }

    /// Settles it.
    pub fn end(mut self, outcome: Outcome) {
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
        let Some(pending) = self.pending.take() else { return };
        let bill = self.tally.bill();
        self.count(outcome, &bill);
        self.log(outcome, &bill, &pending);
        self.app.keeper.hand_over(Parcel::Settle(Box::new(self.settlement(outcome, &bill, &pending))));
        self.app.metrics.open_requests.dec();
    }

    fn settlement(&self, outcome: Outcome, bill: &Bill, pending: &Pending) -> Settlement {
        let served = self.tally.served();
        let upstream = if pending.spared { Upstream::Spared } else { Upstream::Reached };
        Settlement {
            account: self.facts.account.clone(),
            key: self.facts.key.clone(),
            request: self.facts.request.clone(),
            admitted_ms: self.facts.admitted_ms,
            span: self.facts.span.clone(),
            quotas: self.facts.quotas.clone(),
            tokens: bill.tokens,
            cost: bill.cost,
            weighed: bill.weighed,
            upstream,
            basis: bill.basis,
            outcome,
            model: self.facts.model.clone(),
            served_model: served.map(|served| served.model.clone()),
            connection: served.map(|served| served.connection.clone()),
        }
    }

    fn count(&self, outcome: Outcome, bill: &Bill) {
        let metrics = &self.app.metrics;
        let model = self.facts.model.as_str().into();
        let labels = RequestLabels { dialect: self.facts.dialect, model, outcome: outcome.as_str() };
        metrics.requests.get_or_create(&labels).inc();
        let Some(served) = self.tally.served() else { return };
        let model: crate::metrics::Word = served.model.as_str().into();
        for (class, count) in bill.tokens.by_name().into_iter().filter(|(_, count)| *count > 0) {
            metrics.tokens.get_or_create(&TokenLabels { model: Arc::clone(&model), class }).inc_by(count);
        }
        if bill.basis == Basis::Estimated {
            metrics.estimated.get_or_create(&ModelLabel { model: Arc::clone(&model) }).inc();
        }
        let cost = u64::try_from(bill.cost.nanos()).unwrap_or(0);
        metrics.cost_nanodollars.get_or_create(&ModelLabel { model }).inc_by(cost);
    }

    /// The one log line of a request, and the attributes of its span.
    fn log(&self, outcome: Outcome, bill: &Bill, pending: &Pending) {
        let served = self.tally.served();
        self.span.record("gen_ai.usage.input_tokens", bill.tokens.all_input());
        self.span.record("gen_ai.usage.output_tokens", bill.tokens.all_output());
        self.span.record("headgate.outcome", outcome.as_str());
        if let Some(served) = served {
            self.span.record("gen_ai.response.model", served.model.as_str());
        }
        tracing::info!(
            parent: &self.span,
            request_id = %self.facts.request,
            account = %self.facts.account,
            key = %self.facts.key,
            model = %self.facts.model,
            served_model = served.map(|served| served.model.as_str()),
            connection = served.map(|served| served.connection.as_str()),
            outcome = outcome.as_str(),
            attempts = pending.attempts,
            queued_ms = pending.queued_ms,
            total_ms = pending.started.map(|started| milliseconds(started.elapsed())),
            input_tokens = bill.tokens.input,
            output_tokens = bill.tokens.all_output(),
            cost_nanodollars = bill.cost.nanos(),
            estimated = bill.basis == Basis::Estimated,
            "request"
        );
    }
}

/// A request that nobody ended (a panic, an abandoned stage) is settled as failed.
impl Drop for Open {
    fn drop(&mut self) {
        self.settle(Outcome::Failed);
    }
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
