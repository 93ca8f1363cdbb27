//! The edges of a ladder: what is told when all of it fails, what a step down costs, what a key may not climb, what does not fit.

use cluster::fake::Rule;
use cluster::harness::{Cluster, SECRET};
use serde_json::json;

/// Two own connections, the platform's, and a peer on an own and on the platform's connection.
const FIVE: &str = r#"
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
redis: {url: "{REDIS}", timeout: 1s}
providers:
  openai: {dialect: openai, base_url: "{FAKE}/v1"}
  google: {dialect: gemini, base_url: "{FAKE}"}
models:
  gpt: {provider: openai, price: {input: 1, output: 10}}
  gem: {provider: google, price: {input: 1, output: 10}}
tiers: {standard: [gpt, gem]}
connections:
  - {id: p-gpt, provider: openai, api_key: cred-3, region: us}
  - {id: p-gem, provider: google, api_key: cred-5, region: eu}
  - {id: a-gpt-2, provider: openai, api_key: cred-2, owner: acme, region: eu}
  - {id: a-gpt-1, provider: openai, api_key: cred-1, owner: acme, region: eu}
  - {id: a-gem, provider: google, api_key: cred-4, owner: acme, region: eu}
accounts: [{id: acme}, {id: eu, residency: eu}]
keys:
  - {id: ci, account: acme, secret: hg-ci-secret, byok: [a-gpt-1, a-gpt-2, a-gem]}
  - {id: own-only, account: acme, secret: hg-own-secret, platform_fallback: false}
  - {id: no-peers, account: acme, secret: hg-no-peers-secret, peers: false}
  - {id: gpt-only, account: acme, secret: hg-gpt-only-secret, models: ["gp*"]}
  - {id: eu, account: eu, secret: hg-eu-secret}
"#;

fn credential(rung: usize) -> String {
    format!("cred-{}", rung + 1)
}

/// A rule by which the first so many rungs say that a rate limit is used up.
fn limited(rungs: impl IntoIterator<Item = usize>) -> Vec<Rule> {
    let rule = |rung| Rule::on(&credential(rung), "*").fails(429).header("retry-after", "60");
    rungs.into_iter().map(rule).collect()
}

async fn one_replica(yaml: &str) -> Cluster {
    Cluster::on(yaml).start().await
}

/// How often each of the five rungs was called.
fn calls(cluster: &Cluster) -> Vec<usize> {
    (0..5).map(|rung| cluster.fake.calls_of(&credential(rung)).len()).collect()
}

