//! Who is served when requests wait: order of arrival, accounts in turn, priorities; over all replicas.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Response, SECRET, Stream, eventually, secret_of};
use tokio::task::JoinHandle;

/// Waits of a machine under load.
const SOON: Duration = Duration::from_secs(20);
/// The line of the one connection.
const LINE: &str = "hg:{g:fake}:conn:conn-1:waiters";
/// Nobody gives up in these scenarios.
const PATIENT: &str = "limits: {key_wait: 40s, capacity_wait: 40s}";

/// A caller that waits: its answer, once it comes.
type Waiting = JoinHandle<Response>;

/// One connection with one slot, and keys of three more accounts.
fn one_slot() -> Config {
    let config = Config::connections(1).each("max_concurrent: 1").more(PATIENT);
    config.caller("a", "").caller("b", "").caller("c", "")
}

/// Takes the slot (of `ci`) until the stream is dropped.
async fn hold(cluster: &Cluster) -> Stream {
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
    let mut holder = cluster.client(0).chat_stream(SECRET, "m1", "holder").await;
    holder.read_content(1).await;
    holder
}

async fn standing(cluster: &Cluster, line: &str) -> usize {
    cluster.redis.ask(&["ZCARD", line]).await
}

/// A call with the key `key` through replica `place`; comes back when it stands in line, behind `before` others.
async fn stand(cluster: &Cluster, (line, before): (&str, usize), place: usize, key: &str, name: &str) -> Waiting {
    let (client, name) = (cluster.client(place).clone(), name.to_owned());
    let secret = if key == "ci" { SECRET.to_owned() } else { secret_of(key) };
    let call = tokio::spawn(async move { client.chat(&secret, "m1", &name).await });
    eventually(SOON, "it stands in line", async || standing(cluster, line).await == before + 1).await;
    call
}

/// All of `arrivals`, each `KEY` or `KEY+`, come one after the other, replicas in turn, while the slot is held; the order in
/// which the upstream sees them, each as its key and number.
async fn served(cluster: &Cluster, arrivals: &[&str]) -> String {
    let holder = hold(cluster).await;
    let mut calls = Vec::new();
    for (number, key) in arrivals.iter().enumerate() {
        let name = format!("<{key}{}>", number + 1);
        calls.push(stand(cluster, (LINE, number), number % cluster.size(), key, &name).await);
    }
    cluster.fake.clear_calls();
    drop(holder);
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_ne!(answer.header("x-headgate-queued-ms"), "0");
    }
    assert_eq!(cluster.fake.peak("cred-1").peak, 1);
    cluster.assert_clean().await;
    let name = |body: &str| body.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
    cluster.fake.calls().iter().map(|call| name(&call.body)).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn accounts_that_wait_for_a_group_are_served_in_turn_and_each_in_its_order_of_arrival() {
    let cluster = Cluster::of_three(&one_slot()).await;
    let order = served(&cluster, &["a", "a", "a", "a", "b", "b", "c", "a", "c"]).await;
    assert_eq!(order, "a1 b5 c7 a2 b6 c9 a3 a4 a8");
}

#[tokio::test]
async fn with_fairness_fifo_the_order_of_service_is_that_of_arrival() {
    let cluster = Cluster::of_three(&one_slot().more("groups: {fake: {fairness: fifo}}")).await;
    let order = served(&cluster, &["a", "a", "b", "a", "c", "b", "a"]).await;
    assert_eq!(order, "a1 a2 b3 a4 c5 b6 a7");
}

#[tokio::test]
async fn keys_with_a_better_priority_go_before_in_both_kinds_of_lines() {
    for fairness in ["account", "fifo"] {
        let config = one_slot().caller("urgent", "priority: 0").caller("batch", "priority: 9");
        let config = config.more(&format!("groups: {{fake: {{fairness: {fairness}}}}}"));
        let cluster = Cluster::of_three(&config).await;
        let order = served(&cluster, &["batch", "a", "a", "urgent", "b", "urgent"]).await;
        let expected = if fairness == "fifo" { "a2 a3 b5" } else { "a2 b5 a3" };
        assert_eq!(order, format!("urgent4 urgent6 {expected} batch1"), "{fairness}");
    }
}

