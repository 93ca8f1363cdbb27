//! How the fake upstream breaks: each fault as a client meets it.

use std::io::Read as _;
use std::time::{Duration, Instant};

use cluster::fake::{Eol, Fake, Outcome, Rule};
use cluster::harness::{Event, eventually};
use serde_json::{Value, json};

use crate::fake::{said, started, streamed};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn delays_hold_back_the_headers_the_first_and_each_further_chunk() {
    let rule = Rule::any().says("abc", 3).delays_headers(Duration::from_millis(80));
    let rule = rule.delays_first(Duration::from_millis(60)).delays_between(Duration::from_millis(40));
    let (_fake, client) = started([rule]).await;
    let begun = Instant::now();
    let mut stream = client.chat_stream("a", "m", "x").await;
    assert!(begun.elapsed() >= Duration::from_millis(80));
    assert!(stream.next().await.unwrap().unwrap().content().is_none(), "the role comes before the first wait");
    stream.read_content(1).await;
    assert!(begun.elapsed() >= Duration::from_millis(140));
    stream.read_content(2).await;
    assert!(begun.elapsed() >= Duration::from_millis(220));
}

#[tokio::test]
async fn a_cut_stream_ends_cleanly_without_finish_or_done() {
    let (fake, client) = started([Rule { cut_after_chunks: Some(2), ..Rule::any().says("abcdef", 6) }]).await;
    let (events, end) = streamed(&client).await;
    assert_eq!((said(&events).as_str(), end), ("ab", Ok(())));
    assert!(!events.iter().any(|event| event.is_done() || event.data.contains(r#""finish_reason":"stop""#)));
    eventually(SOON, "the call is closed", async || fake.calls()[0].outcome == Outcome::BrokenOff).await;
}

#[tokio::test]
async fn a_dropped_and_a_reset_stream_deliver_what_was_sent_and_then_an_error() {
    let text = Rule::any().says("abcdef", 6);
    for rule in
        [Rule { drop_after_chunks: Some(2), ..text.clone() }, Rule { reset_after_chunks: Some(2), ..text.clone() }]
    {
        let (fake, client) = started([rule]).await;
        let (events, end) = streamed(&client).await;
        assert_eq!(said(&events), "ab");
        assert!(end.is_err());
        assert_eq!(fake.open(), 0);
    }
}

/// Reads to the end of a raw connection: all bytes, and whether it ended in a reset.
async fn raw(fake: &Fake, body: &Value) -> (String, bool) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut socket = tokio::net::TcpStream::connect(fake.address()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: fake\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let reset = loop {
        match socket.read(&mut piece).await {
            Ok(0) => break false,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) => break error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), reset)
}

#[tokio::test]
async fn a_reset_is_a_tcp_abort_and_a_drop_is_not() {
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    for (rule, expected) in [
        (Rule { reset_after_chunks: Some(1), ..Rule::any() }, true),
        (Rule { drop_after_chunks: Some(1), ..Rule::any() }, false),
    ] {
        let (fake, _client) = started([rule]).await;
        let (bytes, reset) = raw(&fake, &body).await;
        assert_eq!(reset, expected);
        assert!(bytes.contains("You") && !bytes.ends_with("0\r\n\r\n"), "no terminating chunk: {bytes}");
    }
    let (fake, _client) = started([Rule { reset_before_headers: true, ..Rule::any() }]).await;
    assert_eq!(raw(&fake, &body).await, (String::new(), true));
    assert_eq!((fake.calls()[0].status, fake.calls()[0].outcome), (None, Outcome::BrokenOff));
}

#[tokio::test]
async fn a_unary_answer_can_be_cut_at_a_byte_or_in_the_middle() {
    let (_fake, client) = started([
        Rule { cut_after_bytes: Some(10), ..Rule::any().times(1) },
        Rule { cut_after_chunks: Some(1), ..Rule::any().times(1) },
        Rule { reset_after_chunks: Some(0), ..Rule::any().times(1) },
    ])
    .await;
    assert!(client.try_chat("a", "m", "x").await.is_err());
    let half = client.chat("a", "m", "x").await;
    assert!(half.body.starts_with('{') && serde_json::from_str::<Value>(&half.body).is_err());
    assert!(client.try_chat("a", "m", "x").await.is_err());
}

#[tokio::test]
async fn an_error_event_replaces_the_rest_of_a_stream() {
    let own = json!({"error": {"message": "mine", "type": "t", "code": "c"}});
    let (_fake, client) = started([
        Rule { error_event_after_chunks: Some(0), ..Rule::any().times(1) },
        Rule { error_event_after_chunks: Some(1), error_event: Some(own.clone()), ..Rule::any() },
    ])
    .await;
    let (events, end) = streamed(&client).await;
    assert_eq!((said(&events).as_str(), end), ("", Ok(())));
    assert!(events.last().unwrap().is_error());
    let (events, _) = streamed(&client).await;
    assert_eq!(events.last().unwrap().data, own.to_string());
    assert_eq!(events.iter().filter_map(Event::content).count(), 1);
}

#[tokio::test]
async fn a_stalled_stream_lasts_until_the_client_goes_which_is_seen_and_timed() {
    let (fake, client) = started([Rule { stall_after_chunks: Some(1), ..Rule::any() }]).await;
    let mut stream = client.chat_stream("a", "m", "hi").await;
    stream.read_content(1).await;
    assert_eq!((fake.peak("a").open, fake.calls()[0].outcome), (1, Outcome::Open));
    drop(stream);
    eventually(SOON, "the client is seen to be gone", async || fake.calls()[0].outcome == Outcome::ClientGone).await;
    let call = &fake.calls()[0];
    assert!(call.client_gone_ms.is_some() && call.client_gone_ms == call.duration_ms);
    assert_eq!(fake.open(), 0);
}

#[tokio::test]
async fn a_client_that_goes_before_the_headers_is_seen_too() {
    let (fake, client) = started([Rule::any().delays_headers(Duration::from_mins(1))]).await;
    let call = tokio::spawn(async move { client.try_chat("a", "m", "x").await });
    eventually(SOON, "the call has arrived", async || fake.open() == 1).await;
    call.abort();
    eventually(SOON, "the client is seen to be gone", async || fake.calls()[0].outcome == Outcome::ClientGone).await;
    assert_eq!((fake.calls()[0].status, fake.open()), (None, 0));
}

#[tokio::test]
async fn splitting_line_endings_and_comments_do_not_change_the_events() {
    let text = Rule::any().says("北é😀 ok", 3);
    let (_fake, client) = started([text.clone()]).await;
    let plain: Vec<String> = streamed(&client).await.0.iter().filter_map(Event::content).collect();
    for rule in [
        Rule { split_at: Some(1), ..text.clone() },
        Rule { eol: Eol::Crlf, split_at: Some(3), ..text.clone() },
        Rule { eol: Eol::Cr, ..text.clone() },
        Rule { comment: Some("keep-alive".into()), ..text.clone() },
    ] {
        let (_fake, client) = started([rule.clone()]).await;
        let (events, end) = streamed(&client).await;
        let contents: Vec<String> = events.iter().filter_map(Event::content).collect();
        assert_eq!((contents, end), (plain.clone(), Ok(())), "{rule:?}");
    }
}

// Read as bytes: the event parser of this harness does not survive a mark.
#[tokio::test]
async fn a_byte_order_mark_stands_before_the_first_event() {
    let (fake, _client) = started([Rule { bom: true, ..Rule::any() }]).await;
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let (bytes, _) = raw(&fake, &body).await;
    let (_, body) = bytes.split_once("\r\n\r\n").unwrap();
    assert!(body.starts_with("3\r\n\u{feff}\r\n"), "the first HTTP chunk is the mark: {body}");
}

#[tokio::test]
async fn a_split_body_reaches_the_client_in_pieces() {
    let (fake, client) = started([Rule { split_at: Some(1), ..Rule::any() }]).await;
    let whole = client.chat("a", "m", "x").await;
    assert_eq!(fake.calls()[0].frames, whole.body.len() as u64);
}

#[tokio::test]
async fn a_compressed_answer_says_so_and_unpacks() {
    let (fake, _client) = started([Rule { gzip: true, ..Rule::any() }]).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let response = http.post(fake.url() + "/v1/chat/completions").body(body).send().await.unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let bytes = response.bytes().await.unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    assert!(text.contains("You said: hi"));
}
