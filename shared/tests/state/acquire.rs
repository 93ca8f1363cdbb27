//! `acquire`: the first candidate that is open and has room.

use std::slice::from_ref;
use std::time::Duration;

use shared::state::admission::Place;
use shared::state::capacity::{
    Acquire, AcquireAsk, Candidate, LeaveAsk, Length, LockCause, Mark, Probe, ProbeOf, Record, RungState, Sole,
};

use super::table::*;

fn taken(answer: &Acquire) -> Option<usize> {
    match answer {
        Acquire::Acquired { index, .. } => Some(*index),
        _ => None,
    }
}

async fn stand(table: &Table, replica: usize, name: &str, candidates: &[Candidate]) -> Acquire {
    let ask = AcquireAsk { place: STAND, ..table.acquire_ask(name, candidates) };
    table.stores[replica].acquire(&ask).await.unwrap()
}

fn full(position: Option<u32>, count: usize) -> Acquire {
    Acquire::Full { wait: None, position, states: vec![RungState::Full; count] }
}

#[tokio::test]
async fn the_first_free_candidate_in_the_given_order_is_taken() {
    let table = Table::new().await;
    let both = [slots("a", 1), slots("b", 1)];
    let first = table.acquire("q1", &both).await;
    assert_eq!(
        first,
        Acquire::Acquired { index: 0, begun_ms: START, expires_ms: START + 15_000, probe: Probe::No, endpoint: 0 }
    );
    assert_eq!(taken(&table.acquire("q2", &both).await), Some(1));
    assert_eq!(table.acquire("q3", &both).await, full(None, 2));
}

#[tokio::test]
async fn a_slot_is_back_at_exactly_the_expiry_of_its_lease() {
    let table = Table::new().await;
    let one = [slots("a", 1)];
    table.acquire("q1", &one).await;
    table.at(14_999).await;
    assert_eq!(table.acquire("q2", &one).await, full(None, 1));
    table.at(15_000).await;
    assert_eq!(taken(&table.acquire("q2", &one).await), Some(0));
    assert_eq!(table.text(&["ZCARD", "hg:{g:openai}:conn:a:leases"]).await, "1", "the lapsed one is gone");
}

#[tokio::test]
async fn the_same_lease_gets_the_same_answer_and_takes_one_slot() {
    let table = Table::new().await;
    let both = [slots("a", 1), Candidate { rpm: Some(1), ..open("b") }];
    table.acquire("q1", &both).await;
    let answer = table.acquire("q2", &both).await;
    table.settle("x", 0).await;
    table.record("q1", &both[0], START, Mark::Nothing).await;
    let dump = table.dump().await;
    table.at(700).await;
    assert_eq!(table.acquire("q2", &both).await, answer, "though a is free now");
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn attempts_per_minute_are_exact_and_the_wait_is_told() {
    let table = Table::new().await;
    let one = [Candidate { rpm: Some(2), ..open("a") }];
    table.acquire("q1", &one).await;
    table.at(30_000).await;
    table.acquire("q2", &one).await;
    table.at(59_999).await;
    let over =
        Acquire::Full { wait: Some(millis(1)), position: None, states: vec![RungState::OverRate { wait: millis(1) }] };
    assert_eq!(table.acquire("q3", &one).await, over);
    table.at(60_000).await;
    assert_eq!(taken(&table.acquire("q3", &one).await), Some(0));
}

#[tokio::test]
async fn a_closed_rung_is_passed_over_and_all_closed_writes_nothing() {
    let table = Table::new().await;
    let (a, b) = (open("a"), open("b"));
    let lock = |seconds| Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(seconds)) };
    table.attempt("q1", &a, lock(30)).await;
    assert_eq!(taken(&table.acquire("q2", &[a.clone(), b.clone()]).await), Some(1));
    table
        .attempt(
            "q3",
            &b,
            Mark::LockConnection {
                cause: LockCause::Billing,
                length: Length::Told(secs(20)),
                credential_mark: "c1".into(),
            },
        )
        .await;
    let dump = table.dump().await;
    let answer = stand(&table, 0, "q4", &[a.clone(), b.clone()]).await;
    let states = vec![
        RungState::Locked { cause: LockCause::RateLimited, wait: secs(30) },
        RungState::Locked { cause: LockCause::Billing, wait: secs(20) },
    ];
    assert_eq!(answer, Acquire::Closed { wait: secs(20), states });
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn a_lock_on_one_bucket_leaves_the_connections_other_buckets_open() {
    let table = Table::new().await;
    let a = open("a");
    let other = Candidate { model: model("n"), bucket: "n".parse().unwrap(), ..open("a") };
    table.attempt("q1", &a, Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Doubling }).await;
    assert_eq!(taken(&table.acquire("q2", from_ref(&a)).await), None);
    assert_eq!(taken(&table.acquire("q2", from_ref(&other)).await), Some(0));
    table
        .attempt(
            "q3",
            &other,
            Mark::LockConnection {
                cause: LockCause::Billing,
                length: Length::Told(secs(9)),
                credential_mark: "c1".into(),
            },
        )
        .await;
    assert_eq!(taken(&table.acquire("q4", &[Candidate { bucket: "o".parse().unwrap(), ..a }]).await), None);
}

