use proptest::prelude::*;
use shared::failure::{Class, ErrorPolicy, classify};

use super::*;

const GOOD: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7},"x":1.0}"#;

fn read_text(body: &str) -> Result<Whole, Box<UpstreamError>> {
    check(Some("application/json"), &Bytes::copy_from_slice(body.as_bytes()))
}

#[test]
fn a_good_answer_gives_usage_and_size() {
    let whole = read_text(GOOD).unwrap();
    assert_eq!(whole.usage, Some(Tokens { input: 5, output: 2, ..Tokens::default() }));
    assert_eq!(whole.output_chars, 6);
}

#[test]
fn answers_that_only_call_tools_or_hold_parts_are_good() {
    for message in [
        r#"{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"content":[{"type":"text","text":"hi"}]}"#,
        r#"{"refusal":"no"}"#,
        r#"{"content":null,"reasoning_content":"hm"}"#,
    ] {
        let whole = read_text(&format!(r#"{{"choices":[{{"message":{message}}}]}}"#)).unwrap();
        assert!(whole.output_chars > 0, "{message}");
        assert_eq!(whole.usage, None);
    }
    assert_eq!(read_text(r#"{"choices":[{"message":{"content":""}}],"usage":null}"#).unwrap().output_chars, 0);
}

#[test]
fn only_the_models_name_changes() {
    let body = Bytes::from_static(GOOD.as_bytes());
    let whole = check(None, &body).unwrap();
    let out = splice_model(&body, &whole, "mine \"x\"");
    assert_eq!(out, GOOD.replace(r#""up""#, r#""mine \"x\"""#));
    assert_eq!(splice_model(&body, &whole, "up").as_ptr(), body.as_ptr(), "nothing to change, nothing copied");
    let nameless = Bytes::from_static(br#"{"choices":[{"message":{"model":"inner"}}]}"#);
    assert_eq!(splice_model(&nameless, &check(None, &nameless).unwrap(), "mine"), nameless);
}

#[test]
fn a_success_that_is_none_is_the_upstreams_failure() {
    for (kind, body, transport) in [
        (None, "", Transport::Empty),
        (None, " \r\n", Transport::Empty),
        (Some("text/html; charset=utf-8"), GOOD, Transport::NotTheFormat),
        (Some("TEXT/HTML"), "<html>", Transport::NotTheFormat),
        (Some("text/event-stream"), "data: {}\n\n", Transport::NotTheFormat),
        (Some("application/json"), "<html>", Transport::NotTheFormat),
        (Some("application/json"), &GOOD[..GOOD.len() - 9], Transport::NotTheFormat),
        (Some("application/json"), "null", Transport::NotTheFormat),
        (Some("application/json"), "\"ok\"", Transport::NotTheFormat),
        (Some("application/json"), "{}", Transport::NotTheFormat),
        (Some("application/json"), r#"{"choices":null}"#, Transport::NotTheFormat),
        (Some("application/json"), r#"{"choices":[]}"#, Transport::NotTheFormat),
        (Some("application/json"), r#"{"choices":[{}]}"#, Transport::NotTheFormat),
        (Some("application/json"), r#"{"choices":"x"}"#, Transport::NotTheFormat),
        (Some("application/json"), r#"[1,{"choices":[]}]"#, Transport::ErrorInSuccess),
        (None, r#"{"choices":[{"message":{},"finish_reason":"error"}]}"#, Transport::ErrorInSuccess),
    ] {
        let error = check(kind, &Bytes::copy_from_slice(body.as_bytes())).unwrap_err();
        assert_eq!(error.signals.transport, Some(transport), "{kind:?} {body}");
        assert_eq!(classify(&error.signals, ErrorPolicy::Standard, &[]).class, Class::Unavailable, "{body}");
    }
}

#[test]
fn sloppy_content_types_are_judged_by_the_body() {
    for kind in [None, Some("text/plain"), Some("application/json; charset=utf-8"), Some("application/octet-stream")] {
        assert!(check(kind, &Bytes::from_static(GOOD.as_bytes())).is_ok(), "{kind:?}");
    }
}

#[test]
fn an_error_in_a_success_is_read_as_an_error() {
    for body in [
        r#"{"error":{"code":429,"message":"Rate limit exceeded: per minute"},"choices":[]}"#,
        r#"[{"error":{"code":429,"message":"too many per minute"}}]"#,
    ] {
        let error = read_text(body).unwrap_err();
        assert_eq!(error.signals.status, Some(429), "{body}");
        assert_eq!(classify(&error.signals, ErrorPolicy::Standard, &[]).class, Class::RateLimited);
    }
    assert_eq!(read_text(r#"{"error":"went wrong"}"#).unwrap_err().reason, "went wrong");
    assert!(read_text(&GOOD.replacen('{', r#"{"error":null,"#, 1)).is_ok(), "no error is no error");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..100), cut in 0..GOOD.len(), byte in any::<u8>()) {
        let _ = check(None, &body.into());
        let mut broken = GOOD.as_bytes().to_vec();
        broken[cut] = byte;
        let broken = Bytes::from(broken);
        if let Ok(whole) = check(None, &broken) {
            let _ = splice_model(&broken, &whole, "m");
        }
    }
}
