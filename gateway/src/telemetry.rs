//! Logs to standard error, JSON or human, and traces over OTLP when an endpoint is given.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Level;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Flushes what is left of the traces.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

/// Starts logging. `HEADGATE_LOG` filters (default `info`), `HEADGATE_LOG_FORMAT` is `json` or `human` (default: human on a
/// terminal, else JSON). Traces are sent when `OTEL_EXPORTER_OTLP_ENDPOINT` is set, over HTTP.
pub fn start() -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_new(std::env::var("HEADGATE_LOG").as_deref().unwrap_or("info"))
        .context("HEADGATE_LOG is not a log filter")?;
    let json = match std::env::var("HEADGATE_LOG_FORMAT").as_deref() {
        Ok("json") => true,
        Ok("human") => false,
        Ok(other) => anyhow::bail!("HEADGATE_LOG_FORMAT is {other:?}, expected json or human"),
        Err(_) => !std::io::stderr().is_terminal(),
    };
    // A line holds its event only: without this, every field of every span would be written as text that nobody reads.
    let filter = filter.and(filter_fn(|metadata| !metadata.is_span()));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let lines = if json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).with_filter(filter).boxed()
    } else {
        lines.compact().with_filter(filter).boxed()
    };
    let traces = tracer()?;
    let spans = traces.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("headgate"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && *metadata.level() <= Level::INFO))
    });
    tracing_subscriber::registry().with(lines).with(spans).try_init().context("logging was started twice")?;
    Ok(Telemetry { traces })
}

fn tracer() -> anyhow::Result<Option<SdkTracerProvider>> {
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none_or(|endpoint| endpoint.is_empty()) {
        return Ok(None);
    }
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    // The exporter's own thread needs a client of its own: the asynchronous one finds no runtime there and loses every span.
    let exporter =
        opentelemetry_otlp::SpanExporter::builder().with_http().build().context("the OTLP exporter did not start")?;
    let service = std::env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "headgate".to_owned());
    let resource = Resource::builder().with_service_name(service).build();
    Ok(Some(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
}

impl Telemetry {
    /// Sends the spans that are still buffered. Blocks for at most a few seconds.
    pub fn stop(self) {
        if let Some(traces) = self.traces
            && let Err(error) = traces.shutdown()
        {
            tracing::warn!(%error, "traces were not flushed");
        }
    }
}
