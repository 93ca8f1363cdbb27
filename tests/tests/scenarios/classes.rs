//! Each class of failure, whole, in a stream before content, and in a stream after content: who is asked how often, what the
//! caller is told in its own dialect, and what is closed in Redis afterwards.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Event, SECRET, Speaks, eventually, eventually_ok};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

/// A class, how an upstream says it, and what follows when the first connection and the one behind it say it.
struct Case {
    class: &'static str,
    status: u16,
    kind: &'static str,
    code: &'static str,
    message: &'static str,
    /// Calls of the first and of the second connection.
    calls: [usize; 2],
    /// What the caller is told: the status, and the kind for Anthropic and for Gemini.
    told: (u16, &'static str, &'static str),
    /// What is closed at the connection that said it, after one call; `CONN` stands for its id.
    closes: &'static [&'static str],
}

const COUNTS: &[&str] = &["CONN:model:m1:cooldown counting 1"];
const BROKEN: (u16, &str, &str) = (502, "api_error", "UNAVAILABLE");
const LIMITED: (u16, &str, &str) = (429, "rate_limit_error", "RESOURCE_EXHAUSTED");
const WRONG: (u16, &str, &str) = (400, "invalid_request_error", "INVALID_ARGUMENT");

#[rustfmt::skip]
const CASES: [Case; 9] = [
    Case { class: "rate_limited", status: 429, kind: "requests", code: "rate_limit_exceeded", message: "Rate limit reached.",
        calls: [1, 1], told: LIMITED, closes: &["CONN:bucket:m1:lock rate_limited 30000"] },
    Case { class: "capacity", status: 503, kind: "service_unavailable_error", code: "server_is_overloaded", message: "Overloaded.",
        calls: [1, 2], told: BROKEN, closes: COUNTS },
    Case { class: "unavailable", status: 500, kind: "server_error", code: "", message: "It broke.",
        calls: [1, 2], told: BROKEN, closes: COUNTS },
    Case { class: "billing", status: 429, kind: "insufficient_quota", code: "insufficient_quota", message: "No credit.",
        calls: [1, 1], told: LIMITED, closes: &["CONN:lock billing 30000"] },
    Case { class: "auth", status: 401, kind: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key.",
        calls: [1, 1], told: BROKEN, closes: &["CONN:lock auth 600000"] },
    Case { class: "model_missing", status: 404, kind: "invalid_request_error", code: "model_not_found", message: "No such model.",
        calls: [1, 0], told: (404, "not_found_error", "NOT_FOUND"), closes: &[] },
    Case { class: "context_length", status: 400, kind: "invalid_request_error", code: "context_length_exceeded", message: "Too long.",
        calls: [1, 0], told: WRONG, closes: &[] },
    Case { class: "client_error", status: 400, kind: "invalid_request_error", code: "invalid_value", message: "Bad temperature.",
        calls: [1, 0], told: WRONG, closes: &[] },
    Case { class: "refused", status: 400, kind: "invalid_request_error", code: "content_filter", message: "Flagged.",
        calls: [1, 1], told: WRONG, closes: &[] },
];

impl Case {
    /// The error as the upstream says it. Every one tells a wait; only those that lock may believe it.
    fn error(&self) -> Value {
        json!({"error": {
            "message": self.message, "type": self.kind, "param": null, "code": self.code, "resets_in_seconds": 30,
        }})
    }

    fn as_status(&self) -> Rule {
        Rule::any().fails(self.status).body(self.error())
    }

    fn as_event(&self, after: usize) -> Rule {
        Rule { error_event_after_chunks: Some(after), error_event: Some(self.error()), ..Rule::any().says("abcd", 4) }
    }

    fn trail(&self) -> String {
        let call = |number: usize, times: usize| vec![format!("conn-{number}/m1:{}", self.class); times];
        [call(1, self.calls[0]), call(2, self.calls[1])].concat().join(", ")
    }

    /// What lies in Redis after so many calls of each connection.
    fn left(&self, calls: [usize; 2]) -> Vec<String> {
        let of = |number: usize, calls: usize| {
            let closes = if calls == 0 { &[] } else { self.closes };
            let counted = format!("counting {calls}");
            closes
                .iter()
                .map(move |text| text.replace("CONN", &format!("conn-{number}")).replace("counting 1", &counted))
        };
        of(1, calls[0]).chain(of(2, calls[1])).collect()
    }
}

