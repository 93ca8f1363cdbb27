//! How often an upstream is asked for one request, and what the caller is told when none answers.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};
use serde_json::json;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn ten_credentials_of_which_six_are_dead_are_walked_in_one_request_and_none_is_asked_twice() {
    let config =
        (1..=10).fold(Config::connections(10), |config, nth| config.connection(nth, &format!("priority: {nth}")));
    let cluster = Cluster::of_three(&config).await;
    let dead = |nth: usize| Rule::on(&format!("cred-{nth}"), "*").fails([401, 402, 403][nth % 3]);
    let suspended = json!({"error": {"message": "This API key was suspended.", "type": "x", "code": null}});
    cluster.fake.script((1..=6).map(|nth| Rule { body: Some(suspended.clone()), ..dead(nth) }).collect::<Vec<_>>());
    for _ in 0..3 {
        let answer = cluster.next().chat(SECRET, "m1", "3").await;
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-7"), "{}", answer.body);
    }
    for nth in 1..=6 {
        assert_eq!(cluster.fake.calls_of(&format!("cred-{nth}")).len(), 1, "cred-{nth}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn six_attempts_are_the_most_whatever_fails_and_no_connection_is_asked_twice_but_for_the_one_retry() {
    let config = (4..=6).fold(Config::connections(9), |config, nth| config.connection(nth, "group: second"));
    let config = (7..=9).fold(config, |config, nth| config.connection(nth, "group: third"));
    let cluster = Cluster::builder(&config).start().await;
    cluster.fake.script([Rule::any().fails(500)]);
    let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!(answer.status, 502, "{}", answer.body);
    let calls = |range: std::ops::RangeInclusive<usize>| -> Vec<usize> {
        range.map(|nth| cluster.fake.calls_of(&format!("cred-{nth}")).len()).collect()
    };
    assert_eq!((calls(1..=3), calls(4..=6), calls(7..=9)), (vec![1; 3], vec![1; 3], vec![0; 3]));
    assert_eq!(answer.header("x-headgate-attempts").split(", ").count(), 6);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_group_that_is_visited_again_because_it_was_full_tries_no_connection_again() {
    let config = Config::connections(4).connection(3, "max_concurrent: 1, priority: 1").connection(4, "group: second");
    let cluster = Cluster::builder(&config.more("limits: {capacity_wait: 300ms}")).start().await;
    let broken = ["cred-1", "cred-2", "cred-4"].map(|credential| Rule::on(credential, "*").fails(500));
    cluster
        .fake
        .script(broken.into_iter().chain([Rule { stall_after_chunks: Some(1), ..Rule::any() }]).collect::<Vec<_>>());
    let mut holder = cluster.client(0).chat_stream(SECRET, "m2", "hi").await;
    assert_eq!(holder.header("x-headgate-connection"), "conn-3");
    holder.read_content(1).await;
    cluster.fake.clear_calls();
    let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-refusal")), (502, ""), "{}", answer.body);
    let calls = |credential: &str| cluster.fake.calls_of(credential).len();
    // Each once, and the last that failed once again before giving up; from one group of a level to the next there is no step down.
    assert_eq!((calls("cred-1") + calls("cred-2"), calls("cred-3"), calls("cred-4")), (2, 0, 2));
    drop(holder);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn two_failures_bench_nobody_the_third_within_a_minute_does() {
    let cluster = Cluster::of_three(&Config::connections(2).connection(2, "priority: 1")).await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(503)]);
    for call in 1..=6 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-2"));
        assert_eq!(cluster.fake.calls_of("cred-1").len(), call.min(3), "call {call}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn after_max_lock_one_probe_is_let_through_and_its_success_opens_the_connection_everywhere() {
    let config = Config::connections(2).connection(2, "priority: 1").more("limits: {max_lock: 1s}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(402).times(1)]);
    let first = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!(first.header("x-headgate-connection"), "conn-2");
    let back = async || cluster.client(1).chat(SECRET, "m1", "hi").await.header("x-headgate-connection") == "conn-1";
    assert!(!back().await, "locked for all");
    eventually(SOON, "a probe found it paid", back).await;
    for place in 0..3 {
        let answer = cluster.client(place).chat(SECRET, "m2", "hi").await;
        assert_eq!(answer.header("x-headgate-connection"), "conn-1", "replica {place}");
    }
}

#[tokio::test]
async fn a_lock_ends_when_the_upstream_said_also_for_a_replica_that_started_later() {
    // Nobody waits for it to end.
    let mut cluster = Cluster::of_three(&Config::connections(1).more("limits: {capacity_wait: 0s}")).await;
    cluster.fake.script([Rule::any().fails(429).header("retry-after", "3").times(1)]);
    let locked = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!((locked.status, locked.header("retry-after"), locked.header("x-headgate-refusal")), (429, "3", ""));
    cluster.replace(2).await;
    let told = cluster.client(2).chat(SECRET, "m1", "hi").await;
    assert!(told.status == 200 || matches!(told.header("retry-after"), "1" | "2" | "3"), "{told:?}");
    eventually(SOON, "it is open again", async || cluster.client(2).chat(SECRET, "m1", "hi").await.status == 200).await;
    assert_eq!(cluster.fake.calls().len(), 2, "nobody tried in between");
    assert_eq!(cluster.client(1).chat(SECRET, "m1", "hi").await.status, 200);
}

/// Headers, and the least and the most that the caller is told to wait.
type Case = (&'static [(&'static str, &'static str)], u64, u64);

#[tokio::test]
async fn a_429_with_or_without_a_hint_moves_the_same_request_on_and_no_hint_is_believed_beyond_max_lock() {
    let cases: [Case; 5] = [
        (&[("retry-after-ms", "302539000")], 900, 900),
        (&[("x-ms-retry-after-ms", "7500")], 7, 8),
        (&[("retry-after", "30")], 29, 30),
        (&[("retry-after", "-5")], 1, 3),
        (&[], 1, 3),
    ];
    let config = Config::connections(3).connection(2, "priority: 1, models: [m1]").connection(3, "models: [m2]");
    for (headers, least, most) in cases {
        let cluster = Cluster::builder(&config.clone().connection(1, "models: [m1]")).start().await;
        let rule =
            headers.iter().fold(Rule::any().fails(429).body(json!({})), |rule, (name, value)| rule.header(name, value));
        cluster.fake.script([
            Rule { credential: "cred-1".into(), ..rule.clone() },
            Rule { credential: "cred-3".into(), ..rule },
        ]);
        let asked = std::time::Instant::now();
        let moved = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!((moved.status, moved.header("x-headgate-connection")), (200, "conn-2"), "{headers:?}");
        assert!(asked.elapsed() < Duration::from_secs(2), "nobody sleeps on it");
        let only = cluster.client(0).chat(SECRET, "m2", "hi").await;
        let wait: u64 = only.header("retry-after").parse().unwrap();
        assert_eq!((only.status, only.header("x-headgate-refusal")), (429, ""), "{headers:?}");
        assert!((least..=most).contains(&wait), "{headers:?}: {wait}");
    }
}

#[tokio::test]
async fn an_own_keys_refusal_reaches_the_caller_and_no_platform_money_is_spent() {
    for (status, told) in [(401, 401), (403, 403)] {
        let config = Config::connections(2).connection(1, "owner: acme, group: own").account("balance: 1.00");
        let cluster = Cluster::builder(&config.ci("byok: [conn-1]")).start().await;
        let body =
            json!({"error": {"message": "Incorrect API key provided.", "type": "permission_error", "code": null}});
        cluster.fake.script([Rule::on("cred-1", "*").fails(status).body(body)]);
        let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (told, ""), "{}", answer.body);
        assert!(cluster.fake.calls_of("cred-2").is_empty(), "no fallback");
        assert_eq!(cluster.redis.balance("acme").await, 1_000_000_000);
        cluster.fake.heal();
        let again = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!(again.header("x-headgate-connection"), "conn-1", "an own key is never locked for it");
    }
}

#[tokio::test]
async fn an_error_of_five_megabytes_is_cut_short_whichever_way_it_comes() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let long = json!({"error": {"message": "word ".repeat(1 << 20), "type": "invalid_request_error", "code": null}});
    for rule in [
        Rule::any().fails(400).body(long.clone()),
        Rule::any().fails(500).body(long.clone()),
        Rule::any().fails(500).body("x".repeat(5 << 20)),
        Rule::any().body(long.clone()),
    ] {
        cluster.fake.script([rule]);
        let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert!(answer.status >= 400 && answer.body.len() < 4096, "{}: {} bytes", answer.status, answer.body.len());
        assert!(answer.json()["error"]["message"].is_string());
    }
    cluster.fake.script([Rule { error_event_after_chunks: Some(1), error_event: Some(long), ..Rule::any() }]);
    let (events, end) = cluster.client(0).chat_stream(SECRET, "m2", "hi").await.rest().await;
    assert!(end.is_ok() && events.last().unwrap().is_error() && events.last().unwrap().data.len() < 4096);
    cluster.fake.heal();
    assert_eq!(cluster.client(0).chat(SECRET, "m2", "hi").await.status, 200, "the replica lives");
    assert!(!cluster.replica(0).log().contains("panicked"));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn the_last_usable_connection_of_a_group_is_not_benched_for_a_few_failures_among_successes() {
    let cluster = Cluster::of_three(&Config::connections(2).connection(1, "priority: 1")).await;
    let limited = Rule::on("cred-2", "*").fails(429).header("retry-after", "300");
    let failing = |times| [limited.clone(), Rule::on("cred-1", "*").fails(500).times(times)];
    // The first failure begins the count; its retry and the calls after it succeed.
    cluster.fake.script(failing(1));
    for _ in 0..6 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-1"), "{}", answer.body);
    }
    assert_eq!(cluster.fake.calls_of("cred-2").len(), 1, "locked by the first call");
    // The second and third failure: with another connection to go to this one would cool now.
    cluster.fake.script(failing(2));
    assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 502);
    for _ in 0..cluster.size() {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-1"), "{}", answer.body);
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_lone_connection_that_fails_in_passing_is_asked_once_more_whole_and_streamed_alike() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    for (times, status) in [(1, 200), (2, 502)] {
        for rule in [Rule::any().fails(503), Rule { cut_after_chunks: Some(0), ..Rule::any() }] {
            cluster.fake.script([rule.clone().times(times)]);
            let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
            assert_eq!(stream.status, status, "{times} {rule:?}");
            let _ = stream.rest().await;
            assert_eq!(cluster.fake.calls().len(), 2, "{times} {rule:?}");
            cluster.fake.clear_calls();
            cluster.redis.unlock_all().await;
            cluster.fake.script([rule.clone().times(times)]);
            let whole = cluster.client(0).chat(SECRET, "m1", "hi").await;
            assert_eq!((whole.status, cluster.fake.calls().len()), (status, 2), "{times} {rule:?}");
            cluster.fake.clear_calls();
            cluster.redis.unlock_all().await;
        }
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn every_attempt_sends_the_very_bytes_an_only_one_would_have_sent() {
    let config = Config::connections(4).more("limits: {attempts: {group: 4, request: 6}}");
    let cluster = Cluster::builder(&config).start().await;
    let body = r#"{"stream":true,"model":"m1", "x_unknown":{"z":1.0,"a":12345678901234567890},"prompt_cache_key":"k","messages":[{"role":"user","content":"hi"}]}"#;
    let bearer = format!("Bearer {SECRET}");
    let ask = async || {
        let headers = [("authorization", bearer.as_str())];
        let stream = cluster.client(0).stream("/v1/chat/completions", &headers, body).await.unwrap();
        let (_, end) = stream.rest().await;
        assert_eq!(end, Ok(()));
    };
    ask().await;
    let only = cluster.fake.calls().remove(0).body;
    cluster.fake.clear_calls();
    cluster.fake.script([Rule { cut_after_chunks: Some(0), ..Rule::any().times(1) }, Rule::any().fails(500).times(2)]);
    ask().await;
    let bodies: Vec<String> = cluster.fake.calls().into_iter().map(|call| call.body).collect();
    assert_eq!(bodies, vec![only; 4]);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn what_no_upstream_of_the_model_could_be_told_is_the_callers_fault_and_asks_and_cools_nobody() {
    let config = Config::connections(0)
        .provider("google: {dialect: gemini, base_url: \"{FAKE}\"}")
        .model("g: {provider: google}")
        .also("id: g-1, provider: google, api_key: cred-1, models: [g]")
        .also("id: g-2, provider: google, api_key: cred-2, models: [g]");
    let cluster = Cluster::builder(&config).start().await;
    let body = json!({"model": "g", "logit_bias": {"50256": -100}, "messages": [{"role": "user", "content": "hi"}]});
    let bearer = format!("Bearer {SECRET}");
    let send = async |body: String| {
        let headers = [("authorization", bearer.as_str())];
        cluster.client(0).send(http::Method::POST, "/v1/chat/completions", &headers, body).await.unwrap()
    };
    for _ in 0..5 {
        let answer = send(body.to_string()).await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (400, "request"), "{}", answer.body);
        assert!(answer.body.contains("logit_bias"), "{}", answer.body);
    }
    assert!(cluster.fake.calls().is_empty());
    assert_eq!(cluster.redis.closures().await, []);
    cluster.assert_clean().await;
}

/// Status, words of the upstream, what the caller is told, calls of the first and of the second connection.
type Row = (u16, &'static str, u16, [usize; 2]);

#[tokio::test]
async fn each_status_has_its_class_clients_faults_are_asked_once_and_cool_nothing() {
    let config = Config::connections(2).connection(2, "priority: 1");
    let rules = "errors: [{status: 400, contains: \"provider returned error\", class: unavailable}]";
    let yaml = config.yaml().replace("base_url: \"{FAKE}/v1\"", &format!("base_url: \"{{FAKE}}/v1\", {rules}"));
    let cluster = Cluster::on(yaml).start().await;
    let rows: [Row; 17] = [
        (400, "Invalid temperature", 400, [1, 0]),
        (400, "Provider returned error", 502, [1, 2]),
        (401, "", 502, [1, 1]),
        (402, "", 429, [1, 1]),
        (403, "Project does not have access to model m1", 403, [1, 0]),
        (404, "The model m1 does not exist", 404, [1, 0]),
        (408, "", 502, [1, 2]),
        (409, "", 502, [1, 2]),
        (413, "", 413, [1, 0]),
        (422, "", 422, [1, 0]),
        (425, "", 502, [1, 2]),
        (429, "", 429, [1, 1]),
        (500, "", 502, [1, 2]),
        (502, "", 502, [1, 2]),
        (503, "", 502, [1, 2]),
        (504, "", 502, [1, 2]),
        (529, "", 502, [1, 2]),
    ];
    for (status, message, told, calls) in rows {
        let body = json!({"error": {"message": message, "type": null, "param": null, "code": null}});
        cluster.fake.script([Rule::any().fails(status).body(body)]);
        let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (told, ""), "{status} {message}");
        let made = ["cred-1", "cred-2"].map(|credential| cluster.fake.calls_of(credential).len());
        assert_eq!(made, calls, "{status} {message}");
        let closed = !cluster.redis.closures().await.is_empty();
        assert_eq!(closed, told == 502 || told == 429, "{status} {message}");
        cluster.redis.unlock_all().await;
        cluster.fake.clear_calls();
    }
    cluster.assert_clean().await;
}
