//! Locks: what the upstream said no to, known to every replica and kept.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Durability, SECRET, eventually};
use http::Method;
use serde_json::json;

/// Within a few seconds, however busy the machine.
const SOON: Duration = Duration::from_secs(10);

/// Refused by every replica without an upstream call; the count of calls is what it was.
async fn refused_everywhere(cluster: &Cluster, model: &str) {
    let before = cluster.fake.calls().len();
    for place in 0..cluster.size() {
        let answer = cluster.client(place).chat(SECRET, model, "hi").await;
        assert_eq!(answer.status, 429, "replica {place}: {}", answer.body);
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=300).contains(&wait), "{wait}");
        assert!(!answer.header("x-headgate-refusal").is_empty());
    }
    assert_eq!(cluster.fake.calls().len(), before, "a locked rung is skipped without an upstream call");
}

#[tokio::test]
async fn a_429_on_one_model_leaves_the_connections_other_models_open_on_every_replica() {
    let cluster = Cluster::of_three(&Config::connections(1)).await;
    cluster.fake.script([Rule::on("cred-1", "m1").fails(429).header("retry-after", "300")]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    refused_everywhere(&cluster, "m1").await;
    for place in 0..cluster.size() {
        assert_eq!(cluster.client(place).chat(SECRET, "m2", "hi").await.status, 200);
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn locks_survive_a_restart_of_all_replicas_and_of_redis() {
    let builder = Cluster::builder(&Config::connections(1)).replicas(3).durability(Durability::Always);
    let mut cluster = builder.start().await;
    cluster.fake.script([Rule::on("cred-1", "m1").fails(429).header("retry-after", "300").times(1)]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    refused_everywhere(&cluster, "m1").await;
    cluster.redis.crash().await;
    cluster.redis.start_again().await;
    cluster.replace_all().await;
    refused_everywhere(&cluster, "m1").await;
    assert_eq!(cluster.client(1).chat(SECRET, "m2", "hi").await.status, 200);
}

#[tokio::test]
async fn a_429_moves_the_call_on_at_once_and_the_next_call_does_not_try_again() {
    let config = Config::connections(2).connection(2, "priority: 1");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).header("retry-after", "300")]);
    let first = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!((first.status, first.header("x-headgate-connection")), (200, "conn-2"));
    assert!(first.header("x-headgate-attempts").starts_with("conn-1/m1:"), "{}", first.header("x-headgate-attempts"));
    for place in 0..3 {
        let next = cluster.client(place).chat(SECRET, "m1", "hi").await;
        assert_eq!((next.status, next.header("x-headgate-connection")), (200, "conn-2"));
    }
    assert_eq!(cluster.fake.calls_of("cred-1").len(), 1);
}

#[tokio::test]
async fn a_limit_scope_of_account_locks_all_models_of_the_connection() {
    let config = Config::connections(1).each("limit_scope: account");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::on("cred-1", "m1").fails(429).header("retry-after", "300")]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    refused_everywhere(&cluster, "m2").await;
}

#[tokio::test]
async fn a_refused_credential_locks_its_whole_connection_and_no_other() {
    for status in [401, 402] {
        let config = Config::connections(2).connection(2, "priority: 1");
        let cluster = Cluster::of_three(&config).await;
        cluster.fake.script([Rule::on("cred-1", "m1").fails(status)]);
        for model in ["m1", "m2"] {
            let answer = cluster.next().chat(SECRET, model, "hi").await;
            assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-2"), "{status} {model}");
        }
        assert_eq!(cluster.fake.calls_of("cred-1").len(), 1, "{status}");
    }
}

#[tokio::test]
async fn callers_who_meet_a_rate_limit_that_is_being_probed_get_a_429_that_says_when_and_no_502() {
    // Locks let probes through after a second; the upstream takes its time to say no again.
    let cluster = Cluster::of_three(&Config::connections(3).more("limits: {max_lock: 1s}")).await;
    let no = Rule::any().fails(429).header("retry-after", "300");
    cluster.fake.script([no.clone()]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    assert_eq!(cluster.fake.calls().len(), 3, "all three are locked");
    cluster.fake.script([no.delays_headers(Duration::from_millis(500))]);
    cluster.fake.clear_calls();
    let round = async || {
        for answer in cluster.burst(20, SECRET, "m1").await {
            assert_eq!(answer.status, 429, "{}", answer.body);
            let wait: u64 = answer.header("retry-after").parse().unwrap();
            assert!((1..=300).contains(&wait), "{wait}");
        }
        !cluster.fake.calls().is_empty()
    };
    eventually(Duration::from_secs(20), "a round meets the probes", round).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn tokens_that_we_count_ourselves_neither_probe_nor_reopen_what_an_upstream_closed() {
    let cluster =
        Cluster::builder(&Config::connections(1).more("limits: {max_lock: 1s, capacity_wait: 0s}")).start().await;
    cluster.fake.script([Rule::any().fails(429).header("retry-after", "600")]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    let lock = "hg:{g:fake}:conn:conn-1:bucket:m1:lock";
    let headers = [("x-api-key", SECRET), ("anthropic-version", "2023-06-01")];
    let body = json!({"model": "m1", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let counted = async || {
        let answer =
            cluster.client(0).send(Method::POST, "/v1/messages/count_tokens", &headers, body.clone()).await.unwrap();
        answer.status == 200 && answer.header("x-headgate-attempts").is_empty()
    };
    eventually(SOON, "after max_lock a request is let through, and counted here", counted).await;
    let settled =
        async || cluster.redis.ask::<Vec<Option<String>>>(&["HMGET", lock, "until", "probe"]).await[1].is_none();
    eventually(SOON, "its turn to probe is given back", settled).await;
    let until: Option<String> = cluster.redis.ask(&["HGET", lock, "until"]).await;
    assert!(until.is_some(), "the lock stands");
    assert_eq!(cluster.fake.calls().len(), 1);
    cluster.assert_clean().await;
}
