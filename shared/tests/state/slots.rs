//! On a cluster every call stays within one slot.

use shared::limit::{Amount, Cycle, Extent, Period, Quota};
use shared::state::admission::{Admit, AdmitAsk, Hold};
use shared::state::capacity::{
    Acquire, AcquireAsk, Candidate, LeaveAsk, Length, LockCause, Mark, Record, RecordAsk, Sibling, Sole, Unlock,
};
use shared::state::credit::Credit;
use shared::state::leases::{ConnectionLease, KeyLease, Progress};
use shared::state::quotas::QuotaTurn;
use shared::state::records::{KeyRights, Money, Overdraft, SpendLimit};
use shared::state::settlement::{LapsedRequest, Settle, SettleLapsed, Settlement};
use shared::state::survey::{ConnectionQuery, KeyQuery};

use super::table::*;

/// One in a period, one in a window.
fn quotas() -> Vec<Quota> {
    let amount = Amount::Tokens(1_000.try_into().unwrap());
    let total = Extent::Calendar(Period::utc(Cycle::Total));
    vec![Quota { amount, extent: total }, Quota { amount, extent: Extent::Sliding(secs(60)) }]
}

fn turns() -> Vec<QuotaTurn> {
    quotas().iter().map(|quota| QuotaTurn::at(quota, 0)).collect()
}

async fn table() -> Table {
    let table = Table::cluster().await;
    let spend = SpendLimit { limit: nanos(1_000), period: "total".into(), zone: "UTC".into() };
    let rights = KeyRights {
        max_concurrent: Some(1),
        spend: Some(spend),
        tpm: Some(1_000),
        quotas: quotas(),
        ..per_minute(100)
    };
    table.declare(Money::Limited { opening: nanos(100) }, Overdraft::None, rights).await;
    table
}

#[tokio::test]
async fn every_call_on_an_account_stays_within_its_slot() {
    let table = table().await;
    let mut span = month("total", 0, 0);
    (span.start_ms, span.end_ms) = (0, None);
    let ask = |name: &str| AdmitAsk {
        hold: Hold::AtMost(nanos(10)),
        span: Some(span.clone()),
        estimate: estimate(5, 5),
        quotas: turns(),
        place: STAND,
        ..table.admit_ask(name)
    };
    let store = table.store();
    assert!(matches!(store.admit(&ask("q1")).await.unwrap(), Admit::Admitted { .. }));
    assert_eq!(store.admit(&ask("q2")).await.unwrap(), Admit::OverConcurrency { limit: 1, position: Some(1) });
    store.leave_key(&table.account, &table.key, &request("q2")).await.unwrap();
    store.admit(&ask("q3")).await.unwrap();
    let lease = KeyLease { key: table.key.clone(), request: request("q1"), progress: Progress::default() };
    assert!(store.renew_keys(&table.account, &[lease]).await.unwrap().is_empty());
    let lapsed = LapsedRequest {
        account: table.account.clone(),
        key: table.key.clone(),
        request: request("q1"),
        admitted_ms: START,
        span: Some(span.clone()),
        quotas: turns(),
    };
    assert_eq!(store.settle_lapsed(&lapsed).await.unwrap(), SettleLapsed::Alive);
    let settlement = Settlement { span: Some(span.clone()), quotas: turns(), ..table.settlement("q1", 7) };
    assert_eq!(
        store.settle(&settlement).await.unwrap(),
        Settle::Settled { balance: Some(nanos(93)), charged: nanos(7) }
    );
    let credited = store.credit(&table.account, &request("r1"), nanos(7)).await.unwrap();
    assert_eq!(credited, Credit::Credited { balance: nanos(100) });
    assert!(matches!(store.admit(&ask("q3")).await.unwrap(), Admit::Admitted { .. }));
    assert!(store.lapsed(&table.account).await.unwrap().is_empty());
    let query = KeyQuery { key: table.key.clone(), label: Some("total".into()), quotas: turns() };
    let view = store.survey_account(&table.account, &[query]).await.unwrap();
    assert_eq!((view.keys[0].spent, view.keys[0].live, view.reserved), (nanos(7), 1, nanos(10)));
    assert_eq!(store.ledger(&table.account, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn every_call_on_a_group_stays_within_its_slot() {
    let table = table().await;
    let store = table.store();
    let two = [Candidate { rpm: Some(9), tpm: Some(9), ..slots("a", 1) }, slots("b", 1)];
    let [a, b] = &two;
    let (begun_a, _) = table.take("q1", a).await;
    let (begun_b, _) = table.take("q2", b).await;
    let ask = AcquireAsk { place: STAND, ..table.acquire_ask("q3", &two) };
    assert!(matches!(store.acquire(&ask).await.unwrap(), Acquire::Full { position: Some(1), .. }));
    let leases = [("q1", a), ("q2", b)]
        .map(|(name, at)| ConnectionLease { connection: at.connection.clone(), lease: lease(name, 1) });
    assert!(store.renew_connections(&table.group, &leases).await.unwrap().is_empty());
    let lock = Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(60)) };
    assert!(matches!(table.record("q1", a, begun_a, lock).await, Record::Recorded { closed: Some(_) }));
    assert!(matches!(store.acquire(&ask).await.unwrap(), Acquire::Full { .. }));
    let failure = Mark::Failure { sole: Sole::No };
    let siblings = vec![Sibling { connection: a.connection.clone(), bucket: a.bucket.clone() }];
    let failed = RecordAsk { siblings, ..table.record_ask("q2", b, begun_b, failure) };
    assert_eq!(store.record(&failed).await.unwrap(), Record::Recorded { closed: None });
    assert!(matches!(store.acquire(&ask).await.unwrap(), Acquire::Acquired { index: 1, .. }));
    store.acquire(&AcquireAsk { lease: lease("q4", 1), ..ask.clone() }).await.unwrap();
    let leaves = LeaveAsk { request: request("q4"), ..LeaveAsk::after(&ask) };
    store.leave_lines(&leaves).await.unwrap();
    store.unlock(&table.group, &a.connection, Unlock::Bucket(&a.bucket)).await.unwrap();
    let query = |at: &Candidate| ConnectionQuery {
        connection: at.connection.clone(),
        buckets: vec![at.bucket.clone()],
        models: vec![at.model.clone()],
    };
    let view = store.survey_group(&table.group, &[query(a), query(b)], MAX_LOCK).await.unwrap();
    assert_eq!((view.connections[0].live, view.connections[1].live), (0, 1));
}
