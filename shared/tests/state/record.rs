//! `record`: what an outcome closes and reopens.

use std::slice::from_ref;
use std::time::Duration;

use shared::state::capacity::{
    Acquire, AcquireAsk, Candidate, Length, LockCause, Mark, Probe, ProbeOf, Record, RecordAsk, RungState, Sibling,
    Sole, Unlock, Unlocked,
};

use super::table::*;

const FAILURE: Mark = Mark::Failure { sole: Sole::No };
const SUCCESS: Mark = Mark::Success { first_token: None };

fn lock(length: Length) -> Mark {
    Mark::LockBucket { cause: LockCause::RateLimited, length }
}

fn closed(wait: Duration) -> Record {
    Record::Recorded { closed: Some(wait) }
}

const OPEN: Record = Record::Recorded { closed: None };

async fn state(table: &Table, at: &Candidate) -> Option<RungState> {
    match table.acquire("look", from_ref(at)).await {
        Acquire::Closed { states, .. } => Some(states[0].clone()),
        Acquire::Acquired { begun_ms, .. } => {
            table.record("look", at, begun_ms, Mark::Nothing).await;
            None
        }
        other @ (Acquire::Full { .. } | Acquire::Pinned { .. }) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_lease_is_given_back_once_and_a_second_record_changes_nothing() {
    let table = Table::new().await;
    let a = slots("a", 1);
    for mark in [Mark::Nothing, SUCCESS, FAILURE, lock(Length::Doubling)] {
        let (begun, _) = table.take("q1", &a).await;
        assert!(matches!(table.record("q1", &a, begun, mark.clone()).await, Record::Recorded { .. }));
        let dump = table.dump().await;
        assert_eq!(table.record("q1", &a, begun, mark).await, Record::Already);
        assert_eq!(table.dump().await, dump);
    }
}

#[tokio::test]
async fn nobody_but_the_holder_gives_a_lease_back_or_closes_anything() {
    let table = Table::new().await;
    let a = slots("a", 1);
    let (begun, _) = table.take("q1", &a).await;
    let dump = table.dump().await;
    assert_eq!(table.record("q2", &a, begun, lock(Length::Doubling)).await, Record::Already);
    assert_eq!(table.dump().await, dump);
}

#[tokio::test]
async fn the_later_end_of_two_locks_wins_whoever_writes_last() {
    let table = Table::new().await;
    let a = open("a");
    let (begun, _) = table.take("q1", &a).await;
    table.take("q2", &a).await;
    table.take("q3", &a).await;
    assert_eq!(table.record("q1", &a, begun, lock(Length::Told(secs(60)))).await, closed(secs(60)));
    assert_eq!(table.record("q2", &a, begun, lock(Length::Told(secs(30)))).await, closed(secs(60)));
    assert_eq!(table.record("q3", &a, begun, lock(Length::Told(secs(90)))).await, closed(secs(90)));
}

#[tokio::test]
async fn only_a_success_that_began_after_the_lock_was_set_clears_it() {
    let table = Table::new().await;
    let a = open("a");
    table.take("stale", &a).await;
    table.at(5).await;
    table.take("same-ms", &a).await;
    table.attempt("q1", &a, lock(Length::Told(secs(1)))).await;
    for (name, begun) in [("stale", START), ("same-ms", START + 5)] {
        assert_eq!(table.record(name, &a, begun, SUCCESS).await, closed(secs(1)), "{name}");
    }
    table.at(1_005).await;
    let (begun, probe) = table.take("probe", &a).await;
    assert_eq!(probe, Probe::Yes);
    assert_eq!(table.record("probe", &a, begun, SUCCESS).await, OPEN);
    assert_eq!(table.take("q2", &a).await.1, Probe::No);
}

#[tokio::test]
async fn a_probe_that_sees_content_opens_the_rung_before_its_stream_ends() {
    let table = Table::new().await;
    let a = slots("a", 2);
    table.attempt("q0", &a, lock(Length::Told(secs(1)))).await;
    table.at(1_000).await;
    let (begun, _) = table.take("probe", &a).await;
    assert_eq!(table.record("probe", &a, begun, Mark::Committed).await, OPEN);
    assert_eq!(table.take("q1", &a).await.1, Probe::No);
    let answer = table.acquire("q2", from_ref(&a)).await;
    assert!(matches!(answer, Acquire::Full { .. }), "the probe keeps its slot: {answer:?}");
    assert_eq!(table.record("probe", &a, begun, SUCCESS).await, OPEN);
}

#[tokio::test]
async fn a_probe_without_a_verdict_hands_its_turn_on() {
    let table = Table::new().await;
    let a = open("a");
    table.attempt("q0", &a, lock(Length::Told(secs(1)))).await;
    table.at(1_000).await;
    let (begun, _) = table.take("probe", &a).await;
    assert_eq!(state(&table, &a).await, Some(RungState::Probing { wait: secs(15), of: ProbeOf::Limits }));
    table.record("probe", &a, begun, Mark::Nothing).await;
    assert_eq!(table.take("next", &a).await.1, Probe::Yes);
}

#[tokio::test]
async fn untold_locks_double_from_two_seconds_to_five_minutes_and_a_burst_counts_once() {
    let table = Table::new().await;
    let a = open("a");
    let mut now = 0;
    for expected in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        table.at(now).await;
        let (begun, _) = table.take("probe", &a).await;
        assert_eq!(table.record("probe", &a, begun, lock(Length::Doubling)).await, closed(secs(expected)));
        now += i64::try_from(expected).unwrap() * 1000;
    }
    let b = open("b");
    table.at(0).await;
    for n in 0..10 {
        table.take(&format!("q{n}"), &b).await;
    }
    for n in 0..10 {
        table.at(n * 10).await;
        let answer = table.record(&format!("q{n}"), &b, START, lock(Length::Doubling)).await;
        assert_eq!(answer, closed(secs(2)), "the end moves on, the level does not");
    }
}

#[tokio::test]
async fn a_level_decays_with_time_and_survives_a_success() {
    let table = Table::new().await;
    let a = open("a");
    table.attempt("q1", &a, lock(Length::Doubling)).await;
    table.at(2_000).await;
    table.attempt("q2", &a, SUCCESS).await;
    table.at(3_000).await;
    assert_eq!(table.attempt("q3", &a, lock(Length::Doubling)).await, closed(secs(4)), "level 2");
    table.at(7_000 + 299_999).await;
    assert_eq!(table.attempt("q4", &a, lock(Length::Doubling)).await, closed(secs(8)), "level 3, nothing decayed");
    table.at(7_000 + 299_999 + 8_000 + 300_000).await;
    assert_eq!(table.attempt("q5", &a, lock(Length::Doubling)).await, closed(secs(8)), "3 - 1 + 1");
}

#[tokio::test]
async fn jitter_stretches_what_doubles_and_nothing_that_was_told() {
    let table = Table::new().await;
    for (jitter, name) in [(80, "a"), (120, "b")] {
        let at = open(name);
        let (begun_ms, _) = table.take("q1", &at).await;
        let mut ask = table.record_ask("q1", &at, begun_ms, lock(Length::Doubling));
        ask.jitter_percent = jitter;
        assert_eq!(table.store().record(&ask).await.unwrap(), closed(millis(u64::from(jitter) * 20)));
        let other = Candidate { bucket: "n".parse().unwrap(), ..at.clone() };
        table.take("q2", &other).await;
        let mut ask = table.record_ask("q2", &other, begun_ms, lock(Length::Told(secs(7))));
        ask.jitter_percent = jitter;
        assert_eq!(table.store().record(&ask).await.unwrap(), closed(secs(7)));
    }
}

#[tokio::test]
async fn the_third_failure_within_sixty_seconds_cools_the_model() {
    let table = Table::new().await;
    let a = open("a");
    assert_eq!(table.attempt("q1", &a, FAILURE).await, OPEN);
    table.at(30_000).await;
    assert_eq!(table.attempt("q2", &a, FAILURE).await, OPEN);
    table.at(59_999).await;
    assert_eq!(table.attempt("q3", &a, FAILURE).await, closed(secs(10)));
    assert_eq!(state(&table, &a).await, Some(RungState::Cooling { wait: secs(10) }));
    let other = Candidate { model: model("n"), ..open("a") };
    assert_eq!(state(&table, &other).await, None, "other models of the connection are not concerned");
}

#[tokio::test]
async fn a_failure_exactly_sixty_seconds_after_the_first_begins_a_new_count() {
    let table = Table::new().await;
    let a = open("a");
    for (ms, expected) in [(0, OPEN), (1, OPEN), (60_000, OPEN), (60_001, OPEN), (60_002, closed(secs(10)))] {
        table.at(ms).await;
        assert_eq!(table.attempt("q", &a, FAILURE).await, expected, "{ms}");
    }
}

#[tokio::test]
async fn failures_under_a_tenth_of_the_minutes_traffic_cool_nothing() {
    let table = Table::new().await;
    for (name, successes, expected) in [("a", 27, closed(secs(10))), ("b", 28, OPEN)] {
        let at = open(name);
        table.attempt("q", &at, FAILURE).await;
        for _ in 0..successes {
            table.attempt("q", &at, SUCCESS).await;
        }
        assert_eq!(table.attempt("q", &at, FAILURE).await, OPEN);
        assert_eq!(table.attempt("q", &at, FAILURE).await, expected, "3 of {}", successes + 3);
    }
}

#[tokio::test]
async fn a_sole_connection_cools_only_when_most_attempts_failed() {
    let table = Table::new().await;
    let a = open("a");
    let failure = Mark::Failure { sole: Sole::Yes };
    table.attempt("q", &a, failure.clone()).await;
    for _ in 0..4 {
        table.attempt("q", &a, SUCCESS).await;
    }
    for _ in 0..3 {
        assert_eq!(table.attempt("q", &a, failure.clone()).await, OPEN);
    }
    assert_eq!(table.attempt("q", &a, failure).await, closed(secs(10)), "5 of 9");
}

/// Four successes and three failures of `at`, told of its siblings: what the last failure closes.
async fn three_of_seven_failed(table: &Table, at: &Candidate, siblings: &[&Candidate]) -> Record {
    let told = |other: &&Candidate| Sibling { connection: other.connection.clone(), bucket: other.bucket.clone() };
    let siblings: Vec<Sibling> = siblings.iter().map(told).collect();
    let mut last = OPEN;
    for mark in [FAILURE, SUCCESS, SUCCESS, SUCCESS, SUCCESS, FAILURE, FAILURE] {
        let (begun_ms, _) = table.take("q", at).await;
        let ask = RecordAsk { siblings: siblings.clone(), ..table.record_ask("q", at, begun_ms, mark) };
        last = table.store().record(&ask).await.unwrap();
    }
    last
}

#[tokio::test]
async fn the_last_usable_connection_cools_only_when_most_of_its_attempts_failed() {
    let table = Table::new().await;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(open);
    let b = Candidate { bucket: "n".parse().unwrap(), ..b };
    assert_eq!(three_of_seven_failed(&table, &a, &[&b, &c]).await, closed(secs(10)), "two others can take its traffic");
    assert_eq!(three_of_seven_failed(&table, &b, &[&a, &c]).await, closed(secs(10)), "one other can");
    assert_eq!(three_of_seven_failed(&table, &c, &[&a, &b]).await, OPEN, "it is the last: all others are cooling");
    let sole = Mark::Failure { sole: Sole::Yes };
    assert_eq!(table.attempt("q", &c, sole.clone()).await, OPEN, "4 of 8");
    assert_eq!(table.attempt("q", &c, sole).await, closed(secs(10)), "5 of 9");
    assert_eq!(three_of_seven_failed(&table, &d, &[]).await, closed(secs(10)), "nothing was said of any other");
}

#[tokio::test]
async fn a_sibling_counts_as_unusable_while_it_is_locked_or_probed_by_someone_else() {
    let table = Table::new().await;
    let [a, b] = ["a", "b"].map(open);
    table.attempt("q", &b, lock(Length::Told(secs(1)))).await;
    assert_eq!(three_of_seven_failed(&table, &a, &[&b]).await, OPEN, "locked");
    table.at(60_000).await;
    let (begun, _) = table.take("probe", &b).await;
    assert_eq!(three_of_seven_failed(&table, &a, &[&b]).await, OPEN, "someone's probe is under way");
    table.record("probe", &b, begun, Mark::Nothing).await;
    assert_eq!(table.attempt("q", &a, FAILURE).await, closed(secs(10)));
    let c = open("c");
    assert_eq!(three_of_seven_failed(&table, &c, &[&b]).await, closed(secs(10)), "the next attempt may probe it");
    table
        .attempt(
            "q",
            &b,
            Mark::LockConnection {
                cause: LockCause::Auth,
                length: Length::Told(secs(60)),
                credential_mark: "c1".into(),
            },
        )
        .await;
    assert_eq!(three_of_seven_failed(&table, &open("d"), &[&b]).await, OPEN, "the whole connection is locked");
}

#[tokio::test]
async fn a_probe_tells_whether_it_is_of_a_limit_or_of_a_failure() {
    let table = Table::new().await;
    let connection =
        |cause| Mark::LockConnection { cause, length: Length::Told(secs(1)), credential_mark: "c1".into() };
    let marks = [
        (lock(Length::Told(secs(1))), ProbeOf::Limits),
        (connection(LockCause::RateLimited), ProbeOf::Limits),
        (connection(LockCause::Billing), ProbeOf::Limits),
        (connection(LockCause::Auth), ProbeOf::Failures),
        (FAILURE, ProbeOf::Failures),
    ];
    for (number, (mark, of)) in marks.into_iter().enumerate() {
        table.at(0).await;
        let at = open(&format!("c{number}"));
        for n in 0..3 {
            table.take(&format!("q{n}"), &at).await;
        }
        for n in 0..3 {
            table.record(&format!("q{n}"), &at, START, mark.clone()).await;
        }
        table.at(10_000).await;
        table.take("probe", &at).await;
        assert_eq!(state(&table, &at).await, Some(RungState::Probing { wait: secs(15), of }), "{mark:?}");
    }
}

#[tokio::test]
async fn a_failed_probe_cools_at_once_and_longer() {
    let table = Table::new().await;
    let a = open("a");
    for _ in 0..3 {
        table.attempt("q", &a, FAILURE).await;
    }
    let mut now = 0;
    let mut last = 10;
    for expected in [20, 40, 80, 160, 300, 300] {
        now += last * 1000;
        table.at(now).await;
        let (begun, probe) = table.take("probe", &a).await;
        assert_eq!(probe, Probe::Yes);
        assert_eq!(table.record("probe", &a, begun, FAILURE).await, closed(secs(expected)));
        last = i64::try_from(expected).unwrap();
    }
}

#[tokio::test]
async fn the_later_end_of_a_cooldown_wins_over_a_shorter_draw_of_the_jitter() {
    let table = Table::new().await;
    let a = open("a");
    for _ in 0..3 {
        table.attempt("q", &a, FAILURE).await;
    }
    // Probes are let through every second, long before the end.
    let max_lock = secs(1);
    let mut last = None;
    for n in 1..=8 {
        table.at(n * 1_000).await;
        let ask = AcquireAsk { max_lock, ..table.acquire_ask("q", from_ref(&a)) };
        let Acquire::Acquired { begun_ms, .. } = table.store().acquire(&ask).await.unwrap() else { panic!("{n}") };
        let mut ask = RecordAsk { max_lock, ..table.record_ask("q", &a, begun_ms, FAILURE) };
        ask.jitter_percent = if n < 8 { 120 } else { 80 };
        table.store().record(&ask).await.unwrap();
        let end = table.text(&["HGET", "hg:{g:openai}:conn:a:model:m:cooldown", "until"]).await;
        assert!(n < 8 || last == Some(end.clone()), "{last:?} became {end}");
        last = Some(end);
    }
}

#[tokio::test]
async fn failures_of_attempts_that_began_before_the_cooldown_count_nothing() {
    let table = Table::new().await;
    let a = open("a");
    for n in 0..20 {
        table.take(&format!("q{n}"), &a).await;
    }
    table.at(100).await;
    for n in 0..20 {
        let answer = table.record(&format!("q{n}"), &a, START, FAILURE).await;
        assert_eq!(answer, if n < 2 { OPEN } else { closed(secs(10)) }, "{n}");
    }
    assert_eq!(table.text(&["HGET", "hg:{g:openai}:conn:a:model:m:cooldown", "level"]).await, "1");
}

#[tokio::test]
async fn a_stale_success_clears_no_cooldown_and_a_fresh_one_begins_a_new_count() {
    let table = Table::new().await;
    let a = open("a");
    table.take("stale", &a).await;
    for _ in 0..3 {
        table.attempt("q", &a, FAILURE).await;
    }
    assert_eq!(table.record("stale", &a, START, SUCCESS).await, closed(secs(10)));
    table.at(10_000).await;
    assert_eq!(table.attempt("probe", &a, SUCCESS).await, OPEN);
    table.at(10_001).await;
    assert_eq!(table.attempt("q", &a, FAILURE).await, OPEN);
    assert_eq!(table.attempt("q", &a, FAILURE).await, OPEN);
    assert_eq!(table.attempt("q", &a, FAILURE).await, closed(secs(20)), "the level is remembered");
}

#[tokio::test]
async fn unlock_opens_at_once_on_every_replica() {
    let table = Table::new().await;
    let a = open("a");
    table.attempt("q1", &a, lock(Length::Told(secs(900)))).await;
    let what = Unlock::Bucket(&a.bucket);
    assert_eq!(table.store().unlock(&table.group, &a.connection, what).await.unwrap(), Unlocked::Opened);
    assert_eq!(
        table.stores[2].acquire(&table.acquire_ask("q2", from_ref(&a))).await.unwrap(),
        Acquire::Acquired { index: 0, begun_ms: START, expires_ms: START + 15_000, probe: Probe::No, endpoint: 0 }
    );
    assert_eq!(table.store().unlock(&table.group, &a.connection, what).await.unwrap(), Unlocked::Nothing);
}
