//! What Prometheus sees: the counters, gauges and histograms of one replica.
//!
//! Labels are bounded: model and connection names come from the configuration only, never from a caller.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub use occupancy::{Counted, Occupancy};

mod occupancy;

/// A label's value: a name of the configuration or one of our own words.
pub type Word = std::sync::Arc<str>;

/// Labels of a finished request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The caller's dialect.
    pub dialect: &'static str,
    /// The model asked for; `unknown` for one that is not configured.
    pub model: Word,
    /// How it ended: a settlement's outcome or `refused`.
    pub outcome: &'static str,
}

/// Labels of one upstream call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AttemptLabels {
    /// The connection that was called.
    pub connection: Word,
    /// `ok` or the class of the failure.
    pub class: &'static str,
}

/// One label: a word of our own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    /// Which limit refused, which script ran, which token class.
    pub kind: &'static str,
}

/// One label: a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ModelLabel {
    /// The model that answered.
    pub model: Word,
}

/// Labels of tokens and money.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TokenLabels {
    /// The model that answered.
    pub model: Word,
    /// The token class, as the ledger calls it.
    pub class: &'static str,
}

#[derive(Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms<L> = Family<L, Histogram, Buckets>;

/// 0.1 ms to 10 s: a script, a wait, our own share of a request.
const SHORT: Buckets =
    Buckets(&[0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0]);
/// 10 ms to 2 min: an upstream's first token.
const LONG: Buckets = Buckets(&[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0]);

