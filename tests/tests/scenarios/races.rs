//! Replicas that race on one lock: the later end wins whoever writes last, and what began before a lock clears nothing.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};

const SOON: Duration = Duration::from_secs(15);
const LOCK: &str = "hg:{g:fake}:conn:conn-1:bucket:m1:lock";

/// Two connections, the first preferred, over two replicas.
async fn two(more: &str) -> Cluster {
    let config = Config::connections(2).connection(2, "priority: 1").more(more);
    Cluster::builder(&config).replicas(2).start().await
}

async fn lock_ends_in(cluster: &Cluster) -> i64 {
    let lock = cluster.redis.hash(LOCK).await;
    lock["until"].parse::<i64>().unwrap() - cluster.redis.now_ms().await
}

/// Two calls at once, each through a replica of its own; the first told wait is written long before the second.
async fn told_one_after_the_other(first: &str, second: &str) -> Cluster {
    let cluster = two("").await;
    let told = |wait: &str| Rule::on("cred-1", "*").fails(429).header("retry-after", wait);
    let late = told(second).delays_headers(Duration::from_secs(2));
    cluster.fake.script([late.times(1), told(first).times(1)]);
    let slow = {
        let client = cluster.client(0).clone();
        tokio::spawn(async move { client.chat(SECRET, "m1", "slow").await })
    };
    eventually(SOON, "the slow call is upstream", async || cluster.fake.open() == 1).await;
    let quick = cluster.client(1).chat(SECRET, "m1", "quick").await;
    let slow = slow.await.unwrap();
    for answer in [quick, slow] {
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-2"));
    }
    assert_eq!(cluster.fake.calls_of("cred-1").len(), 2);
    cluster
}

#[tokio::test]
async fn of_two_locks_the_longer_wins_whoever_writes_last() {
    for (first, second) in [("300", "30"), ("30", "300")] {
        let cluster = told_one_after_the_other(first, second).await;
        let left = lock_ends_in(&cluster).await;
        assert!((280_000..=300_000).contains(&left), "{first} then {second}: {left}");
        for place in 0..2 {
            assert_eq!(cluster.client(place).chat(SECRET, "m1", "hi").await.header("x-headgate-connection"), "conn-2");
        }
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_success_that_began_before_a_lock_clears_nothing_and_one_that_began_later_does() {
    let cluster = two("limits: {max_lock: 2s}").await;
    let limited = Rule::on("cred-1", "*").fails(429).header("retry-after", "300");
    cluster.fake.script([Rule::on("cred-1", "*").delays_headers(Duration::from_secs(2)).times(1), limited.times(1)]);
    let slow = {
        let client = cluster.client(0).clone();
        tokio::spawn(async move { client.chat(SECRET, "m1", "slow").await })
    };
    eventually(SOON, "the slow call is upstream", async || cluster.fake.open() == 1).await;
    let limited = cluster.client(1).chat(SECRET, "m1", "quick").await;
    assert_eq!(limited.header("x-headgate-connection"), "conn-2");
    let slow = slow.await.unwrap();
    assert_eq!((slow.status, slow.header("x-headgate-connection")), (200, "conn-1"));
    cluster.redis.assert_nothing_held().await;
    assert!(lock_ends_in(&cluster).await > 280_000, "the stale success cleared nothing");
    eventually(SOON, "a probe that began after the lock clears it", async || {
        cluster.client(0).chat(SECRET, "m1", "hi").await.header("x-headgate-connection") == "conn-1"
    })
    .await;
    eventually(SOON, "it is open", async || cluster.redis.closures().await.is_empty()).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_stream_that_began_before_a_lock_clears_nothing_when_it_ends_well() {
    let cluster = two("").await;
    let slow = Rule::on("cred-1", "*").says("abcd", 4).delays_between(Duration::from_millis(200));
    cluster.fake.script([slow.times(1), Rule::on("cred-1", "*").fails(429).header("retry-after", "300")]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    assert_eq!(cluster.client(1).chat(SECRET, "m1", "hi").await.header("x-headgate-connection"), "conn-2");
    let (events, _) = stream.rest().await;
    assert!(events.last().unwrap().is_done());
    cluster.redis.assert_nothing_held().await;
    assert!(lock_ends_in(&cluster).await > 280_000);
}

#[tokio::test]
async fn a_probe_that_fails_closes_the_rung_anew_and_meanwhile_no_second_one_is_sent() {
    let cluster = two("limits: {max_lock: 1s}").await;
    let no = Rule::on("cred-1", "*").fails(429).header("retry-after", "300");
    cluster.fake.script([no.clone()]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.header("x-headgate-connection"), "conn-2");
    let set_at = async || cluster.redis.hash(LOCK).await["set_at"].parse::<i64>().unwrap();
    let first = set_at().await;
    cluster.fake.script([no.delays_headers(Duration::from_millis(400))]);
    // Rounds of callers until one of them was the probe.
    eventually(SOON, "a probe is sent", async || {
        let answers = cluster.burst(10, SECRET, "m1").await;
        assert!(answers.iter().all(|answer| answer.header("x-headgate-connection") == "conn-2"));
        cluster.fake.calls_of("cred-1").len() > 1
    })
    .await;
    assert_eq!(cluster.fake.calls_of("cred-1").len(), 2, "one for all callers of all replicas");
    assert!(set_at().await >= first + 1_000, "the lock was set anew");
    assert!(lock_ends_in(&cluster).await > 290_000);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_burst_of_failures_counts_as_one_cooldown_of_the_first_level() {
    let cluster = two("").await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(500).delays_headers(Duration::from_secs(2))]);
    let answers = cluster.burst(20, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.header("x-headgate-connection") == "conn-2"));
    assert_eq!(cluster.fake.calls_of("cred-1").len(), 20, "all were under way when the first failed");
    let cooldown = cluster.redis.hash("hg:{g:fake}:conn:conn-1:model:m1:cooldown").await;
    assert_eq!(cooldown["level"], "1", "{cooldown:?}");
    let length = cooldown["until"].parse::<i64>().unwrap() - cooldown["set_at"].parse::<i64>().unwrap();
    assert!((8_000..=12_000).contains(&length), "{length}");
    cluster.assert_clean().await;
}
