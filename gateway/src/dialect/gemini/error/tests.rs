use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use shared::failure::{Class, ErrorPolicy, classify};

use super::*;
use crate::error::{BadRequest, Refusal};

fn class(error: &UpstreamError) -> Class {
    classify(&error.signals, ErrorPolicy::Standard, &[]).class
}

fn google(code: u16, status: &str, message: &str, details: &Value) -> Vec<u8> {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}}).to_string().into_bytes()
}

fn info(reason: &str) -> Value {
    json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}])
}

fn quota(ids: &[&str], delay: &str) -> Value {
    let violations: Vec<Value> =
        ids.iter().map(|id| json!({"quotaMetric": "m", "quotaId": id, "quotaValue": "50"})).collect();
    json!([
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations},
        {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ])
}

type Signal = (u16, &'static str, &'static str, Value, Class);

fn of_requests_and_credentials() -> Vec<Signal> {
    let none = json!([]);
    vec![
        (400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID"), Class::Auth),
        (400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", none.clone(), Class::Auth),
        (400, "INVALID_ARGUMENT", "Invalid value at 'contents'", none.clone(), Class::ClientError),
        (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            none.clone(),
            Class::ContextLength,
        ),
        (400, "INVALID_ARGUMENT", "Function call is missing a thought_signature", none.clone(), Class::ClientError),
        (400, "FAILED_PRECONDITION", "User location is not supported for the API use.", none.clone(), Class::Auth),
        (
            400,
            "FAILED_PRECONDITION",
            "Project x is not allowed to use Publisher Model y",
            none.clone(),
            Class::ModelMissing,
        ),
        (
            401,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials.",
            info("ACCESS_TOKEN_EXPIRED"),
            Class::Auth,
        ),
        (402, "RESOURCE_EXHAUSTED", "Prepay depleted", none.clone(), Class::Billing),
        (
            403,
            "PERMISSION_DENIED",
            "This API method requires billing to be enabled.",
            info("BILLING_DISABLED"),
            Class::Billing,
        ),
        (403, "PERMISSION_DENIED", "Generative Language API has not been used", info("SERVICE_DISABLED"), Class::Auth),
        (403, "PERMISSION_DENIED", "suspended", info("CONSUMER_SUSPENDED"), Class::Auth),
        (403, "PERMISSION_DENIED", "Verify your account to continue.", info("VALIDATION_REQUIRED"), Class::Auth),
        (404, "NOT_FOUND", "models/x is not found for API version v1beta", none.clone(), Class::ModelMissing),
    ]
}

fn of_limits_and_servers() -> Vec<Signal> {
    let none = json!([]);
    vec![
        (429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: x, limit: 0, model: y", none.clone(), Class::Billing),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "Your project has exceeded its monthly spending cap.",
            none.clone(),
            Class::Billing,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota",
            quota(&["GenerateRequestsPerDayPerProjectPerModel-FreeTier"], "45s"),
            Class::Billing,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota",
            quota(&["GenerateRequestsPerMinutePerProject"], "45s"),
            Class::RateLimited,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota).",
            quota(&["GenerateRequestsPerMinutePerProject"], "4s"),
            Class::RateLimited,
        ),
        (429, "RESOURCE_EXHAUSTED", "Resource exhausted, please try again later.", none.clone(), Class::Capacity),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "Too many requests. Exceeded the Provisioned Throughput.",
            none.clone(),
            Class::Capacity,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model",
            none.clone(),
            Class::RateLimited,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "No capacity available for model gemini-3-pro",
            info("MODEL_CAPACITY_EXHAUSTED"),
            Class::Capacity,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "You have exhausted your capacity on this model.",
            info("RATE_LIMIT_EXCEEDED"),
            Class::RateLimited,
        ),
        (429, "RESOURCE_EXHAUSTED", "Your quota will reset after 2h3m", info("QUOTA_EXHAUSTED"), Class::Billing),
        (429, "RESOURCE_EXHAUSTED", "", info("INSUFFICIENT_G1_CREDITS_BALANCE"), Class::Billing),
        (499, "CANCELLED", "The operation was cancelled.", none.clone(), Class::Unavailable),
        (500, "INTERNAL", "An internal error has occurred.", none.clone(), Class::Unavailable),
        (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", none.clone(), Class::Capacity),
        (503, "UNAVAILABLE", "The service is currently unavailable.", none.clone(), Class::Unavailable),
        (504, "DEADLINE_EXCEEDED", "", none, Class::Unavailable),
    ]
}

#[test]
fn every_signal_of_google_has_its_class() {
    for (code, status, message, details, expected) in
        of_requests_and_credentials().into_iter().chain(of_limits_and_servers())
    {
        let body = google(code, status, message, &details);
        assert_eq!(class(&read(Some(code), &body)), expected, "{code} {message} {details}");
        let wrapped = [b"[", body.as_slice(), b"]"].concat();
        assert_eq!(class(&read(Some(code), &wrapped)), expected, "in a list: {code} {message}");
        assert_eq!(class(&read(None, &body)), expected, "in a success: {code} {message}");
    }
}

#[test]
fn a_daily_quota_outweighs_the_minutes_and_the_general_reason() {
    let mut details = quota(&["RequestsPerMinute", "RequestsPerDay"], "26s");
    let daily = read(Some(429), &google(429, "RESOURCE_EXHAUSTED", "", &details));
    assert_eq!(daily.signals.code, "quota_per_day");
    let verdict = classify(&daily.signals, ErrorPolicy::Standard, &[]);
    assert!(verdict.told_from > Duration::from_secs(26), "the minute's wait is not the day's");
    details.as_array_mut().unwrap().extend(info("RATE_LIMIT_EXCEEDED").as_array().unwrap().clone());
    assert_eq!(read(Some(429), &google(429, "", "", &details)).signals.code, "quota_per_day");
    details.as_array_mut().unwrap().extend(info("QUOTA_EXHAUSTED").as_array().unwrap().clone());
    assert_eq!(read(Some(429), &google(429, "", "", &quota(&["x"], "1s"))).signals.code, "quota_failure");
    let zero =
        json!([{"@type": "x/google.rpc.QuotaFailure", "violations": [{"quotaId": "PerDay", "quotaValue": "0"}]}]);
    assert_eq!(read(Some(429), &google(429, "", "", &zero)).signals.code, "quota_is_zero");
}

#[test]
fn any_body_can_be_read() {
    for (body, reason, code) in [
        ("", "an empty body", ""),
        ("  \n", "an empty body", ""),
        ("null", "null", ""),
        ("[]", "[]", ""),
        ("<html><head><title>502 Bad Gateway</title>", "a page instead of JSON: 502 Bad Gateway", ""),
        ("<!doctype html>", "a page instead of JSON", ""),
        ("upstream connect error", "upstream connect error", ""),
        (r#"{"error":"invalid_grant","error_description":"Bad Request"}"#, "Bad Request", ""),
        (
            r#"{"error":{"errors":[{"domain":"global","reason":"dailyLimitExceeded"}],"code":429,"message":"x"}}"#,
            "x",
            "dailylimitexceeded",
        ),
        (r#"{"error":{"code":"overloaded","message":"x"}}"#, "x", "overloaded"),
        (r#"{"message":"key AIzaSyA1234567890 bad"}"#, "key [redacted] bad", ""),
        (r#"{"error":{"details":7,"errors":{}}}"#, "no reason given", ""),
    ] {
        let error = read(Some(502), body.as_bytes());
        assert_eq!((error.reason.as_str(), error.signals.code.as_str()), (reason, code), "{body}");
    }
    let large = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(5_000_000));
    let error = read(Some(500), large.as_bytes());
    assert!(error.reason.len() <= 2_048 && error.json.is_none() && error.signals.body.len() <= 8_192);
}

#[test]
fn an_error_in_a_success_takes_its_status_from_its_code_or_its_word() {
    let status = |body: &str| read(None, body.as_bytes()).signals.status;
    assert_eq!(status(r#"{"error":{"code":503,"message":"x"}}"#), Some(503));
    assert_eq!(status(r#"{"error":{"code":"429","message":"x"}}"#), Some(429));
    assert_eq!(status(r#"{"error":{"status":"RESOURCE_EXHAUSTED"}}"#), Some(429));
    assert_eq!(status(r#"{"error":{"code":8,"message":"x"}}"#), None);
    assert_eq!(status("<html>"), None);
}

fn fault() -> Fault {
    let bad = BadRequest { field: Some("contents.0".into()), code: None, message: "no".into() };
    Refusal::BadRequest(bad).fault()
}

#[test]
fn a_fault_is_written_as_google_writes_errors() {
    let body: Value = serde_json::from_slice(&envelope(&fault())).unwrap();
    assert_eq!(body["error"]["code"], 400);
    assert_eq!(body["error"]["message"], "no");
    assert_eq!(body["error"]["status"], "INVALID_ARGUMENT");
    let details = body["error"]["details"].as_array().unwrap();
    assert_eq!(details[0]["reason"], "REQUEST");
    assert_eq!(details[1]["fieldViolations"][0]["field"], "contents.0");
    let busy = Refusal::NoCapacity { wait: Duration::from_millis(2_100) }.fault();
    let body: Value = serde_json::from_slice(&envelope(&busy)).unwrap();
    assert_eq!((&body["error"]["code"], &body["error"]["status"]), (&json!(429), &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(body["error"]["details"][0]["retryDelay"], "3s");
}

#[test]
fn in_a_stream_error_is_the_first_key_and_stands_alone_on_its_line() {
    let event = event(&fault());
    assert!(event.starts_with(b"data: {\"error\":{\"code\":400,"));
    assert!(event.ends_with(b"}\n\n") && !event[..event.len() - 2].contains(&b'\n'));
    let whole = [b"[{}".as_slice(), &element(&fault())].concat();
    let list: Vec<Value> = serde_json::from_slice(&whole).unwrap();
    assert_eq!(list[1]["error"]["code"], 400);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..120), status in prop::option::of(any::<u16>())) {
        read(status, &data);
    }

    #[test]
    fn no_details_make_it_panic(text in "[\\[\\]{}:,\"a-z0-9@]{0,60}") {
        let body = format!(r#"{{"error":{{"code":429,"details":[{{"@type":"google.rpc.QuotaFailure","violations":[{{"quotaId":"{0}"}}]}},{{"@type":"google.rpc.ErrorInfo","reason":"{0}"}}],"errors":[{{"reason":"{0}"}}]}}}}"#, text.replace('"', ""));
        read(Some(429), body.as_bytes());
        read(None, text.as_bytes());
    }
}
