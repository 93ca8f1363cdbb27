//! The line of a client key: order of arrival over all replicas, and who wakes whom.

use shared::state::admission::{Admit, AdmitAsk, Place};
use shared::state::capacity::{Acquire, AcquireAsk, LeaveAsk, Mark};
use shared::state::records::KeyRights;
use tokio::sync::mpsc;

use super::table::*;

async fn stand(table: &Table, replica: usize, name: &str) -> Option<u32> {
    let ask = AdmitAsk { place: STAND, ..table.admit_ask(name) };
    match table.stores[replica].admit(&ask).await.unwrap() {
        Admit::OverConcurrency { position, .. } | Admit::OverRate { position, .. } => position,
        Admit::Admitted { .. } => Some(0),
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn callers_are_served_in_order_of_arrival_over_all_replicas() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    table.admit("q0").await;
    assert_eq!(stand(&table, 0, "q1").await, Some(1));
    assert_eq!(stand(&table, 1, "q2").await, Some(2), "the same µs: behind");
    assert_eq!(stand(&table, 2, "q3").await, Some(3));
    table.settle("q0", 0).await;
    assert_eq!(table.admit("new").await, Admit::OverConcurrency { limit: 1, position: None }, "no one overtakes");
    assert_eq!(stand(&table, 1, "q2").await, Some(2));
    assert_eq!(stand(&table, 0, "q1").await, Some(0));
    assert_eq!(stand(&table, 1, "q2").await, Some(1));
    table.settle("q1", 0).await;
    assert_eq!(stand(&table, 1, "q2").await, Some(0));
    assert_eq!(stand(&table, 2, "q3").await, Some(1));
}

#[tokio::test]
async fn with_enough_free_slots_those_behind_need_not_wait_for_those_before() {
    let table = Table::new().await;
    table.declare_rights(at_once(2)).await;
    for name in ["a", "b"] {
        table.admit(name).await;
    }
    assert_eq!(stand(&table, 0, "q1").await, Some(1));
    assert_eq!(stand(&table, 1, "q2").await, Some(2));
    table.settle("a", 0).await;
    assert_eq!(stand(&table, 1, "q2").await, Some(2), "one slot: it is for the head");
    table.settle("b", 0).await;
    assert_eq!(stand(&table, 1, "q2").await, Some(0), "two slots: the head's and this one");
    assert_eq!(table.admit("new").await, Admit::OverConcurrency { limit: 2, position: None });
    assert_eq!(stand(&table, 0, "q1").await, Some(0));
}

#[tokio::test]
async fn a_place_ends_exactly_two_seconds_after_it_was_last_asked_for() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    table.admit("q0").await;
    stand(&table, 0, "dead").await;
    table.at(1_000).await;
    assert_eq!(stand(&table, 1, "q1").await, Some(2));
    table.at(1_999).await;
    assert_eq!(stand(&table, 1, "q1").await, Some(2));
    table.at(2_000).await;
    assert_eq!(stand(&table, 1, "q1").await, Some(1));
    assert_eq!(stand(&table, 0, "dead").await, Some(2), "it lost its place");
}

#[tokio::test]
async fn the_wait_counts_those_before_in_line() {
    let table = Table::new().await;
    table.declare_rights(per_minute(2)).await;
    table.admit("q0").await;
    table.at(10_000).await;
    table.admit("q1").await;
    table.at(20_000).await;
    let wait = async |replica: usize, name: &str| {
        let ask = AdmitAsk { place: STAND, ..table.admit_ask(name) };
        match table.stores[replica].admit(&ask).await.unwrap() {
            Admit::OverRate { wait, .. } => wait.as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wait(0, "w1").await, 40);
    assert_eq!(wait(1, "w2").await, 50);
    assert_eq!(wait(2, "w3").await, 100, "once more round: a minute after the first of the two");
}

#[tokio::test]
async fn standing_and_leaving_twice_changes_nothing_more() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    table.admit("q0").await;
    stand(&table, 0, "q1").await;
    let dump = table.dump().await;
    assert_eq!(stand(&table, 0, "q1").await, Some(1));
    assert_eq!(table.dump().await, dump);
    for _ in 0..2 {
        table.store().leave_key(&table.account, &table.key, &request("q1")).await.unwrap();
    }
    assert_eq!(stand(&table, 1, "q2").await, Some(1));
}

#[tokio::test]
async fn no_place_is_taken_by_who_does_not_want_to_wait() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    table.admit("q0").await;
    for place in [Place::Pass, Place::Stand { max_wait: millis(0) }] {
        let ask = AdmitAsk { place, ..table.admit_ask("q1") };
        let answer = table.store().admit(&ask).await.unwrap();
        assert_eq!(answer, Admit::OverConcurrency { limit: 1, position: None });
    }
}

/// The next wake-up; fails if none comes.
async fn heard(wakes: &mut mpsc::UnboundedReceiver<(String, String)>) -> (String, String) {
    tokio::time::timeout(secs(5), wakes.recv()).await.expect("nobody was woken").unwrap()
}

/// The channel and text of each wake-up.
async fn wakes(table: &Table) -> mpsc::UnboundedReceiver<(String, String)> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(move |push: redis::PushInfo| {
        if push.kind == redis::PushKind::PMessage {
            let [_, channel, text] = &push.data[..] else { panic!("{push:?}") };
            let word = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).unwrap();
            sender.send((word(channel), word(text))).map_err(|_| redis::aio::SendError)?;
        }
        Ok::<(), redis::aio::SendError>(())
    });
    let client = redis::Client::open(format!("{}?protocol=resp3", table.url())).unwrap();
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    connection.psubscribe("hg:wake:*").await.unwrap();
    // The subscription lives as long as its connection.
    tokio::spawn(async move {
        let _connection = connection;
        std::future::pending::<()>().await;
    });
    receiver
}

