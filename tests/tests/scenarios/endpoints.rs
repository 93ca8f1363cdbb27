//! Chains of endpoints and quota pools behind one credential.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Refused, SECRET, eventually};
use futures_util::future::join_all;

/// A Code Assist provider with three endpoints and two pools, and a peer.
const CHAIN: &str = r#"
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
redis: {url: "{REDIS}", timeout: 1s}
providers:
  ca:
    dialect: code_assist
    endpoints:
      - {name: daily, url: "{FAKE}/daily"}
      - {name: autopush, url: "{FAKE}/autopush"}
      - {name: prod, url: "{FAKE}/prod"}
    error_policy: sandbox
    pools:
      antigravity: {first: prod, headers: {x-client: anti}}
      gemini-cli: {headers: {x-client: cli}}
  openai: {dialect: openai, base_url: "{FAKE}/v1"}
models:
  gemini-2.5-pro: {provider: ca, pools: [antigravity, gemini-cli]}
  gemini-2.5-flash: {provider: ca}
  gemini-3-pro-high: {provider: ca}
  gemini-3-pro-low: {provider: ca}
  gemini-3-flash: {provider: ca}
  gemini-3-flash-medium: {provider: ca}
  gemini-3-pro: {provider: ca}
  gemini-3-pro-image: {provider: ca}
  claude-sonnet-4.5: {provider: ca}
  Claude-Opus-4.6: {provider: ca}
  gpt-oss-120b: {provider: ca}
  gpt-5: {provider: openai}
tiers: {t: [gemini-2.5-flash, gpt-5]}
aliases: {fast: gemini-2.5-flash}
connections:
  - {id: c1, provider: ca, api_key: cred-1}
  - {id: c2, provider: openai, api_key: cred-2}
keys: [{id: ci, secret: hg-ci-secret}, {id: alone, secret: hg-alone-secret, peers: false}]
"#;

const ALONE: &str = "hg-alone-secret";
const SOON: Duration = Duration::from_secs(5);

async fn chain() -> Cluster {
    Cluster::on(CHAIN).start().await
}

/// Calls at daily, autopush and prod.
fn calls(cluster: &Cluster) -> [usize; 3] {
    ["/daily", "/autopush", "/prod"].map(|endpoint| cluster.fake.calls_at(endpoint).len())
}