#[tokio::test]
async fn when_a_lock_ends_exactly_one_probe_is_let_through_and_the_others_wait_for_it() {
    let table = Table::new().await;
    let a = open("a");
    table.attempt("q0", &a, Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(5)) }).await;
    table.at(4_999).await;
    assert_eq!(taken(&table.acquire("q1", from_ref(&a)).await), None);
    table.at(5_000).await;
    let ask = table.acquire_ask("q1", from_ref(&a));
    let probe = Acquire::Acquired {
        index: 0,
        begun_ms: START + 5_000,
        expires_ms: START + 20_000,
        probe: Probe::Yes,
        endpoint: 0,
    };
    for replica in 0..3 {
        assert_eq!(table.stores[replica].acquire(&ask).await.unwrap(), probe, "the same lease, the same answer");
    }
    let probing = RungState::Probing { wait: secs(15), of: ProbeOf::Limits };
    let probing = Acquire::Closed { wait: secs(15), states: vec![probing] };
    assert_eq!(table.stores[1].acquire(&table.acquire_ask("q2", from_ref(&a))).await.unwrap(), probing);
    // The probe's replica dies: at exactly its expiry the next one may try.
    table.at(19_999).await;
    assert_eq!(taken(&table.acquire("q2", from_ref(&a)).await), None);
    table.at(20_000).await;
    assert!(matches!(table.acquire("q2", from_ref(&a)).await, Acquire::Acquired { probe: Probe::Yes, .. }));
}

#[tokio::test]
async fn a_lock_that_lasted_max_lock_lets_a_probe_through_however_far_its_end() {
    let table = Table::new().await;
    let a = open("a");
    let hours = Length::Told(secs(25 * 3600));
    table.attempt("q0", &a, Mark::LockBucket { cause: LockCause::RateLimited, length: hours }).await;
    table.at(899_999).await;
    assert_eq!(taken(&table.acquire("q1", from_ref(&a)).await), None);
    table.at(900_000).await;
    let (begun, probe) = table.take("q1", &a).await;
    assert_eq!(probe, Probe::Yes);
    // It fails: closed for another max_lock, with the later end still in force.
    let again = Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(30)) };
    assert_eq!(table.record("q1", &a, begun, again).await, Record::Recorded { closed: Some(secs(900)) });
    table.at(1_799_999).await;
    assert_eq!(taken(&table.acquire("q2", from_ref(&a)).await), None);
    table.at(1_800_000).await;
    let (begun, _) = table.take("q2", &a).await;
    let success = Mark::Success { first_token: None };
    assert_eq!(table.record("q2", &a, begun, success).await, Record::Recorded { closed: None });
    assert_eq!(table.take("q3", &a).await.1, Probe::No);
}

