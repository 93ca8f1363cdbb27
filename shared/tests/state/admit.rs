//! `admit`: limits of a client key, money and missing state.

use std::sync::Arc;

use shared::ids::SecretHash;
use shared::state::admission::{Admit, AdmitAsk, Hold, Place};
use shared::state::records::{KeyRights, Money, Overdraft, SpendLimit};

use super::table::*;

fn admitted(answer: &Admit) -> bool {
    matches!(answer, Admit::Admitted { .. })
}

fn spend_rights(limit: i64) -> KeyRights {
    let spend = SpendLimit { limit: nanos(limit), period: "month".into(), zone: "UTC".into() };
    KeyRights { spend: Some(spend), ..KeyRights::default() }
}

#[tokio::test]
async fn of_thirty_requests_at_once_exactly_ten_are_admitted_and_the_others_learn_when() {
    let table = Table::new().await;
    table.declare_rights(per_minute(10)).await;
    for n in 0..30 {
        let answer = table.stores[n % 3].admit(&table.admit_ask(&format!("q{n}"))).await.unwrap();
        if n < 10 {
            assert_eq!(answer, Admit::Admitted { now_ms: START, expires_ms: START + 15_000 });
        } else {
            assert_eq!(answer, Admit::OverRate { wait: secs(60), limit: 10, position: None });
        }
    }
}

#[tokio::test]
async fn an_admission_leaves_the_window_at_exactly_sixty_seconds_and_not_a_hair_sooner() {
    let table = Table::new().await;
    table.declare_rights(per_minute(1)).await;
    table.at_us(1).await;
    assert!(admitted(&table.admit("q1").await));
    table.at_us(60_000_000).await;
    assert_eq!(table.admit("q2").await, Admit::OverRate { wait: millis(1), limit: 1, position: None });
    table.at_us(60_000_999).await;
    assert!(!admitted(&table.admit("q2").await), "the stamp was rounded up, the clock down");
    table.at_us(60_001_000).await;
    assert!(admitted(&table.admit("q2").await));
    table.at_us(120_000_999).await;
    assert!(!admitted(&table.admit("q3").await));
    table.at_us(120_001_000).await;
    assert!(admitted(&table.admit("q3").await), "a stamp of a whole ms is free after exactly 60 s");
}

#[tokio::test]
async fn a_refusal_within_the_same_millisecond_is_told_no_more_than_the_window() {
    let table = Table::new().await;
    table.declare_rights(per_minute(1)).await;
    table.at_us(1).await;
    assert!(admitted(&table.admit("q1").await));
    let refused = Admit::OverRate { wait: secs(60), limit: 1, position: None };
    assert_eq!(table.admit("q2").await, refused, "its stamp was rounded up by 999 µs");
    table.at_us(1_000).await;
    assert_eq!(table.admit("q2").await, refused);
}

#[tokio::test]
async fn a_cap_that_is_lowered_and_raised_at_run_time_holds_at_once() {
    let table = Table::new().await;
    table.declare_rights(per_minute(4)).await;
    for n in 0..4 {
        table.at(n * 1000).await;
        assert!(admitted(&table.admit(&format!("q{n}")).await));
    }
    table.declare_rights(per_minute(2)).await;
    table.at(61_999).await;
    assert_eq!(table.admit("low").await, Admit::OverRate { wait: millis(1), limit: 2, position: None });
    table.at(62_000).await;
    assert!(admitted(&table.admit("low").await), "one of the last two is a minute old");
    table.declare_rights(per_minute(4)).await;
    for name in ["up1", "up2"] {
        assert!(admitted(&table.admit(name).await), "{name}");
    }
    assert!(!admitted(&table.admit("up3").await), "those of 3 s, 62 s, 62 s, 62 s are four");
}

#[tokio::test]
async fn a_clock_that_steps_back_never_admits_more_and_stalls_one_window_at_most() {
    let table = Table::new().await;
    table.declare_rights(per_minute(2)).await;
    table.at(100_000).await;
    table.admit("q1").await;
    table.at(95_000).await;
    assert!(admitted(&table.admit("q2").await), "the second of two");
    assert!(!admitted(&table.admit("q3").await));
    table.at(159_999).await;
    assert!(!admitted(&table.admit("q3").await), "both count as of 100 s");
    table.at(-3_600_000).await;
    assert_eq!(table.admit("q3").await, Admit::OverRate { wait: secs(60), limit: 2, position: None });
    table.at(-3_540_001).await;
    assert!(!admitted(&table.admit("q3").await));
    table.at(-3_540_000).await;
    assert!(admitted(&table.admit("q3").await));
}

