//! Refusals: which comes first, what each says, and how they are told from an upstream's own errors.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Response, SECRET, eventually, secret_of};
use http::Method;

const SOON: Duration = Duration::from_secs(5);
const CHAT: &str = "/v1/chat/completions";

/// Status, limit named, and whether it says when to come again.
fn told(answer: &Response) -> (u16, &str, bool) {
    let wait = answer.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1);
    (answer.status, answer.header("x-headgate-refusal"), wait)
}

#[tokio::test]
async fn every_limit_is_named_in_its_refusal_and_an_upstreams_own_429_is_not_ours() {
    let config = Config::connections(1)
        .key("slow", "rpm: 1")
        .key("single", "max_concurrent: 1")
        .key("spent", "spend_limit: {usd: 0.000001, period: day}")
        .key("narrow", "models: [m2]")
        .more("limits: {key_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    let call = async |key: &str, model: &str| cluster.next().chat(&secret_of(key), model, "hi").await;
    assert_eq!(call("slow", "m1").await.status, 200);
    assert_eq!(told(&call("slow", "m1").await), (429, "rpm", true));
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
    let mut holder = cluster.client(0).chat_stream(&secret_of("single"), "m1", "hi").await;
    holder.read_content(1).await;
    assert_eq!(told(&call("single", "m1").await), (429, "concurrency", true));
    drop(holder);
    assert_eq!(call("spent", "m1").await.status, 200);
    eventually(SOON, "it is spent", async || call("spent", "m1").await.status == 402).await;
    assert_eq!(told(&call("spent", "m1").await), (402, "spend_limit", false));
    assert_eq!(told(&call("narrow", "m1").await), (403, "model", false));
    assert_eq!(told(&call("narrow", "m3").await), (404, "model_not_found", false));
    assert_eq!(told(&call("nobody", "m1").await), (401, "key", false));

    cluster.fake.script([Rule::any().fails(429).header("retry-after", "30")]);
    let theirs = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!(told(&theirs), (429, "", true));
    assert_eq!(theirs.header("x-headgate-attempts"), "conn-1/m1:rate_limited");
    let locked = cluster.client(1).chat(SECRET, "m1", "hi").await;
    assert_eq!((told(&locked), locked.header("x-headgate-attempts")), ((429, "locked", true), ""));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn full_connections_are_a_429_that_names_capacity_and_says_how_long_was_waited() {
    let config = Config::connections(1).each("max_concurrent: 1").more("limits: {capacity_wait: 300ms}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
    let mut holder = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    holder.read_content(1).await;
    let refused = cluster.client(1).chat(SECRET, "m2", "hi").await;
    assert_eq!(told(&refused), (429, "capacity", true), "{}", refused.body);
    assert!(refused.body.contains("All upstream capacity for this model is busy. Retry shortly."));
    let waited: u64 = refused.header("x-headgate-queued-ms").parse().unwrap();
    assert!((300..1500).contains(&waited), "{waited}");
    drop(holder);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn who_calls_is_asked_first_then_the_body_then_the_model_then_money_then_rates() {
    let config = Config::connections(1).account("balance: 0").ci("models: [m2], rpm: 1").more("limits: {body: 64KiB}");
    let cluster = Cluster::builder(&config).start().await;
    let body = |model: &str| format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    let (good, bad) = (format!("Bearer {SECRET}"), "Bearer hg-unknown");
    for (key, body, status) in [
        (bad, "x".repeat(70 << 10), 401),
        (bad, body("m3"), 401),
        (&good, "x".repeat(70 << 10), 413),
        (&good, "{".to_owned(), 400),
        (&good, body("m3"), 404),
        (&good, body("m1"), 403),
        (&good, body("m2"), 402),
        (&good, body("m2"), 402),
    ] {
        let answer = cluster.client(0).send(Method::POST, CHAT, &[("authorization", key)], body).await.unwrap();
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(!answer.header("x-headgate-refusal").is_empty() && answer.header("x-headgate-queued-ms").is_empty());
    }
    assert!(cluster.fake.calls().is_empty());
    cluster.assert_clean().await;
}

#[tokio::test]
async fn rights_that_were_widened_or_narrowed_count_at_once_on_replicas_that_remember_the_key() {
    let narrow = Config::connections(1).ci("models: [m1]");
    let cluster = Cluster::of_three(&narrow).await;
    for place in 0..3 {
        assert_eq!(cluster.client(place).chat(SECRET, "m1", "hi").await.status, 200);
        assert_eq!(cluster.client(place).chat(SECRET, "m2", "hi").await.status, 403);
    }
    // Only one replica reads the file again; the others meet the new record in Redis.
    cluster.reconfigure(&Config::connections(1).ci("models: [m2]"));
    cluster.replica(0).hang_up();
    for place in 0..3 {
        let client = cluster.client(place);
        eventually(SOON, "m2 is allowed", async || client.chat(SECRET, "m2", "hi").await.status == 200).await;
        assert_eq!(client.chat(SECRET, "m1", "hi").await.status, 403, "replica {place}");
    }
}

#[tokio::test]
async fn a_changed_file_with_a_fault_is_refused_and_the_old_one_stays() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.reconfigure(&Config::connections(1).more("limit: {}"));
    cluster.replica(0).hang_up();
    let refused = async || cluster.replica(0).log().contains("the changed configuration is refused");
    eventually(SOON, "the fault is told", refused).await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    cluster.reconfigure(&Config::connections(1).more("limits: {body: 1KiB}"));
    cluster.replica(0).hang_up();
    let long = "x".repeat(2048);
    eventually(SOON, "the new limit holds", async || cluster.client(0).chat(SECRET, "m1", &long).await.status == 413)
        .await;
}
