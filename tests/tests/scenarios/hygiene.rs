//! What passes between callers and upstreams, and what does not.

use std::collections::BTreeSet;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET};
use http::Method;

const CHAT: &str = "/v1/chat/completions";
const GOOD: &str = r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn of_a_callers_headers_only_those_on_the_list_reach_an_upstream() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let bearer = format!("Bearer {SECRET}");
    let canaries = [
        "cookie",
        "x-internal-secret",
        "x-forwarded-for",
        "x-real-ip",
        "forwarded",
        "proxy-authorization",
        "openai-organization",
        "openai-project",
        "anthropic-version",
        "x-stainless-os",
        "referer",
        "origin",
        "user-agent",
        "te",
        "x-goog-user-project",
    ];
    let mut headers = vec![("authorization", bearer.as_str()), ("openai-beta", "assistants=v2")];
    headers.extend(canaries.map(|name| (name, "canary")));
    headers.extend([
        ("x-api-key", "hg-canary-2"),
        ("x-goog-api-key", "hg-canary-3"),
        ("connection", "x-internal-secret"),
    ]);
    let path = format!("{CHAT}?key=hg-canary-4&x=canary");
    let answer = cluster.client(0).send(Method::POST, &path, &headers, GOOD).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let call = &cluster.fake.calls()[0];
    let told = format!("{:?} {} {}", call.headers, call.path, call.body);
    assert!(!told.contains("canary") && !told.contains(SECRET), "{told}");
    let names: BTreeSet<&str> = call.headers.keys().map(String::as_str).collect();
    let expected = [
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "openai-beta",
        "user-agent",
    ];
    assert_eq!(names, BTreeSet::from(expected));
}

#[tokio::test]
async fn of_an_upstreams_headers_a_caller_sees_none_that_names_an_account_a_server_or_a_cookie() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let names =
        ["set-cookie", "openai-organization", "openai-project", "server", "via", "x-ratelimit-remaining-requests"];
    let own = ["x-headgate-refusal", "x-headgate-connection", "x-headgate-queued-ms"];
    let rule = names.iter().chain(&own).fold(Rule::any(), |rule, name| rule.header(name, "canary"));
    for rule in [rule.clone(), rule.fails(400)] {
        cluster.fake.script([rule]);
        let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert!(!format!("{:?}", answer.headers).contains("canary"), "{:?}", answer.headers);
        let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
        assert!(!format!("{:?}", stream.headers).contains("canary"), "{:?}", stream.headers);
    }
}

#[tokio::test]
async fn bodies_of_up_to_32_mib_pass_and_a_longer_one_is_413_whatever_came_before() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    for (kib, status) in [(1 << 10, 200), (2560, 200), (12 << 10, 200), (33 << 10, 413), (1, 200)] {
        let text = "x".repeat(kib << 10);
        let answer = cluster.client(0).chat(SECRET, "m1", &text).await;
        assert_eq!(answer.status, status, "{kib} KiB: {}", answer.body.get(..200).unwrap_or(&answer.body));
        let passed = cluster.fake.calls().last().is_some_and(|call| call.body.len() >= kib << 10);
        assert_eq!(passed, status == 200, "{kib} KiB");
        cluster.fake.clear_calls();
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_long_body_that_nobody_wants_does_not_turn_its_refusal_into_a_reset() {
    let cluster = Cluster::builder(&Config::connections(1).more("limits: {body: 1MiB}")).start().await;
    let good = format!("Bearer {SECRET}");
    let cases = [
        ("Bearer hg-unknown", CHAT, Method::POST, 401),
        (&good, "/v1/nothing", Method::POST, 404),
        (&good, CHAT, Method::PUT, 405),
        (&good, CHAT, Method::POST, 413),
    ];
    for (key, path, method, status) in cases {
        for _ in 0..3 {
            let body = "x".repeat(12 << 20);
            let answer = cluster.client(0).send(method.clone(), path, &[("authorization", key)], body).await;
            let answer = answer.unwrap_or_else(|error| panic!("{status}: {error:?}"));
            assert_eq!((answer.status, answer.json()["error"]["message"].is_string()), (status, true));
        }
    }
    assert!(cluster.fake.calls().is_empty());
    cluster.assert_clean().await;
}

#[tokio::test]
async fn azure_gets_its_key_in_its_own_header_and_its_version_in_the_query() {
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {{url: \"{{REDIS}}\", timeout: 1s}}\n\
         providers: {{azure: {{dialect: openai, base_url: \"{{FAKE}}/openai/v1\", api_key_header: api-key, api_version: preview}}}}\n\
         connections: [{{id: a, provider: azure, api_key: azure-key, models: [m1]}}]\n\
         keys: [{{id: ci, secret: {SECRET}}}]\n"
    );
    let cluster = Cluster::on(yaml).start().await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200);
    let call = &cluster.fake.calls()[0];
    assert_eq!((call.headers["api-key"].as_str(), call.headers.get("authorization")), ("azure-key", None));
    assert_eq!(call.path, "/openai/v1/chat/completions?api-version=preview");
}

#[tokio::test]
async fn an_upstream_that_repeats_our_key_or_a_prompt_has_neither_shown_nor_logged() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    let refused = serde_json::json!({"error": {"message": "Incorrect API key provided: cred-1, sorry"}});
    cluster.fake.script([Rule::any().fails(500).body(refused)]);
    let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("[redacted], sorry") && !answer.body.contains("cred-1"), "{}", answer.body);
    let event = serde_json::json!({"error": {"message": "cannot go on: canary-prompt, cred-1"}});
    cluster.fake.script([Rule { error_event_after_chunks: Some(1), error_event: Some(event), ..Rule::any() }]);
    let stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    let (events, _) = stream.rest().await;
    assert!(!format!("{events:?}").contains("cred-1"), "{events:?}");
    let log = cluster.replica(0).log();
    assert!(log.contains("broke off its answer") && !log.contains("canary-prompt") && !log.contains("cred-1"), "{log}");
}