/// Every metric of one replica.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Requests that ended.
    pub requests: Family<RequestLabels, Counter>,
    /// Refusals of our own, by the limit named in `x-headgate-refusal`.
    pub refusals: Family<KindLabel, Counter>,
    /// Upstream calls.
    pub attempts: Family<AttemptLabels, Counter>,
    /// Requests answered by another rung than their first.
    pub failovers: Counter,
    /// Requests between ingress and settlement.
    pub open_requests: Gauge<i64, AtomicI64>,
    /// Requests that stand in a line.
    pub waiting: Gauge<i64, AtomicI64>,
    /// Leases held by this replica.
    pub leases: Gauge<i64, AtomicI64>,
    /// Leases that were no longer ours when we renewed them.
    pub lost_leases: Counter,
    /// Settlements and releases that wait for Redis.
    pub outbox: Gauge<i64, AtomicI64>,
    /// Settlements dropped because the outbox was full.
    pub outbox_dropped: Counter,
    /// Requests of dead replicas settled by this one.
    pub lapsed_settled: Counter,
    /// Store calls that were not answered.
    pub store_errors: Counter,
    /// 1 while Redis does not answer.
    pub store_down: Gauge<i64, AtomicI64>,
    /// Platform connections locked because their credential was refused.
    pub auth_locks: Family<AttemptLabels, Counter>,
    /// Tokens, by the model that answered.
    pub tokens: Family<TokenLabels, Counter>,
    /// Requests charged by our own estimate, by the model that answered: its upstream's usage was missing or could not be true.
    pub estimated: Family<ModelLabel, Counter>,
    /// Nano-dollars charged.
    pub cost_nanodollars: Family<ModelLabel, Counter>,
    /// Who is under way and who waits, and where.
    pub occupancy: Occupancy,
    queue_wait: Histogram,
    first_token: Histograms<ModelLabel>,
    overhead: Histogram,
    scripts: Histograms<KindLabel>,
    started: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero, registered under `headgate_`.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("headgate")),
            requests: Family::default(),
            refusals: Family::default(),
            attempts: Family::default(),
            failovers: Counter::default(),
            open_requests: Gauge::default(),
            waiting: Gauge::default(),
            leases: Gauge::default(),
            lost_leases: Counter::default(),
            outbox: Gauge::default(),
            outbox_dropped: Counter::default(),
            lapsed_settled: Counter::default(),
            store_errors: Counter::default(),
            store_down: Gauge::default(),
            auth_locks: Family::default(),
            tokens: Family::default(),
            estimated: Family::default(),
            cost_nanodollars: Family::default(),
            occupancy: Occupancy::default(),
            queue_wait: SHORT.new_metric(),
            first_token: Histograms::new_with_constructor(LONG),
            overhead: SHORT.new_metric(),
            scripts: Histograms::new_with_constructor(SHORT),
            started: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut guard = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let r = &mut *guard;
        r.register("requests", "Requests that ended, by dialect, model and outcome", self.requests.clone());
        r.register("refusals", "Refusals made by Headgate, by limit", self.refusals.clone());
        r.register("attempts", "Upstream calls, by connection and class", self.attempts.clone());
        r.register("failovers", "Requests answered by another rung than their first", self.failovers.clone());
        r.register("open_requests", "Requests between ingress and settlement", self.open_requests.clone());
        r.register("waiting_requests", "Requests that stand in a line", self.waiting.clone());
        r.register("leases", "Leases held by this replica", self.leases.clone());
        r.register("lost_leases", "Leases that were no longer ours at renewal", self.lost_leases.clone());
        r.register("outbox", "Settlements and releases waiting for Redis", self.outbox.clone());
        r.register("outbox_dropped", "Settlements dropped because the outbox was full", self.outbox_dropped.clone());
        r.register("lapsed_settled", "Requests of dead replicas settled by this one", self.lapsed_settled.clone());
        r.register("store_errors", "Store calls that were not answered", self.store_errors.clone());
        r.register("store_down", "1 while Redis does not answer", self.store_down.clone());
        r.register("auth_locks", "Connections locked because their credential was refused", self.auth_locks.clone());
        r.register("tokens", "Tokens by the model that answered and class", self.tokens.clone());
        r.register("estimated", "Requests charged by estimate, by the model that answered", self.estimated.clone());
        r.register(
            "cost_nanodollars",
            "Nano-dollars charged, by the model that answered",
            self.cost_nanodollars.clone(),
        );
        self.occupancy.register(r);
        let seconds = Unit::Seconds;
        r.register_with_unit(
            "queue_wait",
            "Time admitted requests stood in lines",
            seconds.clone(),
            self.queue_wait.clone(),
        );
        r.register_with_unit(
            "time_to_first_token",
            "From attempt to first content",
            seconds.clone(),
            self.first_token.clone(),
        );
        r.register_with_unit(
            "gateway_overhead",
            "Time to commit, less waiting and the upstream's own",
            seconds.clone(),
            self.overhead.clone(),
        );
        r.register_with_unit("script", "Round trip of one script", seconds.clone(), self.scripts.clone());
        r.register_with_unit("start_time", "When this replica started, Unix time", seconds, self.started.clone());
        self.started
            .set(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()));
    }

    /// A request stood in lines for this long.
    pub fn waited(&self, wait: Duration) {
        self.queue_wait.observe(wait.as_secs_f64());
    }

    /// A request stands in a line until the guard is dropped.
    pub fn stand_in_line(&self) -> Waiting<'_> {
        self.waiting.inc();
        Waiting(self)
    }

    /// A model's first content came after this long.
    pub fn first_token(&self, model: &str, wait: Duration) {
        self.first_token.get_or_create(&ModelLabel { model: model.into() }).observe(wait.as_secs_f64());
    }

    /// The gateway's own share of a request.
    pub fn overhead(&self, share: Duration) {
        self.overhead.observe(share.as_secs_f64());
    }

    /// One script ran.
    pub fn script(&self, name: &'static str, took: Duration) {
        self.scripts.get_or_create(&KindLabel { kind: name }).observe(took.as_secs_f64());
    }

    /// The metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// A request that stands in a line.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Metrics);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_prefix_their_unit_and_what_was_counted() {
        let metrics = Metrics::new();
        metrics.failovers.inc();
        metrics.script("admit", Duration::from_micros(300));
        metrics.tokens.get_or_create(&TokenLabels { model: "m".into(), class: "cached_input" }).inc_by(7);
        let text = metrics.text();
        assert!(text.contains("headgate_failovers_total 1\n"), "{text}");
        assert!(text.contains(r#"headgate_script_seconds_bucket{le="0.0005",kind="admit"} 1"#), "{text}");
        assert!(text.contains(r#"headgate_tokens_total{model="m",class="cached_input"} 7"#), "{text}");
    }
}
