//! `survey`: what people and metrics are shown.

use shared::limit::{Amount, Cycle, Extent, Period, Quota};
use shared::state::admission::{Admit, AdmitAsk, Hold};
use shared::state::capacity::{Candidate, Length, LockCause, Mark, Sole};
use shared::state::quotas::QuotaTurn;
use shared::state::records::{KeyRights, Money, Overdraft, SpendLimit};
use shared::state::settlement::Settlement;
use shared::state::survey::{AccountView, Closure, ConnectionQuery, Health, KeyQuery, KeyView, Used};

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
    let query = KeyQuery { key: table.key.clone(), label: None, quotas: Vec::new() };
    let view = table.store().survey_account(&table.account, std::slice::from_ref(&query)).await.unwrap();
    let key = |live, lapsed, waiting, (rate_used, frees_in)| KeyView {
        key: table.key.clone(),
        live,
        lapsed,
        waiting,
        rate_used,
        rate_frees: millis(frees_in),
        spent: nanos(0),
        spending: nanos(0),
        tokens: Used::default(),
        quotas: Vec::new(),
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
async fn tokens_spend_and_quotas_are_shown_with_what_open_requests_hold_and_looking_writes_nothing() {
    let table = Table::new().await;
    let spend = SpendLimit { limit: nanos(100), period: "month".into(), zone: "UTC".into() };
    let count = |most: u64| most.try_into().unwrap();
    let quotas = vec![
        Quota { amount: Amount::Requests(count(9)), extent: Extent::Calendar(Period::utc(Cycle::Day)) },
        Quota { amount: Amount::Tokens(count(90)), extent: Extent::Sliding(secs(3_600)) },
        Quota { amount: Amount::Cost(nanos(90)), extent: Extent::Calendar(Period::utc(Cycle::Total)) },
    ];
    let rights = KeyRights { spend: Some(spend), tpm: Some(90), quotas: quotas.clone(), ..KeyRights::default() };
    table.declare_rights(rights).await;
    let turns: Vec<QuotaTurn> = quotas.iter().map(|quota| QuotaTurn::at(quota, START)).collect();
    let span = month("2033-05", 0, 200_000);
    let ask = |name: &str| AdmitAsk {
        hold: Hold::AtMost(nanos(30)),
        span: Some(span.clone()),
        estimate: estimate(8, 12),
        quotas: turns.clone(),
        ..table.admit_ask(name)
    };
    for name in ["q1", "q2"] {
        assert!(matches!(table.store().admit(&ask(name)).await.unwrap(), Admit::Admitted { .. }));
    }
    let settlement = Settlement { span: Some(span.clone()), quotas: turns.clone(), ..table.settlement("q1", 7) };
    table.store().settle(&settlement).await.unwrap();
    let query = KeyQuery { key: table.key.clone(), label: Some("2033-05".into()), quotas: turns };
    let look = async || {
        let mut view = table.store().survey_account(&table.account, std::slice::from_ref(&query)).await.unwrap();
        view.keys.remove(0)
    };
    let dump = table.dump().await;
    let seen = look().await;
    assert_eq!((seen.spent, seen.spending), (nanos(7), nanos(30)));
    let used = |used, held, oldest: Option<u64>| Used { used, held, oldest: oldest.map(millis) };
    assert_eq!(seen.tokens, used(15_000, 20_000, Some(61_000)));
    // Slices of a minute: this one began 20 s ago.
    assert_eq!(seen.quotas, [used(2, 0, None), used(15, 20, Some(61 * 60_000 - 20_000)), used(7, 30, None)]);
    table.at(61_000).await;
    assert_eq!(look().await.tokens, used(0, 20_000, None), "a minute later only what is held counts");
    table.at(-100_000).await;
    assert_eq!(look().await.tokens, used(15_000, 20_000, Some(61_000)), "nor when the clock steps back");
    assert_eq!(table.dump().await, dump);
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
