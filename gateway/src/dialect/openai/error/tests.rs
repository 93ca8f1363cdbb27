use serde_json::from_slice;

use super::*;
use crate::error::Refusal;

#[test]
fn a_fault_is_an_openai_envelope_alone_and_in_a_stream() {
    let fault = Refusal::UnknownModel { model: "a\"b".into() }.fault();
    let body: Value = from_slice(&envelope(&fault)).unwrap();
    let expected = json!({"error": {
        "message": "The model 'a\"b' does not exist here.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }});
    assert_eq!(body, expected);
    let event = event(&fault);
    let text = std::str::from_utf8(&event).unwrap();
    let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
    assert_eq!(data.as_bytes(), envelope(&fault));
    assert!(!data.contains('\n'));
}

#[test]
fn an_envelope_without_a_param_says_null() {
    let body: Value = from_slice(&envelope(&Refusal::Balance.fault())).unwrap();
    assert_eq!(body["error"]["param"], Value::Null);
}

#[test]
fn error_bodies_of_every_shape_are_read() {
    for (body, code, kind, reason) in [
        (
            r#"{"error":{"message":"No.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
            "rate_limit_exceeded",
            "requests",
            "No.",
        ),
        (
            r#"[{"error":{"code":429,"message":"No.","status":"RESOURCE_EXHAUSTED"}}]"#,
            "429",
            "resource_exhausted",
            "No.",
        ),
        (r#"{"error":{"code":"429","message":"No."}}"#, "429", "", "No."),
        (r#"{"error":"No."}"#, "", "", "No."),
        (r#"{"object":"error","message":"No.","type":"BadRequestError","code":400}"#, "400", "badrequesterror", "No."),
        (r#"{"detail":"No."}"#, "", "", "No."),
        (r#"{"error":{}}"#, "", "", "no reason given"),
        (r#"{"error":{"message":7,"code":null}}"#, "", "", "no reason given"),
        ("<html><head><title>502 Bad Gateway</title></head></html>", "", "", "a page instead of JSON: 502 Bad Gateway"),
        ("<!doctype html>", "", "", "a page instead of JSON"),
        ("upstream connect error", "", "", "upstream connect error"),
        ("", "", "", "an empty body"),
        (" \n", "", "", "an empty body"),
        ("null", "", "", "null"),
        ("[]", "", "", "[]"),
    ] {
        let error = read(Some(500), body.as_bytes());
        assert_eq!((error.signals.code.as_str(), error.signals.kind.as_str()), (code, kind), "{body}");
        assert_eq!(error.reason, reason, "{body}");
        assert_eq!(error.signals.status, Some(500));
        assert_eq!(error.signals.transport, None);
    }
}

#[test]
fn a_page_gives_the_table_no_words_but_own_rules_a_body() {
    let error = read(Some(403), b"<title>403 Forbidden</title>");
    assert_eq!(error.signals.message, "");
    assert!(error.signals.body.contains("403 forbidden"));
}

#[test]
fn an_error_inside_a_success_lends_its_numeric_code() {
    let error = read(None, br#"{"error":{"code":502,"message":"Provider returned error"}}"#);
    assert_eq!((error.signals.status, error.signals.transport), (Some(502), Some(Transport::ErrorInSuccess)));
    assert_eq!(read(None, br#"{"error":{"code":"server_error"}}"#).signals.status, None);
    assert_eq!(read(None, br#"{"error":{"code":200}}"#).signals.status, None);
    assert_eq!(read(Some(400), br#"{"error":{"code":502}}"#).signals.status, Some(400), "the answer's status wins");
}

#[test]
fn huge_hostile_and_secret_bodies_become_short_reasons() {
    let huge = [b"{\"error\":{\"message\":\"".as_slice(), &vec![b'a'; 5_000_000], b"\"}}"].concat();
    let error = read(Some(500), &huge);
    assert!(error.reason.len() <= 2_048 && error.signals.body.len() <= 8_192);
    let bomb = vec![b'['; 100_000];
    assert!(read(Some(500), &bomb).reason.len() <= 2_048);
    assert!(!read(Some(500), b"\xff\xfe\x00\x1b[31m").reason.contains(char::is_control));
    let secret = read(Some(401), br#"{"error":{"message":"Incorrect API key provided: sk-abcdefgh1234.","code":"k"}}"#);
    assert!(!secret.reason.contains("sk-abc"), "{}", secret.reason);
}
