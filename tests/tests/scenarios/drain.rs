//! A replica that is asked to stop: what runs may end, what does not end is cut, and nothing stays behind.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(5);

async fn send(cluster: &Cluster, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(cluster.client(0).address()).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + body).as_bytes()).await.unwrap();
    socket
}

#[tokio::test]
async fn at_the_end_of_a_drain_calls_are_told_streams_are_ended_and_callers_that_do_not_read_are_cut() {
    let config = Config::connections(1).account("balance: 1.00").more("drain_timeout: 1s");
    let mut cluster = Cluster::builder(&config).start().await;
    let big = Rule { chunk_text: Some("x".repeat(64 << 10)), chunks: Some(1000), ..Rule::on("*", "m2") };
    cluster
        .fake
        .script([big, Rule { stall_after_chunks: Some(1), ..Rule::any().delays_first(Duration::from_millis(10)) }]);
    // One reads its stream, one waits for a whole answer, one never reads what comes.
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    let body = |model: &str, stream: bool| {
        format!(r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#)
    };
    let mut whole = send(&cluster, &body("m1", false)).await;
    let mut deaf = send(&cluster, &body("m2", true)).await;
    deaf.read_exact(&mut [0; 1000]).await.unwrap();
    eventually(SOON, "all three are upstream", async || cluster.fake.open() == 3).await;
    cluster.replica(0).terminate();
    let status = cluster.replica_mut(0).wait(Duration::from_secs(12)).await;
    assert_eq!(status.code(), Some(0));
    let (events, _) = stream.rest().await;
    assert!(events.last().unwrap().is_error() && !events.iter().any(cluster::harness::Event::is_done), "{events:?}");
    let mut answer = String::new();
    whole.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("x-headgate-refusal: draining"), "{answer}");
    assert!(answer.contains("retry-after: 1") && answer.contains("x-headgate-queued-ms: 0"), "{answer}");
    // At once: not after the leases have lapsed.
    assert!(cluster.redis.held().await.is_empty(), "{:?}", cluster.redis.held().await);
    let rows = cluster.redis.ledger("acme").await;
    assert_eq!(rows.len(), 3, "{rows:?}");
    let cost: i64 = rows.iter().map(|row| row["cost"].parse::<i64>().unwrap()).sum();
    assert!(cost > 0);
    assert_eq!(cluster.redis.balance("acme").await, 1_000_000_000 - cost);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_connections_that_idle() {
    let mut cluster = Cluster::builder(&Config::connections(1)).start().await;
    let mut idle = send(&cluster, r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#).await;
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let _silent = TcpStream::connect(cluster.client(0).address()).await.unwrap();
    cluster.replica(0).terminate();
    let status = cluster.replica_mut(0).wait(Duration::from_secs(6)).await;
    assert_eq!(status.code(), Some(0), "long before the drain timeout of 30 s");
}
