//! Locks and cooldowns as callers live with them: how much they close, how long they are believed, and how they end.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Closure, Cluster, Config, SECRET, eventually};
use serde_json::json;

const SOON: Duration = Duration::from_secs(15);

/// Two connections, the first preferred, over three replicas.
async fn two(more: &str) -> Cluster {
    Cluster::of_three(&Config::connections(2).connection(2, "priority: 1").more(more)).await
}

fn calls(cluster: &Cluster, number: usize) -> usize {
    cluster.fake.calls_of(&format!("cred-{number}")).len()
}

async fn closure(cluster: &Cluster, what: &str) -> Option<Closure> {
    cluster.redis.closures().await.into_iter().find(|closure| closure.what == what)
}

#[tokio::test]
async fn models_of_one_family_share_a_bucket_and_a_limit_on_one_closes_all_of_them_and_no_other() {
    let buckets =
        "limit_scope: buckets, buckets: [{name: claude, match: \"^claude-\"}, {name: gemini, match: \"^gemini-\"}]";
    let config = Config::connections(1)
        .each(buckets)
        .model("claude-a: {provider: fake}")
        .model("claude-b: {provider: fake}")
        .model("gemini-a: {provider: fake}");
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::on("*", "claude-a").fails(429).header("retry-after", "300")]);
    assert_eq!(cluster.next().chat(SECRET, "claude-a", "hi").await.status, 429);
    assert_eq!(closure(&cluster, "conn-1:bucket:claude:lock").await.map(|lock| lock.length), Some(300_000));
    for model in ["claude-a", "claude-b"] {
        let answer = cluster.next().chat(SECRET, model, "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (429, "locked"), "{model}");
    }
    assert_eq!(cluster.fake.calls().len(), 1, "no model of the family burns a call of its own");
    for model in ["gemini-a", "m1"] {
        assert_eq!(cluster.next().chat(SECRET, model, "hi").await.status, 200, "{model}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_account_wide_limit_told_for_one_model_costs_the_other_models_no_call() {
    let cluster = two("").await;
    let body = json!({"error": {"type": "usage_limit_reached", "message": "Limit.", "resets_in_seconds": 3600}});
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).body(body)]);
    for model in ["m1", "m2", "m1", "m2"] {
        let answer = cluster.next().chat(SECRET, model, "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-2"), "{model}");
    }
    assert_eq!(calls(&cluster, 1), 1);
    assert_eq!(closure(&cluster, "conn-1:lock").await.map(|lock| lock.length), Some(3_600_000));
}

#[tokio::test]
async fn a_lock_of_six_days_is_kept_but_probed_after_max_lock_and_one_success_opens_it_on_all_replicas() {
    let cluster = two("limits: {max_lock: 1s}").await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).header("retry-after", "561635").times(1)]);
    let first = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!(first.header("x-headgate-connection"), "conn-2");
    assert_eq!(closure(&cluster, "conn-1:bucket:m1:lock").await.map(|lock| lock.length), Some(561_635_000));
    let back = async |place: usize| {
        cluster.client(place).chat(SECRET, "m1", "hi").await.header("x-headgate-connection") == "conn-1"
    };
    eventually(SOON, "a probe succeeds", async || back(1).await).await;
    // Its success is recorded while its answer is on the way.
    eventually(SOON, "it is open", async || cluster.redis.closures().await.is_empty()).await;
    for place in 0..3 {
        assert!(back(place).await, "replica {place}");
    }
}

#[tokio::test]
async fn a_lock_that_is_deleted_by_hand_is_open_at_once_on_every_replica() {
    let cluster = Cluster::of_three(&Config::connections(1)).await;
    cluster.fake.script([Rule::any().fails(429).header("retry-after", "561635").times(1)]);
    for place in [0, 0, 1, 2] {
        assert_eq!(cluster.client(place).chat(SECRET, "m1", "hi").await.status, 429);
    }
    cluster.redis.cli(&["DEL", "hg:{g:fake}:conn:conn-1:bucket:m1:lock"]).await;
    for place in 0..3 {
        assert_eq!(cluster.client(place).chat(SECRET, "m1", "hi").await.status, 200, "replica {place}");
    }
}

