//! Whatever way requests end, nothing of them stays: no lease, no place in line, no held money, no call upstream.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};
use futures_util::future::join_all;
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(20);
const DISCONNECTS: u64 = 1_000;
const LANES: u64 = 10;

/// The next number of a sequence that looks random and is the same in every run (xorshift).
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn request(stream: bool) -> String {
    let body =
        format!(r#"{{"model":"m1","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#);
    let head = format!("authorization: Bearer {SECRET}\r\ncontent-length: {}", body.len());
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{head}\r\n\r\n{body}")
}

/// Reads until so many texts `until` have come, or the time is over, or the answer.
async fn read_until(socket: &mut TcpStream, until: &str, times: u64, patience: Duration) {
    let mut seen = String::new();
    let read = async {
        let mut piece = [0; 256];
        while (seen.matches(until).count() as u64) < times {
            match socket.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(count) => seen.push_str(&String::from_utf8_lossy(&piece[..count])),
            }
        }
    };
    let _ = tokio::time::timeout(patience, read).await;
}

/// One call that its caller leaves: inside the request, before the headers, in the midst of an event, or after the last.
async fn leave(cluster: &Cluster, seed: &mut u64) {
    let text = request(!next(seed).is_multiple_of(5));
    let place = usize::try_from(next(seed) % 3).unwrap();
    let mut socket = TcpStream::connect(cluster.client(place).address()).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let point = next(seed) % 10;
    let sent = if point == 0 { usize::try_from(next(seed)).unwrap_or(7) % text.len() } else { text.len() };
    socket.write_all(&text.as_bytes()[..sent]).await.unwrap();
    match point {
        0 => {}
        1..=3 => tokio::time::sleep(Duration::from_millis(next(seed) % 30)).await,
        4..=7 => {
            read_until(&mut socket, "data: ", 1 + next(seed) % 6, SOON).await;
            let mut rest = vec![0; 1 + usize::try_from(next(seed) % 90).unwrap()];
            let _ = tokio::time::timeout(Duration::from_millis(5), socket.read_exact(&mut rest)).await;
        }
        _ => read_until(&mut socket, "[DONE]", 1, SOON).await,
    }
    if next(seed).is_multiple_of(2) {
        socket.set_zero_linger().unwrap();
    }
}

