use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// 2026-11-30T12:00:00Z.
const NOW: i64 = 1_796_040_000;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

fn wait(pairs: &[(&str, &str)]) -> Option<f64> {
    told(&headers(pairs), None, "", NOW).map(|told| told.wait.as_secs_f64())
}

fn wait_of_body(body: &Value) -> Option<f64> {
    told(&HeaderMap::new(), Some(body), "", NOW).map(|told| told.wait.as_secs_f64())
}

fn wait_of_words(text: &str) -> Option<f64> {
    told(&HeaderMap::new(), None, &text.to_lowercase(), NOW).map(|told| told.wait.as_secs_f64())
}

#[test]
fn the_constant_is_the_moment_it_claims_to_be() {
    assert_eq!(Timestamp::from_second(NOW).unwrap().to_string(), "2026-11-30T12:00:00Z");
}

#[test]
fn retry_headers_are_read_in_every_form() {
    for (name, value, expected) in [
        ("retry-after-ms", "1500", Some(1.5)),
        ("retry-after-ms", "174.5", Some(1.0)),
        ("x-ms-retry-after-ms", "20000", Some(20.0)),
        ("retry-after", "30", Some(30.0)),
        ("retry-after", " 2.5 ", Some(2.5)),
        ("retry-after", "0", Some(1.0)),
        ("retry-after", "-5", None),
        ("retry-after", "soon", None),
        ("retry-after", "NaN", None),
        ("retry-after", "inf", None),
        ("retry-after", "1e300", None),
        ("retry-after", "2678400", Some(2_678_400.0)),
        ("retry-after", "2678401", None),
        ("retry-after", "99999999999999999999999999", None),
        ("retry-after", "Mon, 30 Nov 2026 12:00:30 GMT", Some(30.0)),
        ("retry-after", "mon, 30 nov 2026 12:00:30 gmt", Some(30.0)),
        ("retry-after", "MON, 30 NOV 2026 12:00:30 GMT", Some(30.0)),
        ("retry-after", "Monday, 30-Nov-26 12:00:30 GMT", Some(30.0)),
        ("retry-after", "Mon Nov 30 12:00:30 2026", Some(30.0)),
        ("retry-after", "Mon, 30 Nov 2026 11:59:00 GMT", Some(1.0)),
        ("retry-after", "Sun, 30 Nov 2036 12:00:00 GMT", None),
        ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", None),
    ] {
        assert_eq!(wait(&[(name, value)]), expected, "{name}: {value}");
    }
}

#[test]
fn a_date_is_measured_against_the_responses_own_clock() {
    let pairs = [("retry-after", "Mon, 30 Nov 2026 14:00:30 GMT"), ("date", "Mon, 30 Nov 2026 14:00:00 GMT")];
    assert_eq!(wait(&pairs), Some(30.0));
}

#[test]
fn the_more_trusted_source_wins_and_an_unreadable_one_is_passed_over() {
    let all = [
        ("retry-after-ms", "2000"),
        ("x-ms-retry-after-ms", "3000"),
        ("retry-after", "4"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "5s"),
        ("anthropic-ratelimit-unified-5h-status", "rejected"),
        ("anthropic-ratelimit-unified-5h-reset", "1796040006"),
    ];
    for (skipped, expected) in [(0, 2.0), (1, 3.0), (2, 4.0), (3, 5.0), (5, 6.0)] {
        assert_eq!(wait(&all[skipped..]), Some(expected), "without the first {skipped}");
    }
    assert_eq!(wait(&[("retry-after-ms", "x"), ("retry-after", "4")]), Some(4.0));
    assert_eq!(wait(&[("retry-after-ms", "-1"), ("retry-after", "4")]), Some(4.0));
    let body = json!({"error": {"resets_in_seconds": 9}});
    assert_eq!(told(&headers(&[("retry-after", "?")]), Some(&body), "try again in 3s", NOW).unwrap().wait.as_secs(), 9);
    assert_eq!(told(&headers(&[("retry-after", "7")]), Some(&body), "try again in 3s", NOW).unwrap().wait.as_secs(), 7);
}

