//! The lines of connections: accounts in turn, priorities before, nobody for ever behind.

use std::slice::from_ref;

use shared::ids::AccountId;
use shared::limit::Priority;
use shared::state::admission::Place;
use shared::state::capacity::{Acquire, AcquireAsk, Candidate, LeaveAsk, Length, LockCause, Mark, Turn};

use super::table::*;

fn whose(account: &str, priority: u8) -> Turn {
    let account = (!account.is_empty()).then(|| AccountId::parse(account).unwrap());
    Turn { account, priority: Priority::new(priority).unwrap() }
}

fn ask(table: &Table, name: &str, turn: &Turn, at: &[Candidate]) -> AcquireAsk {
    AcquireAsk { place: STAND, turn: turn.clone(), ..table.acquire_ask(name, at) }
}

/// Its place in line; 0: it was served.
async fn place(table: &Table, name: &str, turn: &Turn, at: &[Candidate]) -> u32 {
    match table.store().acquire(&ask(table, name, turn, at)).await.unwrap() {
        Acquire::Full { position, .. } => position.unwrap(),
        Acquire::Acquired { .. } => 0,
        other => panic!("{name}: {other:?}"),
    }
}

/// Frees the one slot again and again and lets the first in line take it: the order in which all of them are served.
async fn served(table: &Table, at: &Candidate, holder: &str, mut waiting: Vec<(String, Turn)>) -> Vec<String> {
    let (mut holder, mut order) = (holder.to_owned(), Vec::new());
    while !waiting.is_empty() {
        table.record(&holder, at, START, Mark::Nothing).await;
        let mut taken = None;
        for (index, (name, turn)) in waiting.iter().enumerate() {
            if place(table, name, turn, from_ref(at)).await == 0 {
                assert_eq!(taken.replace(index), None, "one slot for two");
            }
        }
        holder = waiting.remove(taken.expect("a free slot is taken")).0;
        order.push(holder.clone());
    }
    order
}

/// They come in this order, each `NAME:ACCOUNT:PRIORITY`, while the one slot is held; the order in which they are served.
async fn order_of(arrivals: &[&str]) -> String {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    let mut waiting = Vec::new();
    for arrival in arrivals {
        let [name, account, priority] = arrival.split(':').collect::<Vec<_>>()[..] else { panic!("{arrival}") };
        let turn = whose(account, priority.parse().unwrap());
        place(&table, name, &turn, from_ref(&at)).await;
        waiting.push((name.to_owned(), turn));
    }
    served(&table, &at, "h", waiting).await.join(" ")
}

#[tokio::test]
async fn accounts_that_wait_are_served_in_turn_and_each_in_its_order_of_arrival() {
    let arrivals = ["a1:a:5", "a2:a:5", "a3:a:5", "a4:a:5", "b1:b:5", "c1:c:5", "b2:b:5", "c2:c:5"];
    assert_eq!(order_of(&arrivals).await, "a1 b1 c1 a2 b2 c2 a3 a4");
}

#[tokio::test]
async fn where_accounts_take_no_turns_the_order_is_that_of_arrival() {
    let arrivals = ["a1::5", "a2::5", "b1::5", "a3::5", "c1::5", "b2::5"];
    assert_eq!(order_of(&arrivals).await, "a1 a2 b1 a3 c1 b2");
}

#[tokio::test]
async fn a_better_priority_goes_before_accounts_in_turn_within_it() {
    let arrivals = ["x:a:5", "y:b:9", "z:b:5", "a1:a:0", "a2:a:0", "c1:c:0", "w:c:4"];
    assert_eq!(order_of(&arrivals).await, "a1 c1 a2 w x z y");
    assert_eq!(order_of(&["x::5", "y::9", "z::5", "w::4"]).await, "w x z y", "also without turns");
}

