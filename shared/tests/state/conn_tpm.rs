//! Tokens per minute of a connection: held while an attempt runs, counted for a minute after.

use shared::limit::Weighed;
use shared::state::admission::{Bound, Estimate, Place};
use shared::state::capacity::{Acquire, AcquireAsk, Candidate, Mark, Record, RecordAsk, RungState, Sole};
use shared::state::leases::ConnectionLease;

use super::table::*;

const RING: &str = "hg:{g:openai}:conn:a:tpm";
const HELD: &str = "hg:{g:openai}:conn:a:tpm:held";

fn limited(name: &str, tpm: u32) -> Candidate {
    Candidate { tpm: Some(tpm), ..open(name) }
}

/// Asks for so many tokens in and out.
async fn ask(table: &Table, name: &str, at: &[Candidate], estimate: Estimate) -> Acquire {
    table.store().acquire(&AcquireAsk { estimate, ..table.acquire_ask(name, at) }).await.unwrap()
}

async fn wait_for(table: &Table, name: &str, at: &[Candidate], tokens: u64) -> Acquire {
    let ask = AcquireAsk { estimate: estimate(tokens, 0), place: STAND, ..table.acquire_ask(name, at) };
    table.store().acquire(&ask).await.unwrap()
}

/// The attempt ends and has used so many tokens in and out.
async fn end(table: &Table, name: &str, at: &Candidate, (input, output): (u64, u64)) -> Record {
    let used = Weighed { total_milli: (input + output) * 1_000, output_milli: output * 1_000 };
    let ask = table.record_ask(name, at, START, Mark::Success { first_token: None });
    table.store().record(&RecordAsk { tokens: Some(used), ..ask }).await.unwrap()
}

fn taken(answer: &Acquire) -> Option<usize> {
    match answer {
        Acquire::Acquired { index, .. } => Some(*index),
        _ => None,
    }
}

fn over(wait_ms: u64, position: Option<u32>) -> Acquire {
    let wait = millis(wait_ms);
    Acquire::Full { wait: Some(wait), position, states: vec![RungState::OverTokens { wait }] }
}

fn full(position: Option<u32>) -> Acquire {
    Acquire::Full { wait: None, position, states: vec![RungState::Full] }
}

#[tokio::test]
async fn what_running_attempts_may_use_counts_before_any_of_it_is_used() {
    let table = Table::new().await;
    let a = [limited("a", 15)];
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(3, 4)).await), Some(0));
    assert_eq!(taken(&ask(&table, "q2", &a, estimate(7, 0)).await), Some(0));
    let dump = table.dump().await;
    assert_eq!(ask(&table, "q3", &a, estimate(7, 0)).await, full(None), "nobody knows when what is held comes free");
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(9, 9)).await), Some(0), "the same lease again");
    assert_eq!(table.dump().await, dump, "neither writes");
    assert_eq!(table.text(&["HGET", HELD, "total"]).await, "14000");
    end(&table, "q1", &a[0], (0, 0)).await;
    assert_eq!(taken(&ask(&table, "q3", &a, estimate(7, 0)).await), Some(0), "what was not used is free at once");
}

#[tokio::test]
async fn used_tokens_count_until_their_second_is_a_minute_old_and_the_wait_is_exact() {
    let table = Table::new().await;
    let a = [limited("a", 1_000)];
    for (at, name) in [(500, "q1"), (30_999, "q2")] {
        table.at(at).await;
        assert_eq!(taken(&ask(&table, name, &a, estimate(500, 0)).await), Some(0));
        assert!(matches!(end(&table, name, &a[0], (100, 300)).await, Record::Recorded { .. }));
        assert_eq!(end(&table, name, &a[0], (100, 300)).await, Record::Already, "it counts once");
    }
    assert_eq!(table.text(&["EXISTS", HELD]).await, "0", "nothing is held at rest");
    table.at(59_000).await;
    assert_eq!(ask(&table, "q3", &a, estimate(100, 300)).await, over(2_000, None));
    assert_eq!(ask(&table, "large", &a, estimate(0, 1_000)).await, over(32_000, None));
    table.at(60_999).await;
    assert_eq!(ask(&table, "q3", &a, estimate(100, 300)).await, over(1, None));
    table.at(61_000).await;
    assert_eq!(taken(&ask(&table, "q3", &a, estimate(100, 300)).await), Some(0));
}

