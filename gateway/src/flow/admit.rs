//! May this client key start this request now? Asks the script, and stands in the key's line while that can help.

use std::sync::Arc;
use std::time::Duration;

use shared::config::ModelPattern;
use shared::limit::{Period, Quota};
use shared::money::{NanoDollars, Price};
use shared::state::StateError;
use shared::state::admission::{Admit, AdmitAsk, Hold, Place, SpendSpan};
use shared::state::quotas::QuotaTurn;
use shared::state::records::{CallerRecord, SpendLimit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Fall;
use super::authenticate::{Known, Read};
use super::journey::Journey;
use super::plan::Ladder;
use super::settle::{Facts, Open};
use super::tally;
use crate::app::Shared;
use crate::catalog::{Model, Named, Owner, Serving};
use crate::dialect::wanted::Wanted;
use crate::error::Refusal;

mod refuse;

use refuse::refusal;

/// A message that somebody may try again can be lost; after this long one asks anyway.
pub const FALLBACK: Duration = Duration::from_millis(250);
/// The period of a spend limit can end while its request is being admitted; not that often in a row.
const TURNS_MAX: u32 = 3;
/// What an answer may hold whose request sets no limit, in tokens: only counts for accounts with `overdraft: none`.
const DEFAULT_OUTPUT: u64 = 4_096;

/// What is to be admitted.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The request as the caller put it.
    pub wanted: &'a Wanted,
    /// What its model's name stands for.
    pub named: &'a Named,
    /// The rungs that may answer.
    pub ladder: &'a Ladder,
    /// Cancelled when the caller hangs up.
    pub gone: &'a CancellationToken,
}

/// What became of it.
#[derive(Debug)]
pub enum Admission {
    /// It may start; everything is taken.
    Admitted(Box<Open>),
    /// The caller's record is not the one Redis has any more: read it again.
    Stale,
}

/// Takes all of the key's limits at once, waiting for them at most `limits.key_wait`, first come first served over all replicas.
/// A refusal takes nothing.
pub async fn admit(app: &Shared, known: &Known, asked: Asked<'_>, journey: &mut Journey) -> Result<Admission, Fall> {
    let hold = match may_use(&known.caller, asked) {
        Ok(hold) => hold,
        Err(_) if known.read == Read::Before => return Ok(Admission::Stale),
        Err(refusal) => return Err(refusal.into()),
    };
    let weights = app.catalog.load().limits.token_weights;
    let (rights, now_ms) = (&known.caller.rights, now_ms());
    let mut ask = AdmitAsk {
        account: known.caller.account.clone(),
        key: known.caller.key.clone(),
        secret: known.secret,
        rev: Arc::clone(&known.caller.rev),
        request: journey.request.clone(),
        hold,
        span: rights.spend.as_ref().map(|limit| span_at(limit, now_ms)),
        estimate: tally::expected(asked.wanted.look(), &weights),
        quotas: turns_at(&rights.quotas, now_ms),
        place: Place::Pass,
        model: asked.named.model.name.clone(),
    };
    let answer = stand_in_line(app, &mut ask, known, asked.gone, journey).await?;
    match answer {
        Admit::Admitted { now_ms, .. } => {
            journey.admitted = true;
            let facts = Facts {
                account: ask.account,
                key: ask.key,
                priority: known.caller.rights.priority,
                request: ask.request,
                admitted_ms: now_ms,
                model: ask.model,
                span: ask.span,
                quotas: ask.quotas,
                prompt_chars: asked.wanted.look().prompt_chars,
                weights,
                dialect: asked.wanted.api().dialect().as_str(),
            };
            Ok(Admission::Admitted(Box::new(Open::new(Arc::clone(app), facts))))
        }
        Admit::Changed => Ok(Admission::Stale),
        other => Err(refusal(&other, &rights.quotas).into()),
    }
}

