//! Reads one wait or one time, in any of the forms upstreams write them.

use std::time::{Duration, UNIX_EPOCH};

use jiff::{Span, SpanRelativeTo, Timestamp};
use serde_json::Value;

use super::{Clock, MAX_WAIT, MIN_WAIT};

/// Larger numbers of seconds are a time since 1970, not a wait.
const EPOCH_FROM: f64 = 1e9;
/// Larger numbers of a time since 1970 are milliseconds.
const EPOCH_MS_FROM: f64 = 1e11;

/// A wait between the minimum and 31 days, shorter ones lengthened; longer ones are nothing.
pub(super) fn believable(wait: Duration) -> Option<Duration> {
    (wait <= MAX_WAIT).then(|| wait.max(MIN_WAIT))
}

fn of_seconds(seconds: f64) -> Option<Duration> {
    believable(Duration::try_from_secs_f64(seconds).ok()?)
}

/// A number of some unit, given in seconds.
pub(super) fn seconds(text: &str, unit: f64) -> Option<Duration> {
    of_seconds(text.trim().parse::<f64>().ok()? * unit)
}

/// An HTTP date in any of its three forms, whatever its case.
pub(super) fn http_date(text: &str) -> Option<Timestamp> {
    let since_1970 = httpdate::parse_http_date(&in_title_case(text)).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Timestamp::from_second(i64::try_from(since_1970.as_secs()).ok()?).ok()
}

/// Every word with a capital, the zone in capitals: as HTTP writes dates.
fn in_title_case(text: &str) -> String {
    let mut cased = String::with_capacity(text.len());
    for c in text.chars() {
        let inside = cased.ends_with(|before: char| before.is_ascii_alphabetic());
        cased.push(if inside { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() });
    }
    cased.replace("Gmt", "GMT")
}

/// A duration with units: `6m0s`, `1h16m0.667s`, `479.4ms`, `20 seconds`. `None` when the text is none; the inner one when it is
/// not believable.
#[expect(clippy::option_option, reason = "a text that is no duration and a duration that is not believed part ways")]
pub(super) fn maybe_duration(text: &str) -> Option<Option<Duration>> {
    let text = text.trim();
    let Ok(span) = text.parse::<Span>() else { return long_fraction(text).map(Some) };
    let wait =
        span.to_duration(SpanRelativeTo::days_are_24_hours()).ok().and_then(|wait| Duration::try_from(wait).ok());
    Some(wait.and_then(believable))
}

/// A believable duration with units.
pub(super) fn duration(text: &str) -> Option<Duration> {
    maybe_duration(text).flatten()
}

/// More decimals than a nanosecond has, as a float prints them: `18.642000000000003s`.
fn long_fraction(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    number.contains('.').then(|| seconds(number, unit)).flatten()
}

/// A duration, a number of seconds, a time since 1970, an RFC 3339 or HTTP date.
pub(super) fn wait_or_time(text: &str, clock: Clock) -> Option<Duration> {
    if let Ok(number) = text.trim().parse::<f64>() {
        return if number < EPOCH_FROM { of_seconds(number) } else { until_epoch(number, clock) };
    }
    match text.parse::<Timestamp>() {
        Ok(time) => clock.until(time),
        Err(_) => duration(text).or_else(|| clock.until(http_date(text)?)),
    }
}

fn until_epoch(number: f64, clock: Clock) -> Option<Duration> {
    let seconds = if number < EPOCH_MS_FROM { number } else { number / 1e3 };
    let since_1970 = Duration::try_from_secs_f64(seconds).ok()?;
    clock.until(Timestamp::from_duration(since_1970.try_into().ok()?).ok()?)
}

/// A JSON number, also one in quotes.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A time since 1970, in seconds or milliseconds.
pub(super) fn epoch(value: &Value, clock: Clock) -> Option<Duration> {
    match number(value) {
        Some(number) => until_epoch(number, clock),
        None => clock.until(value.as_str()?.parse().ok()?),
    }
}

/// A number of seconds.
pub(super) fn plain_seconds(value: &Value) -> Option<Duration> {
    of_seconds(number(value)?)
}

/// A protobuf duration: `"47s"`, or an object of seconds and nanos.
pub(super) fn proto_duration(value: &Value) -> Option<Duration> {
    if let Some(text) = value.as_str() {
        return duration(text);
    }
    let part = |name| value.get(name).and_then(number);
    of_seconds(part("seconds").or_else(|| part("nanos").map(|_| 0.0))? + part("nanos").unwrap_or(0.0) * 1e-9)
}