#[tokio::test]
async fn requests_of_one_key_that_wait_for_it_are_served_in_order_of_arrival_over_all_replicas() {
    let line = "hg:{a:acme}:key:ci:waiters";
    let cluster = Cluster::of_three(&Config::connections(1).ci("max_concurrent: 1").more(PATIENT)).await;
    let holder = hold(&cluster).await;
    let mut calls = Vec::new();
    for number in 0..6 {
        calls.push(stand(&cluster, (line, number), number % 3, "ci", &format!("<{number}>")).await);
    }
    cluster.fake.clear_calls();
    drop(holder);
    for call in calls {
        assert_eq!(call.await.unwrap().status, 200);
    }
    let seen: Vec<String> = cluster.fake.calls().iter().map(|call| call.body.clone()).collect();
    let in_order = seen.iter().enumerate().all(|(number, body)| body.contains(&format!("<{number}>")));
    assert!(in_order && seen.len() == 6, "{seen:?}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn caps_are_exact_at_the_upstream_while_accounts_of_every_priority_wait_on_three_replicas() {
    let config = Config::connections(2).connection(1, "max_concurrent: 3").connection(2, "max_concurrent: 5");
    let config = config.caller("a", "").caller("b", "priority: 1").caller("c", "priority: 9").more(PATIENT);
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().delays_headers(Duration::from_millis(30))]);
    let secrets = ["a", "b", "c"].map(secret_of);
    let bursts = secrets.iter().map(|secret| cluster.burst(40, secret, "m1"));
    let answers = futures_util::future::join_all(bursts).await.concat();
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!((cluster.fake.peak("cred-1").peak, cluster.fake.peak("cred-2").peak), (3, 5));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_request_that_waits_asks_redis_less_than_five_times_a_second() {
    let cluster = Cluster::of_three(&one_slot()).await;
    let holder = hold(&cluster).await;
    let mut calls = Vec::new();
    for number in 0..12 {
        calls.push(stand(&cluster, (LINE, number), number % 3, "a", "hi").await);
    }
    cluster.redis.cli(&["CONFIG", "RESETSTAT"]).await;
    let began = cluster.redis.now_ms().await;
    let waited = async || cluster.redis.now_ms().await - began >= 3_000;
    eventually(SOON, "three seconds have passed", waited).await;
    let stats: String = cluster.redis.ask(&["INFO", "commandstats"]).await;
    let elapsed_ms = cluster.redis.now_ms().await - began;
    let of_acquire = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    let scripts: i64 = of_acquire.split(',').next().unwrap().parse().unwrap();
    // The replicas' own work is counted, too: renewals and sweeps.
    assert!(scripts * 1_000 < 5 * 12 * elapsed_ms, "{scripts} scripts in {elapsed_ms} ms");
    drop(holder);
    for call in calls {
        assert_eq!(call.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_waiter_whose_message_is_lost_is_served_nevertheless() {
    let cluster = Cluster::of_three(&one_slot()).await;
    let holder = hold(&cluster).await;
    let call = stand(&cluster, (LINE, 0), 1, "a", "hi").await;
    let killed: i64 = cluster.redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(killed, 3, "one of each replica");
    drop(holder);
    assert_eq!(call.await.unwrap().status, 200);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn in_flight_and_waiting_are_told_per_key_group_and_connection_and_are_0_afterwards() {
    let cluster = Cluster::builder(&one_slot().key("slow", "max_concurrent: 1")).start().await;
    let holder = hold(&cluster).await;
    let at_group = stand(&cluster, (LINE, 0), 0, "slow", "hi").await;
    let at_key = stand(&cluster, ("hg:{a:acme}:key:slow:waiters", 0), 0, "slow", "hi").await;
    let key = r#"account="acme",key="slow""#;
    let gauges = [
        (format!("headgate_key_in_flight{{{key}}}"), 1),
        (format!("headgate_key_waiting{{{key}}}"), 1),
        (r#"headgate_key_in_flight{account="acme",key="ci"}"#.to_owned(), 1),
        (r#"headgate_group_in_flight{group="fake"}"#.to_owned(), 1),
        (r#"headgate_group_waiting{group="fake"}"#.to_owned(), 1),
        (r#"headgate_connection_in_flight{group="fake",connection="conn-1"}"#.to_owned(), 1),
        (r#"headgate_connection_waiting{group="fake",connection="conn-1"}"#.to_owned(), 1),
        ("headgate_waiting_requests".to_owned(), 2),
        ("headgate_leases".to_owned(), 1),
        ("headgate_open_requests".to_owned(), 2),
    ];
    let replica = cluster.replica(0);
    for (name, expected) in &gauges {
        let shows = async || replica.metric(name).await == Some(*expected);
        eventually(SOON, &format!("{name} is {expected}"), shows).await;
    }
    drop(holder);
    assert_eq!((at_group.await.unwrap().status, at_key.await.unwrap().status), (200, 200));
    cluster.assert_clean().await;
    for (name, _) in &gauges {
        eventually(SOON, &format!("{name} is 0"), async || replica.metric(name).await == Some(0)).await;
    }
}

#[tokio::test]
async fn a_newcomer_does_not_take_a_free_slot_from_one_who_stands_in_line() {
    let cluster =
        Cluster::of_three(&Config::connections(1).each("max_concurrent: 2").more("limits: {capacity_wait: 300ms}"))
            .await;
    // Two who have not come yet for the two slots that are theirs: of a replica that is slow to hear.
    let alive = format!("{LINE}:alive");
    let until = (cluster.redis.now_ms().await + 60_000).to_string();
    for (score, member) in [("1", "slow|r1|z|5"), ("2", "slow|r2|z|5")] {
        cluster.redis.cli(&["ZADD", LINE, score, member]).await;
        cluster.redis.cli(&["ZADD", &alive, &until, member]).await;
    }
    for place in 0..3 {
        let answer = cluster.client(place).chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (429, "capacity"), "replica {place}");
    }
    assert_eq!(cluster.fake.calls().len(), 0);
    // With one of them gone there is a slot that nobody before it wants.
    cluster.redis.cli(&["ZREM", LINE, "slow|r2|z|5"]).await;
    cluster.redis.cli(&["ZREM", &alive, "slow|r2|z|5"]).await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    cluster.redis.cli(&["DEL", LINE, &alive]).await;
    cluster.assert_clean().await;
}
