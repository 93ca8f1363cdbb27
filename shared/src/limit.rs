//! What a client key may use up, and over what time: spend limits, quotas, and the periods they count in.

use std::num::NonZeroU64;
use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::money::NanoDollars;

pub use weights::{TokenWeights, Weighed, Weight};

mod weights;

/// How soon a client key's requests are served where requests wait: 0 before 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(u8);

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

impl Priority {
    /// The last.
    pub const MAX: u8 = 9;

    /// From 0, the first, to 9.
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::MAX).then_some(Self(number))
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

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

/// A length of time as the file would write it: `24h`, `1h30m`, `250ms`.
pub fn length(time: Duration) -> String {
    let ms = time.as_millis();
    let parts = [(ms / 3_600_000, "h"), (ms / 60_000 % 60, "m"), (ms / 1_000 % 60, "s"), (ms % 1_000, "ms")];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    shown.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn period(cycle: Cycle, zone: &str) -> Period {
        Period { cycle, zone: TimeZone::get(zone).unwrap() }
    }

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    fn check(cycle: Cycle, zone: &str, now: &str, label: &str, start: &str, end: &str) {
        let span = period(cycle, zone).span_at(ms(now));
        assert_eq!(span, Span { label: label.to_owned(), start_ms: ms(start), end_ms: Some(ms(end)) }, "{zone} {now}");
    }

    #[test]
    fn a_total_never_ends() {
        let span = period(Cycle::Total, "Europe/Berlin").span_at(ms("2026-11-30T12:00:00Z"));
        assert_eq!(span, Span { label: "total".to_owned(), start_ms: 0, end_ms: None });
    }

    #[test]
    fn spans_follow_the_calendar_in_utc() {
        let now = "2026-11-30T14:59:59.999Z";
        check(Cycle::Hour, "UTC", now, "2026-11-30t14", "2026-11-30T14:00:00Z", "2026-11-30T15:00:00Z");
        check(Cycle::Day, "UTC", now, "2026-11-30", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z");
        check(Cycle::Week, "UTC", now, "2026-w49", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
        check(Cycle::Month, "UTC", now, "2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
    }

    #[test]
    fn the_week_at_the_turn_of_the_year_has_one_name() {
        for now in ["2026-12-28T00:00:00Z", "2026-12-31T23:00:00Z", "2027-01-03T23:59:59Z"] {
            check(Cycle::Week, "UTC", now, "2026-w53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z");
        }
        check(Cycle::Week, "UTC", "2024-12-30T00:00:00Z", "2025-w01", "2024-12-30T00:00:00Z", "2025-01-06T00:00:00Z");
    }

    #[test]
    fn a_day_has_23_or_25_hours_when_the_clocks_are_turned() {
        let zone = "Europe/Berlin";
        let spring = "2026-03-29T12:00:00Z";
        check(Cycle::Day, zone, spring, "2026-03-29+0100", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
        let autumn = "2026-10-25T12:00:00Z";
        check(Cycle::Day, zone, autumn, "2026-10-25+0200", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
        check(Cycle::Month, zone, autumn, "2026-10+0200", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z");
        // Midnight itself does not exist on the day the clocks go forward here.
        let now = "2026-09-06T12:00:00Z";
        check(Cycle::Day, "America/Santiago", now, "2026-09-06-0300", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z");
    }

    #[test]
    fn the_hour_that_happens_twice_is_two_hours() {
        let zone = "Europe/Berlin";
        let (one, two, three) = ("2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z");
        check(Cycle::Hour, zone, "2026-10-25T00:30:00Z", "2026-10-25t02+0200", one, two);
        check(Cycle::Hour, zone, "2026-10-25T01:00:00Z", "2026-10-25t02+0100", two, three);
        // Clocks are turned by half an hour here.
        let zone = "Australia/Lord_Howe";
        let turned = "2026-04-04T15:00:00Z";
        check(Cycle::Hour, zone, "2026-04-04T14:59:59Z", "2026-04-05t01+1100", "2026-04-04T14:00:00Z", turned);
        check(Cycle::Hour, zone, turned, "2026-04-05t01+1030", turned, "2026-04-04T15:30:00Z");
        let now = "2026-11-30T14:40:00Z";
        check(Cycle::Hour, "Asia/Kolkata", now, "2026-11-30t20+0530", "2026-11-30T14:30:00Z", "2026-11-30T15:30:00Z");
    }

    #[test]
    fn quotas_that_count_differently_have_different_names() {
        let requests = Amount::Requests(NonZeroU64::MIN);
        let name = |extent| Quota { amount: requests, extent }.name();
        assert_eq!(name(Extent::Calendar(Period::utc(Cycle::Day))), "requests-day");
        assert_eq!(name(Extent::Calendar(period(Cycle::Day, "Europe/Berlin"))), "requests-day-Europe.Berlin");
        assert_eq!(name(Extent::Sliding(Duration::from_hours(24))), "requests-86400s");
        assert_eq!(name(Extent::Sliding(Duration::from_millis(1500))), "requests-1500ms");
    }

    proptest! {
        #[test]
        fn spans_hold_their_moment_and_follow_each_other(
            now_ms in 1_500_000_000_000_i64..4_000_000_000_000,
            cycle in prop::sample::select(vec![Cycle::Hour, Cycle::Day, Cycle::Week, Cycle::Month]),
            zone in prop::sample::select(vec![
                "UTC", "Europe/Berlin", "America/St_Johns", "America/Santiago", "America/Havana", "Australia/Lord_Howe",
                "Asia/Kathmandu", "Pacific/Chatham", "Africa/Casablanca", "Antarctica/Troll",
            ]),
        ) {
            let period = period(cycle, zone);
            let span = period.span_at(now_ms);
            let end_ms = span.end_ms.unwrap();
            prop_assert!(span.start_ms <= now_ms && now_ms < end_ms, "{:?}", span);
            prop_assert_eq!(&period.span_at(span.start_ms), &span);
            prop_assert_eq!(&period.span_at(end_ms - 1), &span);
            let next = period.span_at(end_ms);
            prop_assert_eq!(next.start_ms, end_ms);
            prop_assert_ne!(next.label, span.label);
        }
    }

    #[test]
    fn no_clock_however_wrong_is_refused() {
        for now_ms in [i64::MIN, -1, 0, i64::MAX] {
            for cycle in [Cycle::Hour, Cycle::Day, Cycle::Week, Cycle::Month] {
                assert!(period(cycle, "Europe/Berlin").span_at(now_ms).end_ms.is_some());
            }
        }
    }
}
