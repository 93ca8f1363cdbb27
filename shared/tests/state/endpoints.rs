//! Endpoints of a connection: one that failed rests for its model, the next is called, one probe tries it again.

use shared::state::capacity::{Acquire, Candidate, Mark, Probe, RecordAsk, RungState, ToldLimit};

use super::table::*;

const REST: Mark = Mark::Endpoint { rest: std::time::Duration::from_mins(1) };

/// A connection with three endpoints.
fn chain() -> Candidate {
    Candidate { endpoints: (0..3).map(endpoint).collect(), ..open("a") }
}

/// Which endpoint an attempt is told to call, when it began, and whether it is a probe.
async fn told(table: &Table, name: &str) -> (usize, i64, Probe) {
    match table.acquire(name, &[chain()]).await {
        Acquire::Acquired { endpoint, begun_ms, probe, .. } => (endpoint, begun_ms, probe),
        other => panic!("{name}: {other:?}"),
    }
}

/// One attempt that ends so; answers the endpoint it called.
async fn attempt(table: &Table, name: &str, mark: Mark) -> usize {
    let (number, begun_ms, _) = told(table, name).await;
    end(table, name, (number, begun_ms), mark).await;
    number
}

async fn end(table: &Table, name: &str, (number, begun_ms): (usize, i64), mark: Mark) {
    let ask = RecordAsk { endpoint: Some(endpoint(number)), ..table.record_ask(name, &chain(), begun_ms, mark) };
    table.store().record(&ask).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_that_failed_rests_and_the_next_one_in_order_is_called() {
    let table = Table::new().await;
    for (number, name) in ["q0", "q1", "q2"].into_iter().enumerate() {
        table.at(i64::try_from(number).unwrap()).await;
        assert_eq!(attempt(&table, name, REST).await, number);
    }
    let wait = millis(59_998);
    let cooling = Acquire::Closed { wait, states: vec![RungState::Endpoints { wait }] };
    assert_eq!(table.acquire("q3", &[chain()]).await, cooling);
    let ends = table.text(&["HGET", "hg:{g:openai}:conn:a:endpoint:e1:model:m:cooldown", "until"]).await;
    assert_eq!(ends, (START + 1 + 60_000).to_string());
    let other = Candidate { model: model("n"), ..chain() };
    assert!(matches!(table.acquire("q4", &[other]).await, Acquire::Acquired { endpoint: 0, .. }), "another model");
    let last = Candidate { endpoints: Vec::new(), ..chain() };
    assert!(matches!(table.acquire("q5", &[last]).await, Acquire::Acquired { endpoint: 0, .. }), "nothing is left");
}

#[tokio::test]
async fn a_rested_endpoint_is_tried_by_one_probe_whose_success_clears_it() {
    let table = Table::new().await;
    assert_eq!(attempt(&table, "q0", REST).await, 0);
    table.at(60_000).await;
    let (number, begun_ms, probe) = told(&table, "probe").await;
    assert_eq!((number, probe), (0, Probe::Yes));
    assert_eq!(told(&table, "probe").await, (0, begun_ms, Probe::Yes), "a lost reply changes nothing");
    assert_eq!(told(&table, "q1").await.0, 1, "the others go on");
    table.at(60_001).await;
    end(&table, "probe", (number, begun_ms), Mark::Success { first_token: None }).await;
    assert_eq!(told(&table, "q2").await.0, 0);
}

#[tokio::test]
async fn a_failed_probe_rests_the_endpoint_again_and_a_burst_counts_once() {
    let table = Table::new().await;
    let (early, begun_ms, _) = told(&table, "early").await;
    table.at(10).await;
    attempt(&table, "q0", REST).await;
    table.at(20).await;
    end(&table, "early", (early, begun_ms), REST).await;
    let key = "hg:{g:openai}:conn:a:endpoint:e0:model:m:cooldown";
    assert_eq!(table.text(&["HGET", key, "until"]).await, (START + 60_010).to_string(), "it began before the rest");
    table.at(60_010).await;
    attempt(&table, "probe", REST).await;
    assert_eq!(table.text(&["HGET", key, "until"]).await, (START + 120_010).to_string());
}

#[tokio::test]
async fn what_an_upstream_tells_of_its_limits_is_kept_until_they_reset() {
    let table = Table::new().await;
    let (begun_ms, _) = table.take("q", &open("a")).await;
    let told = vec![
        ToldLimit { name: "requests".into(), limit: Some(60), remaining: Some(0), resets_in: Some(secs(7_200)) },
        ToldLimit { name: "tokens".into(), limit: None, remaining: Some(9), resets_in: None },
    ];
    let ask = RecordAsk { told, ..table.record_ask("q", &open("a"), begun_ms, Mark::Success { first_token: None }) };
    table.store().record(&ask).await.unwrap();
    let key = "hg:{g:openai}:conn:a:bucket:m:quota";
    let field = async |name: &str| table.text(&["HGET", key, name]).await;
    assert_eq!(field("requests:limit").await, "60");
    assert_eq!(field("requests:remaining").await, "0");
    assert_eq!(field("requests:resets_at").await, (START + 7_200_000).to_string());
    assert_eq!(field("tokens:remaining").await, "9");
    assert_eq!(field("tokens:limit").await, "");
    let left: i64 = table.text(&["PTTL", key]).await.parse().unwrap();
    assert!((7_100_000..=7_200_000).contains(&left), "{left}");
}
