//! `renew`: leases that live on, and those that are lost.

use shared::ids::{ConnectionId, RequestId};
use shared::limit::Weighed;
use shared::money::Tokens;
use shared::state::admission::Admit;
use shared::state::capacity::{Acquire, Mark};
use shared::state::leases::{ConnectionLease, KeyLease, Progress};

use super::table::*;

fn held(at: &ConnectionId, name: &str) -> ConnectionLease {
    ConnectionLease { connection: at.clone(), lease: lease(name, 1) }
}

async fn renew_key(table: &Table, names: &[&str]) -> Vec<RequestId> {
    let leases: Vec<KeyLease> = names
        .iter()
        .map(|name| KeyLease { key: table.key.clone(), request: request(name), progress: Progress::default() })
        .collect();
    table.store().renew_keys(&table.account, &leases).await.unwrap()
}

#[tokio::test]
async fn a_renewed_slot_lives_fifteen_more_seconds_and_a_returned_one_is_lost() {
    let table = Table::new().await;
    let a = slots("a", 1);
    table.take("q1", &a).await;
    let b = slots("b", 1);
    let (begun, _) = table.take("q2", &b).await;
    table.record("q2", &b, begun, Mark::Nothing).await;
    table.at(14_999).await;
    let leases = [held(&a.connection, "q1"), held(&b.connection, "q2"), held(&a.connection, "never")];
    for _ in 0..2 {
        let lost = table.store().renew_connections(&table.group, &leases).await.unwrap();
        assert_eq!(lost, [lease("q2", 1), lease("never", 1)]);
    }
    table.at(29_998).await;
    assert!(matches!(table.acquire("q3", std::slice::from_ref(&a)).await, Acquire::Full { .. }));
    table.at(29_999).await;
    table.take("q3", &a).await;
    let lost = table.store().renew_connections(&table.group, &leases[..1]).await.unwrap();
    assert_eq!(lost, [lease("q1", 1)], "its slot went to another");
}

#[tokio::test]
async fn a_lapsed_slot_that_nobody_took_is_renewed() {
    let table = Table::new().await;
    let a = slots("a", 1);
    table.take("q1", &a).await;
    table.at(16_000).await;
    let leases = [held(&a.connection, "q1")];
    assert!(table.store().renew_connections(&table.group, &leases).await.unwrap().is_empty());
    assert!(matches!(table.acquire("q2", std::slice::from_ref(&a)).await, Acquire::Full { .. }));
}

#[tokio::test]
async fn more_leases_than_one_call_takes_are_all_renewed() {
    let table = Table::new().await;
    let a = open("a");
    let mut leases = Vec::new();
    for n in 0..450 {
        let name = format!("q{n}");
        if n != 333 {
            table.take(&name, &a).await;
        }
        leases.push(held(&a.connection, &name));
    }
    table.at(1_000).await;
    let lost = table.store().renew_connections(&table.group, &leases).await.unwrap();
    assert_eq!(lost, [lease("q333", 1)]);
    table.at(15_500).await;
    assert!(table.store().renew_connections(&table.group, &leases[..200]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lapsed_slot_of_a_key_is_renewed_unless_others_were_admitted_in_its_place() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    table.admit("q1").await;
    table.at(15_000).await;
    assert!(renew_key(&table, &["q1"]).await.is_empty());
    assert!(matches!(table.admit("q2").await, Admit::OverConcurrency { .. }));
    table.at(30_000).await;
    assert!(matches!(table.admit("q2").await, Admit::Admitted { .. }));
    assert_eq!(renew_key(&table, &["q1", "q2"]).await, [request("q1")]);
    table.settle("q2", 0).await;
    assert!(renew_key(&table, &["q1"]).await.is_empty(), "there is room again, and it was not settled");
    table.settle("q1", 0).await;
    assert_eq!(renew_key(&table, &["q1"]).await, [request("q1")]);
}

#[tokio::test]
async fn progress_is_kept_with_the_open_request() {
    let table = Table::new().await;
    table.declare_rights(at_once(5)).await;
    table.admit("q1").await;
    let tokens = Tokens {
        input: 1,
        cached_input: 2,
        cache_write: 3,
        output: 4,
        reasoning: 5,
        cache_write_1h: 6,
        input_audio: 7,
        output_audio: 8,
    };
    let progress = Progress {
        served_model: Some(model("n")),
        connection: Some(connection("a")),
        tokens,
        cost: nanos(9_007_199_254_740_991),
        weighed: Weighed { total_milli: 9_007_199_254_740_991, output_milli: 9 },
    };
    let lease = KeyLease { key: table.key.clone(), request: request("q1"), progress };
    table.store().renew_keys(&table.account, &[lease]).await.unwrap();
    let fields = [
        "served_model",
        "connection",
        "input",
        "cached_input",
        "cache_write",
        "output",
        "reasoning",
        "cost",
        "cache_write_1h",
        "input_audio",
        "output_audio",
        "weighed",
    ];
    let mut seen = Vec::new();
    for field in fields {
        seen.push(table.text(&["HGET", "hg:{a:acme}:req:q1", field]).await);
    }
    assert_eq!(seen, ["n", "a", "1", "2", "3", "4", "5", "9007199254740991", "6", "7", "8", "9007199254740991"]);
}
