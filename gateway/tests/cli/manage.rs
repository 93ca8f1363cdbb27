//! `headgate account`, `headgate key` and `headgate ledger`, straight against a Redis.

use serde_json::{Value, json};
use shared::ids::{AccountId, KeyId, ReplicaId, SecretHash};
use shared::limit::Weighed;
use shared::money::{NanoDollars, Tokens};
use shared::state::Store;
use shared::state::link::Link;
use shared::state::managed::{AppendOnly, ManagedOptions, ManagedRedis};
use shared::state::records::{AccountRecord, KeyRecord, KeyRights, Money, Overdraft};
use shared::state::settlement::{Basis, Outcome as Ended, Settlement, Upstream};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{Outcome, command, file, free_address, run};

/// A Redis, a configuration that names it, and a store that stands for the replicas.
struct Desk {
    _redis: ManagedRedis,
    _data: TempDir,
    _dir: TempDir,
    config: String,
    store: Store,
    account: AccountId,
}

impl Desk {
    /// With account `acme` and key `ci` of the file; $25.
    async fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let options = ManagedOptions { appendonly: AppendOnly::Off, ..ManagedOptions::new(data.path()) };
        let redis = ManagedRedis::start(options).await.unwrap();
        let (dir, config) = file(&config_text(&redis.url()));
        let link = Link::open(&redis.url(), Duration::from_secs(5), 1).unwrap();
        let store = Store::new(link, "hg", ReplicaId::fresh());
        let account: AccountId = "acme".parse().unwrap();
        let secret = SecretHash::of("hg-file");
        let ci = KeyRecord { id: "ci".parse().unwrap(), secret, rights: KeyRights::default() };
        let money = Money::Limited { opening: dollars("25") };
        let acme =
            AccountRecord { id: account.clone(), money, overdraft: Overdraft::Soft, residency: None, keys: vec![ci] };
        store.declare(&[acme]).await.unwrap();
        Self { _redis: redis, _data: data, _dir: dir, config, store, account }
    }

    async fn run(&self, words: &str) -> Outcome {
        let mut args: Vec<&str> = words.split(' ').collect();
        args.extend(["--config", &self.config]);
        run(command(&args)).await
    }

    /// What a command answers as JSON, in lines.
    async fn json(&self, words: &str) -> Vec<Value> {
        let outcome = self.run(&format!("{words} --json")).await;
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{words}: {outcome:?}");
        outcome.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The command fails with this code and says all of these.
    async fn refused(&self, words: &str, code: i32, says: &[&str]) {
        let outcome = self.run(words).await;
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(code), ""), "{words}: {outcome:?}");
        assert!(says.iter().all(|text| outcome.err.contains(text)), "{words}: {says:?} in {}", outcome.err);
    }

    async fn settle(&self, name: &str, key: &str, nanos: i64) {
        let settlement = Settlement {
            account: self.account.clone(),
            key: KeyId::parse(key).unwrap(),
            request: name.parse().unwrap(),
            admitted_ms: jiff::Timestamp::now().as_millisecond(),
            span: None,
            quotas: Vec::new(),
            weighed: Weighed::default(),
            upstream: Upstream::Reached,
            tokens: Tokens { input: 10, cached_input: 5, output: 2, ..Tokens::default() },
            cost: NanoDollars::new(nanos).unwrap(),
            basis: Basis::Exact,
            outcome: Ended::Ok,
            model: "m".parse().unwrap(),
            served_model: Some("m".parse().unwrap()),
            connection: Some("c".parse().unwrap()),
        };
        self.store.settle(&settlement).await.unwrap();
    }
}

fn dollars(text: &str) -> NanoDollars {
    text.parse().unwrap()
}

fn config_text(redis: &str) -> String {
    format!(
        "redis: {{url: \"{redis}\", timeout: 2s}}\nproviders: {{o: {{dialect: openai, base_url: http://127.0.0.1:1}}}}\n\
         connections: [{{id: a, provider: o, api_key: k, models: [m]}}]\n"
    )
}

