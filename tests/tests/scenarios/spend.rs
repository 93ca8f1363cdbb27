//! Spend limits of a client key while calls run at once.
//!
//! `m1` costs 1,000 nano-dollars per input token and 10,000 per output token.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Response, SECRET, eventually};
use futures_util::future::join_all;

const SOON: Duration = Duration::from_secs(5);
const SPENT: &str = "hg:{a:acme}:key:ci:spend:total";

async fn call(cluster: &Cluster, body: &'static str) -> Response {
    let secret = format!("Bearer {SECRET}");
    cluster.next().send(http::Method::POST, "/v1/chat/completions", &[("authorization", &secret)], body).await.unwrap()
}

async fn spent(cluster: &Cluster) -> i64 {
    cluster.redis.ask::<Option<i64>>(&["GET", SPENT]).await.unwrap_or(0)
}

const AT_MOST_400: &str = r#"{"model":"m1","max_tokens":400,"messages":[{"role":"user","content":"hi"}]}"#;
const AT_MOST_60: &str = r#"{"model":"m1","max_tokens":60,"messages":[{"role":"user","content":"hi"}]}"#;
const AT_MOST_SOME: &str = r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#;

/// Nothing is spent, and what others hold may come back: it is told to come again.
fn assert_held(answer: &Response) {
    assert_eq!((answer.status, answer.error_code().as_str()), (429, "rate_limit_exceeded"), "{answer:?}");
    assert_eq!(answer.header("x-headgate-refusal"), "concurrency");
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1));
}

#[tokio::test]
async fn fifty_calls_at_once_never_spend_more_than_the_limit() {
    for body in [AT_MOST_400, AT_MOST_SOME] {
        let cluster = Cluster::of_three(&Config::connections(3).ci("spend_limit: {usd: 0.010}")).await;
        cluster.fake.script([Rule::any().tokens(100, 400).delays_headers(Duration::from_secs(4))]);
        let answers = join_all((0..50).map(|_| call(&cluster, body))).await;
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        assert!((1..=2).contains(&admitted), "{admitted} admitted");
        for refused in answers.iter().filter(|answer| answer.status != 200) {
            assert_held(refused);
        }
        let all = 4_100_000 * i64::try_from(admitted).unwrap();
        eventually(SOON, "all is settled", async || spent(&cluster).await == all).await;
        assert!(all <= 10_000_000);
        cluster.assert_clean().await;
        assert_eq!(cluster.fake.calls().len(), admitted, "a refusal reaches no upstream");
    }
}

#[tokio::test]
async fn no_call_is_refused_while_the_limit_has_room_for_it_whatever_failed_or_hung_up_before() {
    let cluster = Cluster::of_three(&Config::connections(2).ci("spend_limit: {usd: 1}")).await;
    let ok = Rule::any().tokens(100, 400).delays_headers(Duration::from_millis(20));
    cluster.fake.script([Rule { every: Some(10), ..Rule::any().fails(500) }, ok]);
    let one = async |number: usize| {
        if number % 10 == 3 {
            let hung_up = tokio::time::timeout(Duration::from_millis(10), call(&cluster, AT_MOST_400)).await;
            return hung_up.map_or(0, |answer| answer.status);
        }
        call(&cluster, AT_MOST_400).await.status
    };
    for _ in 0..4 {
        let statuses = join_all((0..40).map(one)).await;
        assert!(!statuses.contains(&402), "{statuses:?}");
    }
    cluster.assert_clean().await;
    let ledger = cluster.redis.ledger("acme").await;
    let costs = ledger.iter().map(|row| row["cost"].parse::<i64>().unwrap());
    assert_eq!(spent(&cluster).await, costs.sum::<i64>());
}

#[tokio::test]
async fn a_call_that_waits_for_what_others_hold_starts_when_they_used_less() {
    let config = Config::connections(1).ci("spend_limit: {usd: 0.006}").more("limits: {key_wait: 20s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().tokens(10, 10).delays_headers(Duration::from_millis(500))]);
    let answers = join_all((0..5).map(|_| call(&cluster, AT_MOST_400))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "each holds 4,100,000 and costs 110,000: {answers:?}");
    assert_eq!(cluster.fake.peak("cred-1").peak, 1);
    cluster.assert_clean().await;
    assert_eq!(spent(&cluster).await, 5 * 110_000);
}

#[tokio::test]
async fn a_killed_replicas_holds_of_a_spend_limit_come_back() {
    let config = Config::connections(1).ci("spend_limit: {usd: 0.006}").more("limits: {key_wait: 0s}");
    let mut cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().times(1).delays_headers(Duration::from_mins(1))]);
    let client = cluster.client(0).clone();
    let secret = format!("Bearer {SECRET}");
    let hanging = tokio::spawn(async move {
        let headers = [("authorization", secret.as_str())];
        client.send(http::Method::POST, "/v1/chat/completions", &headers, AT_MOST_400).await
    });
    eventually(SOON, "it is under way", async || cluster.fake.open() == 1).await;
    cluster.kill(0).await;
    assert!(hanging.await.unwrap().is_err());
    let secret = format!("Bearer {SECRET}");
    let ask = async || {
        let headers = [("authorization", secret.as_str())];
        cluster.client(1).send(http::Method::POST, "/v1/chat/completions", &headers, AT_MOST_400).await.unwrap().status
    };
    assert_eq!(ask().await, 429, "it may still cost what it holds");
    eventually(Duration::from_secs(40), "the dead replica's request is closed", async || ask().await == 200).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_large_call_that_waits_for_holds_is_overtaken_by_no_small_one() {
    let config = Config::connections(1).ci("spend_limit: {usd: 0.0045}").more("limits: {key_wait: 20s}");
    let cluster = Cluster::of_three(&config).await;
    let slow = Rule::any().times(1).tokens(10, 10).delays_headers(Duration::from_secs(3));
    cluster.fake.script([slow, Rule::any().tokens(10, 10)]);
    let waiting = async || cluster.redis.ask::<i64>(&["ZCARD", "hg:{a:acme}:key:ci:waiters"]).await;
    let first = async || assert_eq!(call(&cluster, AT_MOST_60).await.status, 200);
    let large = async || {
        eventually(SOON, "the first is under way", async || cluster.fake.open() == 1).await;
        assert_eq!(call(&cluster, AT_MOST_400).await.status, 200, "it fits alone");
    };
    let small = async |_: usize| {
        eventually(SOON, "the large one waits", async || waiting().await >= 1).await;
        assert_eq!(call(&cluster, AT_MOST_60).await.status, 200);
    };
    tokio::join!(first(), large(), join_all((0..9).map(small)));
    let large: Vec<_> = cluster.fake.calls().iter().map(|call| call.body.contains(r#""max_tokens":400"#)).collect();
    assert_eq!(large.len(), 11);
    assert!(large[1], "the second of all: {large:?}");
    assert_eq!(waiting().await, 0, "who was served stands no more");
    cluster.assert_clean().await;
}
