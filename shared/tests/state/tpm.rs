//! Tokens per minute of a client key: held from admission to settlement, counted for a minute after.

use shared::limit::Weighed;
use shared::state::admission::{Admit, AdmitAsk, Bound, Estimate, Place};
use shared::state::leases::{KeyLease, Progress};
use shared::state::records::KeyRights;
use shared::state::settlement::{LapsedRequest, Settle, SettleLapsed, Settlement};

use super::table::*;

const RING: &str = "hg:{a:acme}:key:ci:tpm";
const HELD: &str = "hg:{a:acme}:key:ci:held";

async fn table(tpm: u32) -> Table {
    let table = Table::new().await;
    table.declare_rights(KeyRights { tpm: Some(tpm), ..KeyRights::default() }).await;
    table
}

/// Asks for so many tokens in and out.
async fn ask(table: &Table, name: &str, estimate: Estimate) -> Admit {
    table.store().admit(&AdmitAsk { estimate, ..table.admit_ask(name) }).await.unwrap()
}

async fn wait_for(table: &Table, name: &str, tokens: u64) -> Admit {
    table
        .store()
        .admit(&AdmitAsk { estimate: estimate(tokens, 0), place: STAND, ..table.admit_ask(name) })
        .await
        .unwrap()
}

async fn settle(table: &Table, name: &str, (input, output): (u64, u64)) {
    let weighed = Weighed { total_milli: (input + output) * 1_000, output_milli: output * 1_000 };
    let settlement = Settlement { weighed, ..table.settlement(name, 0) };
    assert!(matches!(table.store().settle(&settlement).await.unwrap(), Settle::Settled { .. }));
}

fn admitted(answer: &Admit) -> bool {
    matches!(answer, Admit::Admitted { .. })
}

fn over(wait_ms: u64, soonest_ms: u64, limit: u32, position: Option<u32>) -> Admit {
    Admit::OverTokens { wait: millis(wait_ms), soonest: millis(soonest_ms), limit, position }
}

#[tokio::test]
async fn what_open_requests_may_use_counts_before_any_of_it_is_used() {
    let table = table(15).await;
    assert!(admitted(&ask(&table, "q1", estimate(7, 0)).await));
    assert!(admitted(&ask(&table, "q2", estimate(7, 0)).await));
    let dump = table.dump().await;
    assert_eq!(ask(&table, "q3", estimate(7, 0)).await, over(60_000, 0, 15, None));
    assert_eq!(table.dump().await, dump, "a refusal writes nothing");
    assert_eq!(table.text(&["HGET", HELD, RING]).await, "14000");
    settle(&table, "q1", (0, 0)).await;
    assert!(admitted(&ask(&table, "q3", estimate(7, 0)).await), "what was not used is free at once");
}

#[tokio::test]
async fn settled_tokens_count_until_their_second_is_a_minute_old() {
    let table = table(1_000).await;
    for (at, name) in [(500, "q1"), (30_999, "q2")] {
        table.at(at).await;
        assert!(admitted(&ask(&table, name, estimate(100, 300)).await));
        settle(&table, name, (100, 300)).await;
    }
    assert_eq!(table.text(&["EXISTS", HELD]).await, "0", "nothing is held at rest");
    table.at(59_000).await;
    assert_eq!(ask(&table, "q3", estimate(100, 300)).await, over(2_000, 2_000, 1_000, None), "exactly");
    assert!(admitted(&ask(&table, "small", estimate(200, 0)).await), "it fits beside them");
    settle(&table, "small", (0, 0)).await;
    table.at(60_999).await;
    assert_eq!(ask(&table, "q3", estimate(100, 300)).await, over(1, 1, 1_000, None));
    table.at(61_000).await;
    assert!(admitted(&ask(&table, "q3", estimate(100, 300)).await));
}

#[tokio::test]
async fn a_wait_is_told_no_longer_than_a_minute_and_as_long_as_what_is_open_may_use() {
    let table = table(1_000).await;
    assert!(admitted(&ask(&table, "q1", estimate(0, 600)).await));
    settle(&table, "q1", (0, 600)).await;
    table.at(20_000).await;
    assert!(admitted(&ask(&table, "q2", estimate(0, 300)).await));
    // 600 run out in 41 s, 300 are held by one that may use them all now.
    assert_eq!(ask(&table, "q3", estimate(0, 400)).await, over(41_000, 0, 1_000, None));
    assert_eq!(ask(&table, "q3", estimate(0, 500)).await, over(41_000, 41_000, 1_000, None));
    assert_eq!(ask(&table, "q3", estimate(0, 701)).await, over(60_000, 41_000, 1_000, None));
}

#[tokio::test]
async fn a_request_larger_than_the_cap_has_the_window_to_itself() {
    let table = table(10).await;
    assert!(admitted(&ask(&table, "q1", estimate(3, 0)).await));
    assert_eq!(ask(&table, "large", estimate(100, 4_000)).await, over(60_000, 0, 10, None));
    settle(&table, "q1", (0, 0)).await;
    assert!(admitted(&ask(&table, "large", estimate(100, 4_000)).await));
    assert!(!admitted(&ask(&table, "q2", estimate(1, 0)).await));
    settle(&table, "large", (20, 5)).await;
    table.at(60_999).await;
    assert!(!admitted(&ask(&table, "q2", estimate(1, 0)).await), "what it really used counts in full");
    table.at(61_000).await;
    assert!(admitted(&ask(&table, "q2", estimate(10, 0)).await));
}