#[tokio::test]
async fn a_key_is_made_with_its_secret_shown_once_and_reads_back_as_it_was_written() {
    let desk = Desk::new().await;
    let terms = "--rpm 60 --tpm 1000 --max-concurrent 4 --spend-limit 10.000000001/month@Europe/Berlin --models gpt-*,m \
                 --byok own-1,own-2 --platform-fallback false";
    let made = desk.json(&format!("key create bot --account acme {terms}")).await.remove(0);
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("hg-") && secret.len() == 46, "{secret}");
    let caller = desk.store.look_up(SecretHash::of(&secret)).await.unwrap().unwrap();
    assert_eq!((caller.key.as_str(), caller.rights.rpm), ("bot", Some(60)), "it works");
    let mut shown = desk.json("key show bot --account acme").await.remove(0);
    assert_eq!(shown.as_object_mut().unwrap().remove("usage").unwrap()["rpm"], json!({"limit": 60, "used": 0}));
    let created = shown.as_object_mut().unwrap().remove("created_at").unwrap();
    assert!(created.as_str().unwrap().ends_with('Z'), "{created}");
    let expected = json!({
        "account": "acme", "key": "bot", "status": "active", "source": "runtime", "rpm": 60, "tpm": 1000,
        "max_concurrent": 4,
        "spend_limit": {"usd": "10.000000001", "period": "month", "time_zone": "Europe/Berlin"},
        "models": ["gpt-*", "m"], "byok": ["own-1", "own-2"], "platform_fallback": false, "peers": true,
    });
    assert_eq!(shown, expected);
    let list = desk.run("key list --account acme").await.out;
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["key", "bot", "ci"], "{list}");
    for words in ["key list --account acme", "key show bot --account acme", "account show acme"] {
        for words in [words.to_owned(), format!("{words} --json")] {
            let outcome = desk.run(&words).await;
            let hash = SecretHash::of(&secret).to_hex();
            assert!(!outcome.out.contains(&secret[3..]) && !outcome.out.contains(&hash), "{words}: {}", outcome.out);
        }
    }
    let table = desk.run("key create other --account acme").await.out;
    assert!(table.contains("shown this once:\nhg-"), "{table}");
}