#[tokio::test]
async fn an_absurd_hint_is_told_to_callers_as_max_lock_at_most_and_names_the_soonest_recovery() {
    let cluster = two("").await;
    cluster.fake.script([Rule::any().fails(429).header("retry-after", "459202")]);
    for call in 0..4 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert_eq!(answer.status, 429);
        assert!((897..=900).contains(&wait), "{wait}");
        let refused = answer.header("x-headgate-refusal") == "locked";
        assert_eq!(refused, call > 0);
        assert!(!refused || answer.body.contains(&format!("The soonest recovery is in {wait} s.")), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_sole_connection_survives_one_failure_in_a_hundred_and_a_dead_one_is_probed_and_not_hammered() {
    let cluster = Cluster::of_three(&Config::connections(1).more("limits: {capacity_wait: 0s}")).await;
    cluster.fake.script([Rule { every: Some(25), ..Rule::any().fails(500) }]);
    for call in 0..100 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200, "call {call}: the retry answers");
    }
    cluster.redis.unlock_all().await;
    cluster.fake.script([Rule::any().fails(500)]);
    cluster.fake.clear_calls();
    for _ in 0..20 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!(answer.status, 502, "{}", answer.body);
    }
    assert!(cluster.fake.calls().len() <= 4, "{} calls: the breaker is open", cluster.fake.calls().len());
    let cooldown = closure(&cluster, "conn-1:model:m1:cooldown").await.unwrap();
    assert!(cooldown.cause == "cooling" && (8_000..=12_000).contains(&cooldown.length), "{cooldown}");
    assert_eq!(cluster.next().chat(SECRET, "m2", "hi").await.status, 502, "another model is asked for itself");
    cluster.fake.heal();
    eventually(Duration::from_secs(30), "a probe finds it healed", async || {
        cluster.next().chat(SECRET, "m1", "hi").await.status == 200
    })
    .await;
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_limit_of_our_own_is_a_429_with_its_wait_and_no_failure_of_the_connection() {
    let config = Config::connections(1).each("rpm: 1").more("limits: {capacity_wait: 100ms}");
    let cluster = Cluster::builder(&config).replicas(2).start().await;
    assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200);
    for _ in 0..5 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (429, "capacity"));
        assert!((1..=60).contains(&wait), "{wait}");
    }
    assert_eq!(cluster.redis.closures().await, []);
    assert_eq!(cluster.fake.calls().len(), 1);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_connection_without_quota_is_asked_once_and_not_by_each_of_fifty_requests() {
    let cluster = two("").await;
    let body = json!({"error": {"message": "Rate limit reached on requests per day (RPD).", "type": "requests", "code": "rate_limit_exceeded"}});
    cluster.fake.script([Rule::on("cred-1", "*").fails(429).body(body)]);
    for call in 0..50 {
        let answer = cluster.next().chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-2"), "call {call}");
    }
    assert_eq!((calls(&cluster, 1), calls(&cluster, 2)), (1, 50));
}

#[tokio::test]
async fn a_connection_that_fails_one_call_in_twenty_is_never_benched() {
    let cluster = two("").await;
    cluster.fake.script([Rule { every: Some(20), ..Rule::on("cred-1", "*").fails(503) }]);
    for call in 0..100 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200, "call {call}");
    }
    assert_eq!((calls(&cluster, 1), calls(&cluster, 2)), (100, 5));
    assert_eq!(closure(&cluster, "conn-1:model:m1:cooldown").await.map(|one| one.cause), Some("counting".into()));
    cluster.assert_clean().await;
}

#[tokio::test]
async fn bare_429s_bench_one_model_for_seconds_that_double_while_nothing_else_is_heard() {
    let cluster = two("").await;
    cluster.fake.script([Rule::on("cred-1", "m1").fails(429).body(json!({}))]);
    let what = "conn-1:bucket:m1:lock";
    for (level, least, most) in [(1, 1_600, 2_400), (2, 3_200, 4_800), (3, 6_400, 9_600)] {
        eventually(SOON, "it is asked again", async || {
            let answer = cluster.next().chat(SECRET, "m1", "hi").await;
            assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-2"));
            cluster.fake.calls_of("cred-1").iter().filter(|call| call.model == "m1").count() == level
        })
        .await;
        let lock = closure(&cluster, what).await.unwrap();
        assert!((least..=most).contains(&lock.length), "level {level}: {lock}");
        assert_eq!(cluster.next().chat(SECRET, "m2", "hi").await.header("x-headgate-connection"), "conn-1");
    }
}

