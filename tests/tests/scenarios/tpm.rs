//! Tokens per minute of a client key, over all replicas.

use std::time::Duration;

use cluster::fake::{Rule, TokenCounts};
use cluster::harness::{Client, Cluster, Config, Response, SECRET, Stream, eventually};
use futures_util::future::join_all;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);
/// Nobody waits: what does not fit now is refused.
const NO_WAIT: &str = "limits: {key_wait: 0s}";
const RING: &str = "hg:{a:acme}:key:ci:tpm";

/// So many calls at once, replicas in turn, with so many bytes of prompt and this maximum of output.
async fn burst(cluster: &Cluster, count: usize, prompt: usize, max_tokens: u64) -> Vec<Response> {
    let body =
        json!({"model": "m1", "max_tokens": max_tokens, "messages": [{"role": "user", "content": "x".repeat(prompt)}]});
    join_all((0..count).map(|_| post(cluster.next(), "/v1/chat/completions", &body))).await
}

async fn post(client: &Client, path: &str, body: &Value) -> Response {
    let secret = format!("Bearer {SECRET}");
    client.send(http::Method::POST, path, &[("authorization", &secret)], body.to_string()).await.unwrap()
}

fn is_refused(answer: &Response) -> bool {
    let limit = (answer.status, answer.header("x-headgate-refusal")) == (429, "tpm");
    let wait = answer.header("retry-after").parse::<u64>();
    limit && wait.is_ok_and(|seconds| (1..=60).contains(&seconds))
}

/// How many thousandths of tokens count.
async fn counted(cluster: &Cluster) -> i64 {
    cluster.redis.hash(RING).await.get("total").map_or(0, |total| total.parse().unwrap())
}

#[tokio::test]
async fn of_calls_of_400_tokens_alternating_over_replicas_a_cap_of_1000_never_admits_a_third() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("tpm: 1000").more(NO_WAIT)).await;
    cluster.fake.script([Rule::any().tokens(100, 300)]);
    // None says how much it wants: the second is taken to want what the first had.
    for call in 1..=2 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200);
        eventually(SOON, "it is counted", async || counted(&cluster).await == call * 400_000).await;
    }
    for _ in 0..6 {
        let refused = cluster.next().chat(SECRET, "m1", "hi").await;
        assert!(is_refused(&refused), "{refused:?}");
    }
    assert_eq!(cluster.fake.calls().len(), 2, "a refusal reaches no upstream");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_estimate_is_held_before_any_usage_is_known() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("tpm: 200").more(NO_WAIT)).await;
    cluster.fake.script([Rule::any().tokens(7, 1).delays_headers(Duration::from_secs(2))]);
    let answers = burst(&cluster, 9, 20, 60).await;
    let (admitted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert!((1..=3).contains(&admitted.len()), "{admitted:?}");
    assert!(refused.iter().all(is_refused), "{refused:?}");
    eventually(SOON, "what was held beyond 8 tokens each is back", async || {
        counted(&cluster).await == 8_000 * i64::try_from(admitted.len()).unwrap()
    })
    .await;
    assert!(cluster.redis.keys("*:held").await.is_empty(), "nothing is held at rest");
    assert_eq!(burst(&cluster, 1, 20, 60).await[0].status, 200);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_cap_smaller_than_any_estimate_lets_one_at_a_time_through_and_no_more() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("tpm: 15").more(NO_WAIT)).await;
    cluster.fake.script([Rule::any().tokens(7, 5).delays_headers(Duration::from_secs(2))]);
    let answers = cluster.burst(5, SECRET, "m1").await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 200 || is_refused(answer)), "{answers:?}");
    cluster.assert_clean().await;
}

/// The path and body of a streamed call of up to 600 tokens in each dialect.
fn streamed(dialect: usize) -> (&'static str, Value) {
    let messages = json!([{"role": "user", "content": "hi"}]);
    match dialect {
        0 => ("/v1/chat/completions", json!({"model": "m1", "stream": true, "max_tokens": 580, "messages": messages})),
        1 => ("/v1/messages", json!({"model": "m1", "stream": true, "max_tokens": 580, "messages": messages})),
        2 => ("/v1/responses", json!({"model": "m1", "stream": true, "max_output_tokens": 580, "input": "hi"})),
        _ => (
            "/v1beta/models/m1:streamGenerateContent?alt=sse",
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"maxOutputTokens": 580}}),
        ),
    }
}