/// Two connections of one group, the first preferred, over two replicas.
async fn two() -> Cluster {
    Cluster::builder(&Config::connections(2).connection(2, "priority: 1")).replicas(2).start().await
}

fn calls(cluster: &Cluster) -> [usize; 2] {
    ["cred-1", "cred-2"].map(|credential| cluster.fake.calls_of(credential).len())
}

/// Waits until Redis says this, for what follows a stream is off the caller's path; then forgets it.
async fn expect_left(cluster: &Cluster, expected: &[String], what: &str) {
    eventually_ok(SOON, async || {
        let found: Vec<String> = cluster.redis.closures().await.iter().map(ToString::to_string).collect();
        if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}")) }
    })
    .await;
    cluster.redis.assert_nothing_held().await;
    cluster.redis.unlock_all().await;
    cluster.fake.clear_calls();
}

/// What one is told whom nobody answered.
fn expect_told(case: &Case, speaks: Speaks, status: u16, body: &Value, what: &str) {
    let (expected, anthropic, gemini) = case.told;
    assert_eq!(status, expected, "{what}: {body}");
    let kind = speaks.error_kind(body);
    match speaks {
        Speaks::Messages => assert_eq!(kind, anthropic, "{what}"),
        Speaks::Gemini => assert_eq!(kind, gemini, "{what}"),
        // The request's own faults keep the upstream's words where both speak OpenAI.
        _ if status < 500 && status != 429 => assert_eq!(kind, case.kind, "{what}"),
        _ => assert_eq!(kind, if status == 429 { "rate_limit_exceeded" } else { "api_error" }, "{what}"),
    }
    let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
    assert!(message.contains(case.message), "{what}: {message}");
}

#[tokio::test]
async fn each_class_of_a_whole_answer_is_told_in_every_dialect_after_its_number_of_calls_and_closes_what_it_should() {
    let cluster = two().await;
    for case in &CASES {
        cluster.fake.script([case.as_status()]);
        for speaks in Speaks::ALL {
            let what = format!("{} {speaks:?}", case.class);
            let answer = speaks.ask(cluster.next(), SECRET, "m1").await;
            expect_told(case, speaks, answer.status, &answer.json(), &what);
            assert_eq!(answer.header("x-headgate-attempts"), case.trail(), "{what}");
            assert_eq!(answer.header("x-headgate-refusal"), "", "{what}: it is not ours");
            let told = matches!(answer.header("retry-after"), "28" | "29" | "30");
            assert_eq!(told, answer.status == 429, "{what}: {:?}", answer.header("retry-after"));
            assert_eq!(calls(&cluster), case.calls, "{what}");
            expect_left(&cluster, &case.left(case.calls), &what).await;
        }
    }
}

#[tokio::test]
async fn each_class_in_a_stream_before_content_is_a_status_and_counts_like_a_whole_answers() {
    let cluster = two().await;
    for case in &CASES {
        for (rule, form) in [(case.as_status(), "status"), (case.as_event(0), "event")] {
            cluster.fake.script([rule]);
            for speaks in Speaks::ALL {
                let what = format!("{} {form} {speaks:?}", case.class);
                let stream = speaks.stream(cluster.next(), SECRET, "m1").await;
                let (status, trail) = (stream.status, stream.header("x-headgate-attempts").to_owned());
                assert_eq!((status, trail), (case.told.0, case.trail()), "{what}");
                assert!(stream.header("content-type").starts_with("application/json"), "{what}");
                assert_eq!(calls(&cluster), case.calls, "{what}");
                expect_left(&cluster, &case.left(case.calls), &what).await;
            }
        }
    }
}

