use proptest::prelude::*;
use shared::failure::{Class, ErrorPolicy, classify};
use shared::money::Tokens;

use super::*;
use crate::canonical::response::Finish;

const MESSAGE: &str = r#"{ "id":"msg_1","type":"message","role":"assistant","model":"claude-up","content":[
  {"type":"thinking","thinking":"Hm.","signature":"EqQBCgIYAhIM1.0=="},
  {"type":"redacted_thinking","data":"opaque"},
  {"type":"text","text":"Grüße \ud83d\ude00","citations":null},
  {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},
  {"type":"tool_use","id":"toolu_1","name":"f","input":{"n":1.0,"big":18446744073709551615}}],
  "stop_reason":"tool_use","stop_sequence":null,"new_field":{"x":1e2},
  "usage":{"input_tokens":3,"cache_read_input_tokens":2,"output_tokens":9}}"#;

fn message() -> Bytes {
    Bytes::from_static(MESSAGE.as_bytes())
}

fn tokens() -> Tokens {
    Tokens { input: 3, cached_input: 2, output: 9, ..Tokens::default() }
}

#[test]
fn only_the_models_name_changes_between_two_who_speak_the_dialect() {
    let body = message();
    let whole = check(Some("application/json"), &body).unwrap();
    assert_eq!((whole.usage, whole.output_chars), (Some(tokens()), 3 + 7 + 10 + 2 + 1 + 36));
    assert_eq!(splice_model(&body, &whole, "my \"m\""), MESSAGE.replace("\"claude-up\"", r#""my \"m\"""#));
    let same = splice_model(&body, &whole, "claude-up");
    assert_eq!(same.as_ptr(), body.as_ptr(), "nothing is copied without a change");
}

#[test]
fn a_message_is_read_into_the_common_tongue() {
    let response = read(None, &message()).unwrap();
    let call: Map<String, Value> = serde_json::from_str(r#"{"n":1.0,"big":18446744073709551615}"#).unwrap();
    let signed = Thinking { text: "Hm.".into(), signature: Some("EqQBCgIYAhIM1.0==".into()), redacted: None };
    let redacted = Thinking { redacted: Some("opaque".into()), ..Thinking::default() };
    let parts = vec![
        Part::Thinking(signed),
        Part::Thinking(redacted),
        Part::Text("Grüße 😀".into()),
        Part::ToolCall(ToolCall { id: "toolu_1".into(), name: "f".into(), arguments: call, signature: None }),
    ];
    let expected = Response {
        id: Some("msg_1".into()),
        choices: vec![Choice { parts, finish: Finish::ToolCalls }],
        usage: Some(tokens()),
    };
    assert_eq!(response, expected);
}

#[test]
fn reasons_for_an_end_map_both_ways() {
    for (reason, sequence, finish, back) in [
        ("end_turn", None, Finish::Stop, "end_turn"),
        ("stop_sequence", Some("END"), Finish::StopText(Some("END".into())), "stop_sequence"),
        ("tool_use", None, Finish::ToolCalls, "tool_use"),
        ("max_tokens", None, Finish::Length, "max_tokens"),
        ("model_context_window_exceeded", None, Finish::Length, "max_tokens"),
        ("refusal", None, Finish::Refused, "refusal"),
        ("pause_turn", None, Finish::Stop, "end_turn"),
        ("unheard_of", None, Finish::Stop, "end_turn"),
    ] {
        assert_eq!(finish::read(reason, sequence), finish, "{reason}");
        assert_eq!(finish::written(&finish, Calls::None), (back, sequence), "{reason}");
    }
    assert_eq!(finish::written(&Finish::Filtered, Calls::None).0, "refusal");
    assert_eq!(finish::written(&Finish::Stop, Calls::Some).0, "tool_use");
    assert_eq!(finish::written(&Finish::Length, Calls::Some).0, "max_tokens");
}

#[test]
fn an_answer_of_another_upstream_is_written_as_a_message() {
    let arguments: Map<String, Value> = serde_json::from_str(r#"{"b":1,"a":[2]}"#).unwrap();
    let thought = Thinking { text: "Hm".into(), signature: Some("foreign".into()), redacted: None };
    let response = Response {
        id: Some("chatcmpl-1".into()),
        choices: vec![Choice {
            parts: vec![
                Part::Thinking(thought),
                Part::Thinking(Thinking { redacted: Some("x".into()), ..Thinking::default() }),
                Part::Text(String::new()),
                Part::Text("Hi".into()),
                Part::ToolCall(ToolCall { id: "call:1".into(), name: "f".into(), arguments, signature: None }),
            ],
            finish: Finish::Stop,
        }],
        usage: Some(Tokens { input: 5, cached_input: 4, cache_write: 3, output: 2, reasoning: 1, ..Tokens::default() }),
    };
    let written = write(&response, "mine", "0190-ab");
    let id = call_id("call:1");
    assert!(id.starts_with("toolu_") && id == call_id("call:1") && id != call_id("call:2"));
    assert_eq!(
        serde_json::from_slice::<Value>(&written).unwrap(),
        json!({
            "id": "msg_0190ab", "type": "message", "role": "assistant", "model": "mine",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": ""},
                {"type": "text", "text": "Hi"},
                {"type": "tool_use", "id": id, "name": "f", "input": {"b": 1, "a": [2]}},
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {
                "input_tokens": 5, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 1},
            },
        })
    );
    assert!(std::str::from_utf8(&written).unwrap().contains(r#"{"b":1,"a":[2]}"#), "the order of arguments survives");
}

#[test]
fn an_answer_without_usage_or_words_is_still_a_message() {
    let response =
        Response { id: None, choices: vec![Choice { parts: vec![], finish: Finish::Filtered }], usage: None };
    let body: Value = serde_json::from_slice(&write(&response, "m", "r")).unwrap();
    assert_eq!((&body["content"], &body["stop_reason"]), (&json!([]), &json!("refusal")));
    assert_eq!((&body["usage"]["input_tokens"], &body["usage"]["output_tokens"]), (&json!(0), &json!(0)));
}

#[test]
fn what_is_no_message_is_a_failure_of_the_upstream() {
    let long = format!(r#"{{"content":"{}"}}"#, "x".repeat(300_000));
    for (content_type, body, transport) in [
        (None, "", Transport::Empty),
        (None, " \r\n ", Transport::Empty),
        (Some("text/html; charset=utf-8"), MESSAGE, Transport::NotTheFormat),
        (Some("text/event-stream"), MESSAGE, Transport::NotTheFormat),
        (None, "<html></html>", Transport::NotTheFormat),
        (None, "{\"content\":", Transport::NotTheFormat),
        (None, "{}", Transport::NotTheFormat),
        (None, "null", Transport::NotTheFormat),
        (None, r#"{"content":null}"#, Transport::NotTheFormat),
        (None, &long, Transport::NotTheFormat),
        (None, r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#, Transport::ErrorInSuccess),
        (None, r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#, Transport::ErrorInSuccess),
    ] {
        let body = Bytes::from(body.to_owned());
        let error = check(content_type, &body).unwrap_err();
        assert_eq!(error.signals.transport, Some(transport), "{body:?}");
        assert_eq!(read(content_type, &body).unwrap_err().signals.transport, Some(transport), "{body:?}");
    }
    let overloaded = Bytes::from_static(br#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#);
    let signals = read(None, &overloaded).unwrap_err().signals;
    assert_eq!(classify(&signals, ErrorPolicy::Standard, &[]).class, Class::Capacity);
    let nameless = Bytes::from_static(br#"{"content":[{"type":"tool_use","id":"a","input":{}}]}"#);
    assert_eq!(read(None, &nameless).unwrap_err().signals.transport, Some(Transport::NotTheFormat));
}

#[test]
fn an_empty_list_of_content_is_an_answer() {
    let body = Bytes::from_static(br#"{"id":"msg_2","content":[],"stop_reason":"end_turn"}"#);
    assert_eq!(check(Some("application/json"), &body).unwrap().output_chars, 0);
    let response = read(Some("application/json"), &body).unwrap();
    assert_eq!(response.choices, vec![Choice { parts: vec![], finish: Finish::Stop }]);
    assert_eq!(response.usage, None);
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let body = Bytes::from(body);
        let _ = (check(None, &body), read(None, &body));
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..MESSAGE.len(), byte in any::<u8>(), cut in 0..MESSAGE.len()) {
        let mut body = MESSAGE.as_bytes()[..cut.max(1)].to_vec();
        let at = at % body.len();
        body[at] = byte;
        let body = Bytes::from(body);
        if let Ok(whole) = check(None, &body) {
            let _ = splice_model(&body, &whole, "m");
        }
        let _ = read(None, &body);
    }
}
