//! Quotas as Redis keeps them: in a client key's record, and as the counters one request is admitted under.

use std::num::NonZeroU64;
use std::time::Duration;

use super::admission::SpendSpan;
use super::keys::KeyKeys;
use super::link::StateError;
use super::script::Arg;
use crate::limit::{Amount, Extent, Period, Quota};
use crate::money::NanoDollars;

/// A sliding window is counted in so many slices, and the one that is under way.
const SLICES: u64 = 60;

/// One quota at one moment: the counter a request is counted in, whenever it settles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaTurn {
    /// What the quota is called ([`Quota::name`]).
    pub name: String,
    /// What it counts, and the most of it.
    pub amount: Amount,
    /// The time it counts over.
    pub turn: Turn,
}

/// The time one counter of a quota counts over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// One turn of a calendar period.
    Period(SpendSpan),
    /// The time just past, in slices of this many ms.
    Window {
        /// A sixtieth of the window, rounded up.
        slice_ms: i64,
    },
}

impl QuotaTurn {
    /// The counter of a quota that a moment (Unix ms) belongs to.
    pub fn at(quota: &Quota, now_ms: i64) -> Self {
        let turn = match &quota.extent {
            Extent::Calendar(period) => Turn::Period(SpendSpan::at(period, now_ms)),
            Extent::Sliding(window) => {
                let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
                Turn::Window { slice_ms: i64::try_from(window_ms.div_ceil(SLICES)).unwrap_or(i64::MAX).max(1) }
            }
        };
        Self { name: quota.name(), amount: quota.amount, turn }
    }

    /// Its counter.
    pub(super) fn counter(&self, keys: &KeyKeys) -> String {
        match &self.turn {
            Turn::Period(span) => keys.quota(&self.name, &span.label),
            Turn::Window { .. } => keys.quota(&self.name, "window"),
        }
    }

    /// The field of the key's record that remembers when it was last counted in.
    pub(super) fn mark(&self) -> String {
        format!("quota_mark:{}", self.name)
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.amount {
            Amount::Requests(_) => "requests",
            Amount::Tokens(_) => "tokens",
            Amount::Cost(_) => "cost",
        }
    }

    pub(super) fn limit(&self) -> i64 {
        match self.amount {
            Amount::Requests(count) | Amount::Tokens(count) => i64::try_from(count.get()).unwrap_or(i64::MAX),
            Amount::Cost(amount) => amount.nanos(),
        }
    }

    /// The label of its period; nothing for a window.
    pub(super) fn label(&self) -> &str {
        match &self.turn {
            Turn::Period(span) => &span.label,
            Turn::Window { .. } => "",
        }
    }

    pub(super) fn start_ms(&self) -> i64 {
        match &self.turn {
            Turn::Period(span) => span.start_ms,
            Turn::Window { .. } => 0,
        }
    }

    /// The end of its period, 0 for never; the length of a window's slice.
    pub(super) fn ends_ms(&self) -> i64 {
        match &self.turn {
            Turn::Period(span) => span.end_ms.unwrap_or(0),
            Turn::Window { slice_ms } => *slice_ms,
        }
    }

    /// What `settle` is told of it.
    pub(super) fn settle_args<'a>(&'a self, mark: &'a str) -> [Arg<'a>; 4] {
        [Arg::Text(self.kind()), Arg::Text(mark), Arg::Text(self.label()), Arg::Int(self.ends_ms())]
    }
}

impl SpendSpan {
    /// The turn of a period that a moment (Unix ms) belongs to.
    pub fn at(period: &Period, now_ms: i64) -> Self {
        let span = period.span_at(now_ms);
        Self { label: span.label.into(), start_ms: span.start_ms, end_ms: span.end_ms }
    }
}