#[tokio::test]
async fn a_connection_over_its_tokens_is_passed_over_for_one_that_is_not() {
    let table = Table::new().await;
    let pair = [limited("a", 100), open("b")];
    assert_eq!(taken(&ask(&table, "q1", &pair, estimate(60, 0)).await), Some(0));
    assert_eq!(taken(&ask(&table, "q2", &pair, estimate(60, 0)).await), Some(1));
    assert_eq!(taken(&ask(&table, "small", &pair, estimate(40, 0)).await), Some(0), "it fits beside the first");
    let other = [open("b"), limited("c", 100), limited("a", 100)];
    let closed = Mark::Endpoint { rest: secs(60) };
    table.attempt("q3", &open("b"), closed).await;
    assert_eq!(taken(&ask(&table, "q4", &other, estimate(60, 0)).await), Some(1), "each has keys of its own");
    assert_eq!(table.text(&["HGET", "hg:{g:openai}:conn:c:tpm:held", "total"]).await, "60000");
    assert_eq!(table.text(&["EXISTS", "hg:{g:openai}:conn:b:tpm", "hg:{g:openai}:conn:b:tpm:held"]).await, "0");
}

#[tokio::test]
async fn an_estimate_above_the_limit_needs_an_empty_minute_and_counts_what_it_used() {
    let table = Table::new().await;
    let a = [limited("a", 10)];
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(3, 0)).await), Some(0));
    assert_eq!(ask(&table, "large", &a, estimate(100, 4_000)).await, full(None));
    end(&table, "q1", &a[0], (0, 0)).await;
    assert_eq!(taken(&ask(&table, "large", &a, estimate(100, 4_000)).await), Some(0));
    assert_eq!(table.text(&["HGET", HELD, "total"]).await, "10000");
    end(&table, "large", &a[0], (20, 5)).await;
    table.at(60_999).await;
    assert_eq!(ask(&table, "q2", &a, estimate(1, 0)).await, over(1, None), "what it really used counts in full");
    table.at(61_000).await;
    assert_eq!(taken(&ask(&table, "q2", &a, estimate(10, 0)).await), Some(0));
}

#[tokio::test]
async fn a_request_that_does_not_say_how_much_it_wants_takes_what_answers_had_of_late() {
    let table = Table::new().await;
    let a = [limited("a", 1_000)];
    let assumed = Estimate { bound: Bound::Assumed, ..estimate(5, 1_024) };
    assert_eq!(taken(&ask(&table, "q1", &a, assumed).await), Some(0));
    assert_eq!(ask(&table, "q2", &a, assumed).await, full(None), "nothing is known yet: 1,024 is the whole minute");
    end(&table, "q1", &a[0], (100, 300)).await;
    assert_eq!(taken(&ask(&table, "q2", &a, assumed).await), Some(0));
    assert_eq!(table.text(&["HGET", HELD, "total"]).await, "305000");
    end(&table, "q2", &a[0], (100, 340)).await;
    assert_eq!(table.text(&["HGET", RING, "usual"]).await, "310000", "a quarter of the way to the newest");
}

#[tokio::test]
async fn failed_attempts_count_what_they_used_and_a_probe_that_goes_on_holds_on() {
    let table = Table::new().await;
    let a = [limited("a", 100)];
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(80, 0)).await), Some(0));
    let used = Some(Weighed { total_milli: 30_000, output_milli: 0 });
    let ask_of = |mark| RecordAsk { tokens: used, ..table.record_ask("q1", &a[0], START, mark) };
    table.store().record(&ask_of(Mark::Committed)).await.unwrap();
    assert_eq!(table.text(&["HGET", HELD, "total"]).await, "80000");
    table.store().record(&ask_of(Mark::Failure { sole: Sole::No })).await.unwrap();
    assert_eq!(table.text(&["EXISTS", HELD]).await, "0");
    assert_eq!(ask(&table, "q2", &a, estimate(71, 0)).await, over(61_000, None));
    assert_eq!(taken(&ask(&table, "q2", &a, estimate(70, 0)).await), Some(0));
}

