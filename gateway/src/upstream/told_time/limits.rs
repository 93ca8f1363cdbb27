//! What an upstream says of its limits on every answer, good or bad: how much there is, how much is left, when it starts afresh.

use std::collections::BTreeMap;

use http::HeaderMap;
use shared::state::capacity::ToldLimit;

use super::{Clock, UNIFIED, read};

/// So many limits of one answer are kept; more no upstream tells.
const LIMITS_MAX: usize = 16;
/// A share is told in parts of so many.
const PARTS: f64 = 10_000.0;

/// What `x-ratelimit-*` and `anthropic-ratelimit-*` say, by the name of the limit. Shares of a window, as subscriptions tell them, are
/// in ten-thousandths. What cannot be read counts as not told. `now`: Unix seconds, for answers without a `Date`.
pub fn limits(headers: &HeaderMap, now: i64) -> Vec<ToldLimit> {
    let clock = Clock::of(headers, now);
    let mut found: BTreeMap<&str, ToldLimit> = BTreeMap::new();
    for (header, value) in headers {
        let Some((name, part)) = named(header.as_str()) else { continue };
        let Some(text) = value.to_str().ok().map(str::trim) else { continue };
        let limit = found.entry(name).or_insert_with(|| ToldLimit {
            name: name.to_owned(),
            limit: None,
            remaining: None,
            resets_in: None,
        });
        match part {
            Part::Limit => limit.limit = count(text),
            Part::Remaining => limit.remaining = count(text),
            Part::Reset => limit.resets_in = read::wait_or_time(text, clock),
            Part::Used => {
                let used = text.parse::<f64>().ok().filter(|used| used.is_finite());
                limit.remaining = used.map(|used| parts(1.0 - used));
                limit.limit = used.map(|_| parts(1.0));
            }
        }
    }
    let told = |limit: &ToldLimit| limit.limit.is_some() || limit.remaining.is_some();
    found.into_values().filter(told).take(LIMITS_MAX).collect()
}

enum Part {
    Limit,
    Remaining,
    Reset,
    /// The share that is used up, 0 to 1.
    Used,
}

/// Which part of which limit a header tells.
fn named(header: &str) -> Option<(&str, Part)> {
    if let Some(rest) = header.strip_prefix("x-ratelimit-") {
        let (part, name) = rest.split_once('-')?;
        return Some((name, part_of(part)?));
    }
    let unified = header.strip_prefix(UNIFIED);
    let (name, part) = unified.or_else(|| header.strip_prefix("anthropic-ratelimit-"))?.rsplit_once('-')?;
    Some((name, if part == "utilization" { Part::Used } else { part_of(part)? }))
}

fn part_of(word: &str) -> Option<Part> {
    match word {
        "limit" => Some(Part::Limit),
        "remaining" => Some(Part::Remaining),
        "reset" => Some(Part::Reset),
        _ => None,
    }
}

/// A count that Redis can keep exactly.
fn count(text: &str) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (0.0..9e15).contains(&number).then(|| whole(number))
}

fn parts(share: f64) -> u64 {
    whole((share.clamp(0.0, 1.0) * PARTS).round())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds checked before")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_796_040_000;

    /// Name, limit, remaining, seconds to the reset.
    type Found = (String, Option<u64>, Option<u64>, Option<u64>);

    fn told(pairs: &[(&str, &str)]) -> Vec<Found> {
        let headers = pairs.iter().map(|(name, value)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        });
        let seconds = |wait: Duration| wait.as_secs();
        let found = limits(&headers.collect(), NOW);
        found.into_iter().map(|one| (one.name, one.limit, one.remaining, one.resets_in.map(seconds))).collect()
    }

    #[test]
    fn openais_limits_are_told_per_kind() {
        let found = told(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "-1"),
            ("x-request-id", "7"),
        ]);
        let expected =
            [("requests".to_owned(), Some(60), Some(59), Some(360)), ("tokens".to_owned(), Some(150_000), None, None)];
        assert_eq!(found, expected);
    }

    #[test]
    fn anthropics_limits_and_the_windows_of_its_subscriptions_are_told() {
        let found = told(&[
            ("anthropic-ratelimit-input-tokens-limit", "1000"),
            ("anthropic-ratelimit-input-tokens-remaining", "10"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:01:00Z"),
            ("anthropic-ratelimit-unified-5h-status", "allowed"),
            ("anthropic-ratelimit-unified-5h-utilization", "0.255"),
            ("anthropic-ratelimit-unified-5h-reset", "1796043600"),
            ("anthropic-ratelimit-unified-reset", "1796043600"),
            ("date", "Mon, 30 Nov 2026 12:00:00 GMT"),
        ]);
        let expected = [
            ("5h".to_owned(), Some(10_000), Some(7_450), Some(3_600)),
            ("input-tokens".to_owned(), Some(1_000), Some(10), Some(60)),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn whatever_is_told_is_read_without_a_panic_and_kept_exactly(
            pairs in prop::collection::vec(
                (prop::sample::select(vec![
                    "x-ratelimit-limit-a", "x-ratelimit-remaining-a", "x-ratelimit-reset-a", "x-ratelimit-limit",
                    "anthropic-ratelimit-unified-7d-utilization", "anthropic-ratelimit-unified-7d-reset", "anthropic-ratelimit-",
                ]), "[ -~]{0,24}"), 0..8),
        ) {
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            for (_, limit, remaining, resets) in told(&pairs) {
                prop_assert!(limit.is_none_or(|n| n < 1 << 53) && remaining.is_none_or(|n| n < 1 << 53));
                prop_assert!(resets.is_none_or(|seconds| (1..=31 * 86_400).contains(&seconds)));
            }
        }
    }
}
