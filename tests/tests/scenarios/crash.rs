//! Replicas that die, or are asked to.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_replica_killed_with_20_streams_open_frees_its_slots_and_its_requests_are_settled_once() {
    let config = Config::connections(1).each("max_concurrent: 20").ci("max_concurrent: 20").account("balance: 25.00");
    let config = config.more("limits: {key_wait: 0s, capacity_wait: 0s}");
    let mut cluster = Cluster::builder(&config).replicas(2).start().await;
    cluster.fake.script([Rule { stall_after_chunks: Some(2), ..Rule::any().times(20) }]);
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
        stream.read_content(2).await;
        streams.push(stream);
    }
    assert_eq!(cluster.client(1).chat(SECRET, "m1", "hi").await.status, 429, "all slots are held");
    cluster.kill(0).await;
    let nothing_held = async || cluster.redis.held().await.is_empty();
    eventually(Duration::from_secs(20), "the dead replica's slots are free", nothing_held).await;
    let answers = cluster.burst_of(1, 20, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let settled = async || cluster.redis.ledger("acme").await.len() == 40;
    eventually(Duration::from_secs(20), "all are settled", settled).await;
    let rows = cluster.redis.ledger("acme").await;
    let ids: BTreeSet<&String> = rows.iter().map(|row| &row["id"]).collect();
    assert_eq!((rows.len(), ids.len()), (40, 40), "each once");
    assert_eq!(rows.iter().filter(|row| row["basis"] == "estimated").count(), 20);
    let cost: i64 = rows.iter().map(|row| row["cost"].parse::<i64>().unwrap()).sum();
    assert_eq!(cluster.redis.balance("acme").await, 25_000_000_000 - cost);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_replica_asked_to_stop_finishes_its_streams_settles_them_and_exits_0() {
    let mut cluster = Cluster::builder(&Config::connections(1).account("balance: 1.00")).replicas(2).start().await;
    cluster.fake.script([Rule::any().says("abcdefgh", 8).delays_between(Duration::from_millis(100)).times(1)]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    cluster.replica(0).terminate();
    let (events, end) = stream.rest().await;
    assert!(end.is_ok() && events.last().unwrap().is_done(), "{events:?} {end:?}");
    let status = cluster.replica_mut(0).wait(SOON).await;
    assert_eq!(status.code(), Some(0), "{}", cluster.replica(0).log());
    let rows = cluster.redis.ledger("acme").await;
    assert_eq!((rows.len(), rows[0]["basis"].as_str()), (1, "exact"));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_replica_that_drains_is_not_ready_and_the_others_are() {
    let cluster = Cluster::builder(&Config::connections(1)).replicas(2).start().await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any() }]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    cluster.replica(0).terminate();
    // The door may be closed already: that is not ready, too.
    let not_ready = async || match cluster.client(0).send(http::Method::GET, "/readyz", &[], "").await {
        Ok(answer) => answer.status == 503,
        Err(_) => true,
    };
    eventually(SOON, "the draining replica says so", not_ready).await;
    assert_eq!(cluster.client(1).get("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_replica_can_be_replaced_while_the_others_serve_without_one_failure() {
    let mut cluster = Cluster::of_three(&Config::connections(2)).await;
    let (one, two) = (cluster.client(0).clone(), cluster.client(1).clone());
    let serve = async {
        for _ in 0..50 {
            assert_eq!(one.chat(SECRET, "m1", "hi").await.status, 200);
            assert_eq!(two.chat(SECRET, "m2", "hi").await.status, 200);
        }
    };
    tokio::join!(serve, cluster.replace(2));
    assert_eq!(cluster.client(2).chat(SECRET, "m1", "hi").await.status, 200);
    cluster.assert_clean().await;
}
