//! `explain`: what a newcomer would meet, in the words of `acquire`, and that looking writes nothing.

use shared::ids::KeyId;
use shared::state::capacity::{Acquire, Candidate, Length, LockCause, Mark, Probe, ProbeOf, RecordAsk, RungState};
use shared::state::explain::RungView;
use shared::state::records::OnRecord;
use shared::state::survey::Closure;

use super::table::*;

/// What is told of these rungs; two looks at one moment say the same and write nothing.
async fn look(table: &Table, rungs: &[Candidate]) -> Vec<RungView> {
    let before = table.dump().await;
    let told = table.store().explain(&table.group, rungs, MAX_LOCK).await.unwrap();
    assert_eq!(table.stores[2].explain(&table.group, rungs, MAX_LOCK).await.unwrap(), told);
    assert_eq!(table.dump().await, before, "looking wrote");
    told
}

/// The same of one rung.
async fn look_at(table: &Table, rung: &Candidate) -> RungView {
    look(table, std::slice::from_ref(rung)).await.remove(0)
}

/// An untouched rung.
fn untouched() -> RungView {
    RungView {
        state: None,
        probe: Probe::No,
        endpoint: 0,
        live: 0,
        waiting: 0,
        rate_used: 0,
        lock: Closure::Open,
        bucket_lock: Closure::Open,
        cooldown: Closure::Open,
        endpoints: Vec::new(),
    }
}

fn lock(cause: LockCause, seconds: u64) -> Mark {
    Mark::LockBucket { cause, length: Length::Told(secs(seconds)) }
}

#[tokio::test]
async fn a_rung_that_nothing_is_known_of_is_open_and_so_is_no_rung_at_all() {
    let table = Table::new().await;
    assert_eq!(look(&table, &[]).await, []);
    assert_eq!(look(&table, &[slots("a", 1), open("b")]).await, [untouched(), untouched()]);
}

#[tokio::test]
async fn a_locked_bucket_is_told_with_its_cause_and_time_then_the_probe_that_is_due_and_the_one_under_way() {
    let table = Table::new().await;
    table.attempt("q", &open("a"), lock(LockCause::RateLimited, 30)).await;
    table.at(10_000).await;
    let wait = secs(20);
    let closed = Closure::Closed { cause: Some(LockCause::RateLimited), wait };
    let state = Some(RungState::Locked { cause: LockCause::RateLimited, wait });
    assert_eq!(look_at(&table, &open("a")).await, RungView { state, bucket_lock: closed, ..untouched() });
    table.at(30_000).await;
    let due = RungView { probe: Probe::Yes, bucket_lock: Closure::ProbeDue, ..untouched() };
    assert_eq!(look_at(&table, &open("a")).await, due);
    table.take("probe", &open("a")).await;
    let (wait, cause) = (secs(15), Some(LockCause::RateLimited));
    let state = Some(RungState::Probing { wait, of: ProbeOf::Limits });
    let probed = RungView { state, live: 1, bucket_lock: Closure::Probing { cause, wait }, ..untouched() };
    assert_eq!(look_at(&table, &open("a")).await, probed);
}

#[tokio::test]
async fn of_several_closures_the_one_that_ends_last_is_the_reason_and_a_lock_of_another_credential_is_none() {
    let table = Table::new().await;
    table.attempt("q1", &open("a"), lock(LockCause::RateLimited, 30)).await;
    let other = Candidate { bucket: "other".parse().unwrap(), ..open("a") };
    let (cause, length) = (LockCause::Auth, Length::Told(secs(60)));
    let mark = Mark::LockConnection { cause, length, credential_mark: "c1".into() };
    table.attempt("q2", &other, mark).await;
    let told = look_at(&table, &open("a")).await;
    assert_eq!(told.state, Some(RungState::Locked { cause: LockCause::Auth, wait: secs(60) }));
    assert_eq!(told.lock, Closure::Closed { cause: Some(LockCause::Auth), wait: secs(60) });
    assert_eq!(told.bucket_lock, Closure::Closed { cause: Some(LockCause::RateLimited), wait: secs(30) });
    let renewed = look_at(&table, &Candidate { credential_mark: "c2".into(), ..open("a") }).await;
    assert_eq!(renewed.state, Some(RungState::Locked { cause: LockCause::RateLimited, wait: secs(30) }));
    assert_eq!(renewed.lock, Closure::Open);
}

