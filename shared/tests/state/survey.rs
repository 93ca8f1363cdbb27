//! `survey`: what people and metrics are shown.

use shared::state::admission::{AdmitAsk, Hold};
use shared::state::capacity::{Candidate, Length, LockCause, Mark, Sole};
use shared::state::records::{KeyRights, Money, Overdraft};
use shared::state::survey::{AccountView, Closure, ConnectionQuery, Health, KeyQuery, KeyView};

use super::table::*;

#[tokio::test]
async fn an_account_is_shown_as_it_stands() {
    let table = Table::new().await;
    let rights = KeyRights { max_concurrent: Some(2), ..per_minute(5) };
    table.declare(Money::Limited { opening: nanos(100) }, Overdraft::None, rights).await;
    table.admit("q1").await;
    table.at(10_000).await;
    let ask = AdmitAsk { hold: Hold::AtMost(nanos(30)), ..table.admit_ask("q2") };
    table.store().admit(&ask).await.unwrap();
    table.store().admit(&AdmitAsk { place: STAND, ..table.admit_ask("q3") }).await.unwrap();
    let query = KeyQuery { key: table.key.clone(), label: None };
    let view = table.store().survey_account(&table.account, std::slice::from_ref(&query)).await.unwrap();
    let key = |live, lapsed, waiting, (rate_used, frees_in)| KeyView {
        key: table.key.clone(),
        live,
        lapsed,
        waiting,
        rate_used,
        rate_frees: millis(frees_in),
        spent: nanos(0),
    };
    let expected = |now_ms, key| AccountView {
        now_ms: START + now_ms,
        balance: Some(nanos(100)),
        reserved: nanos(30),
        keys: vec![key],
    };
    assert_eq!(view, expected(10_000, key(2, 0, 1, (2, 50_000))));
    for (ms, shown) in
        [(15_000, key(1, 1, 0, (2, 45_000))), (59_999, key(0, 2, 0, (2, 1))), (60_000, key(0, 2, 0, (1, 10_000)))]
    {
        table.at(ms).await;
        let view = table.stores[2].survey_account(&table.account, std::slice::from_ref(&query)).await.unwrap();
        assert_eq!(view, expected(ms, shown));
    }
}

#[tokio::test]
async fn a_group_is_shown_as_it_stands_and_looking_writes_nothing() {
    let table = Table::new().await;
    let a = Candidate { rpm: Some(10), ..slots("a", 4) };
    let lock = Mark::LockBucket { cause: LockCause::RateLimited, length: Length::Told(secs(30)) };
    for _ in 0..3 {
        table
            .attempt("q", &Candidate { bucket: "n".parse().unwrap(), ..a.clone() }, Mark::Failure { sole: Sole::No })
            .await;
    }
    table
        .attempt("q", &Candidate { model: model("n"), ..a.clone() }, Mark::Success { first_token: Some(millis(250)) })
        .await;
    table.attempt("q", &Candidate { model: model("n"), ..a.clone() }, lock).await;
    table.take("q1", &Candidate { model: model("n"), bucket: "n".parse().unwrap(), ..a.clone() }).await;
    let query = ConnectionQuery {
        connection: a.connection.clone(),
        buckets: vec![a.bucket.clone()],
        models: vec![model("m"), model("n")],
    };
    let look = async || {
        let mut view = table.store().survey_group(&table.group, std::slice::from_ref(&query), MAX_LOCK).await.unwrap();
        view.connections.remove(0)
    };
    let dump = table.dump().await;
    let seen = look().await;
    assert_eq!((seen.live, seen.waiting, seen.rate_used), (1, 0, 6));
    assert_eq!(seen.lock, Closure::Open);
    let closed = Closure::Closed { cause: Some(LockCause::RateLimited), wait: secs(30) };
    assert_eq!(seen.buckets, [(a.bucket.clone(), closed)]);
    let cooling = Closure::Closed { cause: None, wait: secs(10) };
    assert_eq!(seen.cooldowns, [(model("m"), cooling), (model("n"), Closure::Open)]);
    assert_eq!(
        seen.health,
        Health { oks_milli: 1000, fails_milli: 3000, first_token: Some(millis(250)), recent: Some(millis(250)) }
    );
    table.at(30_000).await;
    let later = look().await;
    assert_eq!(later.buckets[0].1, Closure::ProbeDue);
    assert_eq!(
        later.health,
        Health { oks_milli: 500, fails_milli: 1500, first_token: Some(millis(250)), recent: Some(millis(250)) }
    );
    assert_eq!(table.dump().await, dump);
    table.take("probe", &Candidate { model: model("n"), ..a }).await;
    assert_eq!(look().await.buckets[0].1, Closure::Probing { cause: Some(LockCause::RateLimited), wait: secs(15) });
}
