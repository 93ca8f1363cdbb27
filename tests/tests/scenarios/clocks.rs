//! First token, idle and total are three clocks; and what is no stream is no answer to one who asked for a stream.

use std::time::{Duration, Instant};

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Event, SECRET};
use serde_json::json;

/// Two connections, the first preferred.
async fn two(timeouts: &str) -> Cluster {
    let config = Config::connections(2).connection(2, "priority: 1").more(&format!("timeouts: {{{timeouts}}}"));
    Cluster::builder(&config).start().await
}

#[tokio::test]
async fn a_stream_may_last_longer_than_its_first_token_and_its_pauses_but_not_than_the_total() {
    let cluster = two("connect: 1s, first_token: 600ms, idle: 600ms, total: 2s").await;
    let steady = |chunks| Rule::any().says(&"x".repeat(chunks), chunks).delays_between(Duration::from_millis(100));
    cluster.fake.script([steady(12)]);
    let (events, end) = cluster.client(0).chat_stream(SECRET, "m1", "hi").await.rest().await;
    assert!(end.is_ok() && events.last().unwrap().is_done(), "{events:?}");

    cluster.fake.script([steady(60)]);
    let began = Instant::now();
    let (events, end) = cluster.client(0).chat_stream(SECRET, "m1", "hi").await.rest().await;
    let took = began.elapsed();
    assert!(end.is_ok() && events.last().unwrap().is_error() && !events.iter().any(Event::is_done), "{events:?}");
    assert!((Duration::from_millis(1900)..Duration::from_secs(4)).contains(&took), "{took:?}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn headers_comments_and_a_role_are_no_first_token() {
    let cluster = two("first_token: 500ms").await;
    let late = Rule::on("cred-1", "*").delays_first(Duration::from_secs(30));
    cluster.fake.script([Rule { comment: Some("keep-alive".into()), ..late }]);
    let began = Instant::now();
    let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    assert_eq!(stream.header("x-headgate-connection"), "conn-2");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let (events, _) = stream.rest().await;
    assert!(events.last().unwrap().is_done());
    cluster.assert_clean().await;
}

#[tokio::test]
async fn what_is_no_stream_is_answered_by_another_connection_and_if_all_are_like_that_it_is_502() {
    let sse = |text: &str| Rule { content_type: Some("text/event-stream".into()), ..Rule::any().body(text) };
    let role = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    for rule in [
        Rule { empty_body: true, ..sse("") },
        sse(": keep-alive\n\n"),
        sse("data: [DONE]\n\n"),
        sse(&format!("{role}\n\ndata: [DONE]\n\n")),
        sse("data:\n\nevent: ping\n\n"),
        sse("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\"}}\n\n"),
        sse(&format!("{role}\n\nevent: error\ndata: {{\"message\":\"late\"}}\n\n")),
        sse("data: {\"choices\":[{\"index\":0,\"delta\":\n\n"),
        Rule { content_type: Some("text/html".into()), ..Rule::any().body("<html><title>busy</title></html>") },
        Rule::any().body(json!({"error": {"message": "Network connection lost.", "code": 502}})),
        Rule::any().body(json!({"choices": [{"message": {"role": "assistant", "content": "not streamed"}}]})),
        Rule::any().body("{\"choices\":"),
    ] {
        let cluster = two("first_token: 5s").await;
        cluster.fake.script([Rule { credential: "cred-1".into(), ..rule.clone() }]);
        let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
        assert_eq!((stream.status, stream.header("x-headgate-connection")), (200, "conn-2"), "{rule:?}");
        let (events, _) = stream.rest().await;
        let said: String = events.iter().filter_map(Event::content).collect();
        assert_eq!(said, "You said: hi", "{rule:?}");
        cluster.fake.script([rule.clone()]);
        let all = cluster.client(0).chat_stream(SECRET, "m2", "hi").await;
        assert_eq!(all.status, 502, "{rule:?}");
        cluster.assert_clean().await;
    }
}
