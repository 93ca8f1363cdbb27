//! A connection's health: what each outcome adds to it, and how it fades.

use shared::state::capacity::{Mark, RecordAsk, Sole};
use shared::state::survey::Health;

use super::table::*;

/// The health after one attempt that begins and ends `at_ms`.
async fn after(table: &Table, at_ms: i64, mark: Mark) -> Health {
    table.at(at_ms).await;
    let a = open("a");
    let name = format!("q{at_ms}");
    let (begun_ms, _) = table.take(&name, &a).await;
    let ask: RecordAsk = table.record_ask(&name, &a, begun_ms, mark);
    table.store().record_and_learn(&ask).await.unwrap().1.unwrap()
}

fn ok(first_token_ms: u64) -> Mark {
    Mark::Success { first_token: Some(millis(first_token_ms)) }
}

fn ms(time: Option<std::time::Duration>) -> u128 {
    time.unwrap().as_millis()
}

#[tokio::test]
async fn what_is_thirty_seconds_old_counts_half() {
    let table = Table::new().await;
    after(&table, 0, Mark::Failure { sole: Sole::Yes }).await;
    let health = after(&table, 1, Mark::Success { first_token: None }).await;
    assert_eq!((health.oks_milli, health.first_token, health.recent), (1000, None, None));
    let later = after(&table, 30_001, Mark::Success { first_token: None }).await;
    assert_eq!((later.oks_milli, later.fails_milli), (1500, 499));
}

#[tokio::test]
async fn marks_that_say_nothing_of_the_connection_bring_no_health() {
    let table = Table::new().await;
    let a = open("a");
    for mark in [Mark::Nothing, Mark::Committed] {
        let (begun_ms, _) = table.take("q", &a).await;
        let answer = table.store().record_and_learn(&table.record_ask("q", &a, begun_ms, mark)).await.unwrap();
        assert_eq!(answer.1, None);
    }
}

#[tokio::test]
async fn a_slow_down_shows_in_the_recent_time_within_seconds_and_hardly_in_the_usual_one() {
    let table = Table::new().await;
    let mut health = Health::default();
    for second in 0..60 {
        health = after(&table, second * 1000, ok(200)).await;
    }
    assert_eq!((ms(health.first_token), ms(health.recent)), (200, 200));
    for second in 60..75 {
        health = after(&table, second * 1000, ok(2000)).await;
    }
    assert!(ms(health.recent) > 1000, "{health:?}");
    assert!(ms(health.first_token) < 220, "{health:?}");
}

#[tokio::test]
async fn sparse_notes_are_enough_for_a_slow_down_to_show() {
    let table = Table::new().await;
    let mut health = Health::default();
    for n in 0..30 {
        health = after(&table, n * 10_000, ok(200)).await;
    }
    assert_eq!(ms(health.recent), 200);
    for n in 30..33 {
        health = after(&table, n * 10_000, ok(2000)).await;
    }
    assert!(ms(health.recent) > 1000 && ms(health.first_token) < 300, "{health:?}");
}

#[tokio::test]
async fn one_slow_answer_among_many_hardly_shows() {
    let table = Table::new().await;
    for n in 0..100 {
        after(&table, n * 10, ok(200)).await;
    }
    let health = after(&table, 1000, ok(2000)).await;
    assert!(ms(health.recent) < 250, "{health:?}");
}

#[tokio::test]
async fn without_notes_the_recent_time_goes_back_to_the_usual_one_by_halves() {
    let table = Table::new().await;
    for n in 0..20 {
        after(&table, n * 1000, ok(200)).await;
    }
    for n in 20..60 {
        after(&table, n * 1000, ok(1000)).await;
    }
    let slow = after(&table, 60_000, Mark::Failure { sole: Sole::Yes }).await;
    let excess = |health: Health| ms(health.recent) - ms(health.first_token);
    let later = after(&table, 90_000, Mark::Failure { sole: Sole::Yes }).await;
    assert!(excess(later).abs_diff(excess(slow) / 2) <= 1, "{slow:?} {later:?}");
    let much_later = after(&table, 600_000, Mark::Failure { sole: Sole::Yes }).await;
    assert!(excess(much_later) <= 1, "{much_later:?}");
}

#[tokio::test]
async fn the_usual_time_is_the_mean_of_the_first_twenty_whatever_the_first_one_was() {
    let table = Table::new().await;
    let mut health = after(&table, 0, ok(2000)).await;
    for n in 1..20 {
        health = after(&table, n, ok(100)).await;
    }
    assert_eq!(ms(health.first_token), (2000 + 19 * 100) / 20);
}

#[tokio::test]
async fn a_lasting_change_becomes_the_usual_time_within_the_hour() {
    let table = Table::new().await;
    for n in 0..20 {
        after(&table, n * 1000, ok(200)).await;
    }
    let mut health = Health::default();
    for n in 2..122 {
        health = after(&table, n * 30_000, ok(1000)).await;
    }
    assert!(ms(health.first_token) > 600, "{health:?}");
}

#[tokio::test]
async fn a_clock_that_steps_back_does_no_harm() {
    let table = Table::new().await;
    for n in 0..30 {
        after(&table, n * 1000, ok(200)).await;
    }
    let health = after(&table, 1, ok(200)).await;
    assert_eq!((ms(health.first_token), ms(health.recent)), (200, 200));
}
