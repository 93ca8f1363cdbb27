//! `headgate explain` says beforehand what the next request really does, and leaves no trace.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Exit, Response, SECRET, eventually_ok, headgate};
use serde_json::Value;

/// Two own connections, the platform's two, a peer, a larger model and a chain of endpoints in two pools.
const LADDER: &str = r#"
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
redis: {url: "{REDIS}", timeout: 1s}
providers:
  openai: {dialect: openai, base_url: "{FAKE}/v1"}
  google: {dialect: gemini, base_url: "{FAKE}"}
  ca:
    dialect: code_assist
    endpoints: [{name: daily, url: "{FAKE}/daily"}, {name: prod, url: "{FAKE}/prod"}]
    error_policy: sandbox
    pools: {antigravity: {first: prod}, gemini-cli: {}}
models:
  gpt: {provider: openai, price: {input: 1, output: 10}, larger: gpt-long}
  gpt-long: {provider: openai, price: {input: 2, output: 20}}
  gem: {provider: google, price: {input: 1, output: 10}}
  gemini-2.5-pro: {provider: ca, pools: [gemini-cli, antigravity], price: {input: 1, output: 10}}
tiers: {standard: [gpt, gem]}
aliases: {smart: gpt}
connections:
  - {id: a-gpt-1, provider: openai, api_key: cred-1, owner: acme, group: own}
  - {id: a-gpt-2, provider: openai, api_key: cred-2, owner: acme, group: own}
  - {id: p-gpt-1, provider: openai, api_key: cred-3, max_concurrent: 1}
  - {id: p-gpt-2, provider: openai, api_key: cred-4, priority: 1, rpm: 2}
  - {id: p-gem, provider: google, api_key: cred-5}
  - {id: c-ca, provider: ca, api_key: cred-6}
limits: {capacity_wait: 300ms, key_wait: 0s}
accounts: [{id: acme, balance: 5}, {id: other}]
keys:
  - {id: ci, account: acme, secret: hg-ci-secret}
  - {id: twice, account: acme, secret: hg-twice-secret}
  - {id: twice, account: other, secret: hg-other-secret}
  - {id: lean, account: acme, secret: hg-lean-secret, rpm: 2, max_concurrent: 1, models: ["gpt"], spend_limit: {usd: 1, period: day}}
"#;

/// The replicas write what follows a request a moment later, and renew what is held: such a moment is looked at again.
const LOOKS_MAX: usize = 5;
const SOON: Duration = Duration::from_secs(30);

/// What `explain` answers; Redis is the same, byte for byte, before and after.
async fn look(cluster: &Cluster, key: &str, model: &str) -> Exit {
    let mut looks = 0;
    loop {
        let before = eventually_ok(SOON, async || {
            let content = cluster.redis.content().await;
            if cluster.redis.content().await == content { Ok(content) } else { Err("Redis does not come to rest") }
        });
        let before = before.await;
        let exit = explain(cluster, key, model, &["--json"]).await;
        if cluster.redis.content().await == before {
            return exit;
        }
        looks += 1;
        assert!(looks < LOOKS_MAX, "looking wrote, {LOOKS_MAX} times in a row");
    }
}

async fn explain(cluster: &Cluster, key: &str, model: &str, more: &[&str]) -> Exit {
    let file = cluster.config().to_str().unwrap();
    headgate(&[&["explain", "--config", file, "--key", key, "--model", model], more].concat()).await
}

/// The same as JSON.
async fn told(cluster: &Cluster, key: &str, model: &str) -> Value {
    let exit = look(cluster, key, model).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    serde_json::from_str(&exit.stdout).unwrap()
}

/// `connection state fate` of each rung.
fn rungs(told: &Value) -> Vec<String> {
    let word = |rung: &Value, name: &str| rung[name].as_str().unwrap().to_owned();
    let rungs = told["rungs"].as_array().unwrap();
    rungs.iter().map(|rung| ["connection", "state", "fate"].map(|name| word(rung, name)).join(" ")).collect()
}

