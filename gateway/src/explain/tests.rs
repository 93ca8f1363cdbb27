//! Ladders with made-up states: what is taken, waited for, passed over, and how that is said.

use std::time::Duration;

use shared::limit::{Cycle, Extent, Period, Quota};
use shared::money::NanoDollars;
use shared::state::capacity::{LockCause, Probe, ProbeOf, RungState};
use shared::state::explain::RungView;
use shared::state::records::{CallerRecord, KeyRights, MoneyLimit, Overdraft, SpendLimit};
use shared::state::survey::{AccountView, Closure, KeyView, Used};

use super::limits::{Standing, Usable};
use super::*;
use crate::catalog::tests::catalog;
use crate::error::{Closed, KeyFault, KeyLimit};
use crate::flow::plan::Peers;

const FILE: &str = "
providers:
  p: {dialect: openai, base_url: http://localhost:1}
  q: {dialect: anthropic, endpoints: [{name: one, url: http://localhost:1}, {name: two, url: http://localhost:2}]}
models:
  m: {provider: p, price: {input: 1, output: 1}, larger: big}
  big: {provider: p, price: {input: 0, output: 0}}
  peer: {provider: q}
tiers: {t: [m, peer]}
connections:
  - {id: own, provider: p, api_key: k, owner: acme, group: own, models: [m]}
  - {id: a, provider: p, api_key: k, models: [m], max_concurrent: 2, rpm: 9}
  - {id: b, provider: p, api_key: k, models: [m]}
  - {id: c, provider: p, api_key: k, models: [m], priority: 1}
  - {id: d, provider: p, api_key: k, models: [big], group: big}
  - {id: e, provider: q, api_key: k}
accounts: [{id: acme}]
";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn open() -> RungView {
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

fn is(state: RungState) -> RungView {
    RungView { state: Some(state), ..open() }
}

fn locked(seconds: u64) -> RungView {
    let (cause, wait) = (LockCause::RateLimited, secs(seconds));
    RungView { bucket_lock: Closure::Closed { cause: Some(cause), wait }, ..is(RungState::Locked { cause, wait }) }
}

fn planned(catalog: &Catalog) -> Ladder {
    let account = "acme".parse().unwrap();
    plan(catalog, Means::of(&account), catalog.model("m").unwrap(), None)
}

/// The rungs `own a b c e d` with these states, walked: what becomes of each, and the end.
fn walked_on(extra: &str, views: [RungView; 6]) -> (Vec<String>, Walked, Vec<ExplainedRung>) {
    let catalog = catalog(&format!("{FILE}{extra}"));
    let ladder = planned(&catalog);
    let mut rungs = rungs::in_order(&ladder, views.into());
    let walked = rungs::walk(&ladder, &catalog, &mut rungs);
    let fate = |rung: &ExplainedRung| format!("{} {}", rung.rung.serving.connection.id, rung.fate.as_str());
    (rungs.iter().map(fate).collect(), walked, rungs)
}

fn walked(views: [RungView; 6]) -> (Vec<String>, Walked) {
    let (fates, walked, _) = walked_on("", views);
    (fates, walked)
}

#[test]
fn the_first_open_rung_is_taken_and_equals_are_drawn() {
    let (fates, end) = walked([open(), open(), open(), open(), open(), open()]);
    assert_eq!(fates, ["own taken", "a later", "b later", "c later", "e later", "d later"]);
    assert_eq!(end, Walked::Taken);
    let (fates, end) = walked([locked(9), open(), open(), open(), open(), open()]);
    assert_eq!(fates[..4], ["own skipped", "a drawn", "b drawn", "c later"]);
    assert_eq!(end, Walked::Taken);
    let (fates, _) = walked([locked(9), is(RungState::Full), open(), open(), open(), open()]);
    assert_eq!(fates[..4], ["own skipped", "a skipped", "b taken", "c later"]);
}

#[test]
fn a_larger_model_is_never_taken_in_turn() {
    let closed = || is(RungState::Cooling { wait: secs(30) });
    let (fates, end) = walked([locked(9), locked(9), locked(9), locked(40), closed(), open()]);
    assert_eq!(fates[5], "d later");
    assert_eq!(end, Walked::Opens { most: secs(9) }, "within the ten seconds one may wait");
    let (_, _, rungs) = walked_on("", [open(), open(), open(), open(), open(), open()]);
    assert_eq!((rungs[5].part, rungs[4].part), (Part::IfTooLong, Part::Ladder));
    assert_eq!((rungs[1].step, rungs[3].step, rungs[4].step), (2, 2, 3));
}

#[test]
fn what_is_only_full_is_waited_for_before_a_peer_is_asked_unless_the_group_spills() {
    let views = || [locked(9), is(RungState::Full), locked(9), locked(9), open(), open()];
    let (fates, end) = walked(views());
    assert_eq!(fates[1..5], ["a waited", "b skipped", "c skipped", "e later"]);
    assert_eq!(end, Walked::Waits { most: secs(10) });
    let (fates, end, _) = walked_on("groups: {p: {spill_when_full: true}}\n", views());
    assert_eq!((fates[4].as_str(), end), ("e taken", Walked::Taken));
}

#[test]
fn a_rate_that_gives_way_too_late_is_not_waited_for() {
    let over = |seconds| is(RungState::OverRate { wait: secs(seconds) });
    let (fates, end) = walked([locked(60), over(11), locked(60), locked(70), open(), open()]);
    assert_eq!(fates[1], "a skipped");
    assert_eq!(end, Walked::Refused(Refusal::NoCapacity { wait: secs(11) }));
    let (fates, end) = walked([locked(60), over(10), locked(60), locked(70), open(), open()]);
    assert_eq!((fates[1].as_str(), end), ("a waited", Walked::Waits { most: secs(10) }));
}

#[test]
fn a_closed_ladder_is_refused_as_its_states_say_unless_a_probe_may_open_it_soon() {
    let refused = |end: Walked| match end {
        Walked::Refused(Refusal::AllClosed { by, wait }) => (by, wait),
        other => panic!("{other:?}"),
    };
    let (_, end) = walked([locked(60), locked(50), locked(70), locked(80), locked(90), open()]);
    assert_eq!(refused(end), (Closed::Limits, secs(50)));
    let cooling = || is(RungState::Cooling { wait: secs(30) });
    let (_, end) = walked([locked(60), locked(50), locked(70), locked(80), cooling(), open()]);
    assert_eq!(refused(end), (Closed::Failures, secs(30)));
    let probing = is(RungState::Probing { wait: secs(15), of: ProbeOf::Limits });
    let (_, end) = walked([locked(60), locked(50), locked(70), locked(80), probing, open()]);
    assert_eq!(end, Walked::Opens { most: secs(10) });
    let rests = is(RungState::Endpoints { wait: secs(30) });
    let (fates, end) = walked([locked(60), locked(50), locked(70), locked(80), rests, open()]);
    assert_eq!((fates[4].as_str(), end), ("e last_resort", Walked::LastResort));
    let (_, end, _) =
        walked_on("limits: {capacity_wait: 0s}\n", [locked(1), locked(1), locked(1), locked(1), locked(1), open()]);
    assert_eq!(refused(end), (Closed::Limits, secs(1)), "nobody may wait");
}

#[test]
fn a_reason_names_what_is_closed_why_and_how_long_and_what_is_used() {
    let reasons = |views: [RungView; 6]| {
        let (_, _, rungs) = walked_on("", views);
        rungs.iter().map(ExplainedRung::reason).collect::<Vec<_>>()
    };
    let cause = Some(LockCause::Auth);
    let whole = RungView {
        lock: Closure::Closed { cause, wait: secs(600) },
        ..is(RungState::Locked { cause: LockCause::Auth, wait: secs(600) })
    };
    let full = RungView { live: 2, waiting: 3, rate_used: 4, ..is(RungState::Full) };
    let probed = RungView {
        bucket_lock: Closure::Probing { cause: Some(LockCause::Billing), wait: secs(15) },
        ..is(RungState::Probing { wait: secs(15), of: ProbeOf::Limits })
    };
    let rests = Closure::Closed { cause: None, wait: secs(58) };
    let chain = RungView { endpoint: 1, endpoints: vec![rests, Closure::Open], ..open() };
    let due = RungView { probe: Probe::Yes, ..open() };
    let told = reasons([whole, full, locked(27), probed, chain, due]);
    let expected = [
        "locked (auth): the whole connection, 10 min",
        "full; 2 of 2 slots, 3 in line, 4 of 9 a minute",
        "locked (rate_limited): bucket m, 27 s",
        "a probe is under way (billing: bucket m), at most 15 s",
        "open; one rests 58 s, calls two",
        "open: the next attempt is its probe",
    ];
    assert_eq!(told, expected);
    let cools = RungView {
        cooldown: Closure::Closed { cause: None, wait: secs(8) },
        ..is(RungState::Cooling { wait: secs(8) })
    };
    let over = RungView { rate_used: 9, ..is(RungState::OverRate { wait: secs(12) }) };
    let all = RungView { endpoints: vec![rests, Closure::ProbeDue], ..is(RungState::Endpoints { wait: secs(58) }) };
    let told = reasons([cools, over, open(), open(), all, open()]);
    assert_eq!(told[0], "cooling after failures: model m, 8 s");
    assert_eq!(told[1], "over its rate, 12 s; 0 of 2 slots, 9 of 9 a minute");
    assert_eq!(told[4], "all endpoints rest, 58 s; one rests 58 s, two is due for a probe");
}

#[test]
fn times_are_told_in_seconds_then_minutes_then_hours_never_too_short() {
    let shown = [0, 1, 26_001, 119_000, 119_001, 121_000, 3_600_000, 3_660_000, 91_226_000];
    let told = shown.map(|ms| length(Duration::from_millis(ms)));
    assert_eq!(told, ["0 s", "1 s", "27 s", "119 s", "2 min", "3 min", "1 h", "1 h 1 min", "25 h 21 min"]);
}

fn caller(money: MoneyLimit, rights: KeyRights) -> CallerRecord {
    CallerRecord {
        account: "acme".parse().unwrap(),
        key: "ci".parse().unwrap(),
        rev: "".into(),
        rights,
        overdraft: Overdraft::Soft,
        money,
        residency: None,
    }
}

fn nanos(amount: i64) -> NanoDollars {
    NanoDollars::new(amount).unwrap()
}

fn view(balance: Option<i64>) -> AccountView {
    let key = KeyView {
        key: "ci".parse().unwrap(),
        live: 1,
        lapsed: 0,
        waiting: 0,
        rate_used: 3,
        rate_frees: secs(41),
        spent: nanos(70),
        spending: nanos(9),
        tokens: Used { used: 1_001, held: 2_000, oldest: Some(secs(41)) },
        quotas: vec![Used { used: 2, held: 3, oldest: None }],
    };
    AccountView { now_ms: 1_790_000_000_000, balance: balance.map(nanos), reserved: nanos(30), keys: vec![key] }
}

fn admission(caller: &CallerRecord, view: &AccountView, usable: Usable, model: &str) -> Admission {
    let catalog = catalog(FILE);
    let named = catalog.find(model).unwrap();
    let ladder = plan(&catalog, Means { peers: Peers::Denied, ..Means::of_caller(caller) }, &named.model, None);
    Standing { caller, usable, view }.admission(&catalog, &ladder, &Asked { named: &named, text: model })
}

fn platform(rights: KeyRights) -> KeyRights {
    KeyRights { platform_fallback: true, ..rights }
}

#[test]
fn a_key_is_admitted_or_refused_as_its_rights_money_and_rates_say() {
    use MoneyLimit::{Limited, Unlimited};
    let told = |rights: KeyRights, money, balance: Option<i64>, model: &str| {
        admission(&caller(money, platform(rights)), &view(balance), Usable::Yes, model)
    };
    let plain = KeyRights::default;
    assert_eq!(told(plain(), Unlimited, None, "m"), Admission::Admitted);
    let forbidden = KeyRights { models: vec!["x".into()], ..plain() };
    let refusal = Refusal::ModelNotAllowed { model: "m".into() };
    assert_eq!(told(forbidden, Unlimited, None, "m"), Admission::Refused(refusal));
    assert_eq!(told(plain(), Limited, Some(30), "m"), Admission::Refused(Refusal::Balance), "30 are held");
    assert_eq!(told(plain(), Limited, Some(31), "m"), Admission::Admitted);
    assert_eq!(told(plain(), Limited, Some(0), "big"), Admission::Admitted, "it is free");
    let no_price = Refusal::NoPrice { model: "peer".into() };
    assert_eq!(told(plain(), Limited, Some(99), "peer"), Admission::Refused(no_price));
    let lost = Admission::Refused(Refusal::StateUnavailable);
    assert_eq!(told(plain(), Limited, None, "m"), lost, "missing state is no money");
    let spend = |limit| Some(SpendLimit { limit: nanos(limit), period: "day".into(), zone: "UTC".into() });
    let spending = |limit| KeyRights { spend: spend(limit), ..plain() };
    assert_eq!(told(spending(70), Unlimited, None, "m"), Admission::Refused(Refusal::SpendLimit));
    assert_eq!(told(spending(71), Unlimited, None, "m"), Admission::Admitted);
    let limit = KeyLimit::Requests;
    let over = Refusal::OverRate { limit, wait: secs(41) };
    assert_eq!(told(KeyRights { rpm: Some(3), ..plain() }, Unlimited, None, "m"), Admission::Refused(over));
    assert_eq!(told(KeyRights { rpm: Some(4), ..plain() }, Unlimited, None, "m"), Admission::Admitted);
    let full = told(KeyRights { max_concurrent: Some(1), ..plain() }, Unlimited, None, "m");
    assert!(matches!(full, Admission::Waits(Refusal::OverRate { limit: KeyLimit::Concurrency, .. })), "{full:?}");
    let gone = admission(&caller(Unlimited, platform(plain())), &view(None), Usable::No, "m");
    assert_eq!(gone, Admission::Refused(Refusal::Key(KeyFault::Unknown)));
    let own = admission(&caller(Unlimited, plain()), &view(None), Usable::Yes, "big");
    assert_eq!(own, Admission::Refused(Refusal::UnknownModel { model: "big".into() }), "nobody serves it to the key");
}

#[test]
fn limits_are_told_with_what_is_used_and_when_they_give_way() {
    let spend = Some(SpendLimit { limit: nanos(99), period: "day".into(), zone: "UTC".into() });
    let day = Extent::Calendar(Period::utc(Cycle::Day));
    let quotas = vec![Quota { amount: shared::limit::Amount::Tokens(7.try_into().unwrap()), extent: day }];
    let rights = KeyRights { rpm: Some(3), tpm: Some(5), spend, quotas, ..KeyRights::default() };
    let (caller, view) = (caller(MoneyLimit::Limited, rights), view(Some(500)));
    let limits = Standing { caller: &caller, usable: Usable::Yes, view: &view }.limits();
    let shown = |limit: &Limit| format!("{} {:?} {:?} {:?}", limit.what, limit.used, limit.limit, limit.resets);
    let money = |amount| format!("Some(Money({:?}))", nanos(amount));
    let expected = [
        "rpm Some(Count(3)) Some(Count(3)) In(41s)".to_owned(),
        "tpm Some(Count(4)) Some(Count(5)) In(41s)".to_owned(),
        "quota Some(Count(5)) Some(Count(7)) At(1790035200000)".to_owned(),
        "concurrency Some(Count(1)) None Unknown".to_owned(),
        "waiting Some(Count(0)) None Unknown".to_owned(),
        format!("spend_limit {} {} At(1790035200000)", money(79), money(99)),
        format!("balance {} {} Unknown", money(30), money(500)),
    ];
    assert_eq!(limits.iter().map(shown).collect::<Vec<_>>(), expected);
}

#[test]
fn a_client_key_is_named_with_or_without_its_account() {
    let name: KeyName = "acme/ci".parse().unwrap();
    assert_eq!((name.to_string(), name.account.unwrap().as_str()), ("acme/ci".to_owned(), "acme"));
    let name: KeyName = "ci".parse().unwrap();
    assert_eq!((name.to_string(), name.account), ("ci".to_owned(), None));
    for bad in ["", "a/", "/k", "a/b/c", "a:b"] {
        assert!(bad.parse::<KeyName>().is_err(), "{bad}");
    }
}
