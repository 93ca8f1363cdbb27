//! Answers that are none, from an upstream of each dialect: they count like a 500, whole and streamed, and are never relayed.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Client, Cluster, Config, Event, Refused, SECRET, Speaks};
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

/// Upstreams: the name of provider, model and group, its dialect, and the path its calls come to.
const UPSTREAMS: [(&str, &str, Speaks); 4] = [
    ("openai", "openai, base_url: \"{FAKE}/v1\"", Speaks::Chat),
    ("anthropic", "anthropic, base_url: \"{FAKE}\"", Speaks::Messages),
    ("google", "gemini, base_url: \"{FAKE}\"", Speaks::Gemini),
    ("assist", "code_assist, base_url: \"{FAKE}\"", Speaks::Gemini),
];

/// Of each dialect two connections, `NAME-1` preferred to `NAME-2`, over two replicas.
async fn all() -> Cluster {
    with("timeouts: {first_token: 30s, idle: 30s}").await
}

async fn with(timeouts: &str) -> Cluster {
    let config = UPSTREAMS.iter().fold(Config::connections(0), |config, (name, dialect, _)| {
        let config =
            config.provider(&format!("{name}: {{dialect: {dialect}}}")).model(&format!("{name}: {{provider: {name}}}"));
        (1..=2).fold(config, |config, nth| {
            config.also(&format!(
                "id: {name}-{nth}, provider: {name}, api_key: cred-{name}-{nth}, models: [{name}], priority: {nth}"
            ))
        })
    });
    Cluster::builder(&config.more(timeouts)).replicas(2).start().await
}

/// The status and, of a stream, all that came.
async fn ask(speaks: Speaks, streamed: bool, client: &Client, model: &str) -> (u16, String, String) {
    if !streamed {
        let answer = speaks.ask(client, SECRET, model).await;
        let trail = answer.header("x-headgate-attempts").to_owned();
        return (answer.status, trail, answer.body);
    }
    let stream = speaks.stream(client, SECRET, model).await;
    let (status, trail) = (stream.status, stream.header("x-headgate-attempts").to_owned());
    if status != 200 {
        return (status, trail, String::new());
    }
    let (events, end) = stream.rest().await;
    assert_eq!(end, Ok(()), "the connection holds");
    let said: String = events.iter().filter_map(|event| speaks.content(event)).collect();
    (status, trail, if events.iter().any(Event::is_error) { "broken".into() } else { said })
}

fn page(text: &str) -> Rule {
    Rule { content_type: Some("text/html".into()), ..Rule::any().body(text) }
}

fn events(text: &str) -> Rule {
    Rule { content_type: Some("text/event-stream".into()), ..Rule::any().body(text) }
}

/// What is no answer to anybody, and its class.
fn shapes() -> Vec<(Rule, &'static str)> {
    let json_error = json!({"error": {"message": "Network connection lost.", "code": 502}});
    let mut shapes: Vec<(Rule, &'static str)> = [
        Rule { empty_body: true, ..Rule::any() },
        page("<html><title>Just a moment…</title></html>"),
        Rule { status: Some(502), ..page("<html><title>Bad gateway</title></html>") },
        Rule { status: Some(302), ..Rule::any().header("location", "http://127.0.0.1:9/") },
        Rule { status: Some(204), empty_body: true, ..Rule::any() },
        Rule::any().body(json_error.clone()),
        Rule::any().body(json!([json_error])),
        Rule::any().body("null"),
        Rule::any().body("[]"),
        Rule::any().body("{}"),
        Rule::any().body("{\"choices\":["),
        Rule::any().body("not JSON"),
        Rule { reset_before_headers: true, ..Rule::any() },
        Rule { reset_after_chunks: Some(0), ..Rule::any() },
        Rule { drop_after_chunks: Some(0), ..Rule::any() },
        Rule { cut_after_bytes: Some(20), ..Rule::any() },
        Rule { gzip: true, ..Rule::any() },
    ]
    .into_iter()
    .map(|rule| (rule, "unavailable"))
    .collect();
    // An error that says its status is what that status is.
    for (code, class) in [(429, "rate_limited"), (503, "unavailable"), (529, "capacity")] {
        let error = json!({"error": {"message": "x", "code": code}});
        shapes.push((Rule::any().body(error), class));
    }
    shapes
}

