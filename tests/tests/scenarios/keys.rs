//! Keys and accounts at run time: what one replica or the command line writes counts on all of them.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Exit, SECRET, eventually, headgate};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

/// A configuration file for the command line: that of the replicas, but for the places of Redis and the fake upstream.
struct Desk {
    _dir: tempfile::TempDir,
    path: String,
}

impl Desk {
    fn new(cluster: &Cluster, config: &Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headgate.yaml");
        let text = config.yaml().replace("{REDIS}", cluster.redis.url()).replace("{FAKE}", &cluster.fake.url());
        std::fs::write(&path, text).unwrap();
        Self { path: path.to_str().unwrap().to_owned(), _dir: dir }
    }

    async fn run(&self, words: &str) -> Exit {
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--config", &self.path]);
        headgate(&words).await
    }

    async fn json(&self, words: &str) -> Value {
        let exit = self.run(&format!("{words} --json")).await;
        assert_eq!(exit.code, Some(0), "{words}: {}", exit.stderr);
        serde_json::from_str(&exit.stdout).unwrap()
    }
}

#[tokio::test]
async fn a_key_revoked_by_the_command_line_is_refused_at_once_on_replicas_that_remember_it() {
    let config = Config::connections(1);
    let cluster = Cluster::of_three(&config).await;
    let desk = Desk::new(&cluster, &config);
    let made = desk.json("key create bot --account acme").await;
    let secret = made["secret"].as_str().unwrap();
    for place in [0, 1, 2, 0, 1, 2] {
        assert_eq!(cluster.client(place).chat(secret, "m1", "hi").await.status, 200, "also from memory");
    }
    cluster.fake.script([Rule::any().says("abcd", 4).delays_between(Duration::from_millis(300))]);
    let mut running = cluster.client(0).chat_stream(secret, "m1", "hi").await;
    running.read_content(1).await;
    let calls = cluster.fake.calls().len();
    assert_eq!(desk.json("key revoke bot --account acme").await["status"], "revoked");
    // No message tells the replicas; that admit reads the record itself is all there is.
    for place in 0..3 {
        let refused = cluster.client(place).chat(secret, "m1", "hi").await;
        assert_eq!((refused.status, refused.error_code().as_str()), (401, "invalid_api_key"), "replica {place}");
        let listed = cluster.client(place).send(http::Method::GET, "/v1/models", &bearer(secret), "").await.unwrap();
        assert_eq!(listed.status, 401);
    }
    assert_eq!(cluster.fake.calls().len(), calls, "nothing of it went upstream");
    let (events, end) = running.rest().await;
    assert!(end.is_ok() && events.last().unwrap().is_done(), "what runs, runs on");
    cluster.assert_clean().await;
}

fn bearer(secret: &str) -> [(&'static str, &'static str); 1] {
    [("authorization", Box::leak(format!("Bearer {secret}").into_boxed_str()))]
}