/// The quotas of a request as a text that is kept with it while it is open.
pub(super) fn turns_text(turns: &[QuotaTurn]) -> String {
    let line = |turn: &QuotaTurn| {
        let label = if turn.label().is_empty() { "-" } else { turn.label() };
        let (kind, limit, name) = (turn.kind(), turn.limit(), &turn.name);
        format!("{kind} {limit} {name} {label} {} {}", turn.start_ms(), turn.ends_ms())
    };
    turns.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What [`turns_text`] wrote.
pub(super) fn read_turns(text: &str) -> Result<Vec<QuotaTurn>, StateError> {
    text.lines().map(|line| read_turn(line).ok_or_else(|| unreadable(line))).collect()
}

fn read_turn(line: &str) -> Option<QuotaTurn> {
    let words: Vec<&str> = line.split(' ').collect();
    let [kind, limit, name, label, start, end] = words[..] else { return None };
    let end: i64 = end.parse().ok()?;
    let turn = if label == "-" {
        Turn::Window { slice_ms: end }
    } else {
        let end_ms = Some(end).filter(|end| *end > 0);
        Turn::Period(SpendSpan { label: label.into(), start_ms: start.parse().ok()?, end_ms })
    };
    Some(QuotaTurn { name: name.to_owned(), amount: read_amount(kind, limit)?, turn })
}

/// The quotas of a client key as a text that is kept in its record.
pub(super) fn quotas_text(quotas: &[Quota]) -> String {
    quotas.iter().map(quota_text).collect::<Vec<_>>().join("\n")
}

fn quota_text(quota: &Quota) -> String {
    let amount = match quota.amount {
        Amount::Requests(count) => format!("requests {count}"),
        Amount::Tokens(count) => format!("tokens {count}"),
        Amount::Cost(amount) => format!("cost {}", amount.nanos()),
    };
    match &quota.extent {
        Extent::Calendar(Period { cycle, zone }) => {
            format!("{amount} {} {}", cycle.as_str(), zone.iana_name().unwrap_or("UTC"))
        }
        Extent::Sliding(window) => format!("{amount} window {}", window.as_millis()),
    }
}

/// What [`quotas_text`] wrote.
pub(super) fn read_quotas(text: &str) -> Result<Vec<Quota>, StateError> {
    text.lines().map(|line| read_quota(line).ok_or_else(|| unreadable(line))).collect()
}

fn read_quota(line: &str) -> Option<Quota> {
    let words: Vec<&str> = line.split(' ').collect();
    let [kind, limit, extent, of] = words[..] else { return None };
    let extent = match extent {
        "window" => Extent::Sliding(Duration::from_millis(of.parse().ok()?)),
        cycle => Extent::Calendar(Period::named(cycle, of)),
    };
    Some(Quota { amount: read_amount(kind, limit)?, extent })
}

fn read_amount(kind: &str, limit: &str) -> Option<Amount> {
    match kind {
        "requests" => limit.parse::<NonZeroU64>().ok().map(Amount::Requests),
        "tokens" => limit.parse::<NonZeroU64>().ok().map(Amount::Tokens),
        "cost" => NanoDollars::new(limit.parse().ok()?).ok().map(Amount::Cost),
        _ => None,
    }
}

fn unreadable(line: &str) -> StateError {
    StateError::Reply(format!("a quota that is unreadable: '{line}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Cycle;

    fn quotas() -> Vec<Quota> {
        let count = |count| NonZeroU64::new(count).unwrap();
        let berlin = Period::named("month", "Europe/Berlin");
        vec![
            Quota { amount: Amount::Requests(count(7)), extent: Extent::Calendar(Period::utc(Cycle::Total)) },
            Quota { amount: Amount::Cost(NanoDollars::new(5).unwrap()), extent: Extent::Calendar(berlin) },
            Quota { amount: Amount::Tokens(count(9)), extent: Extent::Sliding(Duration::from_hours(24)) },
        ]
    }

    #[test]
    fn what_is_kept_of_a_key_and_of_a_request_reads_back() {
        let quotas = quotas();
        assert_eq!(read_quotas(&quotas_text(&quotas)).unwrap(), quotas);
        let turns: Vec<QuotaTurn> = quotas.iter().map(|quota| QuotaTurn::at(quota, 2_000_000_000_000)).collect();
        assert_eq!(read_turns(&turns_text(&turns)).unwrap(), turns);
        assert!(read_turns("").unwrap().is_empty() && read_quotas("").unwrap().is_empty());
        for bad in ["requests 0 day UTC", "requests 1 day", "minutes 1 day UTC", "tokens 1 window x"] {
            assert!(read_quotas(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_window_is_counted_in_sixty_slices_at_least_as_long_as_it() {
        for (ms, slice) in [(86_400_000, 1_440_000), (60_001, 1_001), (1, 1)] {
            let extent = Extent::Sliding(Duration::from_millis(ms));
            let quota = Quota { amount: Amount::Requests(NonZeroU64::MIN), extent };
            assert_eq!(QuotaTurn::at(&quota, 0).turn, Turn::Window { slice_ms: slice }, "{ms}");
        }
    }
}
