use proptest::prelude::*;
use serde_json::{Value, json};
use shared::money::Tokens;

use super::*;
use crate::canonical::request::{Part, Thinking, ToolCall};
use crate::canonical::response::{Choice, Finish, Response};
use crate::dialect::openai::request::read::any_json;
use crate::dialect::openai_responses::request::{Echo, echo};

const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

fn written(parts: Vec<Part>, finish: Finish, echo: &Echo) -> Value {
    let usage =
        Some(Tokens { input: 1, cached_input: 2, cache_write: 3, output: 4, reasoning: 5, ..Tokens::default() });
    let answer = Response { id: None, choices: vec![Choice { parts, finish }], usage };
    serde_json::from_slice(&write(&answer, "mine", REQUEST, echo)).unwrap()
}

#[test]
fn an_answer_is_written_as_openai_writes_it() {
    let call = ToolCall {
        id: "c1".into(),
        name: "f".into(),
        arguments: json!({"a": 1}).as_object().unwrap().clone(),
        signature: Some("sig".into()),
    };
    let parts = vec![
        Part::Thinking(Thinking { text: "hm".into(), signature: Some("s".into()), redacted: None }),
        Part::Text("Let ".into()),
        Part::Text("me.".into()),
        Part::Refusal("no".into()),
        Part::ToolCall(call),
    ];
    let body = br#"{"model":"mine","input":"hi","instructions":"be","metadata":{"a":"b"},"temperature":1.0,"unheard_of":1,"text":{"verbosity":"low"}}"#;
    let expected = json!({
        "id": "resp_0190163d8694739baea5966c26f8ad91",
        "object": "response",
        "created_at": 1_718_360_049,
        "status": "completed",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "model": "mine",
        "output": [
            {"id": "rs_0190163d8694739baea5966c26f8ad91_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"id": "msg_0190163d8694739baea5966c26f8ad91_1", "type": "message", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "annotations": [], "logprobs": [], "text": "Let me."},
                {"type": "refusal", "refusal": "no"},
            ]},
            {"id": "fc_0190163d8694739baea5966c26f8ad91_2", "type": "function_call", "status": "completed", "arguments": "{\"a\":1}",
                "call_id": "c1", "name": "f", "extra_content": {"google": {"thought_signature": "sig"}}},
        ],
        "instructions": "be",
        "max_output_tokens": null,
        "metadata": {"a": "b"},
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": false,
        "temperature": 1.0,
        "text": {"verbosity": "low", "format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 6, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 15,
        },
        "user": null,
    });
    assert_eq!(written(parts, Finish::ToolCalls, &echo(body)), expected);
}

#[test]
fn every_reason_has_its_status() {
    for (parts, finish, status, reason) in [
        (vec![], Finish::Stop, "completed", Value::Null),
        (vec![], Finish::StopText(None), "completed", Value::Null),
        (vec![], Finish::Length, "incomplete", json!("max_output_tokens")),
        (vec![], Finish::Filtered, "incomplete", json!("content_filter")),
        (vec![], Finish::Refused, "incomplete", json!("content_filter")),
        (vec![Part::Refusal("no".into())], Finish::Refused, "completed", Value::Null),
    ] {
        let body = written(parts, finish, &Echo::default());
        assert_eq!((&body["status"], &body["incomplete_details"]["reason"]), (&json!(status), &reason));
    }
}

#[test]
fn an_answer_is_passed_on_with_the_callers_name_of_the_model() {
    let text = r#"{"id":"resp_1","error":null,"status":"completed","model":"up","output":[{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"hé"}]},{"type":"function_call","name":"f","arguments":"{}"}],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1}},"x":1.0}"#;
    let answer = pass(Some("application/json"), &Bytes::from(text), "mine").unwrap();
    assert_eq!(answer.body, text.replace("\"up\"", "\"mine\""));
    assert_eq!(answer.output_chars, 5);
    let tokens = Tokens { input: 3, cached_input: 2, output: 2, reasoning: 1, ..Tokens::default() };
    assert_eq!(answer.usage, Some(tokens));
}

#[test]
fn what_is_no_answer_is_a_failure() {
    for (body, transport) in [
        ("", Transport::Empty),
        ("<html>", Transport::NotTheFormat),
        ("{}", Transport::NotTheFormat),
        (r#"{"output":[],"status":"failed"}"#, Transport::ErrorInSuccess),
        (r#"{"output":[],"status":"failed","error":{"code":"server_error","message":"x"}}"#, Transport::ErrorInSuccess),
        (r#"[{"error":{"message":"x"}}]"#, Transport::ErrorInSuccess),
    ] {
        let error = pass(None, &Bytes::from(body), "mine").unwrap_err();
        assert_eq!(error.signals.transport, Some(transport), "{body}");
    }
    let failed = r#"{"output":[],"status":"failed","error":{"code":"server_error","message":"x"}}"#;
    let error = pass(None, &Bytes::from(failed), "mine").unwrap_err();
    assert_eq!((error.code.as_deref(), error.reason.as_str()), (Some("server_error"), "x"));
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(json in any_json()) {
        let wrapped = json!({"model": json, "output": json}).to_string();
        for body in [json.to_string(), wrapped] {
            if let Ok(answer) = pass(None, &Bytes::from(body), "mine") {
                prop_assert!(serde_json::from_slice::<Value>(&answer.body).is_ok());
            }
        }
    }
}

#[test]
fn the_id_under_which_an_answer_is_kept_is_told() {
    let made = |body: &str| pass(None, &Bytes::copy_from_slice(body.as_bytes()), "mine").unwrap().made;
    assert_eq!(made(r#"{"id":"resp_1","output":[]}"#).as_deref(), Some("resp_1"));
    assert_eq!(made(r#"{"id":7,"output":[]}"#), None);
    assert_eq!(made(r#"{"output":[]}"#), None);
}
