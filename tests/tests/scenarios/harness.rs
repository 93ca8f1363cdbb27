//! The harness itself: the Redis and the proxy a scenario leans on.

use std::time::Duration;

use cluster::harness::{Client, Durability, Proxy, Redis, eventually};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_durable_redis_keeps_every_acknowledged_write_over_a_crash() {
    let mut redis = Redis::start(Durability::Always).await;
    let url = redis.url().to_owned();
    redis.cli(&["SET", "hg:x", "1"]).await;
    redis.crash().await;
    redis.start_again().await;
    assert_eq!(redis.ask::<String>(&["GET", "hg:x"]).await, "1");
    assert_eq!(redis.url(), url);
}

#[tokio::test]
async fn the_leak_oracle_sees_live_leases_places_in_line_and_holds_and_nothing_else() {
    let redis = Redis::start(Durability::Memory).await;
    let (past, future) = ((redis.now_ms().await - 1).to_string(), (redis.now_ms().await + 60_000).to_string());
    redis.cli(&["ZADD", "hg:{g:x}:conn:c:leases", &past, "lapsed", &future, "live"]).await;
    redis.cli(&["ZADD", "hg:{a:x}:key:k:waiters:alive", &future, "waiting"]).await;
    redis.cli(&["HSET", "hg:{a:x}:reserved", "total", "5", "gone", "0"]).await;
    let held = redis.held().await;
    let expected = ["hg:{a:x}:key:k:waiters:alive waiting", "hg:{a:x}:reserved total 5", "hg:{g:x}:conn:c:leases live"];
    assert_eq!(held, expected);
    redis.cli(&["FLUSHALL"]).await;
    redis.assert_nothing_held().await;
}

#[tokio::test]
async fn a_frozen_redis_answers_again_after_it_is_thawed() {
    let redis = Redis::start(Durability::Memory).await;
    redis.freeze();
    let asked = tokio::time::timeout(Duration::from_millis(200), redis.cli(&["PING"])).await;
    redis.thaw();
    assert!(asked.is_err(), "a frozen server answers nothing");
    redis.cli(&["PING"]).await;
}

#[tokio::test]
async fn a_proxy_passes_stalls_and_cuts() {
    let fake = cluster::fake::Fake::start().await.unwrap();
    let proxy = Proxy::start(fake.address()).await;
    let client = Client::new(&format!("http://{}", proxy.address()));
    assert_eq!(client.chat("a", "m", "x").await.status, 200);
    proxy.stall();
    let stalled = tokio::time::timeout(Duration::from_millis(200), client.try_chat("a", "m", "x")).await;
    assert!(stalled.is_err(), "nothing passes");
    proxy.cut();
    assert!(client.try_chat("a", "m", "x").await.is_err());
    proxy.pass();
    eventually(SOON, "it passes again", async || client.try_chat("a", "m", "x").await.is_ok()).await;
}