#[tokio::test]
async fn a_step_of_priority_lets_four_turns_go_before_and_no_more() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    let patient = whose("p", 5);
    assert_eq!(place(&table, "patient", &patient, from_ref(&at)).await, 1);
    let mut holder = "h".to_owned();
    // One of another account and a better priority is always there; each is served before a new one comes.
    for turn in 1..=4 {
        let name = format!("hasty{turn}");
        assert_eq!(place(&table, &name, &whose("b", 4), from_ref(&at)).await, 1, "{name}");
        table.record(&holder, &at, START, Mark::Nothing).await;
        assert_eq!(place(&table, &name, &whose("b", 4), from_ref(&at)).await, 0, "{name}");
        holder = name;
    }
    assert_eq!(place(&table, "hasty5", &whose("b", 4), from_ref(&at)).await, 2, "the patient one's turn has come");
    table.record(&holder, &at, START, Mark::Nothing).await;
    assert_eq!(place(&table, "patient", &patient, from_ref(&at)).await, 0);
}

#[tokio::test]
async fn an_account_that_comes_again_and_again_goes_before_another_that_waits_at_most_once() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    for name in ["x1", "x2"] {
        place(&table, name, &whose("x", 5), from_ref(&at)).await;
    }
    // a and b always have one in line, back as soon as it was served.
    for name in ["a0", "b0"] {
        place(&table, name, &whose(&name[..1], 5), from_ref(&at)).await;
    }
    let (mut holder, mut order) = ("h".to_owned(), Vec::new());
    let mut waiting: Vec<String> = ["x1", "x2", "a0", "b0"].map(str::to_owned).to_vec();
    for round in 1..=6 {
        table.record(&holder, &at, START, Mark::Nothing).await;
        let mut taken = None;
        for (index, name) in waiting.iter().enumerate() {
            if place(&table, name, &whose(&name[..1], 5), from_ref(&at)).await == 0 {
                taken = Some(index);
            }
        }
        holder = waiting.remove(taken.unwrap());
        order.push(holder.clone());
        if !holder.starts_with('x') {
            let again = format!("{}{round}", &holder[..1]);
            place(&table, &again, &whose(&holder[..1], 5), from_ref(&at)).await;
            waiting.push(again);
        }
    }
    assert_eq!(order[..4], ["x1", "a0", "b0", "x2"], "{order:?}");
}

#[tokio::test]
async fn a_newcomer_takes_a_free_slot_before_those_in_line_only_if_it_is_its_turn() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    place(&table, "w", &whose("w", 5), from_ref(&at)).await;
    table.record("h", &at, START, Mark::Nothing).await;
    let pass = |name, turn: &Turn| AcquireAsk { place: Place::Pass, ..ask(&table, name, turn, from_ref(&at)) };
    for (name, turn) in [("equal", whose("n", 5)), ("own", whose("w", 5)), ("late", whose("n", 9))] {
        let answer = table.store().acquire(&pass(name, &turn)).await.unwrap();
        assert!(matches!(answer, Acquire::Full { position: None, .. }), "{name}: {answer:?}");
    }
    let answer = table.store().acquire(&pass("urgent", &whose("n", 0))).await.unwrap();
    assert!(matches!(answer, Acquire::Acquired { .. }), "{answer:?}");
}

#[tokio::test]
async fn who_leaves_gives_its_turn_back_and_counts_against_nobody() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    for name in ["a1", "a2", "a3", "a4"] {
        place(&table, name, &whose("a", 5), from_ref(&at)).await;
    }
    for name in ["b1", "b2"] {
        place(&table, name, &whose("b", 5), from_ref(&at)).await;
    }
    for name in ["a2", "a1", "a4", "a3"] {
        let leaves = LeaveAsk::after(&ask(&table, name, &whose("a", 5), from_ref(&at)));
        assert_eq!(table.store().leave_lines(&leaves).await.unwrap(), 1);
    }
    assert_eq!(place(&table, "a5", &whose("a", 5), from_ref(&at)).await, 2, "behind b1, before b2");
    let places = "hg:{g:openai}:conn:a:waiters";
    for name in ["a5", "b1", "b2"] {
        let turn = whose(&name[..1], 5);
        table.store().leave_lines(&LeaveAsk::after(&ask(&table, name, &turn, from_ref(&at)))).await.unwrap();
    }
    assert_eq!(table.text(&["EXISTS", places, &format!("{places}:alive"), &format!("{places}:turns")]).await, "0");
}