#[tokio::test]
async fn an_auth_lock_holds_for_the_credential_that_was_refused_only() {
    let table = Table::new().await;
    let old = open("a");
    let new = Candidate { credential_mark: "c2".into(), ..open("a") };
    let refused = |mark: &str| Mark::LockConnection {
        cause: LockCause::Auth,
        length: Length::Told(secs(600)),
        credential_mark: mark.into(),
    };
    table.attempt("q1", &old, refused("c1")).await;
    assert_eq!(taken(&table.acquire("q2", from_ref(&old)).await), None);
    assert_eq!(table.take("q2", &new).await.1, Probe::No);
    table.at(1_000).await;
    table.attempt("q3", &new, refused("c2")).await;
    assert_eq!(taken(&table.acquire("q4", &[new]).await), None, "the new one was refused too");
}

#[tokio::test]
async fn a_waiter_stands_at_every_full_candidate_and_leaves_all_lines_when_served() {
    let table = Table::new().await;
    let both = [slots("a", 1), slots("b", 1)];
    let begun: Vec<i64> = vec![table.take("h1", &both[0]).await.0, table.take("h2", &both[1]).await.0];
    assert_eq!(stand(&table, 0, "q1", &both).await, full(Some(1), 2));
    assert_eq!(stand(&table, 1, "q2", &both).await, full(Some(2), 2));
    table.record("h2", &both[1], begun[1], Mark::Nothing).await;
    assert_eq!(table.acquire("new", &both).await, full(None, 2), "no one overtakes");
    assert_eq!(stand(&table, 1, "q2", &both).await, full(Some(2), 2));
    assert_eq!(taken(&stand(&table, 0, "q1", &both).await), Some(1));
    for name in ["a", "b"] {
        let line = table.text(&["ZSCORE", &format!("hg:{{g:openai}}:conn:{name}:waiters"), "r0|q1"]).await;
        assert_eq!(line, "", "{name}");
    }
    assert_eq!(stand(&table, 1, "q2", &both).await, full(Some(1), 2));
    table.record("h1", &both[0], begun[0], Mark::Nothing).await;
    assert_eq!(taken(&stand(&table, 1, "q2", &both).await), Some(0));
}

#[tokio::test]
async fn a_waiter_served_where_it_did_not_stand_leaves_its_lines_too() {
    let table = Table::new().await;
    let both = [slots("a", 1), slots("b", 1)];
    table
        .attempt("q0", &both[0], Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(1)) })
        .await;
    table.take("h", &both[1]).await;
    let answer = stand(&table, 0, "q1", &both).await;
    let states = vec![RungState::Locked { cause: LockCause::RateLimited, wait: secs(1) }, RungState::Full];
    assert_eq!(answer, Acquire::Full { wait: Some(secs(1)), position: Some(1), states });
    table.at(1_000).await;
    assert_eq!(taken(&stand(&table, 0, "q1", &both).await), Some(0));
    assert_eq!(stand(&table, 1, "q2", &both[1..]).await, full(Some(1), 1));
}

#[tokio::test]
async fn a_place_in_line_dies_two_seconds_after_it_was_last_asked_for() {
    let table = Table::new().await;
    let one = [slots("a", 1)];
    let (begun, _) = table.take("h", &one[0]).await;
    stand(&table, 0, "dead", &one).await;
    table.record("h", &one[0], begun, Mark::Nothing).await;
    table.at(1_999).await;
    assert_eq!(table.acquire("new", &one).await, full(None, 1));
    table.at(2_000).await;
    assert_eq!(taken(&table.acquire("new", &one).await), Some(0));
}