/// Asks until the answer is final or waiting cannot help any more, a last time when the wait is over; then leaves the line.
async fn stand_in_line(
    app: &Shared,
    ask: &mut AdmitAsk,
    known: &Known,
    gone: &CancellationToken,
    journey: &mut Journey,
) -> Result<Admit, Fall> {
    let deadline = Instant::now() + app.catalog.load().limits.key_wait.saturating_sub(journey.waited);
    let mut turns = 0;
    let mut stood = None;
    // Subscribed before the place is taken: a slot freed in between is not missed.
    let place = app.waker.place(journey.request.as_str());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        ask.place = if left.is_zero() { Place::Pass } else { Place::Stand { max_wait: left } };
        let answer = app.store.admit(ask).await.map_err(|error| unanswered(app, &error))?;
        if let Admit::PeriodPassed { now_ms } = answer {
            turns += 1;
            if turns > TURNS_MAX {
                return Ok(answer);
            }
            ask.span = known.caller.rights.spend.as_ref().map(|limit| span_at(limit, now_ms));
            ask.quotas = turns_at(&known.caller.rights.quotas, now_ms);
            continue;
        }
        let Some(pause) = pause(&answer) else {
            if stood.is_some() && !matches!(answer, Admit::Admitted { .. }) {
                leave(app, ask).await;
            }
            return Ok(answer);
        };
        stood.get_or_insert_with(|| {
            (app.metrics.stand_in_line(), app.metrics.occupancy.waits_for_key(&ask.account, &ask.key))
        });
        let began = Instant::now();
        tokio::select! {
            () = gone.cancelled() => {}
            _ = place.woken(pause.min(left)) => {}
        }
        journey.waited += began.elapsed();
        if gone.is_cancelled() {
            leave(app, ask).await;
            return Err(Fall::Gone);
        }
    }
}

/// How long to wait before asking again; `None` if the answer is final.
fn pause(answer: &Admit) -> Option<Duration> {
    match answer {
        // The exact time is known, but a caller ahead may leave and a place must be kept alive.
        Admit::OverRate { wait, position: Some(_), .. } => Some((*wait).min(Duration::from_secs(1))),
        // The head of the line knows the soonest time, but where open requests stand in the way.
        Admit::OverTokens { soonest, position: Some(1), .. } if !soonest.is_zero() => {
            Some((*soonest).min(Duration::from_secs(1)))
        }
        Admit::OverTokens { position: Some(_), .. }
        | Admit::OverHolds { position: Some(_) }
        | Admit::OverConcurrency { position: Some(_), .. } => Some(FALLBACK),
        _ => None,
    }
}

async fn leave(app: &Shared, ask: &AdmitAsk) {
    if let Err(error) = app.store.leave_key(&ask.account, &ask.key, &ask.request).await {
        // The place lapses by itself within two seconds.
        tracing::debug!(%error, "a place in line was not given up");
    }
}

/// Redis did not answer a decision.
pub fn unanswered(app: &Shared, error: &StateError) -> Refusal {
    app.metrics.store_errors.inc();
    tracing::debug!(%error, "a decision was not answered");
    Refusal::StateUnavailable
}

/// Checks what needs no counter: the model is one of the key's, somebody serves it to this key, and it can be paid. Answers what
/// is held for it.
fn may_use(caller: &CallerRecord, asked: Asked<'_>) -> Result<Hold, Refusal> {
    let name = &asked.wanted.look().model;
    if !allowed(&caller.rights.models, asked.named) {
        return Err(Refusal::ModelNotAllowed { model: name.clone() });
    }
    let model = &asked.named.model;
    if lacks_price(caller, model, asked.ladder) {
        return Err(Refusal::NoPrice { model: name.clone() });
    }
    if asked.ladder.steps.is_empty() {
        return Err(super::unknown(asked.wanted));
    }
    let mut most = NanoDollars::ZERO;
    let mut all_free = true;
    for rung in asked.ladder.rungs() {
        if rung.serving.connection.owner != Owner::Platform {
            continue;
        }
        match rung.model.price {
            Some(price) if price.is_free() => {}
            Some(price) => {
                all_free = false;
                most = most.max(upper_bound(&price, asked.wanted));
            }
            // Only where money does not count: `plan` leaves such rungs out elsewhere.
            None => {}
        }
    }
    Ok(if all_free { Hold::Free } else { Hold::AtMost(most) })
}

