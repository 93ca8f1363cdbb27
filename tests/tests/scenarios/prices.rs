//! Prices and usage: whatever the upstream reports, and whoever it is, the same tokens cost the same.

use std::fmt::Write as _;
use std::time::Duration;

use cluster::fake::{Rule, TokenCounts, UsageMode};
use cluster::harness::{ADMIN_TOKEN, Cluster, Config, LedgerRow, SECRET, eventually};

const SOON: Duration = Duration::from_secs(5);

/// The rows of the account once there are so many, oldest first.
async fn rows(cluster: &Cluster, count: usize) -> Vec<LedgerRow> {
    eventually(SOON, "all are settled", async || cluster.redis.ledger("acme").await.len() >= count).await;
    let rows = cluster.redis.ledger("acme").await;
    assert_eq!(rows.len(), count, "{rows:?}");
    rows
}

fn costs(rows: &[LedgerRow]) -> Vec<&str> {
    rows.iter().map(|row| row["cost"].as_str()).collect()
}

#[tokio::test]
async fn an_alias_costs_what_its_model_does_and_what_nobody_prices_is_refused_where_money_counts() {
    let config = Config::connections(1).account("balance: 1.00").more("aliases: {auto: m1}");
    let models = "  gpt-4o: {provider: fake}\n  nobody-knows-it: {provider: fake}\nconnections:\n";
    let cluster = Cluster::on(config.yaml().replace("connections:\n", models)).replicas(3).start().await;
    cluster.fake.script([Rule::any().tokens(100, 50)]);
    for model in ["auto", "m1", "gpt-4o"] {
        assert_eq!(cluster.next().chat(SECRET, model, "hi").await.status, 200, "{model}");
    }
    // $1 and $10 by the file; $2.50 and $10 by the bundled list.
    let rows = rows(&cluster, 3).await;
    let mut costs = costs(&rows);
    costs.sort_unstable();
    assert_eq!(costs, ["600000", "600000", "750000"]);
    for _ in 0..3 {
        let refused = cluster.next().chat(SECRET, "nobody-knows-it", "hi").await;
        assert_eq!((refused.status, refused.header("x-headgate-refusal")), (403, "price"), "{}", refused.body);
    }
    assert_eq!(cluster.fake.calls().len(), 3, "nothing went upstream");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn usage_that_is_missing_or_nonsense_is_estimated_alike_whole_and_streamed_and_marked() {
    let cluster = Cluster::builder(&Config::connections(1).account("balance: 1.00")).start().await;
    let modes = [UsageMode::None, UsageMode::Null, UsageMode::String, UsageMode::Negative];
    for usage in modes {
        cluster.fake.script([Rule { usage, ..Rule::any().says("some words said", 3).times(2) }]);
        assert_eq!(cluster.client(0).chat(SECRET, "m1", "hello there").await.status, 200);
        cluster.client(0).chat_stream(SECRET, "m1", "hello there").await.rest().await.1.unwrap();
    }
    let rows = rows(&cluster, 2 * modes.len()).await;
    for row in &rows {
        assert_eq!((row["basis"].as_str(), row["outcome"].as_str()), ("estimated", "ok"));
        // 15 characters are 4 tokens of output.
        assert_eq!((row["output"].as_str(), row["cost"].as_str()), ("4", costs(&rows)[0]), "{rows:?}");
    }
    assert!(costs(&rows)[0].parse::<u64>().unwrap() > 4 * 10_000, "the input is not free: {rows:?}");
    let token = format!("Bearer {ADMIN_TOKEN}");
    let admin = cluster.replica(0).admin();
    let metrics = admin.send(http::Method::GET, "/metrics", &[("authorization", &token)], "").await.unwrap().body;
    assert!(metrics.contains("headgate_estimated_total{model=\"m1\"} 8\n"), "{metrics}");
}

#[tokio::test]
async fn equal_usage_costs_the_same_to_the_nano_dollar_whatever_the_upstream_whole_or_streamed() {
    let upstreams =
        [("o", "dialect: openai, base_url: \"{FAKE}/v1\""), ("a", "dialect: anthropic, base_url: \"{FAKE}\"")];
    let upstreams = upstreams.into_iter().chain([("g", "dialect: gemini, base_url: \"{FAKE}\"")]);
    let (mut providers, mut models, mut connections) = (String::new(), String::new(), String::new());
    for (name, provider) in upstreams {
        let _ = writeln!(providers, "  {name}: {{{provider}}}");
        let _ =
            writeln!(models, "  {name}1: {{provider: {name}, price: {{input: 1, cached_input: 0.10, output: 10}}}}");
        let _ = writeln!(connections, "  - {{id: {name}, provider: {name}, api_key: k}}");
    }
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {{url: \"{{REDIS}}\", timeout: 1s}}\n\
         providers:\n{providers}models:\n{models}connections:\n{connections}accounts: [{{id: acme, balance: 1}}]\n\
         keys: [{{id: ci, account: acme, secret: {SECRET}}}]\n"
    );
    let cluster = Cluster::on(yaml).start().await;
    let tokens = TokenCounts {
        prompt: Some(2_459),
        cached: Some(2_455),
        completion: Some(550),
        reasoning: Some(50),
        ..TokenCounts::default()
    };
    cluster.fake.script([Rule { tokens, ..Rule::any() }]);
    for model in ["o1", "a1", "g1"] {
        assert_eq!(cluster.client(0).chat(SECRET, model, "hi").await.status, 200, "{model}");
        cluster.client(0).chat_stream(SECRET, model, "hi").await.rest().await.1.unwrap();
    }
    let rows = rows(&cluster, 6).await;
    let expected = 4 * 1_000 + 2_455 * 100 + 550 * 10_000;
    assert!(rows.iter().all(|row| row["cost"] == expected.to_string() && row["basis"] == "exact"), "{rows:?}");
}