#[tokio::test]
async fn slots_rates_and_callers_in_line_are_told_as_acquire_counts_them() {
    let table = Table::new().await;
    let rung = Candidate { rpm: Some(2), ..slots("a", 2) };
    table.take("q1", &rung).await;
    table.at(10_000).await;
    assert_eq!(look_at(&table, &rung).await, RungView { live: 1, rate_used: 1, ..untouched() });
    table.take("q2", &rung).await;
    let full = RungView { state: Some(RungState::Full), live: 2, rate_used: 2, ..untouched() };
    assert_eq!(look_at(&table, &rung).await, full);
    let ask = table.acquire_ask("q3", std::slice::from_ref(&rung));
    table.store().acquire(&shared::state::capacity::AcquireAsk { place: STAND, ..ask }).await.unwrap();
    assert_eq!(look_at(&table, &rung).await, RungView { waiting: 1, ..full });
    // The leases lapsed, the place too; the rate is still used up.
    table.at(25_000).await;
    let state = Some(RungState::OverRate { wait: secs(35) });
    assert_eq!(look_at(&table, &rung).await, RungView { state, rate_used: 2, ..untouched() });
    table.at(60_000).await;
    assert_eq!(look_at(&table, &rung).await, RungView { rate_used: 1, ..untouched() });
}

#[tokio::test]
async fn a_clock_that_stepped_back_by_more_than_a_window_is_answered_without_a_write() {
    let table = Table::new().await;
    table.at(200_000).await;
    let rung = Candidate { rpm: Some(1), ..open("a") };
    table.take("q1", &rung).await;
    table.at(0).await;
    let told = look_at(&table, &rung).await;
    assert_eq!(told.state, Some(RungState::OverRate { wait: secs(60) }));
    assert!(matches!(table.acquire("q2", &[rung]).await, Acquire::Full { .. }));
}

#[tokio::test]
async fn each_endpoint_is_told_and_the_one_that_would_be_called() {
    let table = Table::new().await;
    let chain = Candidate { endpoints: (0..2).map(endpoint).collect(), ..open("a") };
    let rest = async |name: &str| {
        let Acquire::Acquired { endpoint: number, begun_ms, .. } =
            table.acquire(name, std::slice::from_ref(&chain)).await
        else {
            panic!("{name}")
        };
        let mark = Mark::Endpoint { rest: secs(60) };
        let ask = RecordAsk { endpoint: Some(endpoint(number)), ..table.record_ask(name, &chain, begun_ms, mark) };
        table.store().record(&ask).await.unwrap();
    };
    rest("q1").await;
    let cooling = |seconds| Closure::Closed { cause: None, wait: secs(seconds) };
    let first = RungView { endpoint: 1, endpoints: vec![cooling(60), Closure::Open], ..untouched() };
    assert_eq!(look_at(&table, &chain).await, first);
    table.at(1_000).await;
    rest("q2").await;
    let state = Some(RungState::Endpoints { wait: secs(59) });
    let both = RungView { state, endpoints: vec![cooling(59), cooling(60)], ..untouched() };
    // Another rung of the same group is looked at with its own endpoints.
    assert_eq!(look(&table, &[open("b"), chain.clone()]).await, [untouched(), both]);
    table.at(60_000).await;
    let due = look_at(&table, &chain).await;
    assert_eq!((due.state, due.probe, due.endpoint), (None, Probe::Yes, 0));
    assert_eq!(due.endpoints, [Closure::ProbeDue, cooling(1)]);
}

#[tokio::test]
async fn a_client_key_is_found_by_its_name_whether_or_not_it_may_be_used() {
    let table = Table::new().await;
    let ci = || table.store().on_record(&table.account, &table.key);
    assert_eq!(ci().await.unwrap(), OnRecord::Missing);
    table.declare_rights(per_minute(3)).await;
    let OnRecord::Active(caller) = ci().await.unwrap() else { panic!("not active") };
    assert_eq!((caller.rights.rpm, &caller.key), (Some(3), &table.key));
    let other = KeyId::parse("other").unwrap();
    assert_eq!(table.store().on_record(&table.account, &other).await.unwrap(), OnRecord::Missing);
    table.store().declare(&[]).await.unwrap();
    assert!(matches!(ci().await.unwrap(), OnRecord::Inactive(_)));
}
