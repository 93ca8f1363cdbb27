//! Tokens per minute of connections, over all replicas.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Client, Cluster, Config, Response, SECRET, eventually};
use futures_util::future::join_all;
use serde_json::json;

const SOON: Duration = Duration::from_secs(5);
/// Nobody waits: what does not fit now is refused.
const NO_WAIT: &str = "limits: {capacity_wait: 0s}";
const RING: &str = "hg:{g:fake}:conn:conn-1:tpm";
/// What one call is estimated to use: a quarter of its prompt's 68 bytes, and the most it may be answered.
const ESTIMATE: i64 = 17 + 80;

async fn call(client: &Client) -> Response {
    let body = json!({"model": "m1", "max_tokens": 80, "messages": [{"role": "user", "content": "x".repeat(40)}]});
    let secret = format!("Bearer {SECRET}");
    let headers = [("authorization", secret.as_str())];
    client.send(http::Method::POST, "/v1/chat/completions", &headers, body.to_string()).await.unwrap()
}

/// So many calls at once, replicas in turn.
async fn burst(cluster: &Cluster, count: usize) -> Vec<Response> {
    join_all((0..count).map(|_| call(cluster.next()))).await
}

/// How many thousandths of tokens count.
async fn counted(cluster: &Cluster) -> i64 {
    cluster.redis.hash(RING).await.get("total").map_or(0, |total| total.parse().unwrap())
}

/// When the first of what counts runs out.
async fn first_runs_out_ms(cluster: &Cluster) -> i64 {
    let ring = cluster.redis.hash(RING).await;
    let newest: i64 = ring["at"].parse().unwrap();
    let used = |slice: &i64| ring.get(&(slice % 61).to_string()).is_some_and(|amount| amount != "0");
    ((newest - 60..=newest).find(used).unwrap() + 61) * 1_000
}

async fn is_at_rest(cluster: &Cluster) -> bool {
    cluster.redis.keys("*:tpm:held").await.is_empty()
}