#[tokio::test]
async fn a_limit_that_cannot_be_is_refused_by_its_name_and_nothing_is_made() {
    let desk = Desk::new().await;
    for (terms, field) in [
        ("--rpm 0", "rpm: "),
        ("--rpm 1.5", "rpm: "),
        ("--tpm -5", "tpm: "),
        ("--max-concurrent many", "max_concurrent: "),
        ("--spend-limit NaN", "spend_limit.usd: "),
        ("--spend-limit -1", "spend_limit.usd: "),
        ("--spend-limit 1/fortnight", "spend_limit.period: "),
        ("--spend-limit 1/day@Nowhere", "spend_limit.time_zone: "),
        ("--models a{b", "models[0]: "),
        ("--peers maybe", "peers: "),
        ("--budgets 1", "--budgets"),
    ] {
        desk.refused(&format!("key create bot --account acme {terms}"), 2, &[field]).await;
    }
    assert_eq!(desk.json("key list --account acme").await[0].as_array().unwrap().len(), 1);
    desk.refused("account create other --balance -1", 2, &["balance: "]).await;
    desk.refused("account create other --overdraft hard", 2, &["overdraft: "]).await;
    desk.refused("account show other", 1, &["no account is named other"]).await;
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_a_revoked_key_is_gone_for_ever() {
    let desk = Desk::new().await;
    let made = desk.json("key create bot --account acme --rpm 60 --spend-limit 10").await.remove(0);
    let secret = SecretHash::of(made["secret"].as_str().unwrap());
    let changed = desk.json("key update bot --account acme --rpm none --max-concurrent 2").await.remove(0);
    assert_eq!((&changed["rpm"], &changed["max_concurrent"]), (&Value::Null, &json!(2)));
    assert_eq!(changed["spend_limit"], json!({"usd": "10.00", "period": "total", "time_zone": "UTC"}));
    assert_eq!(desk.store.look_up(secret).await.unwrap().unwrap().rights.max_concurrent, Some(2));
    let quotas = "--quota requests=9/day@Europe/Berlin,tokens=500/90m,usd=1.5/total --priority 0";
    let changed = desk.json(&format!("key update bot --account acme {quotas}")).await.remove(0);
    let written = json!([
        {"requests": 9, "period": "day", "time_zone": "Europe/Berlin"}, {"tokens": 500, "window": "1h30m"},
        {"usd": "1.50", "period": "total", "time_zone": "UTC"},
    ]);
    assert_eq!(
        (&changed["quotas"], &changed["priority"], &changed["max_concurrent"]),
        (&written, &json!(0), &json!(2))
    );
    let changed = desk.json("key update bot --account acme --tpm 1000").await.remove(0);
    assert_eq!(changed["quotas"], written, "what is not named stays");
    let shown = desk.json("key show bot --account acme").await.remove(0);
    let unused = json!({"limit": 500, "used": 0, "held": 0, "of": "tokens", "window": "1h30m", "resets_at": null});
    assert_eq!(shown["usage"]["quotas"][1], unused);
    assert_eq!(shown["usage"]["tpm"], json!({"limit": 1000, "used": 0, "held": 0}));
    let shown = desk.run("key show bot --account acme").await.out;
    assert!(shown.contains("tokens in 1h30m") && shown.contains("9 requests per day, 500 tokens in 1h30m"), "{shown}");
    for (quota, field) in [
        ("requests=0/day", "quotas[0].requests: "),
        ("tokens=5/fortnight", "quotas[0].period: "),
        ("minutes=5/day", "quotas[0].minutes: "),
        ("usd=-1/day", "quotas[0].usd: "),
        ("usd=1/1h@UTC", "quotas[0].time_zone: "),
        ("requests=5", "quotas[0]: "),
        ("requests=5/1h,requests=6/60m", "quotas: "),
    ] {
        desk.refused(&format!("key update bot --account acme --quota {quota}"), 2, &[field]).await;
    }
    desk.refused("key update bot --account acme --priority 10", 2, &["priority: "]).await;
    let changed = desk.json("key update bot --account acme --quota none --tpm none --priority none").await.remove(0);
    assert_eq!((&changed["quotas"], &changed["tpm"], &changed["priority"]), (&Value::Null, &Value::Null, &Value::Null));
    desk.refused("key update bot --account acme --rpm 0", 2, &["rpm: "]).await;
    desk.refused("key create bot --account acme", 1, &["bot"]).await;
    assert_eq!(desk.json("key revoke bot --account acme").await[0]["status"], "revoked");
    assert_eq!(desk.store.look_up(secret).await.unwrap(), None);
    assert_eq!(desk.json("key revoke bot --account acme").await[0]["status"], "revoked", "again is no error");
    desk.refused("key update bot --account acme --rpm 1", 1, &["revoked"]).await;
    desk.refused("key create bot --account acme", 1, &["bot"]).await;
    desk.refused("key revoke none --account acme", 1, &["no key none"]).await;
    desk.refused("key list --account nobody", 1, &["no account is named nobody"]).await;
}

#[tokio::test]
async fn what_comes_from_the_file_is_changed_there() {
    let desk = Desk::new().await;
    for words in ["key update ci --account acme --rpm 1", "key revoke ci --account acme", "account create acme"] {
        desk.refused(words, 1, &["comes from the configuration file", &desk.config]).await;
    }
    assert!(desk.store.look_up(SecretHash::of("hg-file")).await.unwrap().is_some());
}

#[tokio::test]
async fn money_is_credited_once_per_receipt() {
    let desk = Desk::new().await;
    let opened = desk.json("account create shop --balance 5.5 --overdraft none --residency eu").await.remove(0);
    let expected = json!({"account": "shop", "source": "runtime", "balance_usd": "5.50", "balance_nanodollars": 5_500_000_000_u64,
        "held_usd": "0.00", "overdraft": "none", "residency": "eu", "keys": []});
    assert_eq!(opened, expected);
    desk.refused("account create shop", 1, &["there is an account shop already"]).await;
    for now in [true, false] {
        let credited = desk.json("account credit shop 0.000000001 --receipt inv-1").await.remove(0);
        assert_eq!((&credited["credited_now"], &credited["balance_usd"]), (&json!(now), &json!("5.500000001")));
    }
    desk.refused("account credit shop 2 --receipt inv-1", 1, &["inv-1", "$0.000000001"]).await;
    let taken = desk.json("account credit shop -1 --receipt refund-1").await.remove(0);
    assert_eq!(taken["balance_usd"], "4.500000001");
    desk.refused("account credit shop 9007199 --receipt big", 1, &["nothing was credited"]).await;
    desk.refused("account credit shop 1e3 --receipt odd", 2, &["1e3"]).await;
    desk.refused("account credit nobody 1 --receipt r", 1, &["no account is named nobody"]).await;
    desk.json("account create free").await;
    desk.refused("account credit free 1 --receipt r", 1, &["no money limit"]).await;
    let shown = desk.run("account show shop").await.out;
    assert!(shown.contains("$4.500000001") && shown.contains("eu"), "{shown}");
}

#[tokio::test]
async fn the_ledger_is_shown_by_row_and_by_day_for_an_account_or_one_of_its_keys() {
    let desk = Desk::new().await;
    for (name, key, nanos) in [("q1", "ci", 7), ("q2", "bot", 5), ("q3", "ci", 11)] {
        desk.settle(name, key, nanos).await;
    }
    let ids = |rows: Vec<Value>| rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(desk.json("ledger --account acme").await), ["q1", "q2", "q3"]);
    assert_eq!(ids(desk.json("ledger --account acme --key ci --since 1h").await), ["q1", "q3"]);
    assert_eq!(ids(desk.json("ledger --account acme --since 2100-01-01").await), [""; 0]);
    let row = desk.json("ledger --account acme --key bot").await.remove(0);
    assert_eq!((&row["cost"], &row["input"], &row["key"]), (&json!(5), &json!(10), &json!("bot")));
    let table = desk.run("ledger --account acme").await.out;
    assert!(table.starts_with("settled (UTC)") && table.contains("$0.000000011"), "{table}");
    let days = desk.json("ledger --account acme --daily --key ci").await;
    assert_eq!(days.len(), 1, "{days:?}");
    let sums = ["key", "model", "requests", "input", "output", "cost"].map(|name| days[0][name].clone());
    assert_eq!(sums, [json!("ci"), json!("m"), json!(2), json!(30), json!(4), json!(18)]);
    desk.refused("ledger --account nobody", 1, &["no account is named nobody"]).await;
    desk.refused("ledger --account acme --since yesterday", 2, &["--since"]).await;
}

