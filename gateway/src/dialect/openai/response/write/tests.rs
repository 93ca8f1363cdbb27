use proptest::prelude::*;

use super::*;
use crate::canonical::request::{Media, Thinking};
use crate::dialect::openai::response::read;

fn call(id: &str, signature: Option<&str>) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "f".into(),
        arguments: json!({"a": 1.0}).as_object().unwrap().clone(),
        signature: signature.map(str::to_owned),
    })
}

fn tokens() -> Tokens {
    Tokens { input: 1, cached_input: 2, cache_write: 3, output: 4, reasoning: 5, ..Tokens::default() }
}

fn written(parts: Vec<Part>, finish: Finish) -> Value {
    let answer = Response { id: None, choices: vec![Choice { parts, finish }], usage: Some(tokens()) };
    serde_json::from_slice(&write(&answer, "mine", "0190163d-8694-739b-aea5-966c26f8ad91")).unwrap()
}

#[test]
fn an_answer_is_written_as_openai_writes_it() {
    let thinking = Thinking { text: "hm".into(), signature: Some("s".into()), redacted: None };
    let image =
        Media { source: Source::Inline { mime: "image/png".into(), data: "AAAA".into() }, name: None, detail: None };
    let parts = vec![
        Part::Thinking(thinking),
        Part::Text("Let ".into()),
        Part::Text("me.".into()),
        call("c1", Some("sig")),
        call("c2", None),
        Part::Image(image),
    ];
    let wire_call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"a\":1.0}"}});
    let mut signed = wire_call("c1");
    signed["extra_content"] = json!({"google": {"thought_signature": "sig"}});
    let expected = json!({
        "id": "chatcmpl-0190163d-8694-739b-aea5-966c26f8ad91",
        "object": "chat.completion",
        "created": 1_718_360_049,
        "model": "mine",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": "Let me.", "reasoning_content": "hm", "refusal": null, "annotations": [],
                "tool_calls": [signed, wire_call("c2")],
                "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
            },
            "logprobs": null,
            "finish_reason": "tool_calls",
        }],
        "usage": {
            "prompt_tokens": 6, "completion_tokens": 9, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
        },
    });
    assert_eq!(written(parts, Finish::ToolCalls), expected);
}

#[test]
fn content_is_null_only_where_something_else_is_said() {
    let message = |parts, finish| written(parts, finish)["choices"][0].clone();
    assert_eq!(message(vec![], Finish::Stop)["message"]["content"], "");
    assert_eq!(message(vec![call("c", None)], Finish::ToolCalls)["message"]["content"], Value::Null);
    let refused = message(vec![Part::Refusal("no".into())], Finish::Refused);
    assert_eq!((&refused["message"]["refusal"], &refused["finish_reason"]), (&json!("no"), &json!("stop")));
    assert_eq!(message(vec![], Finish::Refused)["finish_reason"], "content_filter");
}

#[test]
fn an_id_of_another_kind_has_no_time() {
    assert_eq!(created("req_1"), 0);
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same_again(
        thought in prop::option::of("[a-z]{1,6}"), text in prop::option::of("\\PC{1,8}"), calls in 0usize..3,
    ) {
        let mut parts: Vec<Part> = Vec::new();
        parts.extend(thought.map(|text| Part::Thinking(Thinking { text, ..Thinking::default() })));
        parts.extend(text.map(Part::Text));
        parts.extend((0..calls).map(|nth| call(&format!("c{nth}"), Some("sig"))));
        let finish = if calls > 0 { Finish::ToolCalls } else { Finish::Stop };
        let answer = Response { id: Some("chatcmpl-r".into()), choices: vec![Choice { parts, finish }], usage: Some(tokens()) };
        prop_assert_eq!(read(Some("application/json"), &write(&answer, "mine", "r")).unwrap(), answer);
    }
}
