//! What a chain of endpoints does with each kind of failure, what it counts for, and how it wakes up.

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET};
use serde_json::json;

/// A provider of three endpoints and both builtin pools, with one connection, over two replicas.
fn three() -> Config {
    let endpoints = "endpoints: [{name: daily, url: \"{FAKE}/daily\"}, {name: autopush, url: \"{FAKE}/autopush\"}, \
                     {name: prod, url: \"{FAKE}/prod\"}]";
    let pools = "pools: {antigravity: {first: daily, headers: {x-pool: antigravity}}, gemini-cli: {first: prod, headers: {x-pool: gemini-cli}}}";
    Config::connections(0)
        .provider(&format!("ca: {{dialect: code_assist, {endpoints}, {pools}, error_policy: sandbox}}"))
        .model("claude-sonnet-4.5: {provider: ca}")
        .model("gpt-oss: {provider: ca}")
        .also("id: ca-1, provider: ca, api_key: cred-ca")
}

/// Which endpoints were asked, in order.
fn asked(cluster: &Cluster) -> Vec<String> {
    let calls = cluster.fake.calls().into_iter();
    calls.map(|call| call.path.split('/').nth(1).unwrap_or_default().to_owned()).collect()
}

async fn expect(cluster: &Cluster, model: &str, status: u16, endpoints: &[&str], what: &str) {
    cluster.fake.clear_calls();
    let answer = cluster.next().chat(SECRET, model, "hi").await;
    assert_eq!(answer.status, status, "{what}: {}", answer.body);
    assert_eq!(asked(cluster), endpoints, "{what}: {}", answer.header("x-headgate-attempts"));
}

#[tokio::test]
async fn whatever_fails_at_an_endpoint_the_next_one_answers_and_the_next_request_begins_there() {
    let cluster = Cluster::builder(&three()).replicas(2).start().await;
    let denied = json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Not here."}});
    for rule in [
        Rule::any().fails(404),
        Rule::any().fails(403).body(denied),
        Rule::any().fails(503),
        Rule::any().fails(500),
        Rule { reset_before_headers: true, ..Rule::any() },
        Rule { empty_body: true, ..Rule::any() },
    ] {
        let what = format!("{rule:?}");
        cluster.fake.script([rule.clone().at("/daily")]);
        expect(&cluster, "claude-sonnet-4.5", 200, &["daily", "autopush"], &what).await;
        expect(&cluster, "claude-sonnet-4.5", 200, &["autopush"], &what).await;
        expect(&cluster, "gpt-oss", 200, &["daily", "autopush"], &what).await;
        let rests = cluster.redis.closures().await;
        let names: Vec<&str> = rests.iter().map(|rest| rest.what.as_str()).collect();
        let name = |model| format!("ca-1:endpoint:daily:model:antigravity/{model}:cooldown");
        assert_eq!(names, [name("claude-sonnet-4.5"), name("gpt-oss")], "{what}");
        assert!(rests.iter().all(|rest| (48_000..=72_000).contains(&rest.length)), "{rests:?}");
        cluster.fake.script([rule.clone().at("/daily"), rule.at("/autopush")]);
        cluster.redis.unlock_all().await;
        expect(&cluster, "claude-sonnet-4.5", 200, &["daily", "autopush", "prod"], &what).await;
        cluster.redis.unlock_all().await;
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn when_all_endpoints_rest_the_first_is_asked_once_and_a_success_wakes_it() {
    let cluster = Cluster::builder(&three()).replicas(2).start().await;
    cluster.fake.script([Rule::any().fails(404)]);
    expect(&cluster, "claude-sonnet-4.5", 404, &["daily", "autopush", "prod"], "none has the model").await;
    expect(&cluster, "claude-sonnet-4.5", 404, &["daily"], "all rest").await;
    cluster.fake.heal();
    expect(&cluster, "claude-sonnet-4.5", 200, &["daily"], "healed").await;
    for _ in 0..2 {
        expect(&cluster, "claude-sonnet-4.5", 200, &["daily"], "and awake everywhere").await;
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn the_endpoints_of_one_rung_count_once_in_its_group_and_singly_in_the_request() {
    let config = three().also("id: ca-2, provider: ca, api_key: cred-2, priority: 1");
    let config = config.also("id: ca-3, provider: ca, api_key: cred-3, priority: 2");
    for (limits, calls) in [
        ("{}", [3, 3, 0]),
        ("{attempts: {group: 2, request: 9}}", [3, 3, 0]),
        ("{attempts: {group: 3, request: 9}}", [3, 3, 3]),
    ] {
        let cluster = Cluster::builder(&config.clone().more(&format!("limits: {limits}"))).start().await;
        cluster.fake.script([Rule::any().fails(503)]);
        let answer = cluster.client(0).chat(SECRET, "claude-sonnet-4.5", "hi").await;
        assert_eq!(answer.status, 502, "{}", answer.body);
        let made = ["cred-ca", "cred-2", "cred-3"].map(|credential| cluster.fake.calls_of(credential).len());
        assert_eq!(made, calls, "{limits}: {}", answer.header("x-headgate-attempts"));
        cluster.assert_clean().await;
    }
}
