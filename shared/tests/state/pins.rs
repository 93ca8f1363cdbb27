//! Pins: the connection a conversation prefers, and when it is given up.

use shared::ids::ConversationHash;
use shared::state::capacity::{
    Acquire, AcquireAsk, CANDIDATES_MAX, Candidate, Length, LockCause, Mark, Pin, Record, RecordAsk, Sole,
};

use super::table::*;

const SUCCESS: Mark = Mark::Success { first_token: None };

fn conversation() -> ConversationHash {
    ConversationHash::of([7; 32])
}

/// Waits so many ms for its connection alone.
fn patient(ms: u64) -> Pin {
    Pin { conversation: conversation(), patience: millis(ms), given_up: Vec::new() }
}

async fn ask(table: &Table, name: &str, candidates: &[Candidate], pin: Pin) -> Acquire {
    let ask = AcquireAsk { pin: Some(pin), ..table.acquire_ask(name, candidates) };
    table.store().acquire(&ask).await.unwrap()
}

fn index(answer: &Acquire) -> usize {
    match answer {
        Acquire::Acquired { index, .. } => *index,
        other => panic!("{other:?}"),
    }
}

/// One attempt that ends like this; binds if it can.
async fn end(table: &Table, name: &str, at: &Candidate, mark: Mark) -> Record {
    let (begun_ms, _) = table.take(name, at).await;
    let ask = RecordAsk { pin: Some(conversation()), ..table.record_ask(name, at, begun_ms, mark) };
    table.store().record(&ask).await.unwrap()
}

#[tokio::test]
async fn a_success_binds_for_an_hour_and_the_bound_connection_is_taken_first_by_every_replica() {
    let table = Table::new().await;
    let three = ["a", "b", "c"].map(open);
    for (place, bound) in three.iter().enumerate() {
        end(&table, &format!("bind{place}"), bound, SUCCESS).await;
        let pinned = AcquireAsk { pin: Some(patient(0)), ..table.acquire_ask(&format!("q{place}"), &three) };
        assert_eq!(index(&table.stores[place].acquire(&pinned).await.unwrap()), place);
    }
    let key = format!("hg:{{g:openai}}:pin:{}", "07".repeat(16));
    assert_eq!(table.text(&["GET", &key]).await, "c");
    let left: u64 = table.text(&["PTTL", &key]).await.parse().unwrap();
    assert!((3_590_000..=3_600_000).contains(&left), "{left}");
}

#[tokio::test]
async fn nothing_but_a_success_binds() {
    let table = Table::new().await;
    let (a, b) = (open("a"), open("b"));
    let lock = Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(1)) };
    for (n, mark) in [Mark::Nothing, Mark::Committed, Mark::Failure { sole: Sole::No }, lock].into_iter().enumerate() {
        end(&table, &format!("q{n}"), &b, mark).await;
    }
    assert_eq!(index(&ask(&table, "next", &[a, b], patient(1000)).await), 0);
}

#[tokio::test]
async fn a_pin_is_given_up_at_once_for_a_lock_and_comes_back_with_it() {
    let table = Table::new().await;
    let both = [open("a"), open("b")];
    end(&table, "q1", &both[1], SUCCESS).await;
    table.at(1).await;
    end(&table, "q2", &both[1], Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(9)) })
        .await;
    assert_eq!(index(&ask(&table, "locked", &both, patient(60_000)).await), 0);
    table.at(9_001).await;
    assert_eq!(index(&ask(&table, "open", &both, patient(60_000)).await), 1, "nobody else was bound meanwhile");
}

#[tokio::test]
async fn a_full_pin_is_waited_for_in_its_line_alone_and_then_all_others_are_offered() {
    let table = Table::new().await;
    let both = [slots("a", 1), slots("b", 1)];
    end(&table, "q1", &both[1], SUCCESS).await;
    let (begun, _) = table.take("holder", &both[1]).await;
    assert_eq!(ask(&table, "q2", &both, patient(1000)).await, Acquire::Pinned { position: 1 });
    let line = async |name: &str| table.text(&["ZCARD", &format!("hg:{{g:openai}}:conn:{name}:waiters")]).await;
    assert_eq!((line("a").await.as_str(), line("b").await.as_str()), ("0", "1"));
    assert_eq!(ask(&table, "q3", &both, patient(1000)).await, Acquire::Pinned { position: 2 });
    assert_eq!(index(&ask(&table, "q3", &both, patient(0)).await), 0, "its patience is at an end");
    assert_eq!(line("b").await, "1", "and it left the line");
    table.record("holder", &both[1], begun, Mark::Nothing).await;
    assert_eq!(index(&ask(&table, "q2", &both, patient(500)).await), 1);
}

#[tokio::test]
async fn a_pin_over_its_rate_is_waited_for_only_if_there_is_room_within_the_patience() {
    let table = Table::new().await;
    let both = [open("a"), Candidate { rpm: Some(1), ..open("b") }];
    end(&table, "q1", &both[1], SUCCESS).await;
    table.at(59_500).await;
    assert_eq!(index(&ask(&table, "short", &both, patient(500)).await), 0);
    assert_eq!(ask(&table, "long", &both, patient(501)).await, Acquire::Pinned { position: 1 });
}

#[tokio::test]
async fn a_connection_that_was_given_up_or_is_no_candidate_is_not_preferred() {
    let table = Table::new().await;
    let both = [open("a"), open("b")];
    end(&table, "q1", &both[1], SUCCESS).await;
    let given_up = Pin { given_up: vec![connection("b")], ..patient(1000) };
    assert_eq!(index(&ask(&table, "slow", &both, given_up).await), 0);
    assert_eq!(index(&ask(&table, "gone", &[open("c"), open("bb")], patient(1000)).await), 0);
    let mut other = patient(1000);
    other.conversation = ConversationHash::of([8; 32]);
    assert_eq!(index(&ask(&table, "other", &both, other).await), 0, "another conversation");
}

#[tokio::test]
async fn of_more_candidates_than_one_call_takes_the_preferred_one_is_still_first() {
    let table = Table::new().await;
    let many: Vec<Candidate> = (0..CANDIDATES_MAX * 3).map(|n| slots(&format!("c{n}"), 1)).collect();
    let last = many.len() - 1;
    end(&table, "q1", &many[last], SUCCESS).await;
    assert_eq!(index(&ask(&table, "q2", &many, patient(1000)).await), last);
    assert_eq!(ask(&table, "q3", &many, patient(1000)).await, Acquire::Pinned { position: 1 });
    assert_eq!(index(&ask(&table, "q4", &many, patient(0)).await), 0);
    assert_eq!(index(&ask(&table, "q2", &many, patient(1000)).await), last, "the same lease again");
    let free: Vec<Candidate> = many.iter().map(|slots| open(slots.connection.as_str())).collect();
    let given_up = Pin { given_up: vec![free[last].connection.clone()], ..patient(1000) };
    assert_eq!(index(&ask(&table, "q5", &free, given_up).await), 0);
}