#[tokio::test]
async fn each_class_in_a_stream_after_content_ends_it_with_an_error_event_asks_nobody_else_and_closes_what_it_should() {
    let cluster = two().await;
    for case in &CASES {
        cluster.fake.script([case.as_event(2)]);
        for speaks in Speaks::ALL {
            let what = format!("{} {speaks:?}", case.class);
            let stream = speaks.stream(cluster.next(), SECRET, "m1").await;
            assert_eq!((stream.status, stream.header("x-headgate-connection")), (200, "conn-1"), "{what}");
            let (events, end) = stream.rest().await;
            let said: String = events.iter().filter_map(|event| speaks.content(event)).collect();
            assert_eq!((said.as_str(), end), ("ab", Ok(())), "{what}: nothing twice, and no broken socket");
            let last = events.last().map(|event| (event.is_error(), event.data.contains(case.message)));
            assert_eq!(last, Some((true, true)), "{what}: {events:?}");
            assert_eq!(events.iter().filter(|event| event.is_error()).count(), 1, "{what}");
            assert!(!events.iter().any(|event| speaks.completes(event)), "{what}: {events:?}");
            assert_eq!(calls(&cluster), [1, 0], "{what}");
            expect_left(&cluster, &case.left([1, 0]), &what).await;
        }
    }
}

#[tokio::test]
async fn what_fails_on_one_connection_only_is_answered_by_the_next_or_told_at_once_as_the_class_wants() {
    let cluster = two().await;
    for case in &CASES {
        for (rule, form) in [(case.as_status(), "status"), (case.as_event(0), "event")] {
            cluster.fake.script([Rule { credential: "cred-1".into(), ..rule }]);
            let what = format!("{} {form}", case.class);
            let stream = cluster.next().chat_stream(SECRET, "m1", "hi").await;
            let moves_on = case.calls[1] > 0;
            assert_eq!(stream.status, if moves_on { 200 } else { case.told.0 }, "{what}");
            if moves_on {
                let (events, _) = stream.rest().await;
                let said: String = events.iter().filter_map(Event::content).collect();
                assert_eq!(said, "You said: hi", "{what}");
                assert!(!events.iter().any(Event::is_error) && events.last().is_some_and(Event::is_done), "{what}");
            }
            assert_eq!(calls(&cluster), [1, usize::from(moves_on)], "{what}");
            expect_left(&cluster, &case.left([1, 0]), &what).await;
        }
    }
}

#[tokio::test]
async fn an_own_connection_that_fails_in_passing_is_asked_twice_before_platform_money_is_spent_and_a_refused_one_once()
{
    let config = Config::connections(2).connection(1, "owner: acme, group: own").account("balance: 1.00");
    let cluster = Cluster::builder(&config.ci("byok: [conn-1]")).replicas(2).start().await;
    for case in &CASES {
        cluster.fake.script([Rule { credential: "cred-1".into(), ..case.as_status() }]);
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        let (calls_expected, status) = match case.class {
            "capacity" | "unavailable" => ([2, 1], 200),
            "auth" => ([1, 0], 401),
            _ if case.calls[1] > 0 => ([1, 1], 200),
            _ => ([1, 0], case.told.0),
        };
        assert_eq!((answer.status, calls(&cluster)), (status, calls_expected), "{}: {}", case.class, answer.body);
        let left = if case.class == "auth" { Vec::new() } else { case.left([calls_expected[0], 0]) };
        expect_left(&cluster, &left, case.class).await;
    }
}

#[tokio::test]
async fn a_caller_that_leaves_closes_nothing_whenever_it_leaves() {
    let cluster = two().await;
    let slow = Duration::from_mins(1);
    for (rule, what) in [
        (Rule::any().delays_headers(slow), "before the headers"),
        (Rule::any().delays_first(slow), "before content"),
        (Rule { stall_after_chunks: Some(1), ..Rule::any() }, "after content"),
    ] {
        for streamed in [false, true] {
            cluster.fake.script([rule.clone()]);
            let client = cluster.next().clone();
            let call = tokio::spawn(async move {
                if streamed {
                    let _ = client.chat_stream(SECRET, "m1", "hi").await.rest().await;
                } else {
                    client.chat(SECRET, "m1", "hi").await;
                }
            });
            eventually(SOON, "the call is upstream", async || cluster.fake.open() == 1).await;
            call.abort();
            eventually(SOON, "the upstream call is cancelled", async || cluster.fake.open() == 0).await;
            assert_eq!(calls(&cluster), [1, 0], "{what}");
            expect_left(&cluster, &[], what).await;
        }
    }
}