#[tokio::test]
async fn those_who_leave_ahead_of_one_of_their_account_do_not_cost_it_its_turn() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    let mut waiting = Vec::new();
    for number in 1..=21 {
        place(&table, &format!("x{number}"), &whose("x", 5), from_ref(&at)).await;
    }
    for number in (2..=20).rev().chain([1]) {
        let leaves = LeaveAsk::after(&ask(&table, &format!("x{number}"), &whose("x", 5), from_ref(&at)));
        assert_eq!(table.store().leave_lines(&leaves).await.unwrap(), 1);
    }
    waiting.push(("x21".to_owned(), whose("x", 5)));
    for name in ["y1", "y2", "y3", "x22"] {
        let turn = whose(&name[..1], 5);
        place(&table, name, &turn, from_ref(&at)).await;
        waiting.push((name.to_owned(), turn));
    }
    assert_eq!(served(&table, &at, "h", waiting).await, ["x21", "y1", "y2", "x22", "y3"]);
}

#[tokio::test]
async fn those_who_stay_behind_leavers_move_up_among_others_and_keep_their_order() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    let mut waiting = Vec::new();
    for name in ["x1", "x2", "x3", "x4", "x5", "x6", "y1", "y2", "y3", "y4", "w1"] {
        let turn = whose(&name[..1], 5);
        place(&table, name, &turn, from_ref(&at)).await;
        waiting.push((name.to_owned(), turn));
    }
    let leave = |name: &str| LeaveAsk::after(&ask(&table, name, &whose("x", 5), from_ref(&at)));
    for name in ["x3", "x1", "x4"] {
        for left in [1, 0] {
            assert_eq!(table.store().leave_lines(&leave(name)).await.unwrap(), left, "{name}, once");
        }
    }
    waiting.retain(|(name, _)| !["x3", "x1", "x4"].contains(&name.as_str()));
    assert_eq!(served(&table, &at, "h", waiting).await.join(" "), "x2 y1 w1 x5 y2 x6 y3 y4");
}

#[tokio::test]
async fn those_who_died_ahead_of_one_of_their_account_do_not_cost_it_its_turn() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    for number in 1..=20 {
        place(&table, &format!("x{number}"), &whose("x", 5), from_ref(&at)).await;
    }
    table.at(1_500).await;
    let mut waiting = Vec::new();
    for name in ["x21", "y1", "x22"] {
        let turn = whose(&name[..1], 5);
        place(&table, name, &turn, from_ref(&at)).await;
        waiting.push((name.to_owned(), turn));
    }
    table.at(2_000).await;
    for name in ["y2", "y3", "x23"] {
        let turn = whose(&name[..1], 5);
        place(&table, name, &turn, from_ref(&at)).await;
        waiting.push((name.to_owned(), turn));
    }
    let order = served(&table, &at, "h", waiting).await.join(" ");
    assert_eq!(order, "x21 y1 x22 y2 y3 x23", "as if the dead had never come");
}

#[tokio::test]
async fn who_is_served_at_another_connection_leaves_its_turn_here_to_those_behind() {
    let table = Table::new().await;
    let (a, b) = (slots("a", 1), slots("b", 1));
    table.take("h", &a).await;
    table.take("i", &b).await;
    let (both, x) = ([a.clone(), b.clone()], whose("x", 5));
    for name in ["x1", "x2", "x3", "x4"] {
        place(&table, name, &x, &both).await;
    }
    let mut holder = "i".to_owned();
    for name in ["x1", "x2"] {
        table.record(&holder, &b, START, Mark::Nothing).await;
        assert_eq!(place(&table, name, &x, &both).await, 0, "{name} is served at b");
        holder = name.to_owned();
    }
    // At a none of its account was served: x3 x4 have the first two turns. At b two were: they have the third and fourth.
    assert_eq!(place(&table, "y1", &whose("y", 5), &both).await, 2);
    for at in [&a, &b] {
        let connection = &at.connection;
        assert_eq!(place(&table, "y1", &whose("y", 5), from_ref(at)).await, 2, "at {connection}");
        assert_eq!(place(&table, "x3", &x, from_ref(at)).await, 1, "at {connection}");
        assert_eq!(place(&table, "x4", &x, from_ref(at)).await, 3, "at {connection}");
    }
    let turns = |connection: &str| format!("hg:{{g:openai}}:conn:{connection}:waiters:turns");
    for (connection, last, served) in [("a", "2", ""), ("b", "4", "2")] {
        assert_eq!(table.text(&["HGET", &turns(connection), "x|5"]).await, last, "at {connection}");
        assert_eq!(table.text(&["HGET", &turns(connection), "served"]).await, served, "at {connection}");
    }
}

