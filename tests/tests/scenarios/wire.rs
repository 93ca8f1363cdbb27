//! HTTP as it comes over the wire, well-formed and not. Raw bytes in, raw bytes out.

use std::time::Duration;

use cluster::harness::{Cluster, Config, SECRET};
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const GOOD: &str = r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#;

/// Sends these bytes and reads until the other side closes or is silent for a while.
async fn exchange(cluster: &Cluster, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(cluster.client(0).address()).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    answer(&mut socket).await
}

async fn answer(socket: &mut TcpStream) -> String {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        // The first bytes may take a while on a busy machine, the rest comes with them.
        let patience = Duration::from_millis(if all.is_empty() { 5_000 } else { 200 });
        match tokio::time::timeout(patience, socket.read(&mut piece)).await {
            Ok(Ok(length @ 1..)) => all.extend_from_slice(&piece[..length]),
            _ => return String::from_utf8_lossy(&all).into_owned(),
        }
    }
}

fn head(more: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\r\n{more}\r\n")
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap()
}

#[tokio::test]
async fn a_chunked_body_a_pipelined_request_and_http_2_are_served_like_any_other() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let (one, two) = GOOD.split_at(20);
    let chunked = format!(
        "{}{:x}\r\n{one}\r\n{:x};ext=1\r\n{two}\r\n0\r\nx-trailer: canary\r\n\r\n",
        head("transfer-encoding: chunked\r\n"),
        one.len(),
        two.len()
    );
    assert_eq!(status(&exchange(&cluster, chunked.as_bytes()).await), 200);
    let plain = format!("{}{GOOD}", head(&format!("content-length: {}\r\n", GOOD.len())));
    let twice = exchange(&cluster, plain.repeat(2).as_bytes()).await;
    assert_eq!(twice.matches("HTTP/1.1 200 OK").count(), 2, "{twice}");

    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let url = format!("http://{}/v1/chat/completions", cluster.client(0).address());
    let answer = http.post(url).bearer_auth(SECRET).body(GOOD).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (http::Version::HTTP_2, 200));
    assert!(answer.text().await.unwrap().contains("You said: hi"));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_caller_that_waits_for_leave_to_send_its_body_is_given_it_only_when_the_body_is_wanted() {
    let cluster = Cluster::builder(&Config::connections(1).more("limits: {body: 1KiB}")).start().await;
    let expects = |length: usize| head(&format!("expect: 100-continue\r\ncontent-length: {length}\r\n"));
    let mut socket = TcpStream::connect(cluster.client(0).address()).await.unwrap();
    socket.write_all(expects(GOOD.len()).as_bytes()).await.unwrap();
    assert!(answer(&mut socket).await.starts_with("HTTP/1.1 100 Continue"));
    socket.write_all(GOOD.as_bytes()).await.unwrap();
    assert_eq!(status(&answer(&mut socket).await), 200);

    assert_eq!(status(&exchange(&cluster, expects(5000).as_bytes()).await), 413, "told before a byte was sent");
    let stranger = expects(500).replace(SECRET, "hg-unknown");
    assert_eq!(status(&exchange(&cluster, stranger.as_bytes()).await), 401);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn broken_framing_and_garbage_are_refused_cost_nothing_and_harm_nobody_else() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let longer = format!("{}{GOOD}", head("content-length: 20\r\n"));
    let cases: Vec<Vec<u8>> = vec![
        longer.into_bytes(),
        format!("{}{GOOD}", head("content-length: x\r\n")).into_bytes(),
        format!("{}{GOOD}", head("content-length: 5\r\ncontent-length: 60\r\n")).into_bytes(),
        format!("{}zz\r\n{GOOD}\r\n0\r\n\r\n", head("transfer-encoding: chunked\r\n")).into_bytes(),
        head("x-\u{7}bell: 1\r\n").into_bytes(),
        head(&format!("x-long: {}\r\n", "x".repeat(1 << 20))).into_bytes(),
        (0..500).fold(head(""), |text, nth| text.replacen("\r\n", &format!("\r\nx-{nth}: 1\r\n"), 1)).into_bytes(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        vec![0; 64],
    ];
    for bytes in cases {
        let answer = exchange(&cluster, &bytes).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert!(answer.is_empty() || (400..500).contains(&status(&answer)), "{shown:?}: {answer}");
    }
    // A body that ends before its promised length: the caller is gone, nobody is asked.
    let mut socket = TcpStream::connect(cluster.client(0).address()).await.unwrap();
    socket.write_all(format!("{}{GOOD}", head("content-length: 5000\r\n")).as_bytes()).await.unwrap();
    drop(socket);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    assert_eq!(cluster.fake.calls().len(), 1, "only the last was a request");
    assert!(!cluster.replica(0).log().contains("panicked"));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn odd_methods_are_405_in_the_envelope_and_health_is_told_to_anybody() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    for method in [Method::HEAD, Method::OPTIONS, Method::PATCH, Method::TRACE, Method::from_bytes(b"BREW").unwrap()] {
        let answer = cluster.client(0).send(method.clone(), "/v1/chat/completions", &[], "").await.unwrap();
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"), "{method}");
        assert_eq!(answer.body.is_empty(), method == Method::HEAD, "{method}");
    }
    assert_eq!(cluster.client(0).get("/healthz").await.status, 200);
    assert_eq!(cluster.client(0).send(Method::HEAD, "/readyz", &[], "").await.unwrap().status, 200);
}