/// What is no answer to one who asked for a stream.
fn streams() -> Vec<Rule> {
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": "not streamed"}}]});
    vec![
        Rule { empty_body: true, ..events("") },
        events(": keep-alive\n\n"),
        events("data: [DONE]\n\n"),
        events("data:\n\n"),
        events("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        events("data: {\"half\": \n\n"),
        events("data: {\"error\": {\"message\": \"late\", \"code\": 500}}\n\n"),
        Rule::any().body(whole),
        Rule { cut_after_chunks: Some(0), ..Rule::any() },
        Rule {
            error_event_after_chunks: Some(0),
            error_event: Some(json!({"error": {"message": "x", "code": 500}})),
            ..Rule::any()
        },
    ]
}

/// Upstreams are asked side by side: each has connections of its own, and a retry pauses.
async fn expect_moved_on(cluster: &Cluster, rule: &Rule, class: &str, streamed: bool) {
    let first = UPSTREAMS.map(|(name, ..)| Rule { credential: format!("cred-{name}-1"), ..rule.clone() });
    for other in [false, true] {
        cluster.fake.script(first.clone());
        join_all(UPSTREAMS.map(|(name, _, own)| async move {
            // A caller of the upstream's own dialect, whose answer passes as it is, or one of another.
            let caller = match own {
                Speaks::Chat if other => Speaks::Messages,
                _ if other => Speaks::Chat,
                own => own,
            };
            let (status, trail, said) = ask(caller, streamed, cluster.next(), name).await;
            let what = format!("{name} {caller:?} streamed: {streamed} {rule:?}");
            assert_eq!(status, 200, "{what}: {trail}");
            assert_eq!(trail, format!("{name}-1/{name}:{class}, {name}-2/{name}:ok"), "{what}");
            assert!(said.contains("You said: hi"), "{what}: {said}");
        }))
        .await;
        cluster.redis.unlock_all().await;
    }
    cluster.fake.script([rule.clone()]);
    cluster.fake.clear_calls();
    join_all(UPSTREAMS.map(|upstream| expect_told(cluster, upstream, (rule, class), streamed))).await;
    cluster.redis.unlock_all().await;
}

/// What is told when both connections fail, and after how many calls.
async fn expect_told(
    cluster: &Cluster,
    (name, _, speaks): (&str, &str, Speaks),
    (rule, class): (&Rule, &str),
    streamed: bool,
) {
    let what = format!("{name} streamed: {streamed} {rule:?}");
    let (status, trail, body) = ask(speaks, streamed, cluster.next(), name).await;
    let (told, calls) = if class == "rate_limited" { (429, [1, 1]) } else { (502, [1, 2]) };
    assert_eq!(status, told, "{what}: {trail}");
    let made = [1, 2].map(|nth| cluster.fake.calls_of(&format!("cred-{name}-{nth}")).len());
    assert_eq!(made, calls, "{what}: {trail}");
    if !streamed {
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(!speaks.error_kind(&body).is_empty() && !body.to_string().contains("<html"), "{what}: {body}");
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_none_is_a_failure_from_an_upstream_of_any_dialect() {
    let cluster = all().await;
    for (rule, class) in shapes() {
        expect_moved_on(&cluster, &rule, class, false).await;
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_stream_that_is_none_is_a_failure_from_an_upstream_of_any_dialect() {
    let cluster = all().await;
    for (rule, class) in shapes() {
        expect_moved_on(&cluster, &rule, class, true).await;
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn events_without_content_are_no_answer_from_an_upstream_of_any_dialect() {
    let cluster = all().await;
    for rule in streams() {
        expect_moved_on(&cluster, &rule, "unavailable", true).await;
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_upstreams_own_overloaded_event_after_its_opening_events_is_a_failure_like_a_529() {
    let cluster = all().await;
    let rule = Rule { error_event_after_chunks: Some(0), comment: None, ..Rule::any() };
    expect_moved_on(&cluster, &rule, "capacity", true).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn what_comes_before_content_is_held_back_up_to_a_bound_and_then_it_is_a_failure() {
    let cluster = all().await;
    let delta = json!({"role": "assistant", "content": "", "x_padding": "x".repeat(16 << 10)});
    let role = format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}));
    let endless = events(&role.repeat((5 << 20) / role.len()));
    cluster.fake.script([Rule { credential: "cred-openai-1".into(), ..endless }]);
    let (status, trail, said) = ask(Speaks::Chat, true, cluster.client(0), "openai").await;
    assert_eq!((status, trail.as_str()), (200, "openai-1/openai:unavailable, openai-2/openai:ok"));
    assert_eq!(said, "You said: hi");
    cluster.assert_clean().await;
}

/// A stream of `abcdef` that ends after two chunks in one of these ways.
fn deaths() -> [Rule; 3] {
    let says = Rule::any().says("abcdef", 6);
    [
        Rule { cut_after_chunks: Some(2), ..says.clone() },
        Rule { drop_after_chunks: Some(2), ..says.clone() },
        Rule { reset_after_chunks: Some(2), ..says },
    ]
}

#[tokio::test]
async fn a_truncated_stream_of_any_upstream_never_looks_complete_to_a_caller_of_any_dialect() {
    let cluster = all().await;
    for rule in deaths() {
        cluster.fake.script([rule.clone()]);
        for (name, ..) in UPSTREAMS {
            for caller in Speaks::ALL {
                let what = format!("{name} {caller:?} {rule:?}");
                cluster.fake.clear_calls();
                let stream = caller.stream(cluster.next(), SECRET, name).await;
                assert_eq!(stream.status, 200, "{what}");
                let (events, end) = stream.rest().await;
                let said: String = events.iter().filter_map(|event| caller.content(event)).collect();
                assert_eq!((said.as_str(), end), ("ab", Ok(())), "{what}");
                assert!(events.last().is_some_and(Event::is_error), "{what}: {events:?}");
                assert!(!events.iter().any(|event| caller.completes(event)), "{what}: {events:?}");
                assert_eq!(cluster.fake.calls().len(), 1, "{what}: nobody else is asked");
            }
            cluster.redis.unlock_all().await;
        }
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_gemini_caller_that_reads_an_array_gets_a_whole_one_whose_last_element_is_the_error() {
    let cluster = all().await;
    for rule in deaths() {
        cluster.fake.script([rule.clone()]);
        for (name, ..) in UPSTREAMS {
            let what = format!("{name} {rule:?}");
            let (path, body) =
                (format!("/v1beta/models/{name}:streamGenerateContent"), Speaks::Gemini.body(name, "hi"));
            let headers = [("x-goog-api-key", SECRET)];
            let answer = cluster.next().send(Method::POST, &path, &headers, body.to_string()).await.unwrap();
            let elements = answer.json().as_array().cloned().unwrap_or_default();
            let texts = elements.iter().filter_map(|one| one.pointer("/candidates/0/content/parts/0/text")?.as_str());
            assert_eq!(texts.collect::<String>(), "ab", "{what}: {}", answer.body);
            assert!(elements.last().is_some_and(|last| last["error"]["code"].is_u64()), "{what}: {}", answer.body);
            assert!(!answer.body.contains("finishReason"), "{what}: {}", answer.body);
            cluster.redis.unlock_all().await;
        }
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_upstream_that_says_nothing_in_time_is_a_failure_before_and_after_its_headers() {
    let cluster = with("timeouts: {first_token: 700ms, idle: 700ms}").await;
    for rule in [
        Rule::any().delays_headers(Duration::from_mins(1)),
        Rule { stall_after_chunks: Some(0), ..Rule::any() },
        Rule { comment: Some("still there".into()), ..Rule::any().delays_first(Duration::from_mins(1)) },
    ] {
        for streamed in [false, true] {
            expect_moved_on(&cluster, &rule, "unavailable", streamed).await;
        }
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_upstream_that_refuses_connections_is_left_at_once_and_cools_after_three() {
    let refused = Refused::hold();
    let config = Config::connections(1)
        .connection(1, "models: [m1], priority: 1, group: g")
        .provider(&format!("down: {{dialect: openai, base_url: \"{}/v1\"}}", refused.url()))
        .also("id: down, provider: down, api_key: cred-down, models: [m1], group: g");
    let cluster = Cluster::builder(&config).replicas(2).start().await;
    for call in 1..=5 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        let trail = if call <= 3 { "down/m1:unavailable, conn-1/m1:ok" } else { "conn-1/m1:ok" };
        assert_eq!((answer.status, answer.header("x-headgate-attempts")), (200, trail), "call {call}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_providers_own_rules_are_tried_first_on_statuses_bodies_pages_and_events() {
    let rules = "errors: [{status: 400, contains: \"provider returned ERROR\", class: unavailable}, \
                 {contains: \"house rules\", class: refused}, {status: 418, class: billing}, \
                 {status: 200, contains: \"just a moment\", class: capacity}]";
    let config = Config::connections(0)
        .provider(&format!("picky: {{dialect: openai, base_url: \"{{FAKE}}/v1\", {rules}}}"))
        .also("id: first, provider: picky, api_key: cred-first, models: {m1: m1}")
        .also("id: second, provider: picky, api_key: cred-second, models: {m1: m1}, priority: 1");
    let cluster = Cluster::builder(&config).start().await;
    let error = |message: &str| json!({"error": {"message": message, "type": "invalid_request_error", "code": null}});
    let event =
        Rule { error_event_after_chunks: Some(0), error_event: Some(error("Against our House Rules.")), ..Rule::any() };
    for (rule, class, streamed) in [
        (Rule::any().fails(400).body(error("Provider returned error")), "unavailable", false),
        (Rule::any().fails(500).body(error("against our house rules")), "refused", false),
        (Rule::any().body(error("against our house rules")), "refused", false),
        (event, "refused", true),
        (Rule::any().fails(418), "billing", false),
        (page("<html><title>Just a moment…</title></html>"), "capacity", false),
        (page("<html><title>Just a moment…</title></html>"), "capacity", true),
    ] {
        cluster.fake.script([Rule { credential: "cred-first".into(), ..rule.clone() }]);
        let (status, trail, _) = ask(Speaks::Chat, streamed, cluster.client(0), "m1").await;
        assert_eq!((status, trail), (200, format!("first/m1:{class}, second/m1:ok")), "{rule:?}");
        cluster.redis.unlock_all().await;
    }
    cluster.fake.script([Rule::any().fails(400).body(error("Bad temperature"))]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 400, "no rule fits: the table decides");
    cluster.assert_clean().await;
}