#[tokio::test]
async fn what_a_dead_replica_held_counts_as_used_when_its_lease_ended_and_not_for_longer() {
    let table = Table::new().await;
    let a = [limited("a", 100)];
    assert_eq!(taken(&ask(&table, "dead", &a, estimate(60, 0)).await), Some(0));
    assert_eq!(taken(&ask(&table, "alive", &a, estimate(10, 0)).await), Some(0));
    let renew = async || {
        let held = ConnectionLease { connection: connection("a"), lease: lease("alive", 1) };
        assert!(table.store().renew_connections(&table.group, &[held]).await.unwrap().is_empty());
    };
    table.at(14_999).await;
    renew().await;
    assert_eq!(ask(&table, "q1", &a, estimate(50, 0)).await, full(None));
    table.at(20_000).await;
    // It ended in the second of 15 s.
    assert_eq!(ask(&table, "q1", &a, estimate(50, 0)).await, over(56_000, None));
    assert_eq!(table.text(&["HGET", HELD, "total"]).await, "10000");
    assert_eq!(end(&table, "dead", &a[0], (1, 1)).await, Record::Already);
    table.at(29_000).await;
    renew().await;
    assert_eq!(ask(&table, "q1", &a, estimate(50, 0)).await, over(47_000, None));
    end(&table, "alive", &a[0], (0, 0)).await;
    table.at(76_000).await;
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(100, 0)).await), Some(0));
}

#[tokio::test]
async fn what_nobody_asked_for_until_a_minute_later_is_free() {
    let table = Table::new().await;
    let a = [limited("a", 100)];
    for name in ["dead", "dead-too"] {
        assert_eq!(taken(&ask(&table, name, &a, estimate(50, 0)).await), Some(0));
    }
    let ttl: i64 = table.text(&["PTTL", "hg:{g:openai}:conn:a:leases"]).await.parse().unwrap();
    assert!(ttl > 76_000, "the leases outlive what they used: {ttl}");
    table.command(&["ZREM", "hg:{g:openai}:conn:a:leases", "dead:1"]).await;
    assert_eq!(ask(&table, "q1", &a, estimate(60, 0)).await, full(None));
    assert_eq!(table.text(&["HGET", HELD, "total"]).await, "50000", "a lease that is gone holds nothing");
    table.at(76_000).await;
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(100, 0)).await), Some(0), "the other lapsed a minute ago");
}

#[tokio::test]
async fn the_line_of_a_limit_of_tokens_is_served_in_order_also_where_a_later_one_would_fit() {
    let table = Table::new().await;
    let a = [limited("a", 100)];
    assert_eq!(taken(&wait_for(&table, "q1", &a, 90).await), Some(0));
    assert_eq!(wait_for(&table, "large", &a, 50).await, full(Some(1)));
    assert_eq!(wait_for(&table, "small", &a, 1).await, full(Some(2)), "it would fit, but is not the head");
    assert_eq!(ask(&table, "newcomer", &a, estimate(1, 0)).await, full(None));
    end(&table, "q1", &a[0], (10, 0)).await;
    assert_eq!(wait_for(&table, "small", &a, 1).await, full(Some(2)));
    assert_eq!(taken(&wait_for(&table, "large", &a, 50).await), Some(0));
    assert_eq!(taken(&wait_for(&table, "small", &a, 1).await), Some(0));
    assert_eq!(table.text(&["EXISTS", "hg:{g:openai}:conn:a:waiters"]).await, "0");
}

#[tokio::test]
async fn who_cannot_be_served_within_its_wait_takes_no_place() {
    let table = Table::new().await;
    let a = [limited("a", 100)];
    assert_eq!(taken(&ask(&table, "q1", &a, estimate(90, 0)).await), Some(0));
    end(&table, "q1", &a[0], (90, 0)).await;
    let stand = |ms| AcquireAsk {
        estimate: estimate(50, 0),
        place: Place::Stand { max_wait: millis(ms) },
        ..table.acquire_ask("q2", &a)
    };
    assert_eq!(table.store().acquire(&stand(60_999)).await.unwrap(), over(61_000, None));
    assert_eq!(table.store().acquire(&stand(61_000)).await.unwrap(), over(61_000, Some(1)));
}

#[tokio::test]
async fn the_longer_of_two_waits_is_told() {
    let table = Table::new().await;
    let a = Candidate { rpm: Some(1), max_concurrent: Some(9), ..limited("a", 100) };
    assert_eq!(taken(&ask(&table, "q1", std::slice::from_ref(&a), estimate(90, 0)).await), Some(0));
    let rate =
        Acquire::Full { wait: Some(secs(60)), position: None, states: vec![RungState::OverRate { wait: secs(60) }] };
    assert_eq!(ask(&table, "q2", std::slice::from_ref(&a), estimate(50, 0)).await, rate);
    table.at(5_000).await;
    end(&table, "q1", &a, (90, 0)).await;
    assert_eq!(ask(&table, "q2", std::slice::from_ref(&a), estimate(50, 0)).await, over(61_000, None));
}
