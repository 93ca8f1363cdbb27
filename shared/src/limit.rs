//! What a client key may use up, and over what time: spend limits, quotas, and the periods they count in.

use std::num::NonZeroU64;
use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

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

impl Cycle {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// The latest moment that is told apart: in the year 9987, so that the end of every span is still a date.
const LATEST_MS: i64 = 253_000_000_000_000;

impl Period {
    /// The period that was kept as the words of its cycle and its zone. One that cannot be read never turns, in UTC: the
    /// stricter reading.
    pub fn named(cycle: &str, zone: &str) -> Self {
        const CYCLES: [Cycle; 5] = [Cycle::Total, Cycle::Hour, Cycle::Day, Cycle::Week, Cycle::Month];
        let cycle = CYCLES.into_iter().find(|known| known.as_str() == cycle).unwrap_or(Cycle::Total);
        Self { cycle, zone: TimeZone::get(zone).unwrap_or(TimeZone::UTC) }
    }

    /// A cycle in UTC.
    pub fn utc(cycle: Cycle) -> Self {
        Self { cycle, zone: TimeZone::UTC }
    }

    /// The turn that a moment belongs to, in milliseconds since 1970. Turns of one period follow each other without gap or
    /// overlap, whatever the time zone's clocks do: a day may have 23, 24 or 25 hours.
    pub fn span_at(&self, now_ms: i64) -> Span {
        let now = Timestamp::from_millisecond(now_ms.clamp(0, LATEST_MS)).unwrap_or_default();
        let turn = match self.cycle {
            Cycle::Total => None,
            Cycle::Hour => self.hour(now),
            Cycle::Day | Cycle::Week | Cycle::Month => self.days(now),
        };
        turn.unwrap_or_else(|| Span { label: "total".to_owned(), start_ms: 0, end_ms: None })
    }

    /// The hour of the wall clock, cut where the clock is turned.
    fn hour(&self, now: Timestamp) -> Option<Span> {
        let local = now.to_zoned_datetime(self.zone.clone());
        let offset = i64::from(local.offset().seconds()) * 1000;
        let wall = now.as_millisecond() + offset;
        let full = wall - wall.rem_euclid(HOUR_MS) - offset;
        // A transition lies after `now` when it has not happened yet; one at `now` itself has.
        let turned = self.zone.preceding(now.checked_add(1.millisecond()).ok()?).next();
        let turns = self.zone.following(now).next();
        let start_ms = turned.map_or(full, |turned| full.max(turned.timestamp().as_millisecond()));
        let end_ms = turns.map_or(full + HOUR_MS, |turns| (full + HOUR_MS).min(turns.timestamp().as_millisecond()));
        let label = format!("{}t{:02}{}", local.date(), local.hour(), offset_label(local.offset()));
        Some(Span { label, start_ms, end_ms: Some(end_ms) })
    }

    /// One or more whole days.
    fn days(&self, now: Timestamp) -> Option<Span> {
        let today = now.to_zoned_datetime(self.zone.clone()).date();
        let (first, length) = match self.cycle {
            Cycle::Month => (today.first_of_month(), 1.month()),
            Cycle::Week => {
                (today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()?, 1.week())
            }
            _ => (today, 1.day()),
        };
        let start = first.to_zoned_datetime(self.zone.clone()).ok()?;
        let end = first.checked_add(length).ok()?.to_zoned_datetime(self.zone.clone()).ok()?;
        let name = match self.cycle {
            Cycle::Month => format!("{:04}-{:02}", first.year(), first.month()),
            Cycle::Week => format!("{:04}-w{:02}", first.iso_week_date().year(), first.iso_week_date().week()),
            _ => first.to_string(),
        };
        Some(Span {
            label: name + &offset_label(start.offset()),
            start_ms: start.timestamp().as_millisecond(),
            end_ms: Some(end.timestamp().as_millisecond()),
        })
    }
}

const HOUR_MS: i64 = 3_600_000;

/// `+0100`; nothing for UTC.
fn offset_label(offset: Offset) -> String {
    let minutes = offset.seconds() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.abs();
    if minutes == 0 { String::new() } else { format!("{sign}{:02}{:02}", minutes / 60, minutes % 60) }
}

impl Quota {
    /// Its name in Redis keys and refusals, unique among quotas that count differently: `requests-day`,
    /// `requests-day-Europe.Berlin`, `tokens-86400s`.
    pub fn name(&self) -> String {
        let what = match self.amount {
            Amount::Requests(_) => "requests",
            Amount::Tokens(_) => "tokens",
            Amount::Cost(_) => "usd",
        };
        match &self.extent {
            Extent::Sliding(window) if window.subsec_nanos() == 0 => format!("{what}-{}s", window.as_secs()),
            Extent::Sliding(window) => format!("{what}-{}ms", window.as_millis()),
            Extent::Calendar(Period { cycle, zone }) => match zone.iana_name().filter(|_| *zone != TimeZone::UTC) {
                Some(zone) => format!("{what}-{}-{}", cycle.as_str(), zone.replace('/', ".")),
                None => format!("{what}-{}", cycle.as_str()),
            },
        }
    }
}
