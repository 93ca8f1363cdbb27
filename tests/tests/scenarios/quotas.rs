//! Quotas of a client key, over all replicas.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Client, Cluster, Config, Response, SECRET, eventually};
use futures_util::future::join_all;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

async fn post(client: &Client, path: &str, body: &Value) -> Response {
    let secret = format!("Bearer {SECRET}");
    client.send(http::Method::POST, path, &[("authorization", &secret)], body.to_string()).await.unwrap()
}

async fn counter(cluster: &Cluster, name: &str) -> i64 {
    cluster.redis.ask::<Option<i64>>(&["GET", &format!("hg:{{a:acme}}:key:ci:quota:{name}")]).await.unwrap_or(0)
}

fn assert_refused(answer: &Response, says: &str) {
    assert_eq!((answer.status, answer.header("x-headgate-refusal")), (403, "quota"), "{answer:?}");
    assert!(answer.body.contains(says), "{says} in {}", answer.body);
}

#[tokio::test]
async fn a_quota_of_10_requests_over_three_replicas_admits_exactly_10_of_30() {
    for quota in ["{requests: 10, period: total}", "{requests: 10, window: 24h}"] {
        let cluster = Cluster::of_three(&Config::connections(1).ci(&format!("quotas: [{quota}]"))).await;
        cluster.fake.script([Rule::any().delays_headers(Duration::from_millis(50))]);
        let answers = cluster.burst(30, SECRET, "m1").await;
        let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
        assert_eq!((admitted.len(), refused.len()), (10, 20), "{quota}");
        for answer in &refused {
            assert_eq!(answer.error_code(), "quota_exceeded");
            assert_refused(answer, "used up its quota: 10 of 10 requests");
        }
        assert_eq!(cluster.fake.calls().len(), 10, "a refusal reaches no upstream");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn every_dialect_is_told_of_a_used_up_quota_in_its_own_words_on_every_route() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("quotas: [{requests: 1, period: month}]")).await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    let messages = json!([{"role": "user", "content": "hi"}]);
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let routes = [
        ("/v1/chat/completions", json!({"model": "m1", "messages": messages}), "/error/type", "quota_exceeded_error"),
        ("/v1/responses", json!({"model": "m1", "input": "hi"}), "/error/code", "quota_exceeded"),
        ("/v1/embeddings", json!({"model": "m1", "input": "hi"}), "/error/code", "quota_exceeded"),
        (
            "/v1/messages",
            json!({"model": "m1", "max_tokens": 9, "messages": messages}),
            "/error/type",
            "permission_error",
        ),
        ("/v1beta/models/m1:generateContent", contents.clone(), "/error/status", "PERMISSION_DENIED"),
        ("/v1beta/models/m1:streamGenerateContent?alt=sse", contents, "/error/status", "PERMISSION_DENIED"),
    ];
    for (path, body, field, word) in routes {
        let refused = post(cluster.next(), path, &body).await;
        assert_refused(&refused, "1 of 1 requests per month");
        assert_eq!(refused.json().pointer(field).and_then(Value::as_str), Some(word), "{path}");
    }
    assert_eq!(cluster.fake.calls().len(), 1);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn tokens_of_calls_at_once_never_exceed_their_quota_and_what_is_not_used_comes_back() {
    let config = Config::connections(1).ci("quotas: [{tokens: 1000, period: total}]").more("limits: {key_wait: 20s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().tokens(50, 150).delays_headers(Duration::from_millis(300))]);
    let body = json!({"model": "m1", "max_tokens": 300, "messages": [{"role": "user", "content": "hi"}]});
    let answers = join_all((0..12).map(|_| post(cluster.next(), "/v1/chat/completions", &body))).await;
    let admitted = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(admitted, 4, "800 tokens are used; the fifth may need more than 200");
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_refused(answer, "800 of 1000 tokens in all. It does not start afresh.");
    }
    cluster.assert_clean().await;
    assert_eq!(counter(&cluster, "tokens-total:total").await, 800);
}

#[tokio::test]
async fn a_quota_of_money_is_told_in_dollars_and_several_quotas_hold_at_once() {
    let quotas = "quotas: [{requests: 9, window: 1h}, {usd: 0.001, period: total}]";
    let cluster = Cluster::of_three(&Config::connections(1).ci(quotas)).await;
    cluster.fake.script([Rule::any().tokens(100, 50)]);
    for call in 1..=2 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200);
        eventually(SOON, "it is settled", async || counter(&cluster, "usd-total:total").await == call * 600_000).await;
    }
    assert_refused(&cluster.next().chat(SECRET, "m1", "hi").await, "$0.0012 of $0.001 cost in all");
    let ring = cluster.redis.hash("hg:{a:acme}:key:ci:quota:requests-3600s:window").await;
    assert_eq!(ring["total"], "2", "the refused one counts nowhere");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_call_that_reached_no_upstream_is_given_back_and_one_that_failed_there_is_not() {
    let config = Config::connections(1).each("max_concurrent: 1").ci("quotas: [{requests: 2, period: total}]");
    let config = config.key("other", "").more("limits: {key_wait: 0s, capacity_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
    let mut stream = cluster.client(0).chat_stream("hg-other-secret", "m1", "hi").await;
    stream.read_content(1).await;
    for _ in 0..4 {
        let refused = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!((refused.status, refused.header("x-headgate-refusal")), (429, "capacity"));
        eventually(SOON, "it is given back", async || counter(&cluster, "requests-total:total").await == 0).await;
    }
    drop(stream);
    eventually(SOON, "the slot is free", async || cluster.fake.open() == 0 && cluster.redis.held().await.is_empty())
        .await;
    cluster.fake.script([Rule::any().fails(400)]);
    for _ in 0..2 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 400);
    }
    assert_refused(&cluster.next().chat(SECRET, "m1", "hi").await, "2 of 2 requests");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_lost_counter_is_an_outage_and_no_fresh_start() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("quotas: [{requests: 5, period: total}]")).await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    let gone: i64 = cluster.redis.ask(&["DEL", "hg:{a:acme}:key:ci:quota:requests-total:total"]).await;
    assert_eq!(gone, 1);
    for replica in 0..3 {
        let refused = cluster.client(replica).chat(SECRET, "m1", "hi").await;
        assert_eq!((refused.status, refused.error_code().as_str()), (503, "state_unavailable"));
    }
    assert_eq!(cluster.fake.calls().len(), 1);
    cluster.assert_clean().await;
}
