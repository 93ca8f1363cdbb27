//! Money: settled once, to the nano-dollar.
//!
//! `m1` costs 1,000 nano-dollars per input token, 100 per cached one and 10,000 per output token.

use std::time::Duration;

use cluster::fake::{Rule, TokenCounts};
use cluster::harness::{ADMIN_TOKEN, Cluster, Config, LedgerRow, SECRET, eventually};

const SOON: Duration = Duration::from_secs(5);
const DOLLAR: i64 = 1_000_000_000;
/// The balance less what is held of it.
const LEFT: &str =
    "return redis.call('GET', 'hg:{a:acme}:balance') - (redis.call('HGET', 'hg:{a:acme}:reserved', 'total') or 0)";

/// The account's ledger once it has so many rows.
async fn settled(cluster: &Cluster, rows: usize) -> Vec<LedgerRow> {
    eventually(SOON, "all are settled", async || cluster.redis.ledger("acme").await.len() >= rows).await;
    let ledger = cluster.redis.ledger("acme").await;
    assert_eq!(ledger.len(), rows, "{ledger:?}");
    ledger
}

fn cost(rows: &[LedgerRow]) -> i64 {
    rows.iter().map(|row| row["cost"].parse::<i64>().unwrap()).sum()
}

#[tokio::test]
async fn fifty_concurrent_calls_settle_to_the_nano_dollar() {
    let cluster = Cluster::of_three(&Config::connections(3).account("balance: 25.00")).await;
    let tokens = TokenCounts { prompt: Some(123), cached: Some(20), completion: Some(45), ..TokenCounts::default() };
    cluster.fake.script([Rule { tokens, ..Rule::any() }]);
    let answers = cluster.burst(50, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let rows = settled(&cluster, 50).await;
    let each = 103 * 1_000 + 20 * 100 + 45 * 10_000;
    assert!(rows.iter().all(|row| row["cost"] == each.to_string() && row["basis"] == "exact"), "{rows:?}");
    assert_eq!(cluster.redis.balance("acme").await, 25 * DOLLAR - 50 * each);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_streamed_call_costs_what_the_same_whole_call_costs_asked_for_usage_or_not() {
    let cluster = Cluster::of_three(&Config::connections(1).account("balance: 1.00")).await;
    cluster.fake.script([Rule::any().tokens(100, 50)]);
    cluster.client(0).chat(SECRET, "m1", "hi").await;
    cluster.client(1).chat_stream(SECRET, "m1", "hi").await.rest().await.1.unwrap();
    let body = r#"{"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let secret = format!("Bearer {SECRET}");
    let headers = [("authorization", secret.as_str())];
    let (events, _) = cluster.client(2).stream("/v1/chat/completions", &headers, body).await.unwrap().rest().await;
    assert!(events.iter().all(|event| !event.data.contains("prompt_tokens")), "it did not ask for usage");
    let rows = settled(&cluster, 3).await;
    assert!(rows.iter().all(|row| row["cost"] == "600000" && row["basis"] == "exact"), "{rows:?}");
    assert_eq!(cluster.redis.balance("acme").await, DOLLAR - 1_800_000);
}

#[tokio::test]
async fn an_opening_balance_is_credited_once_by_however_many_replicas() {
    let mut cluster = Cluster::of_three(&Config::connections(1).account("balance: 25.00")).await;
    assert_eq!(cluster.redis.balance("acme").await, 25 * DOLLAR);
    cluster.replace_all().await;
    assert_eq!(cluster.redis.balance("acme").await, 25 * DOLLAR);
}

#[tokio::test]
async fn an_account_without_money_is_refused_before_any_upstream_call() {
    for account in ["balance: 0", "balance: 0.000001, overdraft: none"] {
        let cluster = Cluster::builder(&Config::connections(1).account(account)).start().await;
        let refused = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!((refused.status, refused.error_code().as_str()), (402, "insufficient_quota"), "{account}");
        assert!(refused.body.contains("Insufficient balance. Top up at the dashboard."), "{}", refused.body);
        assert!(!refused.header("x-headgate-refusal").is_empty());
        assert!(cluster.fake.calls().is_empty() && cluster.redis.ledger("acme").await.is_empty());
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_used_up_spend_limit_refuses_on_every_replica() {
    let config = Config::connections(1).ci("spend_limit: {usd: 0.001, period: month}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().tokens(100, 50)]);
    for call in 1..=2 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200);
        settled(&cluster, call).await;
    }
    for _ in 0..3 {
        let refused = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!((refused.status, refused.error_code().as_str()), (402, "insufficient_quota"));
        assert!(refused.body.contains("This API key has reached its spend limit."), "{}", refused.body);
    }
    assert_eq!(cluster.fake.calls().len(), 2);
}

#[tokio::test]
async fn with_overdraft_none_a_balance_never_dips_below_zero() {
    // Each call costs 0.0006 dollars and reserves more; ten of them would overdraw the account.
    let cluster = Cluster::of_three(&Config::connections(1).account("balance: 0.02, overdraft: none")).await;
    cluster.fake.script([Rule::any().tokens(100, 400).delays_headers(Duration::from_millis(200))]);
    let body = r#"{"model":"m1","max_tokens":400,"messages":[{"role":"user","content":"hi"}]}"#;
    let secret = format!("Bearer {SECRET}");
    let headers = [("authorization", secret.as_str())];
    let calls = (0..20).map(|_| cluster.next().send(http::Method::POST, "/v1/chat/completions", &headers, body));
    let calls = futures_util::future::join_all(calls);
    // What is left is never less than what is held of it, at any moment.
    let watch = async {
        loop {
            let left: i64 = cluster.redis.ask(&["EVAL", LEFT, "0"]).await;
            assert!(left >= 0, "{left}");
        }
    };
    let answers = tokio::select! {
        answers = calls => answers,
        () = watch => unreachable!("it never ends"),
    };
    let paid = answers.iter().filter(|answer| answer.as_ref().unwrap().status == 200).count();
    let rows = settled(&cluster, paid).await;
    let balance = cluster.redis.balance("acme").await;
    assert!(paid >= 1 && balance >= 0, "{paid} calls, {balance} left");
    assert_eq!(balance, DOLLAR / 50 - cost(&rows));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn with_overdraft_soft_a_balance_dips_by_what_was_in_flight_and_then_nobody_starts() {
    let cluster = Cluster::of_three(&Config::connections(1).account("balance: 0.001")).await;
    cluster.fake.script([Rule::any().tokens(100, 400).delays_headers(Duration::from_secs(1))]);
    let each = 100 * 1_000 + 400 * 10_000;
    let answers = cluster.burst(10, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "all began while there was money: {answers:?}");
    let rows = settled(&cluster, 10).await;
    assert_eq!((cost(&rows), cluster.redis.balance("acme").await), (10 * each, DOLLAR / 1000 - 10 * each));
    let refused = cluster.burst(6, SECRET, "m1").await;
    assert!(refused.iter().all(|answer| answer.status == 402), "{refused:?}");
    assert_eq!(cluster.fake.calls().len(), 10);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_call_that_fails_everywhere_costs_nothing() {
    let cluster = Cluster::of_three(&Config::connections(2).account("balance: 1.00")).await;
    cluster.fake.script([Rule::any().fails(500)]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 502);
    cluster.assert_clean().await;
    assert_eq!(cluster.redis.balance("acme").await, DOLLAR);
    assert_eq!(cost(&cluster.redis.ledger("acme").await), 0);
}

#[tokio::test]
async fn a_client_that_hangs_up_pays_once_for_what_it_was_sent() {
    let cluster = Cluster::of_three(&Config::connections(1).account("balance: 1.00")).await;
    cluster.fake.script([Rule { stall_after_chunks: Some(4), ..Rule::any().says("some words said", 4) }]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(4).await;
    drop(stream);
    let rows = settled(&cluster, 1).await;
    assert_eq!((rows[0]["basis"].as_str(), rows[0]["outcome"].as_str()), ("estimated", "client_gone"));
    assert!(cost(&rows) > 10_000, "input and at least one token of output: {rows:?}");
    assert_eq!(cluster.redis.balance("acme").await, DOLLAR - cost(&rows));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn the_words_of_an_error_are_never_charged_as_output() {
    let cluster = Cluster::of_three(&Config::connections(1).account("balance: 1.00")).await;
    let words = serde_json::json!({"error": {"message": "word ".repeat(2_000), "type": "server_error", "code": null}});
    let rule = Rule { error_event_after_chunks: Some(1), error_event: Some(words), ..Rule::any().says("Hi", 1) };
    cluster.fake.script([rule]);
    let (events, _) = cluster.client(0).chat_stream(SECRET, "m1", "hi").await.rest().await;
    assert!(events.last().unwrap().is_error());
    let rows = settled(&cluster, 1).await;
    assert_eq!(rows[0]["outcome"], "upstream_broken");
    assert!(cost(&rows) < 200_000, "a few tokens, not two thousand: {rows:?}");
}

#[tokio::test]
async fn what_was_delivered_while_redis_refused_our_password_is_charged_when_it_takes_it_again() {
    let config = Config::connections(1).account("balance: 1.00");
    let cluster = Cluster::builder(&config).start().await;
    cluster.fake.script([Rule::any().says("abcdefgh", 8).delays_between(Duration::from_millis(150))]);
    let mut stream = cluster.client(0).chat_stream(SECRET, "m1", "hi").await;
    stream.read_content(1).await;
    // A connection that was let in before the password changed.
    let client = redis::Client::open(cluster.redis.url()).unwrap();
    let mut insider = client.get_multiplexed_async_connection().await.unwrap();
    let mut password = async |password: &str| {
        redis::pipe()
            .cmd("CONFIG")
            .arg(&["SET", "requirepass", password])
            .cmd("CLIENT")
            .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
            .exec_async(&mut insider)
            .await
            .unwrap();
    };
    password("changed").await;
    let (events, end) = stream.rest().await;
    assert!(end.is_ok() && events.last().unwrap().is_done(), "{events:?}");
    let admin = cluster.replica(0).admin();
    let token = format!("Bearer {ADMIN_TOKEN}");
    let waits = async || {
        let metrics = admin.send(http::Method::GET, "/metrics", &[("authorization", &token)], "").await.unwrap();
        metrics.body.contains("headgate_outbox 2\n")
    };
    eventually(SOON, "settlement and release wait", waits).await;
    password("").await;
    let settled = async || cluster.redis.ledger("acme").await.first().is_some_and(|row| row["basis"] == "exact");
    eventually(SOON, "it is settled", settled).await;
    let cost: i64 = cluster.redis.ledger("acme").await[0]["cost"].parse().unwrap();
    assert!(cost > 0);
    assert_eq!(cluster.redis.balance("acme").await, DOLLAR - cost);
    eventually(SOON, "nothing is held", async || cluster.redis.held().await.is_empty()).await;
}
