//! Proofs of thought: kept by account and call, for an hour since they were last asked for.

use super::table::*;
use shared::state::thoughts::KEPT;

#[tokio::test]
async fn what_one_replica_keeps_another_finds_for_this_account_only_and_for_another_hour() {
    let table = Table::new().await;
    let strange = "a b{c}:\u{1F600}".repeat(9);
    let proofs = [("call_1", &b"\x00one"[..]), (strange.as_str(), b"two")];
    table.stores[0].keep_thoughts(&table.account, proofs).await.unwrap();
    table.text(&["PEXPIRE", "hg:{a:acme}:thought:call_1", "5000"]).await;

    let found = table.stores[1].thoughts(&table.account, &["unknown", "call_1", &strange]).await.unwrap();
    assert_eq!(found, [None, Some(b"\x00one".to_vec()), Some(b"two".to_vec())]);
    let left: u128 = table.text(&["PTTL", "hg:{a:acme}:thought:call_1"]).await.parse().unwrap();
    assert!((KEPT.as_millis() - 60_000..=KEPT.as_millis()).contains(&left), "{left} ms");

    let other = "other".parse().unwrap();
    assert_eq!(table.stores[1].thoughts(&other, &["call_1"]).await.unwrap(), [None]);
    assert_eq!(table.text(&["EXISTS", &table.store().keys().of_account(&table.account).thought(&strange)]).await, "1");
}

#[tokio::test]
async fn nothing_to_keep_or_to_find_asks_nobody() {
    let table = Table::new().await;
    table.store().keep_thoughts(&table.account, []).await.unwrap();
    assert!(table.store().thoughts(&table.account, &[""; 0]).await.unwrap().is_empty());
}
