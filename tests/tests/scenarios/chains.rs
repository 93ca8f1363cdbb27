//! Endpoints of one provider in their order, each resting by itself; and the quota pools behind one credential.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Refused, SECRET, eventually};
use serde_json::json;

const SOON: Duration = Duration::from_secs(15);

/// A provider of three endpoints and both builtin pools, with one connection, over two replicas.
fn three(fields: &str) -> Config {
    let endpoints = "endpoints: [{name: daily, url: \"{FAKE}/daily\"}, {name: autopush, url: \"{FAKE}/autopush\"}, \
                     {name: prod, url: \"{FAKE}/prod\"}]";
    let pools = "pools: {antigravity: {first: daily, headers: {x-pool: antigravity}}, gemini-cli: {first: prod, headers: {x-pool: gemini-cli}}}";
    Config::connections(0)
        .provider(&format!("ca: {{dialect: code_assist, {endpoints}, {pools}, error_policy: sandbox{fields}}}"))
        .model("gemini-2.5-pro: {provider: ca, pools: [gemini-cli, antigravity]}")
        .model("claude-sonnet-4.5: {provider: ca}")
        .model("gpt-oss: {provider: ca}")
        .model("gemini-3-pro-image: {provider: ca}")
        .model("gemini-3-flash: {provider: ca}")
        .model("gemini-3-pro-high: {provider: ca}")
        .model("gemini-3-pro: {provider: ca}")
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
async fn endpoints_are_tried_in_order_rest_by_themselves_and_the_next_request_begins_where_one_answers() {
    let cluster = Cluster::builder(&three("")).replicas(2).start().await;
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
async fn an_endpoint_that_is_down_is_passed_and_a_refused_credential_or_a_used_up_quota_is_not_asked_for_elsewhere() {
    let down = Refused::hold();
    let yaml = three("").yaml().replace("{FAKE}/daily", &format!("{}/daily", down.url()));
    let cluster = Cluster::on(yaml).replicas(2).start().await;
    expect(&cluster, "claude-sonnet-4.5", 200, &["autopush"], "refused connections").await;
    cluster.redis.unlock_all().await;
    let quota = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "300s"},
    ]}});
    cluster.fake.script([Rule::any().fails(429).body(quota)]);
    expect(&cluster, "gemini-3-pro", 429, &["prod"], "a limit is the same at every endpoint").await;
    cluster.fake.script([Rule::any().fails(401)]);
    expect(&cluster, "gemini-3-pro", 429, &[], "it is locked").await;
    cluster.redis.unlock_all().await;
    expect(&cluster, "gemini-3-pro", 502, &["prod"], "so is a refused credential").await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn when_all_endpoints_rest_the_first_is_asked_once_and_a_success_wakes_it() {
    let cluster = Cluster::builder(&three("")).replicas(2).start().await;
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
async fn an_endpoint_that_has_rested_is_asked_again_first() {
    let cluster = Cluster::builder(&three(", cooldown: 1s")).replicas(2).start().await;
    cluster.fake.script([Rule::any().fails(404).at("/daily").times(1)]);
    expect(&cluster, "claude-sonnet-4.5", 200, &["daily", "autopush"], "it fails once").await;
    eventually(SOON, "daily is first again", async || {
        cluster.fake.clear_calls();
        cluster.next().chat(SECRET, "claude-sonnet-4.5", "hi").await;
        asked(&cluster) == ["daily"]
    })
    .await;
    assert_eq!(cluster.redis.closures().await, []);
}

/// What a caller names, the pool whose headers the upstream sees, and the model it is asked for.
const NAMES: [(&str, &str, &str); 20] = [
    ("gemini-2.5-pro", "gemini-cli", "gemini-2.5-pro"),
    ("gemini-2.5-pro:antigravity", "antigravity", "gemini-2.5-pro"),
    ("gemini-2.5-pro:ANTIGRAVITY", "antigravity", "gemini-2.5-pro"),
    ("gemini-2.5-pro:gemini-cli", "gemini-cli", "gemini-2.5-pro"),
    ("gemini-2.5-pro:Gemini-CLI", "gemini-cli", "gemini-2.5-pro"),
    ("antigravity-gemini-2.5-pro", "antigravity", "gemini-2.5-pro"),
    ("Antigravity-gemini-2.5-pro", "antigravity", "gemini-2.5-pro"),
    ("ANTIGRAVITY-gemini-2.5-pro", "antigravity", "gemini-2.5-pro"),
    ("antigravity-gemini-2.5-pro:gemini-cli", "gemini-cli", "gemini-2.5-pro"),
    ("antigravity-gemini-2.5-pro:Antigravity", "antigravity", "gemini-2.5-pro"),
    ("claude-sonnet-4.5", "antigravity", "claude-sonnet-4.5"),
    ("claude-sonnet-4.5:antigravity", "antigravity", "claude-sonnet-4.5"),
    ("claude-sonnet-4.5:gemini-cli", "gemini-cli", "claude-sonnet-4.5"),
    ("gpt-oss", "antigravity", "gpt-oss"),
    ("antigravity-gpt-oss", "antigravity", "gpt-oss"),
    ("gemini-3-pro-image", "antigravity", "gemini-3-pro-image"),
    ("gemini-3-flash", "antigravity", "gemini-3-flash"),
    ("gemini-3-pro-high", "antigravity", "gemini-3-pro-high"),
    ("gemini-3-pro", "gemini-cli", "gemini-3-pro"),
    ("gemini-3-pro:Antigravity", "antigravity", "gemini-3-pro"),
];

#[tokio::test]
async fn a_models_name_chooses_pool_headers_and_first_endpoint_and_its_markers_reach_only_the_caller_back() {
    let cluster = Cluster::builder(&three("")).replicas(2).start().await;
    for (name, pool, model) in NAMES {
        cluster.fake.clear_calls();
        let answer = cluster.next().chat(SECRET, name, "hi").await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        assert_eq!(answer.json()["model"], name, "the caller sees what it asked for");
        let call = &cluster.fake.calls()[0];
        assert_eq!((call.headers["x-pool"].as_str(), call.model.as_str()), (pool, model), "{name}");
        assert!(!call.body.to_lowercase().contains("antigravity"), "{name}: {}", call.body);
        let first = if pool == "antigravity" { "daily" } else { "prod" };
        assert_eq!(asked(&cluster), [first], "{name}");
    }
    for unknown in ["gemini-2.5-pro:other", "nothing:antigravity", "antigravity-nothing"] {
        assert_eq!(cluster.next().chat(SECRET, unknown, "hi").await.status, 404, "{unknown}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_used_up_pool_leaves_the_other_open_and_a_model_in_both_moves_over_unless_the_caller_named_one() {
    let cluster = Cluster::builder(&three("")).replicas(2).start().await;
    let quota = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "QUOTA_EXHAUSTED",
         "domain": "cloudcode-pa.googleapis.com", "metadata": {"quotaResetDelay": "1h16m0.667s"}},
    ]}});
    cluster.fake.script([Rule::any().fails(429).body(quota).at("/prod").times(1)]);
    expect(&cluster, "gemini-2.5-pro", 200, &["prod", "daily"], "the other pool answers").await;
    let locks: Vec<String> = cluster.redis.closures().await.iter().map(ToString::to_string).collect();
    assert_eq!(locks, ["ca-1:bucket:gemini-cli/gemini-2.5-pro:lock billing 4560667"]);
    expect(&cluster, "gemini-2.5-pro", 200, &["daily"], "the locked pool is asked nothing").await;
    expect(&cluster, "gemini-2.5-pro:antigravity", 200, &["daily"], "named").await;
    expect(&cluster, "gemini-2.5-pro:gemini-cli", 429, &[], "a caller that names a pool gets no other").await;
    expect(&cluster, "gemini-3-pro", 200, &["prod"], "another model of the pool").await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn the_endpoints_of_one_rung_count_once_in_its_group_and_singly_in_the_request() {
    let config = three("").also("id: ca-2, provider: ca, api_key: cred-2, priority: 1");
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
