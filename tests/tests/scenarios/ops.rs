//! What operators lean on: health, headers, metrics, and Redis going away.

use std::time::{Duration, Instant};

use cluster::harness::{ADMIN_TOKEN, Cluster, Config, SECRET, eventually, headgate};
use http::Method;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn every_answer_says_who_answered_how_and_after_what_wait() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert!(!answer.header("x-headgate-request-id").is_empty());
    assert_eq!(answer.header("x-headgate-queued-ms"), "0");
    assert_eq!(answer.header("x-headgate-model"), "m1");
    assert_eq!(answer.header("x-headgate-connection"), "conn-1");
    assert!(answer.header("x-headgate-attempts").starts_with("conn-1/m1:"));
    assert_eq!(answer.header("x-headgate-refusal"), "");
    let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    assert_ne!(stream.header("x-headgate-request-id"), answer.header("x-headgate-request-id"));
    assert_eq!(stream.header("x-headgate-connection"), "conn-1");
}

#[tokio::test]
async fn a_replica_without_redis_lives_but_is_not_ready_denies_at_once_and_recovers() {
    let mut cluster = Cluster::builder(&Config::connections(1).account("balance: 1.00")).replicas(2).start().await;
    assert_eq!(cluster.client(0).get("/readyz").await.status, 200);
    cluster.redis.stop().await;
    eventually(SOON, "it is not ready", async || cluster.client(0).get("/readyz").await.status == 503).await;
    assert_eq!(cluster.client(0).get("/healthz").await.status, 200);
    let denied = cluster.client(1).chat(SECRET, "m1", "hi").await;
    assert_eq!((denied.status, denied.error_code().as_str()), (503, "state_unavailable"));
    assert!(!denied.header("retry-after").is_empty() && !denied.header("x-headgate-refusal").is_empty());
    assert!(cluster.fake.calls().is_empty());
    cluster.redis.start_again().await;
    for place in 0..2 {
        let client = cluster.client(place);
        eventually(SOON, "it is ready again", async || client.get("/readyz").await.status == 200).await;
        eventually(SOON, "it answers again", async || client.chat(SECRET, "m1", "hi").await.status == 200).await;
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_frozen_redis_is_a_503_within_its_timeout_and_not_a_hang() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    cluster.redis.freeze();
    let asked = Instant::now();
    let denied = cluster.client(0).chat(SECRET, "m1", "hi").await;
    let took = asked.elapsed();
    cluster.redis.thaw();
    assert_eq!((denied.status, denied.error_code().as_str()), (503, "state_unavailable"));
    assert!(took < Duration::from_secs(3), "{took:?} for a timeout of 1 s");
    eventually(SOON, "it answers again", async || cluster.client(0).chat(SECRET, "m1", "hi").await.status == 200).await;
    assert_eq!(cluster.fake.calls().len(), 2, "the denied call was never sent");
}

#[tokio::test]
async fn metrics_are_told_on_the_admin_port_to_those_who_know_the_token() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.client(0).chat(SECRET, "m1", "hi").await;
    let admin = cluster.replica(0).admin();
    let token = format!("Bearer {ADMIN_TOKEN}");
    let metrics = admin.send(Method::GET, "/metrics", &[("authorization", &token)], "").await.unwrap();
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("headgate_") && metrics.body.contains("# TYPE"), "{}", metrics.body);
    assert!(!metrics.body.contains(SECRET) && !metrics.body.contains("cred-1"));
    assert_eq!(admin.send(Method::GET, "/admin/v1/accounts", &[], "").await.unwrap().status, 401);
}

#[tokio::test]
async fn no_secret_is_ever_logged() {
    let cluster = Cluster::builder(&Config::connections(2).connection(2, "priority: 1")).start().await;
    cluster.fake.script([cluster::fake::Rule::on("cred-1", "*").fails(401)]);
    cluster.client(0).chat(SECRET, "m1", "my private words").await;
    cluster.client(0).chat("hg-someone-elses", "m1", "hi").await;
    let log = cluster.replica(0).log();
    for secret in [SECRET, "cred-1", "cred-2", "hg-someone-elses", "my private words"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn check_prints_the_ladders_of_a_good_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("headgate.yaml");
    let yaml =
        Config::connections(2).yaml().replace("{REDIS}", "redis://127.0.0.1:1").replace("{FAKE}", "http://127.0.0.1:1");
    std::fs::write(&path, yaml).unwrap();
    let exit = headgate(&["check", "--config", path.to_str().unwrap()]).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(["m1", "m2", "conn-1", "conn-2"].iter().all(|name| exit.stdout.contains(name)), "{}", exit.stdout);
}