#[tokio::test]
async fn a_limit_changed_by_the_command_line_counts_with_the_next_request_everywhere() {
    let config = Config::connections(1).more("limits: {key_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    let desk = Desk::new(&cluster, &config);
    let made = desk.json("key create bot --account acme --models m1").await;
    let secret = made["secret"].as_str().unwrap();
    for place in 0..3 {
        assert_eq!(cluster.client(place).chat(secret, "m1", "hi").await.status, 200);
        assert_eq!(cluster.client(place).chat(secret, "m2", "hi").await.status, 403);
    }
    // The window counts what was admitted under the limit, from then on.
    desk.json("key update bot --account acme --rpm 2 --models m1,m2").await;
    let mut statuses = Vec::new();
    for place in [0, 1, 2] {
        statuses.push(cluster.client(place).chat(secret, "m2", "hi").await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    desk.json("key update bot --account acme --rpm none").await;
    assert_eq!(cluster.client(2).chat(secret, "m2", "hi").await.status, 200);
    assert_eq!(cluster.client(2).chat(SECRET, "m2", "hi").await.status, 200, "the key of the file is untouched");
}

#[tokio::test]
async fn tokens_per_minute_and_quotas_given_at_run_time_hold_everywhere_and_are_told_to_the_holder() {
    let config = Config::connections(1).more("limits: {key_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    let desk = Desk::new(&cluster, &config);
    cluster.fake.script([Rule::any().tokens(100, 50)]);
    let limits = "--quota requests=2/total,tokens=100000/24h,usd=9/month --tpm 100000 --priority 2";
    let made = desk.json(&format!("key create bot --account acme {limits}")).await;
    let secret = made["secret"].as_str().unwrap();
    let usage = async |place: usize| {
        let seen = cluster.client(place).send(http::Method::GET, "/v1/headgate/usage", &bearer(secret), "").await;
        seen.unwrap().json()
    };
    for place in 0..2 {
        assert_eq!(cluster.client(place).chat(secret, "m1", "hi").await.status, 200);
    }
    let settled = async || usage(2).await["quotas"][1]["used"] == 300;
    eventually(SOON, "both are settled", settled).await;
    for place in 0..3 {
        let refused = cluster.client(place).chat(secret, "m1", "hi").await;
        assert_eq!((refused.status, refused.error_code().as_str()), (403, "quota_exceeded"), "replica {place}");
        let mut seen = usage(place).await;
        assert_eq!(seen["tpm"], json!({"limit": 100_000, "used": 300, "held": 0}));
        let requests = json!({
            "of": "requests", "period": "total", "time_zone": "UTC", "limit": 2, "used": 2, "held": 0, "resets_at": null,
        });
        assert_eq!(seen["quotas"][0], requests);
        let resets = seen["quotas"][1]["resets_at"].take();
        assert!(resets.as_str().is_some_and(|at| at.ends_with('Z')), "{resets}");
        let tokens =
            json!({"of": "tokens", "window": "24h", "limit": 100_000, "used": 300, "held": 0, "resets_at": null});
        assert_eq!(seen["quotas"][1], tokens);
        let cost = seen["quotas"][2].as_object_mut().unwrap();
        assert!(cost.remove("resets_at").unwrap().as_str().unwrap().ends_with("-01T00:00:00Z"));
        let expected = json!({
            "of": "cost", "period": "month", "time_zone": "UTC", "limit_usd": "9.00", "used_usd": "0.0012", "held_usd": "0.00",
        });
        assert_eq!(seen["quotas"][2], expected);
    }
    desk.json("key update bot --account acme --quota requests=3/total").await;
    assert_eq!(cluster.client(0).chat(secret, "m1", "hi").await.status, 200, "what was counted stays");
    assert_eq!(cluster.client(1).chat(secret, "m1", "hi").await.status, 403);
    desk.json("key update bot --account acme --quota none").await;
    assert_eq!(cluster.client(2).chat(secret, "m1", "hi").await.status, 200);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_account_made_at_run_time_pays_until_its_money_is_gone_and_goes_on_when_it_is_credited() {
    let config = Config::connections(1);
    let cluster = Cluster::of_three(&config).await;
    let desk = Desk::new(&cluster, &config);
    cluster.fake.script([Rule::any().tokens(100, 50)]);
    desk.json("account create shop --balance 0.0006").await;
    let made = desk.json("key create bot --account shop --spend-limit 1/month --rpm 60 --max-concurrent 4").await;
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(cluster.client(0).chat(secret, "m1", "hi").await.status, 200);
    let broke = async || cluster.redis.balance("shop").await == 0;
    eventually(SOON, "it is settled", broke).await;
    assert_eq!(cluster.client(1).chat(secret, "m1", "hi").await.status, 402);
    for _ in 0..2 {
        desk.json("account credit shop 0.001 --receipt inv-1").await;
    }
    assert_eq!(cluster.redis.balance("shop").await, 1_000_000);
    assert_eq!(cluster.client(2).chat(secret, "m1", "hi").await.status, 200);
    eventually(SOON, "it is settled", async || cluster.redis.balance("shop").await == 400_000).await;
    let ledger = desk.run("ledger --account shop --json").await.stdout;
    assert_eq!(ledger.lines().count(), 2, "{ledger}");
    let daily = desk.run("ledger --account shop --daily --json").await.stdout;
    let daily: Vec<Value> = daily.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Two days, should this run at midnight.
    assert_eq!(daily.iter().map(|day| day["cost"].as_i64().unwrap()).sum::<i64>(), 1_200_000, "{daily:?}");
    for place in 0..3 {
        let seen =
            cluster.client(place).send(http::Method::GET, "/v1/headgate/usage", &bearer(secret), "").await.unwrap();
        let mut seen = seen.json();
        assert!(seen["at"].as_str().is_some_and(|at| at.ends_with('Z')));
        let limit = seen["spend_limit"].as_object_mut().unwrap();
        assert!(limit.remove("resets_at").unwrap().as_str().unwrap().ends_with("-01T00:00:00Z"));
        assert_eq!(seen["balance"], json!({"usd": "0.0004", "held_usd": "0.00", "overdraft": "soft"}));
        let expected = json!({"limit_usd": "1.00", "used_usd": "0.0012", "left_usd": "0.9988", "held_usd": "0.00", "period": "month", "time_zone": "UTC"});
        assert_eq!(seen["spend_limit"], expected);
        assert_eq!(seen["rpm"], json!({"limit": 60, "used": 2}));
        assert_eq!(seen["concurrency"], json!({"limit": 4, "used": 0, "waiting": 0}));
        assert_eq!((&seen["tpm"], &seen["quotas"]), (&Value::Null, &json!([])));
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_key_holder_is_told_its_usage_also_when_all_is_used_up_and_nobody_else_is() {
    let config = Config::connections(1).account("balance: 0").ci("rpm: 1");
    let cluster = Cluster::of_three(&config).await;
    for _ in 0..5 {
        let seen = cluster.next().send(http::Method::GET, "/v1/headgate/usage", &bearer(SECRET), "").await.unwrap();
        assert_eq!(seen.status, 200, "asking takes nothing");
        assert_eq!(seen.json()["balance"]["usd"], "0.00");
        assert_eq!(seen.json()["rpm"], json!({"limit": 1, "used": 0}));
    }
    for headers in [bearer("hg-wrong").to_vec(), Vec::new()] {
        let refused = cluster.next().send(http::Method::GET, "/v1/headgate/usage", &headers, "").await.unwrap();
        assert_eq!((refused.status, refused.header("x-headgate-refusal")), (401, "key"));
    }
    let posted = cluster.next().send(http::Method::POST, "/v1/headgate/usage", &bearer(SECRET), "{}").await.unwrap();
    assert_eq!((posted.status, posted.header("allow")), (405, "GET"));
    assert!(cluster.redis.ledger("acme").await.is_empty());
}
