//! Quotas and spend limits of a client key: exact while requests run at once, in periods and windows.

use std::num::NonZeroU64;
use std::time::Duration;

use shared::limit::{Amount, Cycle, Extent, Period, Quota};
use shared::money::Tokens;
use shared::state::admission::{Admit, AdmitAsk, Bound, Estimate, Hold, Place, SpendSpan};
use shared::state::quotas::{QuotaTurn, Turn};
use shared::state::records::{KeyRights, SpendLimit};
use shared::state::settlement::{LapsedRequest, Settle, SettleLapsed, Settlement, Upstream};

use super::table::*;

fn requests(count: u64) -> Amount {
    Amount::Requests(NonZeroU64::new(count).unwrap())
}

fn tokens(count: u64) -> Amount {
    Amount::Tokens(NonZeroU64::new(count).unwrap())
}

fn forever() -> Extent {
    Extent::Calendar(Period::utc(Cycle::Total))
}

/// A table whose key has these quotas.
struct Play {
    table: Table,
    quotas: Vec<Quota>,
    now_ms: i64,
}

impl Play {
    async fn with(quotas: Vec<Quota>) -> Self {
        let table = Table::new().await;
        table.declare_rights(KeyRights { quotas: quotas.clone(), ..KeyRights::default() }).await;
        Self { table, quotas, now_ms: START }
    }

    async fn of(amount: Amount, extent: Extent) -> Self {
        Self::with(vec![Quota { amount, extent }]).await
    }

    async fn at(&mut self, ms: i64) {
        self.table.at(ms).await;
        self.now_ms = START + ms;
    }

    fn turns(&self) -> Vec<QuotaTurn> {
        self.quotas.iter().map(|quota| QuotaTurn::at(quota, self.now_ms)).collect()
    }

    fn ask(&self, name: &str) -> AdmitAsk {
        AdmitAsk { quotas: self.turns(), ..self.table.admit_ask(name) }
    }

    async fn admit(&self, ask: AdmitAsk) -> Admit {
        self.table.store().admit(&ask).await.unwrap()
    }

    /// Whether a request of so many tokens may start.
    async fn starts(&self, name: &str, wanted: u64) -> bool {
        admitted(&self.admit(AdmitAsk { estimate: estimate(0, wanted), ..self.ask(name) }).await)
    }

    async fn settle(&self, name: &str, output: u64, quotas: Vec<QuotaTurn>) {
        let tokens = Tokens { output, ..Tokens::default() };
        let settlement = Settlement { tokens, quotas, ..self.table.settlement(name, 0) };
        assert!(matches!(self.table.store().settle(&settlement).await.unwrap(), Settle::Settled { .. }));
    }

    async fn text(&self, command: &str, key: &str) -> String {
        self.table.text(&[command, &format!("hg:{{a:acme}}:key:ci:{key}")]).await
    }
}

fn admitted(answer: &Admit) -> bool {
    matches!(answer, Admit::Admitted { .. })
}

fn over(used: i64, resets_ms: Option<i64>) -> Admit {
    Admit::OverQuota { index: 0, used, resets_ms }
}

fn held(position: Option<u32>) -> Admit {
    Admit::OverHolds { position }
}

#[tokio::test]
async fn of_thirty_requests_at_once_as_many_are_admitted_as_the_quota_has() {
    let play = Play::of(requests(10), forever()).await;
    for n in 0..30 {
        let answer = play.table.stores[n % 3].admit(&play.ask(&format!("q{n}"))).await.unwrap();
        if n < 10 {
            assert!(admitted(&answer), "{answer:?}");
        } else {
            assert_eq!(answer, over(10, None));
        }
    }
    assert_eq!(play.text("GET", "quota:requests-total:total").await, "10");
}

#[tokio::test]
async fn a_request_that_reached_no_upstream_is_not_counted() {
    for extent in [forever(), Extent::Sliding(secs(60))] {
        let play = Play::of(requests(1), extent).await;
        for upstream in [Upstream::Spared, Upstream::Reached] {
            let name = format!("{upstream:?}");
            assert!(play.starts(&name, 0).await);
            assert!(!play.starts("other", 0).await);
            let settlement = Settlement { upstream, quotas: play.turns(), ..play.table.settlement(&name, 0) };
            play.table.store().settle(&settlement).await.unwrap();
        }
        assert!(!play.starts("other", 0).await, "one that did stays counted");
    }
}

