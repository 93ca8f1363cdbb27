//! Streams: committed at the first content, honest about their end.

use std::time::{Duration, Instant};

use cluster::fake::{Eol, Outcome, Rule, UsageMode};
use cluster::harness::{Cluster, Config, Event, SECRET, eventually};
use serde_json::json;

/// Two connections, the first preferred.
async fn two() -> Cluster {
    let config = Config::connections(2).connection(2, "priority: 1").account("balance: 1.00");
    Cluster::builder(&config.more("timeouts: {first_token: 1s, idle: 1s}")).replicas(2).start().await
}

/// The ways a stream can die after so many content chunks.
fn deaths(after: usize) -> [Rule; 5] {
    let says = Rule { credential: "cred-1".into(), ..Rule::any().says("abcdef", 6) };
    [
        Rule { cut_after_chunks: Some(after), ..says.clone() },
        Rule { drop_after_chunks: Some(after), ..says.clone() },
        Rule { reset_after_chunks: Some(after), ..says.clone() },
        Rule { error_event_after_chunks: Some(after), ..says.clone() },
        Rule { stall_after_chunks: Some(after), ..says },
    ]
}

fn said(events: &[Event]) -> String {
    events.iter().filter_map(Event::content).collect()
}

#[tokio::test]
async fn a_stream_that_dies_before_content_is_answered_by_another_connection() {
    for rule in deaths(0) {
        let cluster = two().await;
        cluster.fake.script([rule.clone()]);
        let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
        assert_eq!((stream.status, stream.header("x-headgate-connection")), (200, "conn-2"), "{rule:?}");
        let (events, end) = stream.rest().await;
        assert_eq!((said(&events).as_str(), end), ("You said: hi", Ok(())), "{rule:?}");
        assert!(events.last().unwrap().is_done() && !events.iter().any(Event::is_error));
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_stream_that_dies_after_content_ends_with_an_error_event_and_no_done() {
    for rule in deaths(2) {
        let cluster = two().await;
        cluster.fake.script([rule.clone()]);
        let (events, end) = cluster.client(0).chat_stream(SECRET, "m1", "hi").await.rest().await;
        assert_eq!((said(&events).as_str(), end), ("ab", Ok(())), "{rule:?}");
        assert!(events.last().unwrap().is_error() && !events.iter().any(Event::is_done), "{rule:?}: {events:?}");
        assert!(cluster.fake.calls_of("cred-2").is_empty(), "nobody else is asked after content");
        eventually(Duration::from_secs(5), "it is settled", async || cluster.redis.ledger("acme").await.len() == 1)
            .await;
        assert_eq!(cluster.redis.ledger("acme").await[0]["outcome"], "upstream_broken");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_client_that_goes_is_gone_at_the_upstream_within_a_second() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any() }]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    drop(stream);
    let gone = Instant::now();
    let seen = async || cluster.fake.calls()[0].outcome == Outcome::ClientGone;
    eventually(Duration::from_secs(5), "the upstream call is cancelled", seen).await;
    assert!(gone.elapsed() < Duration::from_secs(1), "{:?}", gone.elapsed());
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_client_that_goes_before_the_first_token_is_gone_at_the_upstream_too() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.fake.script([Rule::any().delays_first(Duration::from_mins(1))]);
    let client = cluster.client(0).clone();
    let call = tokio::spawn(async move { client.chat_stream(SECRET, "m1", "hi").await.rest().await });
    eventually(Duration::from_secs(5), "the call is upstream", async || cluster.fake.open() == 1).await;
    call.abort();
    eventually(Duration::from_secs(1), "the upstream call is cancelled", async || cluster.fake.open() == 0).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_stream_is_the_same_however_its_bytes_arrive() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let text = Rule::any().says("北é😀 and so on", 5);
    let read = async |rule: Rule| {
        cluster.fake.script([rule]);
        let (events, end) = cluster.client(0).chat_stream(SECRET, "m1", "hi").await.rest().await;
        assert!(end.is_ok() && events.last().unwrap().is_done(), "{events:?}");
        events.iter().filter_map(Event::content).collect::<Vec<_>>()
    };
    let plain = read(text.clone()).await;
    for rule in [
        Rule { split_at: Some(1), ..text.clone() },
        Rule { eol: Eol::Crlf, split_at: Some(3), ..text.clone() },
        Rule { eol: Eol::Cr, split_at: Some(7), ..text.clone() },
        Rule { comment: Some("keep-alive".into()), ..text.clone() },
        Rule { bom: true, ..text.clone() },
        Rule { role_only_first: false, ..text },
    ] {
        assert_eq!(read(rule.clone()).await, plain, "{rule:?}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_upstream_that_ignores_identity_and_compresses_is_a_failure_or_is_unpacked_but_never_relayed_as_it_is() {
    let cluster = two().await;
    cluster.fake.script([Rule { credential: "cred-1".into(), gzip: true, ..Rule::any() }]);
    let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    assert_eq!((stream.status, stream.header("content-encoding")), (200, ""));
    assert_eq!(said(&stream.rest().await.0), "You said: hi");
}

#[tokio::test]
async fn a_stream_comes_as_it_is_said_and_is_not_gathered() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.fake.script([Rule { stall_after_chunks: Some(3), ..Rule::any().says("abcdef", 6) }]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_content(3)).await;
    assert_eq!(read.unwrap(), "abc");
    assert!(stream.header("content-type").starts_with("text/event-stream"));
    assert_eq!(stream.header("content-length"), "");
}

#[tokio::test]
async fn an_upstream_that_does_not_know_stream_options_is_asked_again_without_them_and_the_cost_is_estimated() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let said = json!({"error": {"message": "Unrecognized request argument supplied: stream_options", "type": "invalid_request_error"}});
    let rule = Rule { usage: UsageMode::None, ..Rule::any() };
    cluster.fake.script([Rule::any().fails(400).body(said).times(1), rule]);
    let (events, end) = cluster.client(0).chat_stream(SECRET, "m1", "hi").await.rest().await;
    assert!(end.is_ok() && events.last().is_some_and(Event::is_done), "{events:?}");
    let bodies: Vec<bool> = cluster.fake.calls().iter().map(|call| call.body.contains("stream_options")).collect();
    assert_eq!(bodies, [true, false]);
    cluster.assert_clean().await;
}