/// The beginning of a conversation that is like no other: none is pinned.
fn fresh() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("question {}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The next request does what is told now: it takes the rung said to be taken, or is refused in the same words.
async fn keeps_its_word(cluster: &Cluster, model: &str) -> (Value, Response) {
    let told = told(cluster, "acme/ci", model).await;
    let answer = cluster.next().chat(SECRET, model, &fresh()).await;
    let ladder = &told["ladder"];
    if ladder["outcome"] == "refused" {
        let refusal = &ladder["refusal"];
        assert_eq!(Some(answer.status.into()), refusal["status"].as_u64());
        assert_eq!(answer.header("x-headgate-refusal"), refusal["word"].as_str().unwrap());
        let (told, got) = (refusal["retry_after_s"].as_u64().unwrap(), answer.header("retry-after"));
        let got: u64 = got.parse().unwrap();
        assert!(got <= told && told <= got + 20, "{told} and then {got}");
    } else {
        let taken = told["rungs"].as_array().unwrap().iter().find(|rung| rung["fate"] == ladder["outcome"]).unwrap();
        let expected = format!("{}/{}:", taken["connection"].as_str().unwrap(), taken["model"].as_str().unwrap());
        let trail = answer.header("x-headgate-attempts").to_owned();
        assert!(trail.starts_with(&expected), "{expected} but {trail}");
    }
    (told, answer)
}

#[tokio::test]
async fn what_is_told_of_each_rung_is_what_the_next_request_does() {
    let cluster = Cluster::on(LADDER).replicas(2).start().await;
    let (told, _) = keeps_its_word(&cluster, "smart").await;
    let untouched = ["a-gpt-1 open taken", "a-gpt-2 open later", "p-gpt-1 open later", "p-gpt-2 open later"];
    assert_eq!(rungs(&told)[..4], untouched);
    assert_eq!(told["rungs"][4]["model"], "gem");
    let larger: Vec<&Value> =
        told["rungs"].as_array().unwrap().iter().filter(|r| r["only_if_too_long"] == true).collect();
    assert_eq!((larger.len(), &larger[0]["model"]), (4, &Value::from("gpt-long")));
    // An own key's rate limit: its bucket is locked as long as it was told.
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).header("retry-after", "300")]);
    cluster.client(0).chat(SECRET, "gpt", &fresh()).await;
    let (told, _) = keeps_its_word(&cluster, "gpt").await;
    assert_eq!(rungs(&told)[..2], ["a-gpt-1 rate_limited skipped", "a-gpt-2 open taken"]);
    let locked = &told["rungs"][0];
    assert_eq!((&locked["closed"], &locked["bucket"]), (&Value::from("bucket"), &Value::from("gpt")));
    assert!((240_000..=300_000).contains(&locked["wait_ms"].as_u64().unwrap()), "{locked}");
    // The other one without money: its whole connection is locked, for the larger model too.
    cluster.fake.script([Rule::on("cred-2", "*").fails(402)]);
    cluster.client(1).chat(SECRET, "gpt", &fresh()).await;
    let (told, _) = keeps_its_word(&cluster, "gpt").await;
    assert_eq!(rungs(&told)[1..3], ["a-gpt-2 billing skipped", "p-gpt-1 open taken"]);
    assert_eq!(told["rungs"][1]["closed"], "connection");
    // A full platform connection: the next of its group.
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::on("cred-3", "*") }]);
    let mut held = cluster.client(0).chat_stream(SECRET, "gpt", &fresh()).await;
    held.read_content(1).await;
    let (told, _) = keeps_its_word(&cluster, "gpt").await;
    assert_eq!(rungs(&told)[2..4], ["p-gpt-1 full skipped", "p-gpt-2 open taken"]);
    assert_eq!((&told["rungs"][2]["live"], &told["rungs"][2]["max_concurrent"]), (&1.into(), &1.into()));
    keeps_its_word(&cluster, "gpt").await;
    // That one is over its rate now: the request would wait in line, which at most helps the full one.
    let waits = self::told(&cluster, "acme/ci", "gpt").await;
    assert_eq!(rungs(&waits)[2..4], ["p-gpt-1 full waited", "p-gpt-2 over_rate skipped"]);
    assert_eq!(waits["ladder"]["outcome"], "waits");
    let busy = cluster.client(0).chat(SECRET, "gpt", &fresh()).await;
    assert_eq!((busy.status, busy.header("x-headgate-refusal")), (429, "capacity"), "{}", busy.body);
    drop(held);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn peers_cooldowns_and_a_ladder_that_is_closed_are_told_as_they_are() {
    let yaml = LADDER.replace("accounts: [{id: acme, balance: 5}", "accounts: [{id: acme}");
    let cluster = Cluster::on(yaml).replicas(2).start().await;
    // All of the model's own rungs say no in their way: the peer stands in.
    cluster.fake.script([
        Rule::on("cred-1", "*").fails(402),
        Rule::on("cred-2", "*").fails(402),
        Rule::on("cred-3", "*").fails(401),
        Rule::on("cred-4", "*").fails(429).header("retry-after", "60"),
    ]);
    assert_eq!(cluster.client(0).chat(SECRET, "gpt", &fresh()).await.status, 200);
    let (told, _) = keeps_its_word(&cluster, "gpt").await;
    let expected = [
        "a-gpt-1 billing skipped",
        "a-gpt-2 billing skipped",
        "p-gpt-1 auth skipped",
        "p-gpt-2 rate_limited skipped",
        "p-gem open taken",
    ];
    assert_eq!(rungs(&told)[..5], expected);
    // The peer fails until it cools, and then nothing is left.
    cluster.fake.add(Rule::on("cred-5", "*").fails(500));
    // A cooldown may end while we look: then it fails again, and cools for longer.
    let told = eventually_ok(2 * SOON, async || {
        cluster.client(1).chat(SECRET, "gpt", &fresh()).await;
        let told = self::told(&cluster, "acme/ci", "gpt").await;
        let answer = cluster.client(0).chat(SECRET, "gpt", &fresh()).await;
        let closed = answer.status == 502 && answer.header("x-headgate-refusal") == "locked";
        let cools = rungs(&told)[4] == "p-gem cooling skipped";
        if closed && cools { Ok(told) } else { Err(format!("{} {told}", answer.body)) }
    });
    let told = told.await;
    let refusal = &told["ladder"]["refusal"];
    assert_eq!((refusal["word"].as_str(), refusal["status"].as_u64()), (Some("locked"), Some(502)), "{told}");
    assert!((1..=300).contains(&refusal["retry_after_s"].as_u64().unwrap()), "{told}");
    assert_eq!(told["rungs"][4]["closed"], "model");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn endpoints_and_pools_are_told_one_by_one_with_the_one_that_is_called() {
    let cluster = Cluster::on(LADDER).start().await;
    let model = "gemini-2.5-pro:antigravity";
    let (told, _) = keeps_its_word(&cluster, model).await;
    assert_eq!((rungs(&told), &told["rungs"][0]["endpoint"]), (vec!["c-ca open taken".into()], &"prod".into()));
    assert_eq!((&told["asked"], &told["pool"]), (&model.into(), &"antigravity".into()));
    let both = self::told(&cluster, "acme/ci", "gemini-2.5-pro").await;
    let pools: Vec<&Value> = both["rungs"].as_array().unwrap().iter().map(|rung| &rung["pool"]).collect();
    assert_eq!(pools, ["gemini-cli", "antigravity"]);
    cluster.fake.script([Rule::any().at("/prod").fails(404)]);
    cluster.client(0).chat(SECRET, model, &fresh()).await;
    let (told, _) = keeps_its_word(&cluster, model).await;
    assert_eq!((rungs(&told), &told["rungs"][0]["endpoint"]), (vec!["c-ca open taken".into()], &"daily".into()));
    let endpoints = told["rungs"][0]["endpoints"].as_array().unwrap();
    assert_eq!((&endpoints[0]["endpoint"], &endpoints[0]["state"]), (&"prod".into(), &"cooling".into()));
    assert_eq!((&endpoints[1]["endpoint"], &endpoints[1]["state"]), (&"daily".into(), &"open".into()));
    // With both at rest the first is tried once, as nothing else is left.
    cluster.fake.script([Rule::any().at("/prod").fails(404), Rule::any().at("/daily").fails(404)]);
    cluster.client(0).chat(SECRET, model, &fresh()).await;
    let before = cluster.fake.calls_at("/prod").len();
    let (told, _) = keeps_its_word(&cluster, model).await;
    assert_eq!(rungs(&told), ["c-ca endpoints last_resort"]);
    assert_eq!(cluster.fake.calls_at("/prod").len(), before + 1);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn the_limits_of_a_key_are_told_with_what_is_used_and_so_is_their_refusal() {
    let cluster = Cluster::on(LADDER).replicas(2).start().await;
    let secret = "hg-lean-secret";
    let limit = |told: &Value, what: &str| {
        let all = told["limits"].as_array().unwrap().clone();
        let one = all.into_iter().find(|limit| limit["what"] == what).unwrap();
        (one["used"].as_i64(), one["limit"].as_i64(), one)
    };
    assert_eq!(cluster.client(0).chat(secret, "gpt", &fresh()).await.status, 200);
    cluster.assert_clean().await;
    let told_now = told(&cluster, "lean", "gpt").await;
    assert_eq!(told_now["admission"]["outcome"], "admitted");
    let (used, most, rpm) = limit(&told_now, "rpm");
    assert_eq!((used, most), (Some(1), Some(2)));
    assert!((1..=60_000).contains(&rpm["resets_in_ms"].as_u64().unwrap()), "{rpm}");
    assert_eq!(limit(&told_now, "concurrency").0, Some(0));
    let (_, most, spend) = limit(&told_now, "spend_limit");
    assert_eq!((most, &spend["period"]), (Some(1_000_000_000), &Value::from("day")));
    assert!(spend["resets_at_ms"].as_i64().unwrap() > cluster.redis.now_ms().await, "{spend}");
    assert_eq!(limit(&told_now, "balance").1, Some(cluster.redis.balance("acme").await));
    assert_eq!(cluster.client(1).chat(secret, "gpt", &fresh()).await.status, 200);
    cluster.assert_clean().await;
    let told_now = told(&cluster, "acme/lean", "gpt").await;
    let refusal = &told_now["admission"]["refusal"];
    let answer = cluster.client(0).chat(secret, "gpt", &fresh()).await;
    assert_eq!((refusal["word"].as_str(), refusal["status"].as_u64()), (Some("rpm"), Some(429)), "{told_now}");
    assert_eq!((answer.header("x-headgate-refusal"), answer.status), ("rpm", 429));
    let told_now = told(&cluster, "lean", "gem").await;
    assert_eq!(told_now["admission"]["refusal"]["word"], "model");
    assert_eq!(cluster.client(0).chat(secret, "gem", &fresh()).await.header("x-headgate-refusal"), "model");
}

#[tokio::test]
async fn people_get_a_table_and_what_cannot_be_explained_is_said_clearly() {
    let cluster = Cluster::on(LADDER).start().await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).header("retry-after", "300")]);
    cluster.client(0).chat(SECRET, "gpt", &fresh()).await;
    let exit = explain(&cluster, "ci", "smart", &[]).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    for part in ["model smart, which is gpt", "locked (rate_limited): bucket gpt", "only if too long", "balance"] {
        assert!(exit.stdout.contains(part), "{part} in\n{}", exit.stdout);
    }
    assert!(exit.stdout.contains("A request now takes the rung marked taken."), "{}", exit.stdout);
    for (key, model, message) in [
        ("nobody", "gpt", "no client key is named nobody"),
        ("acme/nobody", "gpt", "no client key is named acme/nobody"),
        ("twice", "gpt", "several accounts have a client key twice: name it as ACCOUNT/twice, with one of acme, other"),
        ("ci", "gtp", "no model, alias or name with a pool's marker is 'gtp'"),
    ] {
        let exit = look(&cluster, key, model).await;
        assert_eq!(exit.code, Some(2), "{key} {model}: {}", exit.stderr);
        assert!(exit.stderr.contains(message), "{}", exit.stderr);
    }
}

#[tokio::test]
async fn without_redis_the_exit_code_is_3() {
    let mut cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.redis.stop().await;
    let exit = explain(&cluster, "acme/ci", "m1", &[]).await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(3), ""), "{}", exit.stderr);
}