#[tokio::test]
async fn a_freed_slot_wakes_the_first_live_caller_on_its_own_replica() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    let mut wakes = wakes(&table).await;
    table.admit("q0").await;
    stand(&table, 0, "dead").await;
    table.at(1_000).await;
    stand(&table, 2, "q1").await;
    table.at(2_000).await;
    table.settle("q0", 0).await;
    assert_eq!(heard(&mut wakes).await, ("hg:wake:r2".into(), "q1".into()));
    table.settle("q0", 0).await;
    assert_eq!(stand(&table, 2, "q1").await, Some(0));
    assert!(wakes.try_recv().is_err(), "a settlement that came twice wakes once");
}

#[tokio::test]
async fn who_is_served_wakes_the_next_if_there_is_more_room() {
    let table = Table::new().await;
    table.declare_rights(KeyRights { max_concurrent: Some(2), ..KeyRights::default() }).await;
    let mut wakes = wakes(&table).await;
    for name in ["a", "b"] {
        table.admit(name).await;
    }
    stand(&table, 1, "q1").await;
    stand(&table, 2, "q2").await;
    for name in ["a", "b"] {
        table.settle(name, 0).await;
        assert_eq!(heard(&mut wakes).await, ("hg:wake:r1".into(), "q1".into()), "the head has not come yet");
    }
    assert_eq!(stand(&table, 1, "q1").await, Some(0));
    assert_eq!(heard(&mut wakes).await, ("hg:wake:r2".into(), "q2".into()));
}

#[tokio::test]
async fn as_many_are_woken_as_there_are_free_slots() {
    let table = Table::new().await;
    let a = slots("a", 3);
    let mut wakes = wakes(&table).await;
    for name in ["h1", "h2", "h3"] {
        table.take(name, &a).await;
    }
    for (replica, name) in [(0, "q1"), (1, "q2"), (2, "q3")] {
        let ask = AcquireAsk { place: STAND, ..table.acquire_ask(name, std::slice::from_ref(&a)) };
        table.stores[replica].acquire(&ask).await.unwrap();
    }
    let (q1, q2) = (("hg:wake:r0".to_owned(), "q1".to_owned()), ("hg:wake:r1".to_owned(), "q2".to_owned()));
    table.record("h1", &a, START, Mark::Nothing).await;
    assert_eq!(heard(&mut wakes).await, q1);
    table.record("h2", &a, START, Mark::Nothing).await;
    assert_eq!([heard(&mut wakes).await, heard(&mut wakes).await], [q1, q2], "the first has not come yet");
    assert!(wakes.try_recv().is_err());
}

#[tokio::test]
async fn who_was_woken_and_leaves_instead_wakes_the_next() {
    let table = Table::new().await;
    let a = slots("a", 1);
    let mut wakes = wakes(&table).await;
    table.take("h", &a).await;
    let ask = |name: &str| AcquireAsk { place: STAND, ..table.acquire_ask(name, std::slice::from_ref(&a)) };
    for (replica, name) in [(1, "q1"), (2, "q2"), (0, "q3")] {
        table.stores[replica].acquire(&ask(name)).await.unwrap();
    }
    table.stores[0].leave_lines(&LeaveAsk::after(&ask("q3"))).await.unwrap();
    assert!(wakes.try_recv().is_err(), "who was not first was not woken");
    table.record("h", &a, START, Mark::Nothing).await;
    assert_eq!(heard(&mut wakes).await, ("hg:wake:r1".into(), "q1".into()));
    for _ in 0..2 {
        table.stores[1].leave_lines(&LeaveAsk::after(&ask("q1"))).await.unwrap();
    }
    assert_eq!(heard(&mut wakes).await, ("hg:wake:r2".into(), "q2".into()));
    assert!(wakes.try_recv().is_err(), "once");
}

#[tokio::test]
async fn who_is_served_at_one_connection_wakes_the_next_in_line_at_another_that_has_room() {
    let table = Table::new().await;
    let (a, b) = (slots("a", 1), slots("b", 1));
    let mut wakes = wakes(&table).await;
    for (name, at) in [("h1", &a), ("h2", &b)] {
        table.take(name, at).await;
    }
    for (replica, name) in [(1, "q1"), (2, "q2")] {
        let ask = AcquireAsk { place: STAND, ..table.acquire_ask(name, &[a.clone(), b.clone()]) };
        table.stores[replica].acquire(&ask).await.unwrap();
    }
    for (name, at) in [("h1", &a), ("h2", &b)] {
        table.record(name, at, START, Mark::Nothing).await;
        assert_eq!(heard(&mut wakes).await, ("hg:wake:r1".into(), "q1".into()), "the head has not come yet");
    }
    let ask = table.acquire_ask("q1", &[a.clone(), b.clone()]);
    assert!(matches!(table.stores[1].acquire(&ask).await.unwrap(), Acquire::Acquired { index: 0, .. }));
    assert_eq!(heard(&mut wakes).await, ("hg:wake:r2".into(), "q2".into()), "of b it would not have heard");
    assert!(wakes.try_recv().is_err(), "a is full");
}
