//! How many at once, over all replicas.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn max_concurrent_4_with_64_callers_on_three_replicas_never_shows_5_at_the_upstream() {
    let cluster = Cluster::of_three(&Config::connections(1).each("max_concurrent: 4")).await;
    cluster.fake.script([Rule::any().delays_headers(Duration::from_millis(50))]);
    let answers = cluster.burst(64, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(cluster.fake.peak("cred-1").peak, 4);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn streams_count_like_any_call_for_a_connections_limit() {
    let cluster = Cluster::of_three(&Config::connections(2).each("max_concurrent: 3")).await;
    cluster.fake.script([Rule::any().says("abcdef", 6).delays_between(Duration::from_millis(20))]);
    let read = async |place: usize| cluster.client(place % 3).chat_stream(SECRET, "m1", "hi").await.rest().await;
    let streams = futures_util::future::join_all((0..24).map(read)).await;
    assert!(streams.iter().all(|(events, _)| events.last().unwrap().is_done()));
    assert!(cluster.fake.peak("cred-1").peak <= 3 && cluster.fake.peak("cred-2").peak <= 3);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_keys_concurrency_is_one_number_for_all_replicas() {
    let config = Config::connections(1).ci("max_concurrent: 2").more("limits: {key_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().delays_headers(Duration::from_secs(1))]);
    let answers = cluster.burst(9, SECRET, "m1").await;
    let admitted = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((admitted, cluster.fake.peak("cred-1").peak), (2, 2));
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!((refused.status, refused.error_code().as_str()), (429, "rate_limit_exceeded"));
    assert!(!refused.header("retry-after").is_empty());
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_stream_holds_its_keys_slot_until_it_ends() {
    let config = Config::connections(1).ci("max_concurrent: 1").more("limits: {key_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    assert_eq!(cluster.client(1).chat(SECRET, "m1", "hi").await.status, 429);
    drop(stream);
    eventually(SOON, "the slot is free", async || cluster.client(2).chat(SECRET, "m1", "hi").await.status == 200).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_caller_that_waits_is_served_when_a_slot_frees_on_another_replica_and_told_how_long_it_waited() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("max_concurrent: 1")).await;
    cluster.fake.script([Rule::any().delays_headers(Duration::from_millis(500)).times(1)]);
    let first = cluster.client(0).chat(SECRET, "m1", "first");
    let second = async {
        eventually(SOON, "the first is upstream", async || cluster.fake.open() == 1).await;
        cluster.client(1).chat(SECRET, "m1", "second").await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.header("x-headgate-queued-ms"), "0");
    let waited: u64 = second.header("x-headgate-queued-ms").parse().unwrap();
    assert!((100..2000).contains(&waited), "{waited}");
    assert_eq!(cluster.fake.peak("cred-1").peak, 1);
}