#[tokio::test]
async fn endpoints_are_tried_in_order_and_one_that_failed_rests_for_its_model() {
    let cluster = chain().await;
    cluster.fake.script([Rule::any().at("/daily").fails(404), Rule::any().at("/autopush").fails(403)]);
    let answer = cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "c1"), "{}", answer.body);
    assert_eq!(
        answer.header("x-headgate-attempts"),
        "c1/gemini-2.5-flash:model_missing, c1/gemini-2.5-flash:model_missing, c1/gemini-2.5-flash:ok"
    );
    assert_eq!(calls(&cluster), [1, 1, 1]);
    cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
    assert_eq!(calls(&cluster), [1, 1, 2], "the two rest");
    cluster.client(0).chat(SECRET, "gemini-3-pro", "hi").await;
    assert_eq!(calls(&cluster), [2, 2, 3], "for that model only");
    let key = "hg:{g:ca}:conn:c1:endpoint:daily:model:gemini-cli/gemini-2.5-flash:cooldown";
    let rest: Vec<i64> = cluster.redis.ask(&["HMGET", key, "set_at", "until"]).await;
    assert!((48_000..=72_000).contains(&(rest[1] - rest[0])), "60 s, a fifth more or less: {rest:?}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn what_is_wrong_with_the_network_or_the_upstream_moves_to_the_next_endpoint_too() {
    let refused = Refused::hold();
    let yaml = CHAIN.replace("{FAKE}/daily", &refused.url());
    let cluster = Cluster::on(yaml).start().await;
    cluster.fake.script([Rule::any().at("/autopush").fails(503)]);
    let answer = cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "c1"), "{}", answer.body);
    assert_eq!(calls(&cluster), [0, 1, 1]);
    // What is the request's own fault, or the credential's limit, is the same everywhere.
    cluster.fake.script([Rule::any().at("/prod").fails(400)]);
    assert_eq!(cluster.client(0).chat(ALONE, "gemini-2.5-flash", "hi").await.status, 400);
    cluster.fake.script([Rule::any().at("/prod").fails(429).header("retry-after", "60")]);
    assert_eq!(cluster.client(0).chat(ALONE, "gemini-2.5-flash", "hi").await.status, 429);
    assert_eq!(calls(&cluster), [0, 1, 3]);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn with_all_endpoints_resting_the_first_is_tried_once_only_if_no_other_rung_is_left() {
    let cluster = chain().await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(404)]);
    let answer = cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-model")), (200, "gpt-5"), "{}", answer.body);
    assert_eq!(calls(&cluster), [1, 1, 1]);
    let again = cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
    assert_eq!(again.header("x-headgate-attempts"), "c2/gpt-5:ok", "another rung is left");
    assert_eq!(calls(&cluster), [1, 1, 1]);
    let alone = cluster.client(0).chat(ALONE, "gemini-2.5-flash", "hi").await;
    assert_eq!(alone.status, 404, "{}", alone.body);
    assert_eq!(calls(&cluster), [2, 1, 1], "the first, once");
    cluster.fake.heal();
    let healed = cluster.client(0).chat(ALONE, "gemini-2.5-flash", "hi").await;
    assert_eq!(healed.status, 200, "{}", healed.body);
    cluster.client(0).chat(ALONE, "gemini-2.5-flash", "hi").await;
    assert_eq!(calls(&cluster), [4, 1, 1], "its success cleared it");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_chain_whose_endpoints_all_fail_in_passing_counts_once_in_its_group_and_is_called_once_more_before_giving_up()
{
    let cluster = chain().await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(503)]);
    let alone = cluster.client(0).chat(ALONE, "gemini-2.5-flash", "hi").await;
    assert_eq!(alone.status, 502, "{}", alone.body);
    assert_eq!(calls(&cluster), [2, 1, 1]);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_rested_endpoint_is_tried_again_after_its_cooldown() {
    let cluster =
        Cluster::on(CHAIN.replace("error_policy: sandbox", "error_policy: sandbox\n    cooldown: 1s")).start().await;
    cluster.fake.script([Rule::any().at("/daily").fails(404).times(1)]);
    cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
    assert_eq!(calls(&cluster), [1, 1, 0]);
    let back = async || {
        cluster.client(0).chat(SECRET, "gemini-2.5-flash", "hi").await;
        calls(&cluster)[0] == 2
    };
    eventually(SOON, "the first endpoint is called again", back).await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn every_name_goes_to_its_pool_and_markers_are_for_nobody_but_us() {
    let cluster = chain().await;
    // As asked, as the upstream gets it, its pool's header.
    let names = [
        ("gemini-2.5-flash", "gemini-2.5-flash", "cli"),
        ("gemini-2.5-flash:antigravity", "gemini-2.5-flash", "anti"),
        ("gemini-2.5-flash:ANTIGRAVITY", "gemini-2.5-flash", "anti"),
        ("antigravity-gemini-2.5-flash", "gemini-2.5-flash", "anti"),
        ("Antigravity-gemini-2.5-flash", "gemini-2.5-flash", "anti"),
        ("antigravity-gemini-2.5-flash:gemini-cli", "gemini-2.5-flash", "cli"),
        ("AntiGravity-gemini-2.5-flash:Gemini-CLI", "gemini-2.5-flash", "cli"),
        ("fast", "gemini-2.5-flash", "cli"),
        ("fast:antigravity", "gemini-2.5-flash", "anti"),
        ("gemini-2.5-pro", "gemini-2.5-pro", "cli"),
        ("gemini-2.5-pro:antigravity", "gemini-2.5-pro", "anti"),
        ("gemini-3-pro-high", "gemini-3-pro-high", "anti"),
        ("gemini-3-pro-low", "gemini-3-pro-low", "anti"),
        ("gemini-3-flash", "gemini-3-flash", "anti"),
        ("gemini-3-flash-medium", "gemini-3-flash-medium", "anti"),
        ("gemini-3-flash-medium:gemini-cli", "gemini-3-flash-medium", "cli"),
        ("gemini-3-pro", "gemini-3-pro", "cli"),
        ("gemini-3-pro-image", "gemini-3-pro-image", "anti"),
        ("claude-sonnet-4.5", "claude-sonnet-4.5", "anti"),
        ("claude-sonnet-4.5:Gemini-Cli", "claude-sonnet-4.5", "cli"),
        ("Claude-Opus-4.6", "Claude-Opus-4.6", "anti"),
        ("gpt-oss-120b", "gpt-oss-120b", "anti"),
    ];
    for (asked, upstream, client) in names {
        cluster.fake.clear_calls();
        let answer = cluster.client(0).chat(SECRET, asked, "hi").await;
        assert_eq!(answer.status, 200, "{asked}: {}", answer.body);
        assert_eq!(answer.json()["model"], asked, "the caller sees its own words");
        let calls = cluster.fake.calls();
        assert_eq!(
            (calls.len(), calls[0].model.as_str(), calls[0].headers["x-client"].as_str()),
            (1, upstream, client)
        );
        let first = if client == "anti" { "/prod/" } else { "/daily/" };
        assert!(calls[0].path.starts_with(first), "{asked}: {}", calls[0].path);
    }
    for unknown in
        ["claude-opus-4.6", "gemini-2.5-flash:pro", "antigravity-", "gpt-5:antigravity", "antigravity-nothing"]
    {
        let answer = cluster.client(0).chat(SECRET, unknown, "hi").await;
        assert_eq!((answer.status, answer.error_code().as_str()), (404, "model_not_found"), "{unknown}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_model_of_two_pools_goes_to_the_other_when_one_is_used_up_unless_the_caller_names_it() {
    let cluster = chain().await;
    cluster.fake.script([Rule::any().at("/daily").fails(429).header("retry-after", "60")]);
    for _ in 0..2 {
        let answer = cluster.client(0).chat(SECRET, "gemini-2.5-pro", "hi").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    assert_eq!(calls(&cluster), [1, 0, 2], "the lock is of the one pool");
    let lock: Vec<String> = cluster.redis.ask(&["KEYS", "*:lock"]).await;
    assert_eq!(lock, ["hg:{g:ca}:conn:c1:bucket:gemini-cli/gemini-2.5-pro:lock"]);
    let forced = cluster.client(0).chat(SECRET, "gemini-2.5-pro:gemini-cli", "hi").await;
    assert_eq!((forced.status, forced.header("x-headgate-refusal")), (429, "locked"), "{}", forced.body);
    assert_eq!(calls(&cluster), [1, 0, 2]);
    cluster.assert_clean().await;
}

/// One connection with two endpoints; more fields for the provider and the connection.
fn pair(provider: &str, connection: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {{url: \"{{REDIS}}\", timeout: 1s}}\nproviders:\n  p:\n    \
         dialect: openai\n    endpoints: [{{name: e1, url: \"{{FAKE}}/e1/v1\"}}, {{name: e2, url: \"{{FAKE}}/e2/v1\"}}]\n    {provider}\n\
         models: {{m: {{provider: p}}}}\nconnections: [{{id: c1, provider: p, api_key: cred-1{connection}}}]\n\
         keys: [{{id: ci, secret: hg-ci-secret}}]\n"
    )
}

#[tokio::test]
async fn a_chain_keeps_its_slot_and_its_place_in_the_rate_from_one_endpoint_to_the_next() {
    for limit in [", max_concurrent: 1", ", rpm: 1"] {
        let cluster = Cluster::on(pair("", limit)).start().await;
        cluster.fake.script([Rule::any().at("/e1").fails(500).delays_headers(Duration::from_millis(50))]);
        let callers = if limit == ", rpm: 1" { 1 } else { 6 };
        let answers = cluster.burst(callers, SECRET, "m").await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{limit}: {answers:?}");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn endpoints_that_never_rest_are_tried_in_order_by_every_request() {
    let cluster = Cluster::on(pair("cooldown: 0s", "")).start().await;
    cluster.fake.script([Rule::any().at("/e1").fails(500)]);
    for _ in 0..5 {
        let answer = cluster.client(0).chat(SECRET, "m", "hi").await;
        assert_eq!(answer.header("x-headgate-attempts"), "c1/m:unavailable, c1/m:ok", "{}", answer.body);
    }
    assert_eq!(["/e1", "/e2"].map(|endpoint| cluster.fake.calls_at(endpoint).len()), [5, 5]);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn our_own_clock_blames_no_endpoint_and_no_connection() {
    let yaml = pair("", "") + "timeouts: {connect: 1s, first_token: 2900ms, idle: 2900ms, total: 3s}\n";
    let cluster = Cluster::on(yaml).start().await;
    let slow = Rule { chunks: Some(100), chunk_text: Some("word ".into()), ..Rule::any() };
    cluster.fake.script([slow.delays_between(Duration::from_millis(100))]);
    let streams = (0..3).map(async |_| cluster.client(0).chat_stream(SECRET, "m", "hi").await.rest().await);
    for (events, _) in join_all(streams).await {
        assert!(events.last().is_some_and(cluster::harness::Event::is_error), "cut after three seconds");
    }
    cluster.assert_clean().await;
    let closed: Vec<String> = cluster.redis.ask(&["KEYS", "*cooldown*"]).await;
    assert_eq!(closed, [""; 0]);
}