/// Whether nothing but its price keeps a caller from a model that the platform serves. What stands in for it is no answer to that.
pub fn lacks_price(caller: &CallerRecord, model: &Model, ladder: &Ladder) -> bool {
    let is_platforms = |serving: &Serving| serving.connection.owner == Owner::Platform;
    let served = caller.rights.platform_fallback && model.serving.iter().any(is_platforms);
    let left_out = ladder.steps.first().is_none_or(|step| step.model.name != model.name);
    left_out && served && model.price.is_none() && caller.money_counts()
}

/// A key without patterns may use every model; one with patterns those whose name, or the alias that was used, matches.
pub fn allowed(patterns: &[String], asked: &Named) -> bool {
    let matches = |pattern: &ModelPattern| pattern.matches(&asked.model.name) || pattern.matches(&asked.name);
    patterns.is_empty() || patterns.iter().filter_map(|text| ModelPattern::named(text)).any(|p| matches(&p))
}

fn upper_bound(price: &Price, wanted: &Wanted) -> NanoDollars {
    let output = wanted.look().max_output_tokens.unwrap_or(DEFAULT_OUTPUT).saturating_mul(wanted.look().choices);
    tally::upper_bound(price, wanted.look().prompt_chars, output)
}

/// The turn of the limit's period that holds a moment. A period that cannot be read is one that never turns: the stricter reading.
fn span_at(limit: &SpendLimit, now_ms: i64) -> SpendSpan {
    SpendSpan::at(&Period::named(&limit.period, &limit.zone), now_ms)
}

/// The counters of quotas that hold a moment.
fn turns_at(quotas: &[Quota], now_ms: i64) -> Vec<QuotaTurn> {
    quotas.iter().map(|quota| QuotaTurn::at(quota, now_ms)).collect()
}

/// This machine's clock: only a first guess, which the script corrects.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shared::limit::{Amount, Cycle, Extent};
    use shared::state::records::{KeyRights, MoneyLimit, Overdraft};

    use super::*;
    use crate::catalog::tests::catalog;
    use crate::dialect::Api;
    use crate::dialect::wanted::Entry;
    use crate::flow::plan::{Means, Platform, plan};

    const FILE: &str = "