#[tokio::test]
async fn several_quotas_count_at_once_and_a_refusal_of_one_counts_in_none() {
    let day = Extent::Calendar(Period::utc(Cycle::Day));
    let both = vec![Quota { amount: requests(9), extent: day }, Quota { amount: tokens(10), extent: forever() }];
    let play = Play::with(both).await;
    assert!(play.starts("q1", 6).await);
    let dump = play.table.dump().await;
    let refused = play.admit(AdmitAsk { estimate: estimate(0, 11), ..play.ask("q2") }).await;
    assert_eq!(refused, Admit::OverQuota { index: 1, used: 0, resets_ms: None });
    assert_eq!(play.table.dump().await, dump);
    let refused = play.admit(AdmitAsk { estimate: estimate(0, 5), ..play.ask("q2") }).await;
    assert_eq!(refused, held(None));
    assert_eq!(play.text("GET", "quota:requests-day:2033-05-18").await, "1");
}

#[tokio::test]
async fn what_open_requests_hold_of_a_quota_is_not_spent_twice_and_comes_back_when_they_settle() {
    let play = Play::of(tokens(100), forever()).await;
    assert!(play.starts("q1", 60).await);
    let stand = AdmitAsk { estimate: estimate(0, 60), place: STAND, ..play.ask("q2") };
    assert_eq!(play.admit(stand.clone()).await, held(Some(1)), "it may wait for what is held");
    play.settle("q1", 40, play.turns()).await;
    assert!(admitted(&play.admit(stand).await), "40 are used, 60 are left");
    play.settle("q2", 59, play.turns()).await;
    assert_eq!(play.text("EXISTS", "held").await, "0");
    let last = AdmitAsk { estimate: estimate(0, 2), place: STAND, ..play.ask("q3") };
    assert_eq!(play.admit(last).await, over(99, None), "nothing is held: waiting cannot help");
    assert!(play.starts("q3", 1).await);
}

#[tokio::test]
async fn a_request_that_does_not_say_how_much_it_wants_holds_what_is_left() {
    let play = Play::of(tokens(100), forever()).await;
    let assumed = Estimate { bound: Bound::Assumed, ..estimate(0, 1_024) };
    assert!(admitted(&play.admit(AdmitAsk { estimate: assumed, ..play.ask("q1") }).await));
    assert!(!play.starts("q2", 1).await, "all that is left is held");
    play.settle("q1", 30, play.turns()).await;
    assert!(play.starts("q2", 70).await);
    play.settle("q2", 70, play.turns()).await;
    assert!(!admitted(&play.admit(AdmitAsk { estimate: assumed, ..play.ask("q3") }).await), "nothing is left");
}

#[tokio::test]
async fn a_period_that_turns_resets_and_late_requests_settle_into_their_own() {
    let minute = |label: &str, start: i64| QuotaTurn {
        name: "tokens-hour".into(),
        amount: tokens(100),
        turn: Turn::Period(month(label, start, start + 60_000)),
    };
    let play = Play::of(tokens(100), Extent::Calendar(Period::utc(Cycle::Hour))).await;
    let (first, second) = (minute("one", 0), minute("two", 60_000));
    let ask = |name: &str, turn: &QuotaTurn| AdmitAsk {
        estimate: estimate(0, 100),
        quotas: vec![turn.clone()],
        ..play.table.admit_ask(name)
    };
    assert!(admitted(&play.admit(ask("old", &first)).await));
    play.table.at(60_000).await;
    assert_eq!(play.admit(ask("new", &first)).await, Admit::PeriodPassed { now_ms: START + 60_000 });
    for store in &play.table.stores {
        let answer = store.admit(&ask("new", &second)).await.unwrap();
        assert!(admitted(&answer), "once on each replica, the same: {answer:?}");
    }
    play.settle("new", 7, vec![second.clone()]).await;
    play.settle("old", 5, vec![first]).await;
    assert_eq!(play.text("GET", "quota:tokens-hour:one").await, "5");
    assert_eq!(play.text("GET", "quota:tokens-hour:two").await, "7");
    let mark = play.table.text(&["HGET", "hg:{a:acme}:key:ci", "quota_mark:tokens-hour"]).await;
    assert_eq!(mark, "two", "a late settlement does not turn the mark back");
    for label in ["one", "two"] {
        let ttl: i64 = play.text("PTTL", &format!("quota:tokens-hour:{label}")).await.parse().unwrap();
        assert!(ttl >= 86_300_000, "{label} {ttl}");
    }
}

#[tokio::test]
async fn in_no_window_are_more_requests_than_its_quota_and_it_says_when_there_is_room() {
    let mut play = Play::of(requests(2), Extent::Sliding(Duration::from_hours(1))).await;
    play.at(39_999).await;
    assert!(play.starts("q1", 0).await);
    play.at(1_800_000).await;
    assert!(play.starts("q2", 0).await);
    // START is 20 s into a slice of 60 s: the first one's slice ends at 100 s.
    let resets = START - 20_000 + 61 * 60_000;
    assert_eq!(play.admit(play.ask("q3")).await, over(2, Some(resets)));
    play.at(resets - START - 1).await;
    assert!(!play.starts("q3", 0).await);
    play.at(resets - START).await;
    assert!(play.starts("q3", 0).await);
    assert!(!play.starts("q4", 0).await);
    assert_eq!(play.text("TYPE", "quota:requests-3600s:window").await, "hash");
}

