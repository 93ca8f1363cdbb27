use shared::failure::{Class, Family, Owner, Signals};

use super::*;

const WAIT: Duration = Duration::from_millis(1_200);

fn quota() -> QuotaUse {
    let text = |text: &str| text.to_owned();
    QuotaUse {
        quota: text("requests"),
        period: Some(text("day")),
        used: text("1000"),
        limit: text("1000"),
        resets: Some("2026-12-01T00:00:00Z".parse().unwrap()),
    }
}

fn every_refusal() -> Vec<Refusal> {
    let model = || "gpt-x".to_owned();
    vec![
        Refusal::Key(KeyFault::Missing),
        Refusal::Key(KeyFault::Unknown),
        Refusal::ModelNotAllowed { model: model() },
        Refusal::UnknownModel { model: model() },
        Refusal::NotKept { field: "previous_response_id" },
        Refusal::Balance,
        Refusal::NoPrice { model: model() },
        Refusal::SpendLimit,
        Refusal::Quota(quota()),
        Refusal::OverRate { limit: KeyLimit::Requests, wait: WAIT },
        Refusal::OverRate { limit: KeyLimit::Tokens, wait: WAIT },
        Refusal::OverRate { limit: KeyLimit::Concurrency, wait: WAIT },
        Refusal::NoCapacity { wait: WAIT },
        Refusal::AllClosed { by: Closed::Limits, wait: WAIT },
        Refusal::AllClosed { by: Closed::Failures, wait: WAIT },
        Refusal::BodyTooLarge { limit: 33_554_432 },
        Refusal::StateUnavailable,
        Refusal::Draining,
        Refusal::BadRequest(BadRequest { field: Some("model".into()), code: Some("x"), message: "m".into() }),
        Refusal::BodyTimeout,
        Refusal::NoRoute,
        Refusal::Method { allow: "POST" },
        Refusal::Internal,
    ]
}