#[tokio::test]
async fn a_thousand_disconnects_at_random_points_leave_no_lease_no_place_no_hold_and_no_call_upstream() {
    let config = Config::connections(2).each("max_concurrent: 2").ci("max_concurrent: 6");
    let cluster = Cluster::of_three(&config.account("balance: 25.00, overdraft: none")).await;
    let slow = Rule::any().says("abcdef", 6).delays_headers(Duration::from_millis(3));
    cluster.fake.script([slow.delays_first(Duration::from_millis(3)).delays_between(Duration::from_millis(2))]);
    join_all((1..=LANES).map(async |lane| {
        let mut seed = lane.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..DISCONNECTS / LANES {
            leave(&cluster, &mut seed).await;
        }
    }))
    .await;
    // Whatever the last ones left behind is gone at once: as many calls as there are slots go through.
    let answers = cluster.burst(4, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    cluster.assert_clean().await;
    for place in 0..3 {
        for gauge in ["headgate_leases", "headgate_waiting_requests", "headgate_open_requests", "headgate_outbox"] {
            let is_0 = async || cluster.replica(place).metric(gauge).await == Some(0);
            eventually(SOON, &format!("{gauge} of replica {place} is 0"), is_0).await;
        }
    }
}

#[tokio::test]
async fn no_bad_request_holds_the_one_slot_of_its_key_or_of_the_connection() {
    let config = Config::connections(1).each("max_concurrent: 1").ci("max_concurrent: 1");
    let config = config.more("limits: {body: 64KiB, key_wait: 0s, capacity_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    let chat = |message: &str| format!(r#"{{"model":"m1","messages":[{message}]}}"#);
    let bodies = [
        (404, r#"{"model":"m9","messages":[{"role":"user","content":"hi"}]}"#.to_owned()),
        (400, r#"{"model":"m1","messages":[{"#.to_owned()),
        (400, chat("7")),
        (413, chat(&format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(70_000)))),
    ];
    let token = format!("Bearer {SECRET}");
    for (number, (status, body)) in bodies.into_iter().cycle().take(24).enumerate() {
        let client = cluster.client(number % 3);
        let headers = [("authorization", token.as_str())];
        let answer = client.send(Method::POST, "/v1/chat/completions", &headers, body).await.unwrap();
        assert_eq!(answer.status, status, "{number}: {}", answer.body);
        // Nothing waits here: had it kept a slot, this would be refused.
        let good = cluster.client((number + 1) % 3).chat(SECRET, "m1", "hi").await;
        assert_eq!(good.status, 200, "after {number}: {}", good.body);
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn what_an_upstream_cannot_say_is_refused_and_holds_nothing() {
    let yaml = Config::connections(1).each("max_concurrent: 1").ci("max_concurrent: 1").yaml();
    let yaml = yaml.replace("dialect: openai, base_url: \"{FAKE}/v1\"", "dialect: anthropic, base_url: \"{FAKE}\"");
    let cluster = Cluster::on(yaml + "limits: {key_wait: 0s, capacity_wait: 0s}\n").replicas(3).start().await;
    let token = format!("Bearer {SECRET}");
    let headers = [("authorization", token.as_str())];
    let body = r#"{"model":"m1","n":3,"messages":[{"role":"user","content":"hi"}]}"#;
    for place in [0, 1, 2, 0] {
        let answer = cluster.client(place).send(Method::POST, "/v1/chat/completions", &headers, body).await.unwrap();
        assert_eq!(answer.status, 400, "{}", answer.body);
        let free = async || cluster.client(place).chat(SECRET, "m1", "hi").await.status == 200;
        eventually(Duration::from_secs(1), "the slots are free", free).await;
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn an_upstream_that_hangs_gives_its_slots_back_when_its_time_is_over() {
    let config = Config::connections(1).each("max_concurrent: 4").ci("max_concurrent: 4");
    let config = config.more("timeouts: {first_token: 500ms, idle: 500ms}\nlimits: {key_wait: 0s, capacity_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().delays_headers(Duration::from_mins(1))]);
    let answers = cluster.burst(4, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 502), "{answers:?}");
    cluster.fake.heal();
    cluster.redis.cli(&["DEL", "hg:{g:fake}:conn:conn-1:model:m1:cooldown"]).await;
    cluster.assert_clean().await;
    let answers = cluster.burst(4, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_killed_replicas_places_and_slots_are_free_in_time_and_those_of_others_untouched() {
    let config = Config::connections(1).each("max_concurrent: 2").more("limits: {capacity_wait: 40s}");
    let mut cluster = Cluster::of_three(&config.caller("a", "").caller("b", "")).await;
    let line = "hg:{g:fake}:conn:conn-1:waiters:alive";
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::any().times(2) }]);
    let mut holders = Vec::new();
    for place in [0, 1] {
        let mut stream = cluster.client(place).chat_stream(SECRET, "m1", "holder").await;
        stream.read_content(1).await;
        holders.push(stream);
    }
    let mut calls = Vec::new();
    for (place, account, many) in [(0, "a", 1), (0, "a", 2), (1, "b", 3), (0, "a", 4), (2, "b", 5)] {
        let (client, secret) = (cluster.client(place).clone(), cluster::harness::secret_of(account));
        let call = tokio::spawn(async move { client.try_chat(&secret, "m1", "hi").await.map(|answer| answer.status) });
        calls.push((place, call));
        let stands = async || cluster.redis.ask::<i64>(&["ZCARD", line]).await == many;
        eventually(SOON, "it stands in line", stands).await;
    }
    cluster.kill(0).await;
    let alive = async || -> Vec<String> { cluster.redis.ask(&["ZRANGE", line, "0", "-1"]).await };
    let reaped = async || alive().await.len() == 2;
    eventually(SOON, "the dead replica's places are reaped", reaped).await;
    assert!(alive().await.iter().all(|member| member.ends_with("|b|5")), "those of others stand");
    // Only the dead one's slot comes back; the other stream goes on, and its lease is renewed past the life of one.
    for (place, call) in calls {
        assert_eq!(call.await.unwrap().ok(), (place != 0).then_some(200), "replica {place}");
    }
    assert_eq!(cluster.fake.peak("cred-1").peak, 2);
    let one = async || cluster.redis.ask::<i64>(&["ZCARD", "hg:{g:fake}:conn:conn-1:leases"]).await == 1;
    eventually(SOON, "the stream that goes on is all that is held", one).await;
    drop(holders);
    cluster.assert_clean().await;
}
