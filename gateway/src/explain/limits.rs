//! The limits of a client key, what is used of them, and whether it may start a request. Pure.

use std::time::Duration;

use shared::limit::{self, Period, Span};
use shared::money::{NanoDollars, Price};
use shared::state::quotas::{QuotaTurn, Turn};
use shared::state::records::{CallerRecord, MoneyLimit};
use shared::state::survey::{AccountView, Used};

use super::Asked;
use crate::catalog::{Catalog, Owner};
use crate::error::{KeyFault, KeyLimit, Refusal};
use crate::flow::admit::{FALLBACK, allowed, lacks_price};
use crate::flow::plan::Ladder;

/// One limit, and what is used of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Which: a word.
    pub what: &'static str,
    /// The period it counts in, where that has a name.
    pub period: Option<String>,
    /// What is used, and held by open requests; `None`: it is not counted.
    pub used: Option<Amount>,
    /// The most; `None`: there is no limit.
    pub limit: Option<Amount>,
    /// When some of it is free again.
    pub resets: Resets,
}

/// How much of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Things.
    Count(u64),
    /// Money.
    Money(NanoDollars),
}

/// When a limit gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resets {
    /// At no known time.
    Unknown,
    /// After so long the oldest of what counts counts no more.
    In(Duration),
    /// Then (Unix ms) it starts afresh.
    At(i64),
}

/// What the key's limits and rights say to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It may start.
    Admitted,
    /// It waits in the key's line; if that does not help it is refused.
    Waits(Refusal),
    /// It is refused.
    Refused(Refusal),
}

/// Whether a key may be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usable {
    Yes,
    No,
}

/// A client key as it stands.
pub(super) struct Standing<'a> {
    pub(super) caller: &'a CallerRecord,
    pub(super) usable: Usable,
    pub(super) view: &'a AccountView,
}

/// The turn of the spend limit's period that holds a moment (Unix ms).
pub(super) fn span(caller: &CallerRecord, now_ms: i64) -> Option<Span> {
    let limit = caller.rights.spend.as_ref()?;
    Some(Period::named(&limit.period, &limit.zone).span_at(now_ms))
}

fn count(number: u32) -> Amount {
    Amount::Count(number.into())
}

/// The turns of the key's quotas that hold a moment (Unix ms).
pub(super) fn turns(caller: &CallerRecord, now_ms: i64) -> Vec<QuotaTurn> {
    caller.rights.quotas.iter().map(|quota| QuotaTurn::at(quota, now_ms)).collect()
}

fn money(nanos: i64) -> Amount {
    Amount::Money(NanoDollars::new(nanos).unwrap_or(NanoDollars::MAX))
}

fn quota(turn: &QuotaTurn, used: Used) -> Limit {
    let sum = used.used.saturating_add(used.held);
    let (used_up, most) = match turn.amount {
        limit::Amount::Requests(most) | limit::Amount::Tokens(most) => {
            (Amount::Count(u64::try_from(sum).unwrap_or(0)), Amount::Count(most.get()))
        }
        limit::Amount::Cost(most) => (money(sum), Amount::Money(most)),
    };
    let resets = match &turn.turn {
        Turn::Period(span) => span.end_ms.map(Resets::At),
        Turn::Window { .. } => used.oldest.map(Resets::In),
    };
    let (period, resets) = (Some(turn.name.clone()), resets.unwrap_or(Resets::Unknown));
    Limit { what: "quota", period, used: Some(used_up), limit: Some(most), resets }
}

fn tokens(most: u32, used: Used) -> Limit {
    let sum = u64::try_from(used.used.saturating_add(used.held)).unwrap_or(0).div_ceil(1000);
    let resets = used.oldest.map_or(Resets::Unknown, Resets::In);
    Limit { what: "tpm", period: None, used: Some(Amount::Count(sum)), limit: Some(count(most)), resets }
}