#[tokio::test]
async fn the_same_request_id_counts_once_and_gets_the_same_answer_until_it_is_settled() {
    let table = Table::new().await;
    table.declare_rights(KeyRights { max_concurrent: Some(1), ..per_minute(1) }).await;
    let first = table.admit("q1").await;
    let dump = table.dump().await;
    table.at(3_000).await;
    assert_eq!(table.admit("q1").await, first);
    assert_eq!(table.dump().await, dump, "the second call writes nothing");
    table.settle("q1", 0).await;
    assert_eq!(table.admit("q1").await, Admit::Already);
}

#[tokio::test]
async fn a_lease_frees_its_slot_at_exactly_its_expiry() {
    let table = Table::new().await;
    table.declare_rights(at_once(1)).await;
    table.admit("q1").await;
    table.at(14_999).await;
    assert_eq!(table.admit("q2").await, Admit::OverConcurrency { limit: 1, position: None });
    table.at(15_000).await;
    assert!(admitted(&table.admit("q2").await));
}

#[tokio::test]
async fn a_refusal_writes_nothing() {
    let table = Table::new().await;
    let rights = KeyRights { max_concurrent: Some(1), ..spend_rights(50) };
    table.declare(Money::Limited { opening: nanos(10) }, Overdraft::None, rights).await;
    let month = month("2033-05", -1, 100_000);
    let ask = |name: &str, hold: i64| AdmitAsk {
        span: Some(month.clone()),
        hold: Hold::AtMost(nanos(hold)),
        ..table.admit_ask(name)
    };
    assert!(admitted(&table.store().admit(&ask("q1", 7)).await.unwrap()));
    let dump = table.dump().await;
    let refused = [
        (ask("q2", 4), Admit::NoBalance { balance: nanos(3) }),
        (ask("q2", 3), Admit::OverConcurrency { limit: 1, position: None }),
        (AdmitAsk { secret: SecretHash::of("other"), ..ask("q2", 1) }, Admit::Disabled),
        (AdmitAsk { rev: Arc::from("other"), ..ask("q2", 1) }, Admit::Changed),
        (AdmitAsk { span: None, ..ask("q2", 1) }, Admit::Changed),
        (
            AdmitAsk { span: Some(super::table::month("x", 1, 2)), ..ask("q2", 1) },
            Admit::PeriodPassed { now_ms: START },
        ),
        (
            AdmitAsk { span: Some(super::table::month("x", -9, 0)), ..ask("q2", 1) },
            Admit::PeriodPassed { now_ms: START },
        ),
    ];
    for (ask, expected) in refused {
        assert_eq!(table.store().admit(&ask).await.unwrap(), expected);
        assert_eq!(table.dump().await, dump, "{expected:?}");
    }
}

#[tokio::test]
async fn without_overdraft_the_holds_of_open_requests_never_exceed_the_balance() {
    let table = Table::new().await;
    table.declare(Money::Limited { opening: nanos(10) }, Overdraft::None, KeyRights::default()).await;
    let ask = |name: &str, hold| AdmitAsk { hold, ..table.admit_ask(name) };
    assert!(admitted(&table.store().admit(&ask("q1", Hold::AtMost(nanos(10)))).await.unwrap()));
    let none = Admit::NoBalance { balance: nanos(0) };
    assert_eq!(table.store().admit(&ask("q2", Hold::AtMost(nanos(0)))).await.unwrap(), none);
    assert!(admitted(&table.store().admit(&ask("free", Hold::Free)).await.unwrap()), "a free model needs no money");
    table.settle("q1", 4).await;
    assert!(admitted(&table.store().admit(&ask("q2", Hold::AtMost(nanos(6)))).await.unwrap()));
    assert_eq!(table.text(&["HGET", "hg:{a:acme}:reserved", "total"]).await, "6");
}

#[tokio::test]
async fn with_a_soft_overdraft_a_request_starts_while_anything_is_left() {
    let table = Table::new().await;
    table.declare(Money::Limited { opening: nanos(1) }, Overdraft::Soft, KeyRights::default()).await;
    let ask = AdmitAsk { hold: Hold::AtMost(nanos(1_000)), ..table.admit_ask("q1") };
    assert!(admitted(&table.store().admit(&ask).await.unwrap()));
    table.settle("q1", 5).await;
    assert_eq!(table.admit("q2").await, Admit::NoBalance { balance: nanos(-4) });
}