#[test]
fn only_the_exhausted_limit_tells_a_wait() {
    let tokens_left = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "6m0s"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-tokens", "20m0s"),
    ];
    assert_eq!(wait(&tokens_left), Some(360.0));
    assert!(limit_at_zero(&headers(&tokens_left)));
    assert_eq!(wait(&tokens_left[2..]), None);
    assert!(!limit_at_zero(&headers(&tokens_left[2..])));
    let unknown = [("x-ratelimit-remaining-tokens", "-1"), ("x-ratelimit-reset-tokens", "9s")];
    assert_eq!(wait(&unknown), None);
    let both = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "12ms"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "1h16m0.667s"),
    ];
    assert_eq!(wait(&both), Some(4560.667));
}

#[test]
fn reset_figures_are_read_as_durations_seconds_epochs_and_dates() {
    for (value, expected) in [
        ("479.4ms", Some(1.0)),
        ("1s", Some(1.0)),
        ("2m3.5s", Some(123.5)),
        ("59", Some(59.0)),
        ("1796040060", Some(60.0)),
        ("1796040060000", Some(60.0)),
        ("2026-11-30T12:01:00Z", Some(60.0)),
        ("2026-11-30T13:01:00+01:00", Some(60.0)),
        ("Mon, 30 Nov 2026 12:01:00 GMT", Some(60.0)),
        ("", None),
        ("-3s", None),
        ("999999h", None),
    ] {
        let pairs = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)];
        assert_eq!(wait(&pairs), expected, "{value}");
    }
    let anthropic = [
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:20Z"),
    ];
    assert_eq!(wait(&anthropic), Some(20.0));
}

#[test]
fn a_rejected_subscription_window_closes_the_account_until_the_latest_reset() {
    let window = |name: &'static str, status, reset| {
        let names =
            [format!("anthropic-ratelimit-unified-{name}-status"), format!("anthropic-ratelimit-unified-{name}-reset")];
        headers(&[(names[0].as_str(), status), (names[1].as_str(), reset)])
    };
    let mut both = window("5h", "rejected", "1796043600");
    both.extend(window("7d", "rejected", "1796126400"));
    let answer = told(&both, None, "", NOW).unwrap();
    assert_eq!((answer.wait.as_secs(), answer.scope), (86_400, Scope::Connection));

    let mut family = window("7d_oi", "rejected", "1796043600");
    family.extend(window("5h", "allowed", "1796126400"));
    let answer = told(&family, None, "", NOW).unwrap();
    assert_eq!((answer.wait.as_secs(), answer.scope), (3_600, Scope::Bucket));

    let whole = headers(&[
        ("anthropic-ratelimit-unified-status", "rejected"),
        ("anthropic-ratelimit-unified-reset", "1796043600"),
    ]);
    let answer = told(&whole, None, "", NOW).unwrap();
    assert_eq!((answer.wait.as_secs(), answer.scope), (3_600, Scope::Connection));
    let mut sooner = whole;
    sooner.extend(headers(&[("retry-after", "5")]));
    let answer = told(&sooner, None, "", NOW).unwrap();
    assert_eq!((answer.wait.as_secs(), answer.scope), (5, Scope::Connection));
}

