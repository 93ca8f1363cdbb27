//! Callers that go away, at any byte and at any moment: nothing stays held, and each request is settled once.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::fake::{Outcome, Rule};
use cluster::harness::{Cluster, Config, SECRET, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(5);

/// A request as it goes over the wire.
fn request(stream: bool) -> String {
    let body = format!(r#"{{"model":"m1","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#);
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends so much of a request, reads so much of the answer (or for so long), and closes, every other time with a reset.
async fn leave(cluster: &Cluster, nth: usize) {
    let text = request(!nth.is_multiple_of(4));
    let mut socket = TcpStream::connect(cluster.client(nth % 3).address()).await.unwrap();
    socket.set_nodelay(true).unwrap();
    // A fifth leaves inside the request, the others at some byte of the answer, or before it.
    let sent = if nth.is_multiple_of(5) { nth * 7 % text.len() } else { text.len() };
    socket.write_all(&text.as_bytes()[..sent]).await.unwrap();
    let mut answer = vec![0; 1 + nth * 37 % 1500];
    let patience = Duration::from_millis(nth as u64 % 23);
    let _ = tokio::time::timeout(patience, socket.read_exact(&mut answer)).await;
    if nth.is_multiple_of(2) {
        socket.set_zero_linger().unwrap();
    }
}

#[tokio::test]
async fn two_hundred_callers_that_leave_at_any_byte_hold_nothing_and_the_next_call_works() {
    let config = Config::connections(1).each("max_concurrent: 1").ci("max_concurrent: 1").account("balance: 25.00");
    let cluster = Cluster::of_three(&config).await;
    let slow = Rule::any().says("abcdef", 6).delays_headers(Duration::from_millis(3));
    cluster.fake.script([slow.delays_first(Duration::from_millis(3)).delays_between(Duration::from_millis(2))]);
    for nth in 0..200 {
        leave(&cluster, nth).await;
        if nth % 10 == 9 {
            let next = cluster.next().chat(SECRET, "m1", "hi").await;
            assert_eq!(next.status, 200, "after {nth}: {}", next.body);
        }
    }
    cluster.assert_clean().await;
    let rows = cluster.redis.ledger("acme").await;
    let ids: BTreeSet<&String> = rows.iter().map(|row| &row["id"]).collect();
    assert!(rows.len() > 100 && ids.len() == rows.len(), "{} rows of {} requests", rows.len(), ids.len());
    let cost: i64 = rows.iter().map(|row| row["cost"].parse::<i64>().unwrap()).sum();
    assert_eq!(cluster.redis.balance("acme").await, 25_000_000_000 - cost);
    assert_eq!(cluster.fake.peak("cred-1").peak, 1);
}

#[tokio::test]
async fn a_caller_that_leaves_a_line_is_never_served_and_the_one_behind_it_is() {
    for (limit, line) in [("ci", "hg:{a:acme}:key:ci:waiters"), ("conn", "hg:{g:fake}:conn:conn-1:waiters")] {
        let config = Config::connections(1);
        let config = if limit == "ci" { config.ci("max_concurrent: 1") } else { config.each("max_concurrent: 1") };
        let cluster = Cluster::of_three(&config).await;
        cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(1) }]);
        let mut holder = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
        holder.read_content(1).await;
        let client = cluster.client(1).clone();
        let leaver = tokio::spawn(async move { client.chat(SECRET, "m1", "leaver").await });
        let stands = async |many: i64| cluster.redis.ask::<i64>(&["ZCARD", line]).await == many;
        eventually(SOON, "it stands in line", async || stands(1).await).await;
        leaver.abort();
        eventually(Duration::from_secs(1), "it has left", async || stands(0).await).await;
        let behind = cluster.client(2).chat(SECRET, "m1", "behind");
        let free = async {
            eventually(SOON, "the next stands in line", async || stands(1).await).await;
            drop(holder);
        };
        let (behind, ()) = tokio::join!(behind, free);
        assert_eq!(behind.status, 200, "{limit}: {}", behind.body);
        assert!(cluster.fake.calls().iter().all(|call| !call.body.contains("leaver")), "{limit}");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn nothing_is_tried_for_a_caller_that_left_between_two_attempts() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    // Each attempt fails after a while, so that some callers leave in the pause before the second.
    cluster.fake.script([Rule::any().fails(500).delays_headers(Duration::from_millis(20))]);
    for patience in [25, 40, 60, 90, 120] {
        let call = cluster.client(0).chat(SECRET, "m1", "hi");
        let _ = tokio::time::timeout(Duration::from_millis(patience), call).await;
        cluster.assert_clean().await;
        let calls = cluster.fake.calls();
        assert!(calls.iter().all(|call| call.outcome != Outcome::Open) && calls.len() <= 2, "{calls:?}");
        cluster.fake.clear_calls();
        cluster.redis.cli(&["DEL", "hg:{g:fake}:conn:conn-1:model:m1:cooldown"]).await;
    }
}
