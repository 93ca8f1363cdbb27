use std::borrow::Cow;

use http::StatusCode;
use proptest::prelude::*;
use shared::failure::{Class, ErrorPolicy, Scope, classify};

use super::*;

fn fault() -> Fault {
    Fault {
        status: StatusCode::PAYMENT_REQUIRED,
        message: "No \"money\".".into(),
        openai_type: Cow::Borrowed("insufficient_quota"),
        openai_code: Some(Cow::Borrowed("insufficient_quota")),
        param: None,
        anthropic_type: "billing_error",
        gemini_status: "RESOURCE_EXHAUSTED",
        refusal: Some("balance"),
        retry_after: None,
        final_answer: true,
        allow: None,
    }
}

#[test]
fn a_fault_is_an_envelope_and_in_a_stream_a_named_event() {
    let expected = r#"{"type":"error","error":{"type":"billing_error","message":"No \"money\".","details":{"error_code":"insufficient_quota"}}}"#;
    assert_eq!(envelope(&fault()), expected);
    assert_eq!(event(&fault()), format!("event: error\ndata: {expected}\n\n"));
    let plain = Fault { openai_code: None, ..fault() };
    assert_eq!(envelope(&plain), r#"{"type":"error","error":{"type":"billing_error","message":"No \"money\"."}}"#);
}

#[test]
fn a_keep_alive_is_a_named_ping() {
    assert_eq!(keep_alive(), "event: ping\ndata: {\"type\": \"ping\"}\n\n");
}

fn class(status: u16, body: &str) -> (Class, Scope) {
    let verdict = classify(&read(Some(status), body.as_bytes()).signals, ErrorPolicy::Standard, &[]);
    (verdict.class, verdict.scope)
}

fn said(kind: &str, code: &str, message: &str) -> String {
    let details = if code.is_empty() { String::new() } else { format!(r#","details":{{"error_code":"{code}"}}"#) };
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"{details}}},"request_id":"req_011"}}"#)
}

#[test]
fn every_error_of_the_vendor_has_its_class_and_scope() {
    use Class::{Auth, Billing, Capacity, ClientError, ContextLength, ModelMissing, RateLimited, Refused, Unavailable};
    use Scope::{Bucket, Connection};
    let invalid = "invalid_request_error";
    for (status, kind, code, message, class_, scope) in [
        (400, invalid, "", "messages: at least one message is required", ClientError, Bucket),
        (400, invalid, "", "Your credit balance is too low to access the Anthropic API.", Billing, Connection),
        (
            400,
            invalid,
            "",
            "You have reached your specified workspace API usage limits. You will regain access on 2026-08-01",
            Billing,
            Connection,
        ),
        (400, invalid, "", "You have reached your specified API usage limits.", Billing, Connection),
        (400, invalid, "organization_on_hold", "On hold", Auth, Connection),
        (400, invalid, "", "This organization has been disabled.", Auth, Connection),
        (400, invalid, "workspace_policy_violation", "Not here", Refused, Bucket),
        (400, invalid, "image_dimensions_too_large", "Too large", ClientError, Bucket),
        (400, invalid, "", "prompt is too long: 209000 tokens > 200000 maximum", ContextLength, Bucket),
        (400, invalid, "", "input length and `max_tokens` exceed context limit: 1 + 2 > 2", ContextLength, Bucket),
        (400, invalid, "", "messages.1.content.0: Invalid `signature` in `thinking` block", ClientError, Bucket),
        (401, "authentication_error", "", "invalid x-api-key", Auth, Connection),
        (402, "billing_error", "", "Pay", Billing, Connection),
        (402, "billing_error", "linked_organization_spend_limit_reached", "", Billing, Connection),
        (403, "permission_error", "", "Your API key does not have permission", Auth, Connection),
        (404, "not_found_error", "", "model: claude-x", ModelMissing, Bucket),
        (404, "not_found_error", "", "Not found", ClientError, Bucket),
        (408, "timeout_error", "", "", Unavailable, Bucket),
        (413, "request_too_large", "", "Request exceeds the maximum size", ClientError, Bucket),
        (413, "request_too_large", "request_body_too_large_after_decoding", "", ClientError, Bucket),
        (
            429,
            "rate_limit_error",
            "",
            "This request would exceed the rate limit of 50 requests per minute",
            RateLimited,
            Bucket,
        ),
        (429, "rate_limit_error", "", "Error", RateLimited, Bucket),
        (429, "rate_limit_error", "enforced_spend_limit_reached", "", Billing, Connection),
        (429, "rate_limit_error", "contract_spend_limit_reached", "", Billing, Connection),
        (429, "rate_limit_error", "ramp_limit_exceeded", "", Capacity, Bucket),
        (429, "rate_limit_error", "", "Extra usage is required for long context requests.", Billing, Bucket),
        (429, "rate_limit_error", "", "Usage credits are required for long context requests.", Billing, Bucket),
        (400, "overloaded_error", "", "Overloaded", Capacity, Bucket),
        (500, "api_error", "", "Internal server error", Unavailable, Bucket),
        (502, "api_error", "", "", Unavailable, Bucket),
        (503, "api_error", "", "", Unavailable, Bucket),
        (503, "overloaded_error", "", "", Capacity, Bucket),
        (504, "timeout_error", "", "", Unavailable, Bucket),
        (529, "overloaded_error", "", "Overloaded", Capacity, Bucket),
        (529, "overloaded_error", "compaction_unavailable", "", Capacity, Bucket),
    ] {
        assert_eq!(class(status, &said(kind, code, message)), (class_, scope), "{status} {kind} {code} {message}");
    }
}

#[test]
fn an_error_inside_a_success_has_the_status_of_its_type() {
    for (kind, status, class) in [
        ("invalid_request_error", Some(400), Class::ClientError),
        ("authentication_error", Some(401), Class::Auth),
        ("billing_error", Some(402), Class::Billing),
        ("permission_error", Some(403), Class::Auth),
        ("request_too_large", Some(413), Class::ClientError),
        ("rate_limit_error", Some(429), Class::RateLimited),
        ("api_error", Some(500), Class::Unavailable),
        ("timeout_error", Some(504), Class::Unavailable),
        ("overloaded_error", Some(529), Class::Capacity),
        ("brand_new_error", None, Class::Unavailable),
    ] {
        let error = read(None, said(kind, "", "Why").as_bytes());
        assert_eq!(error.signals.status, status, "{kind}");
        assert_eq!(error.signals.transport, Some(Transport::ErrorInSuccess), "{kind}");
        assert_eq!(classify(&error.signals, ErrorPolicy::Standard, &[]).class, class, "{kind}");
    }
    // Others who serve a Claude say the status as a number.
    for (body, status) in [
        (r#"{"error":{"message":"x","code":429}}"#, Some(429)),
        (r#"{"error":{"message":"x","code":503,"status":"UNAVAILABLE"}}"#, Some(503)),
        (r#"{"error":{"message":"x","code":7}}"#, None),
    ] {
        assert_eq!(read(None, body.as_bytes()).signals.status, status, "{body}");
    }
}

#[test]
fn code_and_words_survive_and_the_openai_type_is_left_to_the_status() {
    let error = read(Some(429), said("rate_limit_error", "ramp_limit_exceeded", "Slow down").as_bytes());
    assert_eq!((error.reason.as_str(), error.code.as_deref()), ("Slow down", Some("ramp_limit_exceeded")));
    assert_eq!((error.kind, error.param), (None, None));
    assert_eq!(error.signals.kind, "rate_limit_error");
    assert!(error.json.is_some());
}

#[test]
fn other_shapes_are_read_as_far_as_they_go() {
    let google = r#"[{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED"}]}}]"#;
    let error = read(Some(429), google.as_bytes());
    assert_eq!((error.signals.family, error.signals.code.as_str()), (Family::Google, "rate_limit_exceeded"));
    for (body, reason) in [
        (r#"[{"type":"error","error":{"type":"api_error","message":"In a list"}}]"#, "In a list"),
        (r#"{"error":"Only a text"}"#, "Only a text"),
        (r#"{"error":{"message":"Like OpenAI","type":"server_error","code":"x"}}"#, "Like OpenAI"),
        (r#"{"error":{"type":"api_error"}}"#, "no reason given"),
        (r#"{"message":"Bare"}"#, "Bare"),
        (r#"{"detail":"Detail"}"#, "Detail"),
        ("<html><head><TITLE>502 Bad Gateway</TITLE></head></html>", "a page instead of JSON: 502 Bad Gateway"),
        ("<p>", "a page instead of JSON"),
        ("upstream connect error", "upstream connect error"),
        (" \n ", "an empty body"),
    ] {
        let error = read(Some(500), body.as_bytes());
        assert_eq!(error.reason, reason, "{body}");
        assert_eq!(error.signals.status, Some(500));
    }
    let huge = format!(r#"{{"error":{{"message":"{}"}}}}"#, "é".repeat(5_000_000));
    assert!(read(Some(500), huge.as_bytes()).reason.len() <= 2_048);
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(status in proptest::option::of(any::<u16>()), body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(status, &body);
    }

    #[test]
    fn no_shape_makes_it_panic(kind in any_json(), message in any_json(), details in any_json(), outer in any_json()) {
        let body = json!({"type": outer, "error": {"type": kind, "message": message, "details": details}});
        let _ = read(None, body.to_string().as_bytes());
        let _ = read(None, json!([outer, body]).to_string().as_bytes());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".{0,9}".prop_map(Value::from)];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            inner.prop_map(|inner| json!({"error_code": inner, "reason": "x"})),
        ]
    })
}
