//! What a client key may use up, and over what time: spend limits, quotas, and the periods they count in.

use std::num::NonZeroU64;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::money::NanoDollars;

/// How long a counter runs before it starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cycle {
    /// Never starts again.
    Total,
    /// From the full hour.
    Hour,
    /// From midnight.
    Day,
    /// From Monday, midnight.
    Week,
    /// From the first of the month, midnight.
    Month,
}

/// A calendar period: a cycle in a time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// How long it is.
    pub cycle: Cycle,
    /// Whose midnight counts.
    pub zone: TimeZone,
}

/// One turn of a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Part of a Redis key: `total`, `2026-11`, `2026-11-30`, `2026-w48`, `2026-11-30t14`; where the local time at the start is
    /// not UTC its offset follows, `2026-11-30+0100`. Two spans of one cycle have one label only if they start together.
    pub label: String,
    /// First millisecond since 1970 that belongs to it.
    pub start_ms: i64,
    /// First millisecond that no longer does; `None` for [`Cycle::Total`].
    pub end_ms: Option<i64>,
}

/// How much money a client key may cost in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendLimit {
    /// The most it may cost.
    pub amount: NanoDollars,
    /// In what time.
    pub period: Period,
}

/// How much of something may be used in some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// What is counted, and the most of it.
    pub amount: Amount,
    /// In what time.
    pub extent: Extent,
}

/// What a quota counts, and the most of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// Admitted requests.
    Requests(NonZeroU64),
    /// Tokens in and out.
    Tokens(NonZeroU64),
    /// Money.
    Cost(NanoDollars),
}

/// The time a quota counts over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// From one turn of the calendar to the next.
    Calendar(Period),
    /// Always the time just past, this long.
    Sliding(Duration),
}
