use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::canonical::request::{
    Amount, Effort, Format, Media, ParallelCalls, Part, Reasoning, Request, Role, Source, Strict, Thinking, Tool,
    ToolCall, ToolChoice, ToolOutcome, ToolResult, Turn, Visible,
};
use crate::dialect::openai::request::read::any_json;

fn read_value(body: &Value) -> Result<Request, BadRequest> {
    read(body.to_string().as_bytes())
}

/// A request of a text with these fields beside it.
fn with(fields: &Value) -> Result<Request, BadRequest> {
    let mut body = json!({"model": "m", "input": "hi"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    read_value(&body)
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn bound(peek: &Peek) -> Option<(&'static str, &str)> {
    peek.bound_to.as_ref().map(|bound| (bound.field, bound.id.as_str()))
}

#[test]
fn answers_are_kept_unless_the_caller_says_otherwise() {
    for (store, keeps) in [
        ("", Keeps::Yes),
        (r#","store":true"#, Keeps::Yes),
        (r#","store":null"#, Keeps::Yes),
        (r#","store":false"#, Keeps::No),
    ] {
        let body = format!(r#"{{"model":"m","input":"hi"{store}}}"#);
        assert_eq!(peek(&Bytes::from(body)).unwrap().keeps, keeps, "{store}");
    }
}

#[test]
fn a_request_is_looked_into_and_only_its_model_changes() {
    let body = r#"{"input":[{"role":"user","content":"hi"}],"instructions":"be", "model" : "mine","stream":true,"max_output_tokens":7,"tools":[],"previous_response_id":"resp_1","x":1.0}"#;
    let bytes = Bytes::from(body);
    let peek = peek(&bytes).unwrap();
    assert_eq!((peek.model.as_str(), peek.answer, peek.max_output_tokens), ("mine", Answer::Stream, Some(7)));
    assert_eq!((peek.prompt_chars, bound(&peek)), (32 + 4 + 2, Some(("previous_response_id", "resp_1"))));
    assert_eq!(splice(&bytes, &peek, "up"), body.replace("mine", "up"));
    assert_eq!(splice(&bytes, &peek, "mine").as_ptr(), bytes.as_ptr());
    for (body, expected) in [
        (r#"{"model":"m","conversation":{"id":"conv_1"}}"#, Some(("conversation", "conv_1"))),
        (r#"{"model":"m","conversation":"conv_2","previous_response_id":null}"#, Some(("conversation", "conv_2"))),
        (r#"{"model":"m","previous_response_id":""}"#, None),
        (r#"{"model":"m","conversation":7}"#, None),
        (r#"{"model":"m"}"#, None),
    ] {
        assert_eq!(bound(&super::peek(&Bytes::from(body)).unwrap()), expected, "{body}");
    }
    for (body, field, code) in [
        ("7", None, "invalid_type"),
        ("{\"model\":\"m\"", None, "invalid_json"),
        ("{}", Some("model"), "missing_required_parameter"),
        (r#"{"model":"m","input":{}}"#, Some("input"), "invalid_type"),
        (r#"{"model":"m","stream":1}"#, Some("stream"), "invalid_type"),
        (r#"{"model":"m","max_output_tokens":-1}"#, Some("max_output_tokens"), "integer_below_min_value"),
        (r#"{"model":"m","input":"a","input":"b"}"#, Some("input"), "duplicate_parameter"),
    ] {
        let fault = super::peek(&Bytes::from(body)).unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (field, Some(code)), "{body}");
    }
}

#[test]
fn a_conversation_with_everything_is_read_whole() {
    let body = json!({
        "model": "m", "instructions": "Be brief.", "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "Use tools."}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "What?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
                {"type": "input_file", "file_url": "https://x/b.pdf"},
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "Let me.", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "no"},
            ]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}", "status": "completed",
                "extra_content": {"google": {"thought_signature": "sig"}}},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": ""},
            {"type": "function_call_output", "call_id": "c1", "output": "yes"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "no"}]},
            {"role": "system", "content": "Now answer."},
        ],
    });
    let request = read_value(&body).unwrap();
    assert_eq!(request.system, ["Be brief.", "Use tools."]);
    let inline = |mime: &str| Source::Inline { mime: mime.into(), data: "AAAA".into() };
    let media = |source, name: Option<&str>, detail: Option<&str>| Media {
        source,
        name: name.map(str::to_owned),
        detail: detail.map(str::to_owned),
    };
    let call = |id: &str, name: &str, arguments: Value, signature: Option<&str>| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.as_object().unwrap().clone(),
            signature: signature.map(str::to_owned),
        })
    };
    let result = |id: &str, name: &str, said: &str| {
        let (id, name) = (id.to_owned(), name.to_owned());
        Part::ToolResult(ToolResult { id, name, content: vec![text(said)], outcome: ToolOutcome::Ok })
    };
    let expected = [
        Turn {
            role: Role::User,
            parts: vec![
                text("What?"),
                Part::Image(media(inline("image/png"), None, Some("high"))),
                Part::File(media(inline("application/pdf"), Some("a.pdf"), None)),
                Part::File(media(Source::Url("https://x/b.pdf".into()), None, None)),
            ],
        },
        Turn {
            role: Role::Assistant,
            parts: vec![
                Part::Thinking(Thinking { text: "hm".into(), ..Thinking::default() }),
                text("Let me."),
                Part::Refusal("no".into()),
                call("c1", "f", json!({"a": 1}), Some("sig")),
                call("c2", "g", json!({}), None),
            ],
        },
        Turn { role: Role::User, parts: vec![result("c1", "f", "yes"), result("c2", "g", "no")] },
        Turn { role: Role::System, parts: vec![text("Now answer.")] },
    ];
    assert_eq!(request.turns, expected);
}

#[test]
fn every_setting_is_read() {
    let request = with(&json!({
        "max_output_tokens": 7, "temperature": 0.5, "top_p": 0.9, "user": "u", "stream": true, "store": false,
        "stream_options": {"include_obfuscation": false}, "reasoning": {"effort": "high", "summary": "auto"},
        "parallel_tool_calls": true, "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}, "verbosity": "medium"},
        "include": ["reasoning.encrypted_content"], "truncation": "disabled", "background": false, "service_tier": "auto",
        "metadata": {"a": "b"}, "prompt_cache_key": "k", "previous_response_id": null,
    }))
    .unwrap();
    let (name, description, parameters) = ("f".to_owned(), Some("d".to_owned()), json!({"type": "object"}));
    assert_eq!(request.tools, [Tool { name, description, parameters, strict: Some(Strict::Yes) }]);
    assert_eq!(request.tool_choice, Some(ToolChoice::Function("f".into())));
    assert_eq!(request.parallel_calls, Some(ParallelCalls::Allowed));
    assert_eq!((request.max_output, request.answer, request.user.as_deref()), (Some(7), Answer::Stream, Some("u")));
    let reasoning = Reasoning { amount: Amount::Effort(Effort::High), visible: Visible::Yes };
    assert_eq!(request.reasoning, Some(reasoning));
    let schema = json!({"type": "object"});
    assert_eq!(request.format, Some(Format::JsonSchema { name: "n".into(), schema, strict: Some(Strict::Yes) }));
    assert!(request.rest.is_empty(), "{:?}", request.rest);
    let unseen = with(&json!({"reasoning": {"effort": "low"}})).unwrap().reasoning;
    assert_eq!(unseen, Some(Reasoning { amount: Amount::Effort(Effort::Low), visible: Visible::No }));
    assert_eq!(with(&json!({"reasoning": {}})).unwrap().reasoning, None);
}

#[test]
fn what_is_kept_at_openai_and_other_faults_are_named() {
    let item = |item: Value| json!({"input": [item]});
    for (fields, field, code) in [
        (json!({"previous_response_id": "resp_1"}), "previous_response_id", "unsupported_parameter"),
        (json!({"conversation": {"id": "c"}}), "conversation", "unsupported_parameter"),
        (json!({"prompt": {"id": "p"}}), "prompt", "unsupported_parameter"),
        (json!({"store": true}), "store", "unsupported_parameter"),
        (json!({"input": null}), "input", "missing_required_parameter"),
        (json!({"input": []}), "input", "invalid_value"),
        (json!({"tools": [{"type": "web_search"}]}), "tools.0.type", "unsupported_parameter"),
        (json!({"tool_choice": {"type": "web_search"}}), "tool_choice.type", "unsupported_parameter"),
        (json!({"text": {"verbosity": "low"}}), "text.verbosity", "unsupported_parameter"),
        (json!({"text": {"format": {"type": "grammar"}}}), "text.format.type", "unsupported_parameter"),
        (json!({"reasoning": {"effort": 7}}), "reasoning.effort", "invalid_type"),
        (item(json!({"type": "item_reference", "id": "x"})), "input.0.type", "unsupported_parameter"),
        (item(json!({"role": "user"})), "input.0.content", "missing_required_parameter"),
        (item(json!({"role": "user", "content": "a", "mood": "gay"})), "input.0.mood", "unsupported_parameter"),
        (
            item(json!({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]})),
            "input.0.content.0.file_id",
            "unsupported_parameter",
        ),
        (
            item(json!({"type": "function_call_output", "call_id": "c", "output": ""})),
            "input.0.call_id",
            "invalid_value",
        ),
        (
            item(json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "7"})),
            "input.0.arguments",
            "invalid_value",
        ),
    ] {
        let fault = with(&fields).unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (Some(field), Some(code)), "{fields}: {}", fault.message);
    }
    let kept =
        json!({"truncation": "auto", "background": true, "include": ["file_search_call.results"], "top_logprobs": 2});
    assert_eq!(Value::Object(with(&kept).unwrap().rest), kept);
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(json in any_json(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let wrapped = json!({"model": "m", "input": [json, {"role": "user", "content": json}], "tools": [json]}).to_string();
        for body in [Bytes::from(bytes), Bytes::from(json.to_string()), Bytes::from(wrapped)] {
            if let Ok(peek) = peek(&body) {
                prop_assert!(serde_json::from_slice::<Value>(&splice(&body, &peek, "up")).is_ok());
            }
            let _ = read(&body);
            let _ = echo(&body);
        }
    }
}