#[tokio::test]
async fn a_followed_ledger_goes_on_with_every_row_as_it_is_settled() {
    let desk = Desk::new().await;
    desk.settle("q1", "ci", 7).await;
    let mut follow = command(&["ledger", "--account", "acme", "--follow", "--json", "--config", &desk.config]);
    let mut child = follow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
        let line = line.expect("no row came").unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(next().await, "q1");
    for name in ["q2", "q3"] {
        desk.settle(name, "ci", 5).await;
        assert_eq!(next().await, name);
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn without_redis_or_a_good_configuration_nothing_is_done_and_the_exit_code_says_so() {
    let nobody = free_address();
    let (_dir, config) = file(&config_text(&format!("redis://{nobody}/0")));
    for words in [
        vec!["account", "show", "acme"],
        vec!["key", "create", "k", "--account", "acme"],
        vec!["ledger", "--account", "acme"],
    ] {
        let outcome = run(command(&[words.as_slice(), &["--config", &config]].concat())).await;
        assert_eq!(outcome.code, Some(3), "{words:?}: {outcome:?}");
        assert!(outcome.err.contains(&nobody.to_string()), "{}", outcome.err);
        let outcome = run(command(&[words.as_slice(), &["--config", "no/such.yaml"]].concat())).await;
        assert_eq!(outcome.code, Some(2), "{words:?}: {outcome:?}");
    }
}