#[tokio::test]
async fn when_all_five_rungs_fail_the_caller_is_told_the_first_ones_failure_and_the_soonest_recovery() {
    let cluster = one_replica(FIVE).await;
    let mut rules = limited(0..5);
    rules[4] = Rule::on("cred-5", "*").fails(429).header("retry-after", "33");
    let said =
        json!({"error": {"message": "Rate limit of the first.", "type": "requests", "code": "rate_limit_exceeded"}});
    rules[0] = rules[0].clone().body(said);
    cluster.fake.script(rules);
    let answer = cluster.client(0).chat(SECRET, "gpt", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-refusal")), (429, ""), "{}", answer.body);
    assert!(answer.body.contains("Rate limit of the first."), "{}", answer.body);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((30..=33).contains(&wait), "{wait}");
    assert_eq!(calls(&cluster), [1; 5]);
    let again = cluster.client(0).chat(SECRET, "gpt", "hi").await;
    assert_eq!((again.status, again.header("x-headgate-refusal")), (429, "locked"), "{}", again.body);
    assert_eq!(calls(&cluster), [1; 5], "nobody was asked again");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_failure_in_passing_is_retried_once_before_each_step_down_and_six_calls_are_the_most() {
    let cluster = one_replica(FIVE).await;
    cluster.fake.script([Rule::any().fails(503)]);
    let answer = cluster.client(0).chat(SECRET, "gpt", "hi").await;
    assert_eq!(answer.status, 502, "{}", answer.body);
    // From one own connection to the other is no step down; from them to the platform's is, and so is one to a peer.
    assert_eq!(calls(&cluster), [1, 2, 2, 1, 0]);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_own_credential_that_is_refused_is_told_at_once_and_no_platform_money_is_spent() {
    for (status, told) in [(401, 401), (403, 403)] {
        let cluster = one_replica(FIVE).await;
        let said =
            json!({"error": {"message": "Your api key was disabled.", "type": "permission_error", "code": null}});
        cluster.fake.script([Rule::on("cred-1", "*").fails(status).body(said)]);
        let answer = cluster.client(0).chat(SECRET, "gpt", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (told, ""), "{}", answer.body);
        assert_eq!(calls(&cluster), [1, 0, 0, 0, 0]);
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_key_climbs_only_what_it_may_use() {
    let cluster = one_replica(FIVE).await;
    cluster.fake.script(limited(0..3));
    let own = cluster.client(0).chat("hg-own-secret", "gpt", "hi").await;
    assert_eq!((own.header("x-headgate-connection"), own.header("x-headgate-model")), ("a-gem", "gem"), "{}", own.body);
    for (secret, why) in [("hg-no-peers-secret", "peers"), ("hg-gpt-only-secret", "a model it may not name")] {
        let answer = cluster.client(0).chat(secret, "gpt", "hi").await;
        assert_eq!(answer.status, 429, "{why}: {}", answer.body);
    }
    assert_eq!(calls(&cluster)[4], 0);
    cluster.assert_clean().await;
}

/// A small model with a larger one, and peers of which only one is large enough.
const SIZES: &str = r#"
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
redis: {url: "{REDIS}", timeout: 1s}
providers:
  openai: {dialect: openai, base_url: "{FAKE}/v1"}
  other: {dialect: openai, base_url: "{FAKE}/other/v1"}
models:
  small: {provider: openai, larger: large, tier: t}
  large: {provider: openai, larger: huge}
  huge: {provider: openai}
  plain: {provider: openai}
  narrow: {provider: other, tier: t, context: 10}
  wide: {provider: other, tier: t, context: 100000}
connections:
  - {id: c1, provider: openai, api_key: cred-1}
  - {id: c2, provider: other, api_key: cred-2}
keys: [{id: ci, secret: hg-ci-secret}]
"#;

fn too_long(model: &str) -> Rule {
    let said = json!({"error": {"message": "This model's maximum context length is 8 tokens.", "type": "invalid_request_error",
        "code": "context_length_exceeded"}});
    Rule::on("*", model).fails(400).body(said)
}

#[tokio::test]
async fn a_request_that_is_too_long_goes_to_the_larger_model_and_cools_nothing() {
    let cluster = one_replica(SIZES).await;
    cluster.fake.script([too_long("small"), too_long("large")]);
    let answer = cluster.client(0).chat(SECRET, "small", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-model")), (200, "huge"), "{}", answer.body);
    assert_eq!(answer.header("x-headgate-attempts"), "c1/small:context_length, c1/large:context_length, c1/huge:ok");
    let keys: Vec<String> = cluster.redis.ask(&["KEYS", "*cooldown*"]).await;
    assert_eq!(keys, [""; 0]);
    cluster.fake.script([too_long("*")]);
    for model in ["small", "plain"] {
        let told = cluster.client(0).chat(SECRET, model, "hi").await;
        assert_eq!((told.status, told.error_code().as_str()), (400, "context_length_exceeded"), "{}", told.body);
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_peer_that_cannot_take_the_request_is_passed_over() {
    let cluster = one_replica(SIZES).await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).header("retry-after", "60")]);
    let long = "word ".repeat(30);
    let answer = cluster.client(0).chat(SECRET, "small", &long).await;
    assert_eq!((answer.status, answer.header("x-headgate-model")), (200, "wide"), "{}", answer.body);
    let short = cluster.client(0).chat(SECRET, "small", "").await;
    assert_eq!((short.status, short.header("x-headgate-model")), (200, "narrow"), "{}", short.body);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_model_that_is_only_full_is_waited_for_unless_its_group_spills() {
    for (spills, model) in [(false, ""), (true, "wide")] {
        let yaml = SIZES.replace("api_key: cred-1", "api_key: cred-1, max_concurrent: 1")
            + &format!("groups: {{openai: {{spill_when_full: {spills}}}}}\nlimits: {{capacity_wait: 200ms}}\n");
        let cluster = one_replica(&yaml.replace("tier: t, context: 10}", "}")).await;
        cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::on("cred-1", "*") }]);
        let mut holder = cluster.client(0).chat_stream(SECRET, "small", "hi").await;
        holder.read_content(1).await;
        let answer = cluster.client(0).chat(SECRET, "small", "hi").await;
        assert_eq!(answer.header("x-headgate-model"), model, "{}", answer.body);
        assert_eq!(answer.status, if spills { 200 } else { 429 }, "{}", answer.body);
        drop(holder);
        cluster.assert_clean().await;
    }
}