#[tokio::test]
async fn who_leaves_the_lines_stands_in_none() {
    let table = Table::new().await;
    let both = [slots("a", 1), slots("b", 1)];
    table.take("h1", &both[0]).await;
    table.take("h2", &both[1]).await;
    stand(&table, 0, "q1", &both).await;
    let leaves = LeaveAsk { request: request("q1"), ..LeaveAsk::after(&table.acquire_ask("q1", &both)) };
    assert_eq!(table.store().leave_lines(&leaves).await.unwrap(), 2);
    assert_eq!(table.store().leave_lines(&leaves).await.unwrap(), 0, "there is nothing left to leave");
    assert_eq!(stand(&table, 1, "q2", &both).await, full(Some(1), 2));
}

#[tokio::test]
async fn more_candidates_than_one_call_takes_are_asked_in_order() {
    let table = Table::new().await;
    let many: Vec<Candidate> = (0..70).map(|n| slots(&format!("c{n}"), 1)).collect();
    for n in 0..70 {
        assert_eq!(taken(&stand(&table, 0, &format!("q{n}"), &many).await), Some(n));
    }
    assert_eq!(stand(&table, 0, "w", &many).await, full(Some(1), 70));
    table.record("q0", &many[0], START, Mark::Nothing).await;
    assert_eq!(taken(&stand(&table, 0, "q68", &many).await), Some(68), "the same lease, though an earlier one is free");
    assert_eq!(taken(&stand(&table, 0, "w", &many).await), Some(0));
    assert_eq!(stand(&table, 0, "w2", &many).await, full(Some(1), 70));
    table.record("q69", &many[69], START, Mark::Nothing).await;
    assert_eq!(taken(&stand(&table, 0, "w2", &many).await), Some(69));
    assert_eq!(table.text(&["EXISTS", "hg:{g:openai}:conn:c0:waiters"]).await, "0");
}

#[tokio::test]
async fn every_key_of_a_group_expires() {
    let table = Table::new().await;
    let a = Candidate { rpm: Some(100), ..slots("a", 1) };
    let failure = Mark::Failure { sole: Sole::No };
    table.attempt("q1", &a, failure.clone()).await;
    table.attempt("q2", &a, Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Doubling }).await;
    let (begun, _) = table.take("q3", &Candidate { bucket: "n".parse().unwrap(), ..a.clone() }).await;
    stand(&table, 0, "w", &[Candidate { bucket: "n".parse().unwrap(), ..a.clone() }]).await;
    let lock = Mark::LockConnection { cause: LockCause::Auth, length: Length::Doubling, credential_mark: "c1".into() };
    table.record("q3", &a, begun, lock).await;
    table.take("q4", &Candidate { credential_mark: "c2".into(), bucket: "o".parse().unwrap(), ..open("a") }).await;
    let names: Vec<String> = redis::from_redis_value(table.command(&["KEYS", "hg:{g:openai}*"]).await).unwrap();
    assert_eq!(names.len(), 9, "{names:?}");
    for name in names {
        let ttl: i64 = table.text(&["PTTL", &name]).await.parse().unwrap();
        assert!(ttl > 0, "{name}");
    }
}

#[tokio::test]
async fn a_candidate_over_its_rate_for_longer_than_the_allowed_wait_is_not_stood_at() {
    let table = Table::new().await;
    let one = [Candidate { rpm: Some(1), ..open("a") }];
    table.acquire("q1", &one).await;
    let ask = |wait: Duration| AcquireAsk { place: Place::Stand { max_wait: wait }, ..table.acquire_ask("q2", &one) };
    for (wait, expected) in [(millis(59_999), None), (secs(60), Some(1)), (millis(59_999), None)] {
        let answer = table.store().acquire(&ask(wait)).await.unwrap();
        assert!(matches!(answer, Acquire::Full { position, .. } if position == expected), "{answer:?}");
    }
    assert_eq!(table.text(&["EXISTS", "hg:{g:openai}:conn:a:waiters"]).await, "0");
}