#[tokio::test]
async fn few_bare_429s_among_successes_cost_two_seconds_each_and_never_more() {
    let cluster = two("").await;
    cluster.fake.script([Rule { every: Some(20), ..Rule::on("cred-1", "m1").fails(429).body(json!({})) }]);
    for _ in 0..19 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.header("x-headgate-connection"), "conn-1");
    }
    assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.header("x-headgate-connection"), "conn-2");
    let lock = closure(&cluster, "conn-1:bucket:m1:lock").await.unwrap();
    assert!((1_600..=2_400).contains(&lock.length), "{lock}");
    eventually(SOON, "it is back", async || {
        cluster.next().chat(SECRET, "m1", "hi").await.header("x-headgate-connection") == "conn-1"
    })
    .await;
    assert_eq!(closure(&cluster, "conn-1:bucket:m1:lock").await, None);
}

#[tokio::test]
async fn a_connection_taken_out_of_the_file_is_asked_nothing_more_also_under_load() {
    let cluster = two("").await;
    let gone = async || {
        cluster.fake.clear_calls();
        let answers = cluster.burst(12, SECRET, "m1").await;
        assert!(answers.iter().all(|answer| answer.status == 200));
        calls(&cluster, 1) == 0
    };
    assert!(!gone().await, "it serves");
    let without = Config::connections(2).connection(2, "priority: 1").connection(1, "models: [m2]");
    cluster.reconfigure(&without);
    eventually(SOON, "nobody uses it for m1", gone).await;
    assert!(gone().await, "nor does anybody later");
}

#[tokio::test]
async fn what_a_success_says_of_its_limits_is_kept_beside_the_bucket_and_locks_nothing() {
    let cluster = Cluster::of_three(&Config::connections(1)).await;
    let told = Rule::any()
        .header("date", "Mon, 30 Nov 2026 12:00:00 GMT")
        .header("x-ratelimit-limit-requests", "500")
        .header("x-ratelimit-remaining-requests", "0")
        .header("x-ratelimit-reset-requests", "6m0s")
        .header("anthropic-ratelimit-unified-5h-status", "allowed")
        .header("anthropic-ratelimit-unified-5h-utilization", "0.25")
        .header("anthropic-ratelimit-unified-5h-reset", "1796043600");
    cluster.fake.script([told]);
    let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), "", "the platform's limits are not the caller's");
    let key = "hg:{g:fake}:conn:conn-1:bucket:m1:quota";
    eventually(SOON, "it is kept", async || !cluster.redis.hash(key).await.is_empty()).await;
    let quota = cluster.redis.hash(key).await;
    let number = |name: &str| quota[name].parse::<i64>().unwrap();
    assert_eq!((number("requests:limit"), number("requests:remaining")), (500, 0), "{quota:?}");
    assert_eq!(number("requests:resets_at") - number("told_at"), 360_000);
    assert_eq!((number("5h:limit"), number("5h:remaining")), (10_000, 7_500));
    assert_eq!(number("5h:resets_at") - number("told_at"), 3_600_000);
    assert_eq!(cluster.redis.closures().await, []);
    assert_eq!(cluster.client(1).chat(SECRET, "m1", "hi").await.status, 200);
}

#[tokio::test]
async fn a_few_failures_amid_many_successes_do_not_bench_a_sole_connection_whenever_they_began() {
    let cluster = Cluster::builder(&Config::connections(1)).replicas(2).start().await;
    for _ in 0..30 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200);
    }
    cluster.fake.script([Rule::any().fails(500).times(6)]);
    for _ in 0..3 {
        assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 502, "and once more each");
    }
    assert_eq!(cluster.next().chat(SECRET, "m1", "hi").await.status, 200, "it was never closed");
    assert_eq!(cluster.fake.calls().len(), 37);
    cluster.assert_clean().await;
}
