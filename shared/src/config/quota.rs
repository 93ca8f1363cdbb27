//! Spend limits and quotas as the file writes them.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::Value as Json;

use super::limits::above_zero;
use super::reader::{Reader, Value};
use super::scalar::{Scalar, words_schema};
use super::section::{Field, draft, exactly_one};
use super::yaml::Node;
use crate::limit::{Amount, Cycle, Extent, Period, Quota, SpendLimit};
use crate::money::NanoDollars;

draft! {
    /// How much money a client key may cost in a period.
    struct SpendLimitDraft {
        /// The most it may cost, in US dollars.
        usd: NanoDollars = required,
        /// The period.
        period: Cycle = "total",
        /// Whose midnight counts.
        time_zone: TimeZone = "UTC",
    }
}

draft! {
    /// How much of one thing may be used in some time: one of `requests`, `tokens` and `usd`, one of `period` and `window`.
    struct QuotaDraft {
        /// The most admitted requests.
        requests: Option<NonZeroU64> = optional,
        /// The most tokens, in and out.
        tokens: Option<NonZeroU64> = optional,
        /// The most money, in US dollars.
        usd: Option<NanoDollars> = optional,
        /// Counted from one turn of the calendar to the next.
        period: Option<Cycle> = optional,
        /// Counted over the time just past.
        window: Option<Duration> = optional,
        /// Whose midnight counts for a period; UTC when absent.
        time_zone: Option<TimeZone> = optional,
    }
}

/// The fields that make a quota, wherever they stand.
pub(super) struct Parts<'a> {
    pub(super) requests: &'a Field<Option<NonZeroU64>>,
    pub(super) tokens: &'a Field<Option<NonZeroU64>>,
    pub(super) usd: &'a Field<Option<NanoDollars>>,
    pub(super) period: &'a Field<Option<Cycle>>,
    pub(super) window: &'a Field<Option<Duration>>,
    pub(super) time_zone: &'a Field<Option<TimeZone>>,
}

impl Parts<'_> {
    pub(super) fn check(&self, reader: &mut Reader<'_>) -> Option<Quota> {
        exactly_one("requests, tokens, usd", &[self.requests, self.tokens, self.usd], reader);
        exactly_one("period, window", &[self.period, self.window], reader);
        if self.usd.value == Some(Some(NanoDollars::ZERO)) {
            reader.fault(&self.usd.place, "found nothing at all", "an amount above zero");
        }
        above_zero(self.window, reader);
        if self.time_zone.given && !self.period.given {
            reader.fault(&self.time_zone.place, "a window has no midnight", "a time_zone only beside a period");
        }
        let amount = None
            .or(self.requests.value.flatten().map(Amount::Requests))
            .or(self.tokens.value.flatten().map(Amount::Tokens))
            .or(self.usd.value.flatten().map(Amount::Cost));
        let zone = self.time_zone.value.clone()?.unwrap_or(TimeZone::UTC);
        let extent = match (self.period.value?, self.window.value?) {
            (Some(cycle), _) => Extent::Calendar(Period { cycle, zone }),
            (None, window) => Extent::Sliding(window?),
        };
        Some(Quota { amount: amount?, extent })
    }
}

impl Value for SpendLimit {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = SpendLimitDraft::read(node, reader)?;
        let period = Period { cycle: draft.period.value?, zone: draft.time_zone.value? };
        Some(Self { amount: draft.usd.value?, period })
    }
    fn schema() -> Json {
        SpendLimitDraft::schema()
    }
}

impl Value for Quota {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let QuotaDraft { requests, tokens, usd, period, window, time_zone } = &QuotaDraft::read(node, reader)?;
        Parts { requests, tokens, usd, period, window, time_zone }.check(reader)
    }
    fn schema() -> Json {
        QuotaDraft::schema()
    }
}

impl Scalar for Cycle {
    fn expected() -> Cow<'static, str> {
        "one of total hour day week month".into()
    }
    fn parse(text: &str) -> Option<Self> {
        [Self::Total, Self::Hour, Self::Day, Self::Week, Self::Month].into_iter().find(|cycle| cycle.as_str() == text)
    }
    fn schema() -> Json {
        words_schema(
            &["total", "hour", "day", "week", "month"],
            "total never starts again; a week starts on Monday, all others with the clock or the calendar",
        )
    }
}