#[tokio::test]
async fn an_upstream_never_sees_more_tokens_in_a_minute_than_its_connections_cap_and_refusals_tell_the_exact_wait() {
    let cluster = Cluster::of_three(&Config::connections(1).each("tpm: 1000").more(NO_WAIT)).await;
    cluster.fake.script([Rule::any().tokens(10, 80).delays_headers(Duration::from_millis(50))]);
    let mut served = 0;
    for _ in 0..5 {
        let answers = burst(&cluster, 48).await;
        served += answers.iter().filter(|answer| answer.status == 200).count();
        let refused = |answer: &Response| (answer.status, answer.header("x-headgate-refusal")) == (429, "capacity");
        assert!(answers.iter().all(|answer| answer.status == 200 || refused(answer)), "{answers:?}");
        eventually(SOON, "what was not used is free again", async || is_at_rest(&cluster).await).await;
    }
    // Eleven of 90 leave no room for another 97.
    assert_eq!((served, cluster.fake.calls().len()), (11, 11), "a refusal reaches no upstream");
    assert_eq!(counted(&cluster).await, 11 * 90_000);
    let opens = first_runs_out_ms(&cluster).await;
    for place in 0..3 {
        let before = cluster.redis.now_ms().await;
        let refused = call(cluster.client(place)).await;
        let after = cluster.redis.now_ms().await;
        let told: i64 = refused.header("retry-after").parse().unwrap();
        assert_eq!(refused.status, 429);
        let seconds = |ms: i64| (ms + 999).div_euclid(1_000);
        assert!((seconds(opens - after)..=seconds(opens - before)).contains(&told), "{told} {before} {after} {opens}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn traffic_moves_to_another_connection_before_one_is_over_its_tokens() {
    let config = Config::connections(2).connection(1, "tpm: 200").connection(2, "priority: 1");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().tokens(10, 80)]);
    for _ in 0..6 {
        let answer = call(cluster.next()).await;
        assert_eq!((answer.status, answer.header("x-headgate-queued-ms")), (200, "0"), "{answer:?}");
    }
    let calls = |credential| cluster.fake.calls_of(credential).len();
    assert_eq!((calls("cred-1"), calls("cred-2")), (2, 4), "two of {ESTIMATE} fit into 200");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_request_waits_for_the_tokens_that_running_attempts_hold_and_do_not_use() {
    let config = Config::connections(1).each("tpm: 190").more("limits: {capacity_wait: 60s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().tokens(10, 10).delays_headers(Duration::from_millis(500))]);
    let answers = burst(&cluster, 5).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "each holds {ESTIMATE} and uses 20: {answers:?}");
    assert_eq!(cluster.fake.peak("cred-1").peak, 1, "one at a time");
    let waited = answers.iter().filter(|answer| answer.header("x-headgate-queued-ms") != "0").count();
    assert!(waited >= 4, "{answers:?}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn attempts_count_what_they_used_whatever_way_they_end() {
    let cluster = Cluster::of_three(&Config::connections(1).each("tpm: 100000")).await;
    cluster.fake.script([Rule::any().fails(500)]);
    assert_eq!(call(cluster.next()).await.status, 502);
    eventually(SOON, "nothing is held", async || is_at_rest(&cluster).await).await;
    assert_eq!(counted(&cluster).await, 0, "no failure used anything");
    // A caller that hangs up has used its prompt and what it was given.
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any() }]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    assert!(!is_at_rest(&cluster).await, "a stream holds its tokens");
    drop(stream);
    eventually(SOON, "nothing is held", async || is_at_rest(&cluster).await).await;
    let hung_up = counted(&cluster).await;
    assert!(hung_up > 0, "{hung_up}");
    cluster.fake.script([Rule::any().tokens(30, 12)]);
    let (events, _) = cluster.client(1).chat_stream(SECRET, "m1", "hi").await.rest().await;
    assert!(events.last().unwrap().is_done());
    eventually(SOON, "the stream's usage counts", async || counted(&cluster).await == hung_up + 42_000).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_failed_attempt_counts_what_its_upstream_told_before_it_broke_off() {
    let cluster = Cluster::of_three(&Config::connections(1).each("tpm: 100000")).await;
    let usage = json!({"prompt_tokens": 30, "completion_tokens": 1, "total_tokens": 31});
    let only = json!({"id": "c", "object": "chat.completion.chunk", "model": "m1", "choices": [], "usage": usage});
    let broken = Rule::any().header("content-type", "text/event-stream").body(format!("data: {only}\n\n"));
    cluster.fake.script([broken]);
    assert_eq!(cluster.client(0).chat_stream(SECRET, "m1", "hi").await.status, 502);
    let attempts = i64::try_from(cluster.fake.calls().len()).unwrap();
    assert_eq!(counted(&cluster).await, attempts * 31_000);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn what_a_killed_replica_held_counts_as_used_from_when_its_lease_ends() {
    let mut cluster = Cluster::of_three(&Config::connections(1).each("tpm: 150").more(NO_WAIT)).await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any() }]);
    let body =
        json!({"model": "m1", "stream": true, "max_tokens": 80, "messages": [{"role": "user", "content": "hi"}]});
    let secret = format!("Bearer {SECRET}");
    let headers = [("authorization", secret.as_str())];
    let mut stream = cluster.client(0).stream("/v1/chat/completions", &headers, body.to_string()).await.unwrap();
    stream.read_content(1).await;
    cluster.replica_mut(0).kill().await;
    let refused = call(cluster.client(1)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "nobody knows when it ends");
    eventually(Duration::from_secs(25), "its lease has lapsed", async || {
        call(cluster.client(1)).await.header("retry-after") != "1" && is_at_rest(&cluster).await
    })
    .await;
    let opens = first_runs_out_ms(&cluster).await - cluster.redis.now_ms().await;
    assert!(opens > 30_000, "{opens}");
    assert_eq!(call(cluster.client(2)).await.status, 429);
    assert!(counted(&cluster).await > 80_000);
}