impl Standing<'_> {
    /// Every limit there can be, those that the key has not without a limit; money, tokens and quotas only where they count.
    pub(super) fn limits(&self) -> Vec<Limit> {
        let Self { caller, view, .. } = self;
        let rights = &caller.rights;
        let limit = |what, used, limit| Limit { what, period: None, used, limit, resets: Resets::Unknown };
        let mut limits = Vec::new();
        if let Some(key) = view.keys.first() {
            let frees = Some(key.rate_frees).filter(|_| key.rate_used > 0);
            let rate_used = rights.rpm.map(|_| count(key.rate_used));
            let resets = frees.map_or(Resets::Unknown, Resets::In);
            limits.push(Limit { resets, ..limit("rpm", rate_used, rights.rpm.map(count)) });
            limits.extend(rights.tpm.map(|most| tokens(most, key.tokens)));
            limits.extend(turns(caller, view.now_ms).iter().zip(&key.quotas).map(|(turn, used)| quota(turn, *used)));
            limits.push(limit("concurrency", Some(count(key.live)), rights.max_concurrent.map(count)));
            limits.push(limit("waiting", Some(count(key.waiting)), None));
            if let Some(spend) = &rights.spend {
                let ends = span(caller, view.now_ms).and_then(|span| span.end_ms);
                limits.push(Limit {
                    what: "spend_limit",
                    period: Some(spend.period.clone()),
                    used: Some(money(key.spent.nanos().saturating_add(key.spending.nanos()))),
                    limit: Some(Amount::Money(spend.limit)),
                    resets: ends.map_or(Resets::Unknown, Resets::At),
                });
            }
        }
        if caller.money == MoneyLimit::Limited {
            limits.push(limit("balance", Some(Amount::Money(view.reserved)), view.balance.map(Amount::Money)));
        }
        limits
    }

    /// Whether a request of the key for this model would start now, as far as it is not for its tokens and quotas: what a request of
    /// unknown length would hold is not known.
    pub(super) fn admission(&self, catalog: &Catalog, ladder: &Ladder, asked: &Asked<'_>) -> Admission {
        let refused = self.refused(ladder, asked).or_else(|| self.unpaid(ladder));
        if let Some(refusal) = refused {
            return Admission::Refused(refusal);
        }
        match self.over_rate() {
            None => Admission::Admitted,
            Some((refusal, wait)) if wait <= catalog.limits.key_wait && !catalog.limits.key_wait.is_zero() => {
                Admission::Waits(refusal)
            }
            Some((refusal, _)) => Admission::Refused(refusal),
        }
    }

    fn refused(&self, ladder: &Ladder, asked: &Asked<'_>) -> Option<Refusal> {
        let model = || asked.text.to_owned();
        if self.usable == Usable::No {
            Some(Refusal::Key(KeyFault::Unknown))
        } else if !allowed(&self.caller.rights.models, asked.named) {
            Some(Refusal::ModelNotAllowed { model: model() })
        } else if lacks_price(self.caller, &asked.named.model, ladder) {
            Some(Refusal::NoPrice { model: model() })
        } else if ladder.steps.is_empty() {
            Some(Refusal::UnknownModel { model: model() })
        } else {
            None
        }
    }

    /// Why the money does not suffice, where any is needed.
    fn unpaid(&self, ladder: &Ladder) -> Option<Refusal> {
        let Self { caller, view, .. } = self;
        let limited = caller.money == MoneyLimit::Limited;
        let spend = caller.rights.spend.as_ref();
        let paid = ladder.rungs().filter(|rung| rung.serving.connection.owner == Owner::Platform);
        let prices: Vec<_> = paid.map(|rung| rung.model.price).collect();
        if prices.iter().flatten().all(Price::is_free) {
            return None;
        }
        if limited {
            let Some(balance) = view.balance else { return Some(Refusal::StateUnavailable) };
            if balance.nanos() <= view.reserved.nanos() {
                return Some(Refusal::Balance);
            }
        }
        let spent = view.keys.first().map(|key| key.spent)?;
        spend.filter(|spend| spent >= spend.limit).map(|_| Refusal::SpendLimit)
    }

    /// The limit that passes by itself, and how long that takes at least.
    fn over_rate(&self) -> Option<(Refusal, Duration)> {
        let rights = &self.caller.rights;
        let key = self.view.keys.first()?;
        let over = |used: u32, limit: Option<u32>| limit.is_some_and(|limit| used.saturating_add(key.waiting) >= limit);
        if over(key.rate_used, rights.rpm) {
            let wait = if key.rate_used < rights.rpm.unwrap_or_default() { FALLBACK } else { key.rate_frees };
            return Some((Refusal::OverRate { limit: KeyLimit::Requests, wait }, wait));
        }
        let full = over(key.live, rights.max_concurrent);
        full.then_some((Refusal::OverRate { limit: KeyLimit::Concurrency, wait: FALLBACK }, Duration::ZERO))
    }
}
