//! Traces, as a collector receives them over OTLP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};

/// Records what is exported to it.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<u8>>>);

impl Collector {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::clone(&self.0);
        let export = move |body: Bytes| async move { kept.lock().unwrap().extend_from_slice(&body) };
        tokio::spawn(axum::serve(listener, Router::new().route("/v1/traces", post(export))).into_future());
        format!("http://{address}")
    }

    /// How often a text stands in the exported spans: protobuf holds texts as they are.
    fn count(&self, text: &str) -> usize {
        let kept = self.0.lock().unwrap();
        kept.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }
}

#[tokio::test]
async fn a_request_is_one_trace_with_a_span_for_each_attempt_and_no_secret_in_it() {
    let collector = Collector::default();
    let endpoint = collector.start().await;
    let config = Config::connections(2).connection(1, "priority: 0").connection(2, "priority: 1");
    let cluster = Cluster::builder(&config)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
        .start()
        .await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(429)]);
    let answer = cluster.client(0).chat(SECRET, "m1", "canary-of-the-body").await;
    assert_eq!(answer.header("x-headgate-attempts"), "conn-1/m1:rate_limited, conn-2/m1:ok");

    let exported = async || collector.count("headgate.outcome") == 1 && collector.count("headgate.connection") == 2;
    eventually(Duration::from_secs(10), "the request and both attempts are exported", exported).await;
    for (text, times) in [("chat m1", 2), ("gen_ai.request.model", 3), ("gen_ai.usage.output_tokens", 1), ("conn-2", 1)]
    {
        assert_eq!(collector.count(text), times, "{text}");
    }
    assert_eq!(collector.count("rate_limited"), 2, "class and error.type of the failed attempt");
    for secret in [SECRET, "cred-1", "cred-2", "canary-of-the-body"] {
        assert_eq!(collector.count(secret), 0, "{secret}");
    }
}
