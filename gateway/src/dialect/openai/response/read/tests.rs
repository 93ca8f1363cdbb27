use proptest::prelude::*;
use serde_json::json;
use shared::money::Tokens;

use super::*;
use crate::dialect::openai::request::read::any_json;

fn read_value(body: &Value) -> Result<Response, Box<UpstreamError>> {
    read(Some("application/json"), &body.to_string().into())
}

fn choice(message: &Value, finish: &str) -> Result<Choice, Box<UpstreamError>> {
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}]});
    Ok(read_value(&body)?.choices.remove(0))
}

#[test]
fn choices_come_in_their_order_with_all_they_say() {
    let body = json!({
        "id": "chatcmpl-1", "choices": [
            {"index": 1, "message": {"content": "b"}, "finish_reason": "length"},
            {"index": 0, "message": {
                "role": "assistant", "content": "a", "reasoning": "hm", "refusal": null,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\":12345678901234567890}"},
                    "extra_content": {"google": {"thought_signature": "sig"}}}],
            }, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    });
    let call = ToolCall {
        id: "c".into(),
        name: "f".into(),
        arguments: json!({"x": 12_345_678_901_234_567_890_u64}).as_object().unwrap().clone(),
        signature: Some("sig".into()),
    };
    let expected = Response {
        id: Some("chatcmpl-1".into()),
        choices: vec![
            Choice {
                parts: vec![
                    Part::Thinking(Thinking { text: "hm".into(), ..Thinking::default() }),
                    Part::Text("a".into()),
                    Part::ToolCall(call),
                ],
                finish: Finish::ToolCalls,
            },
            Choice { parts: vec![Part::Text("b".into())], finish: Finish::Length },
        ],
        usage: Some(Tokens { input: 7, output: 3, ..Tokens::default() }),
    };
    assert_eq!(read_value(&body).unwrap(), expected);
}

#[test]
fn every_reason_is_understood() {
    let text = json!({"content": "a"});
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Filtered),
        ("a_reason_of_tomorrow", Finish::Stop),
        ("tool_calls", Finish::Stop),
    ] {
        assert_eq!(choice(&text, reason).unwrap().finish, finish, "{reason}");
    }
    assert_eq!(choice(&json!({"refusal": "no"}), "stop").unwrap().finish, Finish::Refused);
}

#[test]
fn broken_arguments_are_a_failure_unless_the_limit_cut_them() {
    let message =
        json!({"content": "a", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\"x\":"}}]});
    let error = choice(&message, "tool_calls").unwrap_err();
    assert_eq!(error.signals.transport, Some(Transport::NotTheFormat));
    let cut = choice(&message, "length").unwrap();
    assert_eq!((cut.parts, cut.finish), (vec![Part::Text("a".into())], Finish::Length));
}

#[test]
fn calls_of_odd_shapes_are_read() {
    let message = json!({
        "content": null, "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        "tool_calls": [{"function": {"name": "f", "arguments": ""}}, {"id": "b", "function": {"name": "g", "arguments": {"x": 1}}}],
        "function_call": {"name": "h"},
    });
    let names: Vec<(String, usize)> = choice(&message, "tool_calls")
        .unwrap()
        .parts
        .into_iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => {
                assert!(!call.id.is_empty());
                Some((call.name, call.arguments.len()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(names, [("f".into(), 0), ("g".into(), 1), ("h".into(), 0)]);
    assert!(matches!(&choice(&message, "stop").unwrap().parts[0], Part::Image(_)));
    assert!(choice(&json!({"tool_calls": [{"id": "a", "function": {}}]}), "stop").is_err());
}

#[test]
fn what_is_no_answer_is_a_failure() {
    for (body, transport) in [
        ("", Transport::Empty),
        ("<html>", Transport::NotTheFormat),
        ("{}", Transport::NotTheFormat),
        (r#"{"choices":[]}"#, Transport::NotTheFormat),
        (r#"{"choices":[{}]}"#, Transport::NotTheFormat),
        (r#"{"error":{"message":"x"}}"#, Transport::ErrorInSuccess),
        (r#"[{"error":{"message":"x"}}]"#, Transport::ErrorInSuccess),
        (r#"{"choices":[{"message":{},"finish_reason":"error"}]}"#, Transport::ErrorInSuccess),
    ] {
        let error = read(None, &Bytes::from(body)).unwrap_err();
        assert_eq!(error.signals.transport, Some(transport), "{body}");
    }
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(message in any_json(), usage in any_json()) {
        let body = json!({"choices": [{"message": message, "index": usage}, message], "usage": usage});
        let _ = read_value(&body);
        let _ = read_value(&json!({"choices": [{"message": {"tool_calls": [message], "content": message}}]}));
        let _ = read_value(&message);
    }
}