#[tokio::test]
async fn a_spend_limit_counts_within_its_period_and_resets_with_the_next() {
    let table = Table::new().await;
    table.declare_rights(spend_rights(5)).await;
    let (may, june) = (month("2033-05", 0, 100_000), month("2033-06", 100_000, 200_000));
    let ask = |name: &str, span| AdmitAsk { span: Some(span), ..table.admit_ask(name) };
    assert!(admitted(&table.store().admit(&ask("q1", may.clone())).await.unwrap()));
    let mut settlement = table.settlement("q1", 5);
    settlement.span = Some(may.clone());
    table.store().settle(&settlement).await.unwrap();
    let over = Admit::OverSpend { limit: nanos(5), used: nanos(5), resets_ms: Some(START + 100_000), position: None };
    table.at(99_999).await;
    assert_eq!(table.store().admit(&ask("q2", may.clone())).await.unwrap(), over);
    table.at(100_000).await;
    assert_eq!(table.store().admit(&ask("q2", may)).await.unwrap(), Admit::PeriodPassed { now_ms: START + 100_000 });
    assert!(admitted(&table.store().admit(&ask("q2", june)).await.unwrap()));
}

#[tokio::test]
async fn state_that_must_exist_and_is_missing_is_never_read_as_no_limit() {
    let table = Table::new().await;
    let may = month("2033-05", 0, 100_000);
    let spend = "hg:{a:acme}:key:ci:spend:2033-05";
    for victim in ["hg:{a:acme}:account", "hg:{a:acme}:key:ci", "hg:{a:acme}:balance", "hg:{a:acme}:reserved", spend] {
        table.command(&["FLUSHDB"]).await;
        table.at(0).await;
        table.declare(Money::Limited { opening: nanos(100) }, Overdraft::None, spend_rights(50)).await;
        let ask = |name: &str| AdmitAsk { span: Some(may.clone()), ..table.admit_ask(name) };
        assert!(admitted(&table.store().admit(&ask("q1")).await.unwrap()), "{victim}");
        let mut settlement = table.settlement("q1", 5);
        settlement.span = Some(may.clone());
        table.store().settle(&settlement).await.unwrap();
        assert_eq!(table.text(&["DEL", victim]).await, "1", "{victim}");
        assert_eq!(table.store().admit(&ask("q2")).await.unwrap(), Admit::Lost, "{victim}");
        // A settlement that was under way must not make the missing look present.
        settlement.request = request("q3");
        table.store().settle(&settlement).await.unwrap();
        assert_eq!(table.store().admit(&ask("q2")).await.unwrap(), Admit::Lost, "{victim} after a settlement");
    }
}

#[tokio::test]
async fn every_key_but_money_and_records_expires() {
    let table = Table::new().await;
    let rights = KeyRights { max_concurrent: Some(1), ..per_minute(5) };
    table.declare(Money::Limited { opening: nanos(10) }, Overdraft::None, rights).await;
    table.admit("q1").await;
    table.store().admit(&AdmitAsk { place: STAND, ..table.admit_ask("q2") }).await.unwrap();
    let lasting = ["account", "keys", "key:ci", "balance", "reserved", "credit:opening"];
    let mut names: Vec<String> = redis::from_redis_value(table.command(&["KEYS", "hg:{a:acme}:*"]).await).unwrap();
    names.retain(|name| !lasting.iter().any(|suffix| name == &format!("hg:{{a:acme}}:{suffix}")));
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        let ttl: i64 = table.text(&["PTTL", &name]).await.parse().unwrap();
        assert!(ttl > 0, "{name}");
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_takes_no_place() {
    let table = Table::new().await;
    table.declare_rights(per_minute(1)).await;
    table.admit("q1").await;
    table.at(58_000).await;
    let stand = |max_wait| Place::Stand { max_wait: millis(max_wait) };
    let ask = |place| AdmitAsk { place, ..table.admit_ask("q2") };
    for (max_wait, position) in [(1_999, None), (2_000, Some(1)), (1_999, None)] {
        let answer = table.store().admit(&ask(stand(max_wait))).await.unwrap();
        assert_eq!(answer, Admit::OverRate { wait: secs(2), limit: 1, position });
    }
    assert_eq!(table.text(&["EXISTS", "hg:{a:acme}:key:ci:waiters"]).await, "0", "the place was given up again");
}