async fn open(client: &Client, dialect: usize) -> Stream {
    let (path, body) = streamed(dialect);
    let secret = format!("Bearer {SECRET}");
    client.stream(path, &[("authorization", &secret)], body.to_string()).await.unwrap()
}

#[tokio::test]
async fn a_stream_of_any_dialect_holds_its_tokens_until_it_ends_and_counts_them_then() {
    for dialect in 0..4 {
        let cluster = Cluster::of_three(&Config::connections(1).ci("tpm: 1000").more(NO_WAIT)).await;
        cluster
            .fake
            .script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }, Rule::any().tokens(20, 580)]);
        let first = open(cluster.client(0), dialect).await;
        assert_eq!(first.status, 200, "dialect {dialect}");
        for replica in [1, 2] {
            let second = open(cluster.client(replica), dialect).await;
            assert_eq!((second.status, second.header("x-headgate-refusal")), (429, "tpm"), "dialect {dialect}");
        }
        drop(first);
        let mut stream = None;
        eventually(SOON, "the abandoned stream gives back what it did not use", async || {
            let opened = open(cluster.client(1), dialect).await;
            let admitted = opened.status == 200;
            stream = Some(opened);
            admitted
        })
        .await;
        stream.take().unwrap().rest().await.1.unwrap();
        eventually(SOON, "it is counted", async || counted(&cluster).await >= 600_000).await;
        assert_eq!(open(cluster.client(2), dialect).await.status, 429, "dialect {dialect}");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_token_read_from_a_cache_counts_a_tenth_or_what_the_file_says() {
    for (more, expected) in [("", 14_500_010), (", token_weights: {cached_input: 1, output: 2}", 100_000_020)] {
        let config = Config::connections(1).ci("tpm: 50000").more(&format!("limits: {{key_wait: 0s{more}}}"));
        let cluster = Cluster::of_three(&config).await;
        let tokens =
            TokenCounts { prompt: Some(100_000), cached: Some(95_000), completion: Some(0), ..TokenCounts::default() };
        cluster.fake.script([Rule { tokens, ..Rule::any() }]);
        assert_eq!(burst(&cluster, 1, 100, 10).await[0].status, 200);
        let rounded = expected / 1_000_000;
        eventually(SOON, "it is counted", async || counted(&cluster).await / 1_000_000 == rounded).await;
        let second = &burst(&cluster, 1, 100, 10).await[0];
        assert_eq!(second.status == 200, more.is_empty(), "{second:?}");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_call_that_fails_or_is_refused_before_any_upstream_gives_everything_back() {
    let config = Config::connections(1).ci("tpm: 500").connection(1, "max_concurrent: 1");
    let config = config.key("other", "").more("limits: {key_wait: 0s, capacity_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().times(2).fails(500)]);
    assert_eq!(burst(&cluster, 1, 20, 400).await[0].status, 502);
    eventually(SOON, "it holds nothing", async || cluster.redis.keys("*:held").await.is_empty()).await;
    // The one slot is taken by another key: admitted, but nobody has capacity.
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
    let mut stream = cluster.client(0).chat_stream("hg-other-secret", "m1", "hi").await;
    stream.read_content(1).await;
    for _ in 0..3 {
        let refused = &burst(&cluster, 1, 20, 400).await[0];
        assert_eq!((refused.status, refused.header("x-headgate-refusal")), (429, "capacity"));
        eventually(SOON, "it holds nothing", async || cluster.redis.keys("*:key:ci:held").await.is_empty()).await;
    }
    drop(stream);
    assert_eq!(counted(&cluster).await, 0);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_caller_that_waits_is_served_when_tokens_come_back_on_another_replica() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("tpm: 600").more("limits: {key_wait: 20s}")).await;
    cluster.fake.script([Rule::any().tokens(10, 10).delays_headers(Duration::from_millis(700))]);
    let answers = burst(&cluster, 6, 20, 400).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "each holds 400 and uses 20: {answers:?}");
    assert_eq!(cluster.fake.peak("cred-1").peak, 1, "one at a time");
    let waited = answers.iter().filter(|answer| answer.header("x-headgate-queued-ms") != "0").count();
    assert!(waited >= 5, "{answers:?}");
    cluster.assert_clean().await;
}