providers: {p: {dialect: openai, base_url: http://localhost:1}, q: {dialect: openai, base_url: http://localhost:1}}
models:
  paid: {provider: p, price: {input: 1, cache_write: 2, output: 10, reasoning: 12}}
  free: {provider: p, price: {input: 0, output: 0}}
  unpriced: {provider: p}
  kept: {provider: p}
  peer: {provider: q, tier: t}
  priced: {provider: p, tier: t, price: {input: 1, output: 1}}
aliases: {quick: paid}
connections:
  - {id: c, provider: p, api_key: k}
  - {id: own, provider: p, api_key: k, owner: acme, models: [paid, kept]}
  - {id: q, provider: q, api_key: k}
accounts: [{id: acme}]
";

    fn caller(money: MoneyLimit, models: &[&str]) -> CallerRecord {
        let rights = KeyRights {
            platform_fallback: true,
            models: models.iter().map(|&text| text.to_owned()).collect(),
            ..KeyRights::default()
        };
        CallerRecord {
            account: "acme".parse().unwrap(),
            key: "ci".parse().unwrap(),
            rev: "".into(),
            rights,
            overdraft: Overdraft::None,
            money,
            residency: None,
        }
    }

    /// What is held for a request with 100 bytes of messages, by an account that may use these connections.
    fn hold(caller: &CallerRecord, model: &str, fields: &str, platform: Platform) -> Result<Hold, Refusal> {
        let body = format!(r#"{{"model":"{model}"{fields},"messages":[{{"role":"user","content":"{:72}"}}]}}"#, "hi");
        let body = Bytes::from(body);
        let wanted = Wanted::read(Entry::at(Api::Chat), body).unwrap();
        assert_eq!(wanted.look().prompt_chars, 100);
        let catalog = catalog(FILE);
        let named = catalog.find(model).unwrap();
        let ladder = plan(&catalog, Means { platform, ..Means::of_caller(caller) }, &named.model, None);
        may_use(caller, Asked { wanted: &wanted, named: &named, ladder: &ladder, gone: &CancellationToken::new() })
    }

    #[test]
    fn a_key_with_patterns_may_use_what_they_match_by_name_or_by_the_alias_it_wrote() {
        let uses =
            |models: &[&str], model| hold(&caller(MoneyLimit::Unlimited, models), model, "", Platform::Allowed).is_ok();
        assert!(uses(&[], "paid") && uses(&["pa*"], "paid") && uses(&["x", "*id"], "paid"));
        assert!(uses(&["quick"], "quick") && uses(&["paid"], "quick"), "either name will do");
        assert!(!uses(&["quick"], "paid"), "an alias does not open the model's own name");
        assert!(!uses(&["pai"], "paid") && !uses(&["Paid"], "paid") && !uses(&["free"], "paid"));
    }

    #[test]
    fn what_is_held_is_the_most_the_request_can_cost() {
        let caller = caller(MoneyLimit::Limited, &[]);
        let held = |fields: &str| match hold(&caller, "paid", fields, Platform::Allowed) {
            Ok(Hold::AtMost(amount)) => amount.nanos(),
            other => panic!("{other:?}"),
        };
        // 100 bytes are at most 100 tokens, of the dearest kind: 2,000 nano-dollars each, and 12,000 each of the output's.
        assert_eq!(held(r#","max_tokens":50"#), 100 * 2_000 + 50 * 12_000);
        assert_eq!(held(r#","max_completion_tokens":50,"n":3"#), 100 * 2_000 + 150 * 12_000);
        assert_eq!(held(""), 100 * 2_000 + 4_096 * 12_000);
        assert!(held(&format!(r#","max_tokens":{}"#, u64::MAX)) > 0, "too much is still a bound");
    }

    #[test]
    fn a_model_without_a_price_is_refused_where_money_counts_and_a_free_one_never() {
        let (limited, unlimited) = (caller(MoneyLimit::Limited, &[]), caller(MoneyLimit::Unlimited, &[]));
        let no_price = Err(Refusal::NoPrice { model: "unpriced".into() });
        assert_eq!(hold(&limited, "unpriced", "", Platform::Allowed), no_price);
        let mut spending = unlimited.clone();
        let limit = NanoDollars::new(1).unwrap();
        let mut counting = unlimited.clone();
        counting.rights.quotas =
            vec![Quota { amount: Amount::Cost(limit), extent: Extent::Calendar(Period::utc(Cycle::Day)) }];
        assert_eq!(hold(&counting, "unpriced", "", Platform::Allowed), no_price);
        spending.rights.spend = Some(SpendLimit { limit, period: "month".into(), zone: "UTC".into() });
        assert_eq!(hold(&spending, "unpriced", "", Platform::Allowed), no_price);
        assert!(hold(&unlimited, "unpriced", "", Platform::Allowed).is_ok());
        assert_eq!(hold(&limited, "free", "", Platform::Allowed), Ok(Hold::Free));
    }

    #[test]
    fn a_price_that_is_missing_closes_the_platforms_rungs_of_that_model_and_nothing_else() {
        let limited = caller(MoneyLimit::Limited, &[]);
        assert_eq!(
            hold(&limited, "kept", "", Platform::Allowed),
            Ok(Hold::Free),
            "the account's own connection serves it"
        );
        assert!(
            matches!(hold(&limited, "priced", "", Platform::Allowed), Ok(Hold::AtMost(_))),
            "its peer has no price"
        );
        let no_price = Err(Refusal::NoPrice { model: "peer".into() });
        assert_eq!(hold(&limited, "peer", "", Platform::Allowed), no_price, "its peer does not stand in for a price");
    }

    #[test]
    fn own_connections_cost_no_money_of_ours() {
        let caller = caller(MoneyLimit::Limited, &[]);
        assert_eq!(hold(&caller, "paid", "", Platform::Denied), Ok(Hold::Free));
    }

    #[test]
    fn a_model_that_nobody_serves_to_this_key_is_unknown_unless_it_is_forbidden_anyway() {
        let unknown = Err(Refusal::UnknownModel { model: "free".into() });
        assert_eq!(hold(&caller(MoneyLimit::Limited, &[]), "free", "", Platform::Denied), unknown);
        let forbidden = Err(Refusal::ModelNotAllowed { model: "free".into() });
        assert_eq!(hold(&caller(MoneyLimit::Limited, &["paid"]), "free", "", Platform::Denied), forbidden);
    }
}