#[test]
fn the_refusals_are_as_the_product_promises() {
    for (refusal, status, kind, code, anthropic, gemini) in [
        (
            Refusal::Key(KeyFault::Unknown),
            401,
            "invalid_request_error",
            "invalid_api_key",
            "authentication_error",
            "UNAUTHENTICATED",
        ),
        (Refusal::Balance, 402, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"),
        (Refusal::SpendLimit, 402, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"),
        (
            Refusal::Quota(quota()),
            403,
            "quota_exceeded_error",
            "quota_exceeded",
            "permission_error",
            "PERMISSION_DENIED",
        ),
        (
            Refusal::ModelNotAllowed { model: "m".into() },
            403,
            "invalid_request_error",
            "model_not_allowed",
            "permission_error",
            "PERMISSION_DENIED",
        ),
        (
            Refusal::UnknownModel { model: "m".into() },
            404,
            "invalid_request_error",
            "model_not_found",
            "not_found_error",
            "NOT_FOUND",
        ),
        (
            Refusal::OverRate { limit: KeyLimit::Requests, wait: WAIT },
            429,
            "rate_limit_exceeded",
            "rate_limit_exceeded",
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
        ),
        (
            Refusal::NoCapacity { wait: WAIT },
            429,
            "rate_limit_exceeded",
            "rate_limit_exceeded",
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
        ),
        (
            Refusal::AllClosed { by: Closed::Limits, wait: WAIT },
            429,
            "rate_limit_exceeded",
            "rate_limit_exceeded",
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
        ),
        (
            Refusal::AllClosed { by: Closed::Failures, wait: WAIT },
            502,
            "api_error",
            "upstream_error",
            "api_error",
            "UNAVAILABLE",
        ),
        (
            Refusal::BodyTooLarge { limit: 1 },
            413,
            "invalid_request_error",
            "request_too_large",
            "request_too_large",
            "INVALID_ARGUMENT",
        ),
        (Refusal::StateUnavailable, 503, "api_error", "state_unavailable", "api_error", "UNAVAILABLE"),
    ] {
        let fault = refusal.fault();
        assert_eq!(fault.status.as_u16(), status, "{refusal:?}");
        assert_eq!(fault.openai_type, kind, "{refusal:?}");
        assert_eq!(fault.openai_code.as_deref(), Some(code), "{refusal:?}");
        assert_eq!((fault.anthropic_type, fault.gemini_status), (anthropic, gemini), "{refusal:?}");
    }
}

#[test]
fn the_promised_texts_are_exact() {
    for (refusal, text) in [
        (Refusal::Balance, "Insufficient balance. Top up at the dashboard."),
        (Refusal::SpendLimit, "This API key has reached its spend limit."),
        (
            Refusal::OverRate { limit: KeyLimit::Tokens, wait: WAIT },
            "This API key has reached its rate or concurrency limit.",
        ),
        (Refusal::NoCapacity { wait: WAIT }, "All upstream capacity for this model is busy. Retry shortly."),
        (
            Refusal::Quota(quota()),
            "This API key has used up its quota: 1000 of 1000 requests per day. It starts afresh at 2026-12-01T00:00:00Z.",
        ),
    ] {
        assert_eq!(refusal.fault().message, text);
    }
}

#[test]
fn every_refusal_names_itself_and_every_429_and_503_says_when_to_retry() {
    for refusal in every_refusal() {
        let fault = refusal.fault();
        let headers = fault.headers();
        assert_eq!(headers[REFUSAL], refusal.word(), "{refusal:?}");
        assert_eq!(headers[REFUSAL], refusal.word());
        if matches!(fault.status.as_u16(), 429 | 503) {
            let seconds: u64 = headers[RETRY_AFTER].to_str().unwrap().parse().unwrap();
            assert!(seconds >= 1, "{refusal:?}");
        }
        assert!(fault.status.is_client_error() || fault.status.is_server_error());
        assert!(!fault.message.is_empty() && !fault.message.contains(char::is_control));
    }
}

#[test]
fn the_refused_limit_is_named() {
    let words: Vec<_> = every_refusal().iter().map(Refusal::word).collect();
    assert_eq!(
        words,
        [
            "key",
            "key",
            "model",
            "model_not_found",
            "not_kept",
            "balance",
            "price",
            "spend_limit",
            "quota",
            "rpm",
            "tpm",
            "concurrency",
            "capacity",
            "locked",
            "locked",
            "body",
            "state",
            "draining",
            "request",
            "timeout",
            "route",
            "method",
            "internal",
        ]
    );
}

#[test]
fn a_wait_is_told_in_whole_seconds_rounded_up() {
    for (wait_ms, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (59_999, 60)] {
        let wait = Duration::from_millis(wait_ms);
        assert_eq!(Refusal::NoCapacity { wait }.fault().retry_after, Some(seconds), "{wait_ms}");
    }
}

#[test]
fn what_waiting_cannot_heal_tells_the_sdks_not_to_retry() {
    for refusal in every_refusal() {
        let told = refusal.fault().headers().get("x-should-retry").map(|value| value.to_str().unwrap().to_owned());
        let is_final = matches!(
            refusal.word(),
            "key" | "balance" | "price" | "spend_limit" | "quota" | "model" | "model_not_found" | "not_kept"
        );
        assert_eq!(told.as_deref(), is_final.then_some("false"), "{refusal:?}");
    }
}

#[test]
fn a_405_names_the_methods_that_are_taken_and_a_bad_field_is_named() {
    assert_eq!(Refusal::Method { allow: "POST" }.fault().headers()[ALLOW], "POST");
    let bad = BadRequest { field: Some("messages[2]".into()), code: Some("invalid_type"), message: "no".into() };
    let fault = Refusal::BadRequest(bad).fault();
    assert_eq!((fault.param.as_deref(), fault.openai_code.as_deref()), (Some("messages[2]"), Some("invalid_type")));
}

#[test]
fn a_model_name_with_control_characters_or_of_any_length_is_repeated_safely() {
    let fault = Refusal::UnknownModel { model: format!("a\r\nb{}", "x".repeat(1_000)) }.fault();
    assert!(fault.message.contains("'abxxx") && fault.message.len() < 300);
}

fn upstream(status: Option<u16>) -> UpstreamError {
    UpstreamError {
        signals: Signals { status, ..Signals::new(Family::OpenAi) },
        reason: "it said no".into(),
        kind: Some("its_type".into()),
        code: Some("its_code".into()),
        param: Some("its_param".into()),
        json: None,
    }
}

fn told(class: Class, owner: Owner, status: Option<u16>) -> Fault {
    Failed { class, owner, error: &upstream(status), after: After::Mixed }.fault()
}

#[test]
fn an_upstreams_failure_is_never_marked_as_our_refusal() {
    for class in [Class::ClientError, Class::Auth, Class::Billing, Class::Unavailable, Class::RateLimited] {
        for owner in [Owner::Platform, Owner::Byok] {
            assert!(told(class, owner, Some(500)).headers().get(REFUSAL).is_none());
        }
    }
}

#[test]
fn the_requests_own_faults_keep_the_upstreams_status_and_words() {
    for (class, status, expected) in [
        (Class::ClientError, Some(400), 400),
        (Class::ClientError, Some(422), 422),
        (Class::ClientError, Some(413), 413),
        (Class::ClientError, None, 400),
        (Class::ContextLength, Some(400), 400),
        (Class::ContextLength, Some(429), 400),
        (Class::ContextLength, Some(500), 400),
        (Class::ModelMissing, Some(403), 403),
        (Class::ModelMissing, Some(410), 410),
        (Class::ModelMissing, None, 404),
        (Class::Refused, Some(403), 403),
    ] {
        let fault = told(class, Owner::Platform, status);
        assert_eq!(fault.status.as_u16(), expected, "{class} {status:?}");
        assert_eq!(fault.message, "it said no");
        assert_eq!((fault.openai_type.as_ref(), fault.openai_code.as_deref()), ("its_type", Some("its_code")));
        assert_eq!(fault.param.as_deref(), Some("its_param"));
    }
}

#[test]
fn an_own_keys_refusal_reaches_its_caller_and_a_platform_keys_does_not() {
    for (status, expected) in [(401, 401), (403, 403), (400, 401)] {
        assert_eq!(told(Class::Auth, Owner::Byok, Some(status)).status.as_u16(), expected);
    }
    let fault = told(Class::Auth, Owner::Platform, Some(401));
    assert_eq!((fault.status.as_u16(), fault.openai_code.as_deref()), (502, Some("upstream_error")));
    assert_eq!(fault.headers()["x-should-retry"], "false");
}

#[test]
fn everything_else_is_a_502_with_status_and_reason_or_a_429_when_all_are_limited() {
    let fault = told(Class::Unavailable, Owner::Platform, Some(503));
    assert_eq!(fault.status.as_u16(), 502);
    assert_eq!(fault.message, "The upstream failed with status 503: it said no");
    assert_eq!((fault.openai_type.as_ref(), fault.openai_code.as_deref()), ("api_error", Some("upstream_error")));
    assert_eq!(told(Class::RateLimited, Owner::Platform, Some(429)).status.as_u16(), 502);

    let after = After::AllLimited(Duration::from_millis(30_500));
    let fault =
        Failed { class: Class::RateLimited, owner: Owner::Platform, error: &upstream(Some(429)), after }.fault();
    assert_eq!((fault.status.as_u16(), fault.retry_after), (429, Some(31)));
    assert_eq!(fault.openai_code.as_deref(), Some("rate_limit_exceeded"));
}