#[tokio::test]
async fn a_counter_that_is_gone_is_lost_and_never_read_as_zero() {
    let day = || Extent::Calendar(Period::utc(Cycle::Day));
    let window = || Extent::Sliding(Duration::from_hours(24));
    for (amount, extent, counter) in [
        (requests(5), day(), "quota:requests-day:2033-05-18"),
        (requests(5), window(), "quota:requests-86400s:window"),
        (tokens(5), day(), "quota:tokens-day:2033-05-18"),
        (tokens(5), window(), "quota:tokens-86400s:window"),
        (Amount::Cost(nanos(5)), window(), "quota:usd-86400s:window"),
    ] {
        let play = Play::of(amount, extent).await;
        assert!(play.starts("q1", 1).await, "{counter}");
        let settlement = Settlement {
            tokens: Tokens { output: 1, ..Tokens::default() },
            quotas: play.turns(),
            ..play.table.settlement("q1", 1)
        };
        play.table.store().settle(&settlement).await.unwrap();
        assert!(play.starts("q2", 1).await, "{counter}");
        assert_eq!(play.text("DEL", counter).await, "1");
        assert_eq!(play.admit(play.ask("q3")).await, Admit::Lost, "{counter}");
        play.settle("q2", 1, play.turns()).await;
        assert_eq!(play.admit(play.ask("q3")).await, Admit::Lost, "{counter} is not conjured up by a settlement");
    }
}

#[tokio::test]
async fn a_free_model_asks_for_no_money_but_counts_in_all_other_quotas() {
    let both = vec![
        Quota { amount: Amount::Cost(nanos(5)), extent: forever() },
        Quota { amount: requests(2), extent: forever() },
    ];
    let play = Play::with(both).await;
    let paid = |name: &str| AdmitAsk { hold: Hold::AtMost(nanos(6)), ..play.ask(name) };
    assert_eq!(play.admit(paid("q1")).await, over(0, None));
    for name in ["free1", "free2"] {
        assert!(admitted(&play.admit(AdmitAsk { hold: Hold::Free, ..play.ask(name) }).await));
    }
    let third = play.admit(AdmitAsk { hold: Hold::Free, ..play.ask("free3") }).await;
    assert_eq!(third, Admit::OverQuota { index: 1, used: 2, resets_ms: None });
}

#[tokio::test]
async fn the_request_of_a_replica_that_died_leaves_no_hold_and_no_count_behind() {
    let both = vec![
        Quota { amount: tokens(10), extent: Extent::Sliding(secs(60)) },
        Quota { amount: requests(1), extent: forever() },
    ];
    let play = Play::with(both).await;
    assert!(play.starts("q1", 10).await);
    let turns = play.turns();
    play.table.at(15_000).await;
    let lapsed = play.table.store().lapsed(&play.table.account).await.unwrap();
    let expected = LapsedRequest {
        account: play.table.account.clone(),
        key: play.table.key.clone(),
        request: request("q1"),
        span: None,
        quotas: turns,
    };
    assert_eq!(lapsed, [expected]);
    assert_eq!(play.table.store().settle_lapsed(&lapsed[0]).await.unwrap(), SettleLapsed::Dropped);
    assert!(play.starts("q2", 10).await);
}

/// A key with a spend limit of so many nano-dollars, and what asks under it.
async fn spending(limit: i64) -> (Table, SpendSpan) {
    let table = Table::new().await;
    let spend = SpendLimit { limit: nanos(limit), period: "month".into(), zone: "UTC".into() };
    table.declare_rights(KeyRights { spend: Some(spend), ..KeyRights::default() }).await;
    (table, month("2033-05", 0, 100_000))
}