#[test]
fn bodies_tell_waits_in_their_providers_ways() {
    let google = |detail: Value| json!({"error": {"code": 429, "details": [{"@type": "x/google.rpc.Help"}, detail]}});
    let retry =
        |delay: Value| google(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}));
    let info =
        |metadata: Value| google(json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "metadata": metadata}));
    for (body, expected) in [
        (retry(json!("47s")), Some(47.0)),
        (retry(json!("51820.638305887s")), Some(51_820.638_305_887)),
        (retry(json!({"seconds": "3", "nanos": 500_000_000})), Some(3.5)),
        (retry(json!("-1s")), None),
        (retry(json!(null)), None),
        (info(json!({"quotaResetDelay": "1h16m0.667s"})), Some(4560.667)),
        (info(json!({"quotaResetTimeStamp": "2026-11-30T12:10:00Z"})), Some(600.0)),
        (info(json!({"quotaResetTimeStamp": "2026-11-30T11:59:59Z"})), Some(1.0)),
        (json!([retry(json!("8s"))]), Some(8.0)),
        (json!({"error": {"resets_at": 1_796_040_090}}), Some(90.0)),
        (json!({"error": {"resets_in_seconds": 578_844}}), Some(578_844.0)),
        (json!({"error": {"resets_at": "later", "resets_in_seconds": "12"}}), Some(12.0)),
        (json!({"resets_in_seconds": 12}), Some(12.0)),
        (json!({"error": "text"}), None),
        (json!([]), None),
        (json!(null), None),
    ] {
        assert_eq!(wait_of_body(&body), expected, "{body}");
    }
}

#[test]
fn words_tell_waits() {
    for (text, expected) in [
        ("Your quota will reset after 25h20m26s.", Some(91_226.0)),
        ("Resets in 160h27m24s", Some(577_644.0)),
        ("Please try again in 1.2s. Visit https://x", Some(1.2)),
        ("Please try again in 174ms.", Some(1.0)),
        ("try again in 6m0s", Some(360.0)),
        ("Please retry in 10h17m5.7s", Some(37_025.7)),
        ("Please retry after 86400 seconds.", Some(86_400.0)),
        ("Please retry after 20 seconds or contact us", Some(20.0)),
        ("try again in 1 hour 20 minutes", Some(4_800.0)),
        ("try again in 2 days", Some(172_800.0)),
        ("try again in 30", Some(30.0)),
        ("retry in 18.642000000000003s", Some(18.642_000_000)),
        (r#"{"error":{"message":"Please try again in 20s","type":"requests"}}"#, Some(20.0)),
        ("You will regain access on 2026-12-01 at 00:00 UTC", Some(43_200.0)),
        ("It resets at 2026-11-30T12:00:05Z.", Some(5.0)),
        ("try again in a moment", None),
        ("try again in -3s", None),
        ("try again in 90 days", None),
        ("try again later", None),
        ("", None),
    ] {
        let found = wait_of_words(text);
        let close = match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() < 1e-6,
            (found, expected) => found == expected,
        };
        assert!(close, "{text}: {found:?}");
    }
}

/// Pieces of told times, so that random texts come near to readable ones.
fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,25}",
        "-?[0-9]{1,6}\\.[0-9]{0,20}",
        "[0-9]{1,5}(h|m|s|ms|d|w| seconds| days|e9)",
        Just("Mon, 30 Nov 2026 12:00:30 GMT".to_owned()),
        Just("2026-11-30T12:00:05Z".to_owned()),
        Just("9999-12-31T23:59:60Z".to_owned()),
        Just("inf".to_owned()),
        "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn whatever_is_told_is_between_a_second_and_31_days(
        parts in prop::collection::vec((0usize..9, fragment()), 0..6),
        words in prop::collection::vec(fragment(), 0..4),
        now in any::<i64>(),
    ) {
        let names = [
            "retry-after-ms", "retry-after", "date", "x-ratelimit-remaining-a", "x-ratelimit-reset-a",
            "anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-reset", "anthropic-ratelimit-b-remaining",
            "anthropic-ratelimit-b-reset",
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in &parts {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(names[*name], value);
            }
        }
        let joined = words.concat();
        let body = json!({"error": {"resets_at": joined, "resets_in_seconds": joined, "details": [
            {"@type": "google.rpc.RetryInfo", "retryDelay": joined},
            {"@type": "google.rpc.ErrorInfo", "metadata": {"quotaResetDelay": joined}},
        ]}});
        for body in [None, Some(&body)] {
            if let Some(told) = told(&headers, body, &format!("try again in {joined}"), now) {
                prop_assert!(told.wait >= MIN_WAIT && told.wait <= MAX_WAIT);
            }
        }
    }
}
