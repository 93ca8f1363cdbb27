//! How long an upstream says to wait. One parser for every place where one says it. Pure.

mod limits;
mod read;
mod words;

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use serde_json::Value;
use shared::failure::{Scope, Told};

pub use limits::limits;

/// The shortest wait: what a zero or a time that has passed stands for.
pub const MIN_WAIT: Duration = Duration::from_secs(1);
/// The longest wait that is believed.
pub const MAX_WAIT: Duration = Duration::from_hours(31 * 24);

/// The wait an upstream tells, from the first source in the order of trust that can be read.
///
/// `body` is the error body where it was JSON, `text` its beginning in lower case. Times of day are measured against the response's
/// own `Date`, else against `now` (Unix seconds). What is negative, longer than 31 days or unreadable counts as absent, and the
/// next source is asked.
pub fn told(headers: &HeaderMap, body: Option<&Value>, text: &str, now: i64) -> Option<Told> {
    let clock = Clock::of(headers, now);
    let wait = by_retry_headers(headers, clock)
        .or_else(|| by_exhausted_limit(headers, clock))
        .or_else(|| by_unified_window(headers, clock))
        .or_else(|| body.and_then(|body| by_body(body, clock)))
        .or_else(|| words::wait(text, clock))?;
    Some(Told { wait, scope: scope(headers) })
}

/// True when the headers say that a limit is at zero.
pub fn limit_at_zero(headers: &HeaderMap) -> bool {
    exhausted(headers).next().is_some() || rejected_windows(headers).next().is_some() || unified_rejected(headers)
}

/// The moment from which an upstream's times of day are measured.
#[derive(Debug, Clone, Copy)]
struct Clock(Timestamp);

impl Clock {
    fn of(headers: &HeaderMap, now: i64) -> Self {
        let date = text_of(headers, DATE.as_str()).and_then(read::http_date);
        Self(date.or_else(|| Timestamp::from_second(now).ok()).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// From this moment until a time: the minimum when it has passed, nothing when it is more than 31 days off either way.
    fn until(self, time: Timestamp) -> Option<Duration> {
        let wait = time.duration_since(self.0);
        match Duration::try_from(wait) {
            Ok(wait) => read::believable(wait),
            Err(_) => (wait.unsigned_abs() <= MAX_WAIT).then_some(MIN_WAIT),
        }
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn by_retry_headers(headers: &HeaderMap, clock: Clock) -> Option<Duration> {
    ["retry-after-ms", "x-ms-retry-after-ms"]
        .iter()
        .find_map(|name| read::seconds(text_of(headers, name)?, 1e-3))
        .or_else(|| {
            let text = text_of(headers, RETRY_AFTER.as_str())?;
            read::seconds(text, 1.0).or_else(|| clock.until(read::http_date(text)?))
        })
}

/// The header names of the reset times of limits whose remaining figure is zero.
fn exhausted(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let reset = if let Some(limit) = name.strip_prefix("x-ratelimit-remaining") {
            format!("x-ratelimit-reset{limit}")
        } else {
            let limit = name.strip_prefix("anthropic-ratelimit-")?.strip_suffix("-remaining")?;
            format!("anthropic-ratelimit-{limit}-reset")
        };
        let remaining: f64 = value.to_str().ok()?.trim().parse().ok()?;
        (remaining == 0.0).then_some(reset)
    })
}

/// Of several exhausted limits the one that takes longest decides.
fn by_exhausted_limit(headers: &HeaderMap, clock: Clock) -> Option<Duration> {
    exhausted(headers).filter_map(|name| read::wait_or_time(text_of(headers, &name)?, clock)).max()
}

const UNIFIED: &str = "anthropic-ratelimit-unified-";

/// The windows of an Anthropic subscription that refuse.
fn rejected_windows(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.iter().filter_map(|(name, value)| {
        let window = name.as_str().strip_prefix(UNIFIED)?.strip_suffix("-status")?;
        (value.as_bytes() == b"rejected").then_some(window)
    })
}

fn unified_rejected(headers: &HeaderMap) -> bool {
    text_of(headers, "anthropic-ratelimit-unified-status") == Some("rejected")
}

/// The latest reset of the windows that refuse.
fn by_unified_window(headers: &HeaderMap, clock: Clock) -> Option<Duration> {
    let reset = |name: &str| read::wait_or_time(text_of(headers, name)?, clock);
    let windows = rejected_windows(headers).filter_map(|window| reset(&format!("{UNIFIED}{window}-reset"))).max();
    windows.or_else(|| if unified_rejected(headers) { reset("anthropic-ratelimit-unified-reset") } else { None })
}

/// The plain windows of an Anthropic subscription (`5h`, `7d`) close the whole account, those of a model family (`7d_oi`) only the
/// bucket. Nothing else tells a scope.
fn scope(headers: &HeaderMap) -> Scope {
    let of_account = rejected_windows(headers).any(|window| !window.contains('_'));
    let unnamed = unified_rejected(headers) && rejected_windows(headers).next().is_none();
    if of_account || unnamed { Scope::Connection } else { Scope::Bucket }
}

/// Google's details, then OpenAI's and Codex's fields.
fn by_body(body: &Value, clock: Clock) -> Option<Duration> {
    let outer = body.get(0).unwrap_or(body);
    let error = outer.get("error").unwrap_or(outer);
    let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_type = |name: &'static str| {
        details
            .iter()
            .filter(move |detail| detail.get("@type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with(name)))
    };
    let metadata = |name: &str| {
        of_type("google.rpc.ErrorInfo")
            .find_map(|detail| read::wait_or_time(detail.get("metadata")?.get(name)?.as_str()?, clock))
    };
    of_type("google.rpc.RetryInfo")
        .find_map(|detail| read::proto_duration(detail.get("retryDelay")?))
        .or_else(|| metadata("quotaResetDelay"))
        .or_else(|| metadata("quotaResetTimeStamp"))
        .or_else(|| read::epoch(error.get("resets_at")?, clock))
        .or_else(|| read::plain_seconds(error.get("resets_in_seconds")?))
}

#[cfg(test)]
mod tests;