#[tokio::test]
async fn open_requests_never_spend_more_than_a_spend_limit_and_their_holds_come_back() {
    let (table, may) = spending(100).await;
    let ask = |name: &str, most: i64| AdmitAsk {
        hold: Hold::AtMost(nanos(most)),
        span: Some(may.clone()),
        place: STAND,
        ..table.admit_ask(name)
    };
    for n in 0..6 {
        let answer = table.stores[n % 3].admit(&ask(&format!("q{n}"), 44)).await.unwrap();
        assert_eq!(admitted(&answer), n < 2, "{answer:?}");
    }
    assert_eq!(table.stores[2].admit(&ask("q2", 44)).await.unwrap(), held(Some(1)));
    for name in ["q0", "q1"] {
        let settlement = Settlement { span: Some(may.clone()), ..table.settlement(name, 41) };
        table.store().settle(&settlement).await.unwrap();
    }
    let used_up = Admit::OverSpend { limit: nanos(100), used: nanos(82), resets_ms: Some(START + 100_000) };
    assert_eq!(table.stores[2].admit(&ask("q2", 44)).await.unwrap(), used_up, "82 are spent for good");
    assert!(
        admitted(&table.store().admit(&ask("q3", 18)).await.unwrap()),
        "what is left is there for whom it suffices"
    );
    let settlement = Settlement { span: Some(may.clone()), ..table.settlement("q3", 18) };
    table.store().settle(&settlement).await.unwrap();
    assert_eq!(table.text(&["GET", "hg:{a:acme}:key:ci:spend:2033-05"]).await, "100");
    assert_eq!(table.text(&["EXISTS", "hg:{a:acme}:key:ci:held"]).await, "0");
}

const WAITERS: &str = "hg:{a:acme}:key:ci:waiters";

#[tokio::test]
async fn who_waits_for_what_others_hold_is_overtaken_by_nobody_who_wants_of_the_same() {
    let (table, may) = spending(100).await;
    let ask =
        |name: &str, hold: Hold| AdmitAsk { hold, span: Some(may.clone()), place: STAND, ..table.admit_ask(name) };
    let asks = async |replica: usize, name: &str, most: i64| {
        table.stores[replica].admit(&ask(name, Hold::AtMost(nanos(most)))).await.unwrap()
    };
    let settle = async |name: &str, cost: i64| {
        let settlement = Settlement { span: Some(may.clone()), ..table.settlement(name, cost) };
        table.store().settle(&settlement).await.unwrap();
    };
    assert!(admitted(&asks(0, "open", 30).await));
    assert_eq!(asks(1, "large", 90).await, held(Some(1)), "alone it would fit");
    assert_eq!(asks(2, "small", 1).await, held(Some(2)), "it would fit, but is not the head");
    let pass = AdmitAsk { place: Place::Pass, ..ask("newcomer", Hold::AtMost(nanos(1))) };
    assert_eq!(table.store().admit(&pass).await.unwrap(), held(None));
    assert!(admitted(&table.store().admit(&ask("free", Hold::Free)).await.unwrap()), "it wants nothing of the limit");
    settle("open", 5).await;
    assert_eq!(asks(2, "small", 1).await, held(Some(2)));
    assert!(admitted(&asks(1, "large", 90).await));
    assert!(admitted(&asks(2, "small", 1).await));
    assert_eq!(table.text(&["EXISTS", WAITERS]).await, "0", "who was admitted stands no more");
}

#[tokio::test]
async fn a_line_for_a_quota_of_tokens_or_money_is_served_in_order_of_arrival_and_leaves_no_ghosts() {
    for amount in [tokens(100), Amount::Cost(nanos(100))] {
        let play = Play::of(amount, Extent::Sliding(secs(60))).await;
        let asks = async |name: &str, most: u32| {
            let (hold, estimate) = (Hold::AtMost(nanos(most.into())), estimate(0, most.into()));
            play.admit(AdmitAsk { hold, estimate, place: STAND, ..play.ask(name) }).await
        };
        assert!(admitted(&asks("open", 30).await), "{amount:?}");
        assert_eq!(asks("large", 90).await, held(Some(1)), "{amount:?}");
        assert_eq!(asks("small", 1).await, held(Some(2)), "{amount:?}");
        play.settle("open", 0, play.turns()).await;
        assert_eq!(asks("small", 1).await, held(Some(2)), "{amount:?}");
        assert!(admitted(&asks("large", 90).await), "{amount:?}");
        assert!(admitted(&asks("small", 1).await), "{amount:?}");
        assert_eq!(play.text("EXISTS", "waiters").await, "0", "{amount:?}");
    }
}

#[tokio::test]
async fn who_waited_until_what_is_used_leaves_too_little_is_refused_for_good_and_its_place_is_gone() {
    let play = Play::of(tokens(100), forever()).await;
    assert!(play.starts("open", 60).await);
    let asks = async |name: &str, wanted: u64| {
        play.admit(AdmitAsk { estimate: estimate(0, wanted), place: STAND, ..play.ask(name) }).await
    };
    assert_eq!(asks("large", 60).await, held(Some(1)));
    assert_eq!(asks("small", 40).await, held(Some(2)));
    play.settle("open", 60, play.turns()).await;
    assert_eq!(asks("large", 60).await, over(60, None));
    assert!(admitted(&asks("small", 40).await), "it stands behind nobody any more");
    assert_eq!(play.text("EXISTS", "waiters").await, "0");
}