#[tokio::test]
async fn a_request_that_does_not_say_how_much_it_wants_is_taken_to_want_what_answers_had_of_late() {
    let table = table(1_000).await;
    let assumed = Estimate { bound: Bound::Assumed, ..estimate(5, 1_024) };
    assert!(admitted(&ask(&table, "q1", assumed).await));
    assert!(!admitted(&ask(&table, "q2", assumed).await), "nothing is known yet: 1,024 is the whole window");
    settle(&table, "q1", (100, 300)).await;
    assert!(admitted(&ask(&table, "q2", assumed).await), "400 and 305");
    assert_eq!(table.text(&["HGET", HELD, RING]).await, "305000");
    settle(&table, "q2", (100, 340)).await;
    assert_eq!(table.text(&["HGET", RING, "usual"]).await, "310000", "a quarter of the way to the newest");
    assert!(!admitted(&ask(&table, "q3", assumed).await));
    assert!(!admitted(&ask(&table, "q3", estimate(5, 1_024)).await), "who says so is taken at his word");
}

#[tokio::test]
async fn the_line_of_a_limit_of_tokens_is_served_in_order_also_where_a_later_one_would_fit() {
    let table = table(100).await;
    assert!(admitted(&wait_for(&table, "q1", 90).await));
    assert_eq!(wait_for(&table, "large", 50).await, over(60_000, 0, 100, Some(1)));
    assert_eq!(wait_for(&table, "small", 1).await, over(1, 0, 100, Some(2)), "it would fit, but is not the head");
    let pass = AdmitAsk { estimate: estimate(1, 0), place: Place::Pass, ..table.admit_ask("newcomer") };
    assert_eq!(table.store().admit(&pass).await.unwrap(), over(1, 0, 100, None));
    settle(&table, "q1", (0, 10)).await;
    assert!(!admitted(&wait_for(&table, "small", 1).await));
    assert!(admitted(&wait_for(&table, "large", 50).await));
    assert!(admitted(&wait_for(&table, "small", 1).await));
}

#[tokio::test]
async fn a_wait_that_is_known_to_be_too_long_takes_no_place() {
    let table = table(100).await;
    assert!(admitted(&ask(&table, "q1", estimate(100, 0)).await));
    settle(&table, "q1", (100, 0)).await;
    table.at(58_000).await;
    for (max_wait, position) in [(2_999, None), (3_000, Some(1)), (2_999, None)] {
        let place = Place::Stand { max_wait: millis(max_wait) };
        let asked = AdmitAsk { estimate: estimate(1, 0), place, ..table.admit_ask("q2") };
        assert_eq!(table.store().admit(&asked).await.unwrap(), over(3_000, 3_000, 100, position));
    }
}

#[tokio::test]
async fn a_request_whose_replica_died_gives_back_what_it_held_and_counts_what_it_reported() {
    let table = table(100).await;
    for name in ["silent", "spoke"] {
        assert!(admitted(&ask(&table, name, estimate(50, 0)).await));
    }
    let weighed = Weighed { total_milli: 30_000, output_milli: 10_000 };
    let progress = Progress { weighed, ..Progress::default() };
    let lease = KeyLease { key: table.key.clone(), request: request("spoke"), progress };
    table.store().renew_keys(&table.account, &[lease]).await.unwrap();
    table.at(15_000).await;
    let lapsed = |name| LapsedRequest {
        account: table.account.clone(),
        key: table.key.clone(),
        request: request(name),
        admitted_ms: START,
        span: None,
        quotas: Vec::new(),
    };
    assert_eq!(table.store().settle_lapsed(&lapsed("silent")).await.unwrap(), SettleLapsed::Dropped);
    assert_eq!(table.store().settle_lapsed(&lapsed("spoke")).await.unwrap(), SettleLapsed::Settled);
    assert_eq!(table.text(&["EXISTS", HELD]).await, "0");
    assert!(!admitted(&ask(&table, "q1", estimate(71, 0)).await));
    assert!(admitted(&ask(&table, "q1", estimate(70, 0)).await));
}

#[tokio::test]
async fn a_clock_that_steps_back_never_admits_more_and_stalls_one_window_at_most() {
    let table = table(100).await;
    table.at(100_000).await;
    assert!(admitted(&ask(&table, "q1", estimate(60, 0)).await));
    settle(&table, "q1", (60, 0)).await;
    table.at(70_000).await;
    assert!(!admitted(&ask(&table, "q2", estimate(41, 0)).await));
    assert!(admitted(&ask(&table, "q2", estimate(40, 0)).await));
    settle(&table, "q2", (40, 0)).await;
    table.at(160_999).await;
    assert!(!admitted(&ask(&table, "q3", estimate(1, 0)).await), "both count as of 100 s");
    table.at(-3_600_000).await;
    assert_eq!(ask(&table, "q3", estimate(1, 0)).await, over(60_000, 60_000, 100, None));
    table.at(-3_539_001).await;
    assert!(!admitted(&ask(&table, "q3", estimate(1, 0)).await));
    table.at(-3_539_000).await;
    assert!(admitted(&ask(&table, "q3", estimate(100, 0)).await));
}

#[tokio::test]
async fn however_many_tokens_a_ring_stays_small_and_lapses() {
    let table = table(4_000_000_000).await;
    for second in 0..200 {
        table.at(second * 1_000).await;
        let name = format!("q{second}");
        assert!(admitted(&ask(&table, &name, estimate(1_000, 0)).await));
        settle(&table, &name, (1_000, 0)).await;
    }
    assert_eq!(table.text(&["HGET", RING, "total"]).await, "61000000", "61 seconds of a thousand tokens each");
    let bytes: usize = table.text(&["MEMORY", "USAGE", RING]).await.parse().unwrap();
    assert!(bytes < 1_200, "{bytes}");
    let ttl: i64 = table.text(&["PTTL", RING]).await.parse().unwrap();
    assert!((61_000..=75_000).contains(&ttl), "{ttl}");
}