#[tokio::test]
async fn who_waits_for_a_rung_that_is_locked_meanwhile_is_in_nobodys_way_there() {
    let told = |seconds| Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(seconds)) };
    let (a, b) = (slots("a", 1), slots("b", 1));
    let other = Candidate { model: model("n"), bucket: "n".parse().unwrap(), ..a.clone() };
    for all in [vec![a.clone(), b.clone()], vec![a.clone()]] {
        let table = Table::new().await;
        table.take("h", &a).await;
        table.take("i", &b).await;
        assert_eq!(place(&table, "w", &whose("w", 5), &all).await, 1);
        assert_eq!(place(&table, "v", &whose("v", 5), from_ref(&other)).await, 2);
        table.record("h", &a, START, told(9)).await;
        assert_eq!(place(&table, "v", &whose("v", 5), from_ref(&other)).await, 2, "w may not know yet");
        table.store().acquire(&ask(&table, "w", &whose("w", 5), &all)).await.unwrap();
        let leaves = LeaveAsk::after(&ask(&table, "w", &whose("w", 5), &all));
        assert_eq!(place(&table, "v", &whose("v", 5), from_ref(&other)).await, 0, "of {} candidates", all.len());
        let still = u32::try_from(all.len()).unwrap() - 1;
        assert_eq!(table.store().leave_lines(&leaves).await.unwrap(), still, "its place at b is kept");
    }
}

#[tokio::test]
async fn who_waits_for_two_models_of_one_connection_has_one_place_there() {
    let table = Table::new().await;
    let a = slots("a", 1);
    let other = Candidate { model: model("n"), bucket: "n".parse().unwrap(), ..a.clone() };
    let both = [a.clone(), other.clone()];
    table.take("h", &a).await;
    let w = whose("w", 5);
    for _ in 0..2 {
        assert_eq!(place(&table, "w", &w, &both).await, 1);
        assert_eq!(table.text(&["HGET", "hg:{g:openai}:conn:a:waiters:turns", "w|5|n"]).await, "1");
    }
    let lock = Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(9)) };
    table.record("h", &a, START, lock).await;
    table.take("i", &Candidate { max_concurrent: None, ..other.clone() }).await;
    assert_eq!(place(&table, "w", &w, &both).await, 1, "one is locked, for the other it stands");
    table.record("i", &other, START, Mark::Nothing).await;
    assert_eq!(place(&table, "w", &w, &both).await, 0);
    assert_eq!(table.text(&["EXISTS", "hg:{g:openai}:conn:a:waiters"]).await, "0");
}

#[tokio::test]
async fn what_is_kept_of_turns_is_no_more_than_who_stands_and_ends_with_the_line() {
    let table = Table::new().await;
    let at = slots("a", 1);
    table.take("h", &at).await;
    let turns = "hg:{g:openai}:conn:a:waiters:turns";
    let mut waiting = Vec::new();
    for number in 0..40 {
        let (name, turn) = (format!("q{number}"), whose(&format!("a{}", number % 20), 5));
        place(&table, &name, &turn, from_ref(&at)).await;
        waiting.push((name, turn));
    }
    assert_eq!(table.text(&["HLEN", turns]).await, "40", "a last turn and a count for each account");
    served(&table, &at, "h", waiting).await;
    assert_eq!(table.text(&["HLEN", turns]).await, "1", "only which turn was served last");
    let left: i64 = table.text(&["PTTL", turns]).await.parse().unwrap();
    assert!((0..=4_000).contains(&left), "{left}");
}
