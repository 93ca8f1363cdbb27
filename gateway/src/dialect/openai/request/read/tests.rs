use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::canonical::request::{Media, Part, Role, Source, Thinking, ToolCall, ToolOutcome, ToolResult, Turn};

fn read_value(body: &Value) -> Result<Request, BadRequest> {
    read(body.to_string().as_bytes())
}

/// A request of one user message with these fields beside it.
fn with(fields: &Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// A request of these messages.
fn saying(messages: &Value) -> Result<Request, BadRequest> {
    read_value(&json!({"model": "m", "messages": messages}))
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn a_conversation_with_everything_is_read_whole() {
    let request = saying(&json!([
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Use tools."}, {"type": "text", "text": ""}]},
        {"role": "user", "name": "ann", "content": [
            {"type": "text", "text": "What is this?", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,-_8", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.jpg"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
        ]},
        {"role": "assistant", "content": "Let me look.", "reasoning_content": "hm", "refusal": null, "annotations": [],
            "audio": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1.0}"},
                "extra_content": {"google": {"thought_signature": "sig"}}},
            {"id": "c2", "type": "function", "function": {"name": "ask", "arguments": ""}},
        ]},
        {"role": "tool", "tool_call_id": "c2", "content": "yes"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a cat"}]},
        {"role": "system", "content": "Now answer."},
    ]))
    .unwrap();
    let inline = |mime: &str, data: &str| Source::Inline { mime: mime.into(), data: data.into() };
    let media = |source, name: Option<&str>, detail: Option<&str>| Media {
        source,
        name: name.map(str::to_owned),
        detail: detail.map(str::to_owned),
    };
    let call = |id: &str, name: &str, arguments: Value, signature: Option<&str>| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: object(&arguments),
            signature: signature.map(str::to_owned),
        })
    };
    let result = |id: &str, name: &str, said: &str| {
        Part::ToolResult(ToolResult {
            id: id.into(),
            name: name.into(),
            content: vec![text(said)],
            outcome: ToolOutcome::Ok,
        })
    };
    assert_eq!(request.system, ["Be brief.", "Use tools."]);
    let expected = [
        Turn {
            role: Role::User,
            parts: vec![
                text("What is this?"),
                Part::Image(media(inline("image/png", "+/8="), None, Some("low"))),
                Part::Image(media(Source::Url("https://x/y.jpg".into()), None, None)),
                Part::File(media(inline("audio/wav", "AAAA"), None, None)),
                Part::File(media(inline("application/pdf", "AAAA"), Some("a.pdf"), None)),
            ],
        },
        Turn {
            role: Role::Assistant,
            parts: vec![
                Part::Thinking(Thinking { text: "hm".into(), ..Thinking::default() }),
                text("Let me look."),
                call("c1", "look", json!({"at": 1.0}), Some("sig")),
                call("c2", "ask", json!({}), None),
            ],
        },
        Turn { role: Role::User, parts: vec![result("c2", "ask", "yes"), result("c1", "look", "a cat")] },
        Turn { role: Role::System, parts: vec![text("Now answer.")] },
    ];
    assert_eq!(request.turns, expected);
}

#[test]
fn every_setting_is_read() {
    let request = read_value(&with(&json!({
        "max_tokens": 5, "max_completion_tokens": 7, "temperature": 0.5, "top_p": 1, "stop": ["a", "b"], "n": 2, "seed": -3,
        "presence_penalty": 0.1, "frequency_penalty": -0.1, "user": "u", "safety_identifier": "s", "stream": true,
        "stream_options": {"include_usage": true, "include_obfuscation": false}, "reasoning_effort": "xhigh",
        "parallel_tool_calls": false, "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}},
            {"type": "function", "function": {"name": "g"}},
        ],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "answer", "description": "what", "schema": {"type": "object"}, "strict": false}},
    })))
    .unwrap();
    let number = |value: Value| value.as_number().cloned();
    let expected = Sampling {
        temperature: number(json!(0.5)),
        top_p: number(json!(1)),
        top_k: None,
        stop: vec!["a".into(), "b".into()],
        seed: number(json!(-3)),
        presence_penalty: number(json!(0.1)),
        frequency_penalty: number(json!(-0.1)),
        choices: Some(2),
    };
    assert_eq!(request.sampling, expected);
    assert_eq!((request.max_output, request.user.as_deref(), request.answer), (Some(7), Some("s"), Answer::Stream));
    let reasoning = Reasoning { amount: Amount::Effort(Effort::XHigh), visible: Visible::Yes };
    assert_eq!(request.reasoning, Some(reasoning));
    assert_eq!(request.parallel_calls, Some(ParallelCalls::Forbidden));
    assert_eq!(request.tool_choice, Some(ToolChoice::Function("f".into())));
    let tool = |name: &str, description: Option<&str>, parameters: Value, strict| Tool {
        name: name.into(),
        description: description.map(str::to_owned),
        parameters,
        strict,
    };
    let bare = json!({"type": "object", "properties": {}});
    assert_eq!(
        request.tools,
        [tool("f", Some("d"), json!({"type": "object"}), Some(Strict::Yes)), tool("g", None, bare, None)]
    );
    let schema = json!({"type": "object", "description": "what"});
    assert_eq!(request.format, Some(Format::JsonSchema { name: "answer".into(), schema, strict: Some(Strict::No) }));
    assert!(request.rest.is_empty());
}

#[test]
fn hints_and_what_would_happen_anyway_are_left_out_and_the_rest_is_kept() {
    let mut fields = json!({
        "store": false, "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "modalities": ["text"], "verbosity": "medium",
        "service_tier": "auto", "n": 1, "audio": null, "tools": null, "response_format": {"type": "text"},
    });
    for (hint, why) in DROPPED {
        assert!(!why.is_empty());
        fields[*hint] = json!({"x": 1});
    }
    let request = read_value(&with(&fields)).unwrap();
    assert!(request.rest.is_empty(), "{:?}", request.rest);
    assert_eq!(request, read_value(&with(&json!({}))).unwrap());

    let kept = json!({
        "store": true, "logprobs": true, "logit_bias": {"1": 2}, "audio": {"voice": "x"}, "modalities": ["text", "audio"],
        "verbosity": "low", "service_tier": "flex", "web_search_options": {}, "unheard_of": 1,
    });
    assert_eq!(read_value(&with(&kept)).unwrap().rest, object(&kept));
}

#[test]
fn words_for_the_choice_of_tools_and_stops_of_both_shapes_are_read() {
    for (word, choice) in [("auto", ToolChoice::Auto), ("none", ToolChoice::None), ("required", ToolChoice::Any)] {
        let request = read_value(&with(&json!({"tool_choice": word, "stop": "x"}))).unwrap();
        assert_eq!((request.tool_choice, request.sampling.stop), (Some(choice), vec!["x".to_owned()]));
    }
}

#[test]
fn functions_of_old_are_read_and_their_answers_find_their_calls() {
    let body = json!({
        "model": "m", "functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": {"name": "f"},
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "2"},
        ],
    });
    let request = read_value(&body).unwrap();
    assert_eq!((request.tools.len(), &request.tool_choice), (1, &Some(ToolChoice::Function("f".into()))));
    let ids: Vec<&str> = request
        .turns
        .iter()
        .flat_map(|turn| &turn.parts)
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id.as_str()),
            Part::ToolResult(result) => Some(result.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    assert_ne!(ids[0], ids[2]);
    assert_eq!(request, read_value(&body).unwrap(), "a history reads the same again");
}

#[test]
fn what_is_wrong_in_a_message_is_named_by_its_path() {
    let call = |call: Value| json!([{"role": "assistant", "tool_calls": [call]}]);
    let said = |part: Value| json!([{"role": "user", "content": ["x", part]}]);
    for (messages, field, code) in [
        (json!(7), "messages", "invalid_type"),
        (json!([]), "messages", "empty_array"),
        (json!([7]), "messages.0", "invalid_type"),
        (json!([{}]), "messages.0.role", "missing_required_parameter"),
        (json!([{"role": "robot", "content": ""}]), "messages.0.role", "invalid_value"),
        (json!([{"role": "user"}]), "messages.0.content", "missing_required_parameter"),
        (json!([{"role": "user", "content": 7}]), "messages.0.content", "invalid_type"),
        (json!([{"role": "user", "content": "x", "mood": "gay"}]), "messages.0.mood", "unsupported_parameter"),
        (said(json!({})), "messages.0.content.0", "invalid_type"),
        (
            json!([{"role": "user", "content": [{"type": "video"}]}]),
            "messages.0.content.0.type",
            "unsupported_parameter",
        ),
        (
            json!([{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]),
            "messages.0.content.0.file.file_id",
            "unsupported_parameter",
        ),
        (
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
            "messages.0.content.0.image_url.url",
            "invalid_value",
        ),
        (
            json!([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]),
            "messages.0.content.0.type",
            "unsupported_parameter",
        ),
        (call(json!({"function": {"name": "f"}})), "messages.0.tool_calls.0.id", "missing_required_parameter"),
        (call(json!({"id": "", "function": {"name": "f"}})), "messages.0.tool_calls.0.id", "invalid_value"),
        (call(json!({"id": "c", "type": "custom"})), "messages.0.tool_calls.0.type", "unsupported_parameter"),
        (
            call(json!({"id": "c", "function": {"name": "f", "arguments": "[1]"}})),
            "messages.0.tool_calls.0.function.arguments",
            "invalid_value",
        ),
        (json!([{"role": "tool", "tool_call_id": "c", "content": "x"}]), "messages.0.tool_call_id", "invalid_value"),
        (json!([{"role": "function", "name": "f", "content": "x"}]), "messages.0.name", "invalid_value"),
    ] {
        let fault = saying(&messages).unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (Some(field), Some(code)), "{messages}: {}", fault.message);
    }
}

#[test]
fn what_is_wrong_in_a_setting_is_named_by_its_path() {
    for (fields, field, code) in [
        (json!({"temperature": "hot"}), "temperature", "invalid_type"),
        (json!({"max_tokens": -1}), "max_tokens", "invalid_type"),
        (json!({"n": 0}), "n", "invalid_value"),
        (json!({"stop": [1]}), "stop.0", "invalid_type"),
        (json!({"stop": {}}), "stop", "invalid_type"),
        (json!({"stream": 1}), "stream", "invalid_type"),
        (json!({"stream_options": {"x": 1}}), "stream_options.x", "unsupported_parameter"),
        (json!({"reasoning_effort": "huge"}), "reasoning_effort", "invalid_value"),
        (json!({"tools": [{"type": "custom"}]}), "tools.0.type", "unsupported_parameter"),
        (
            json!({"tools": [{"type": "function", "function": {}}]}),
            "tools.0.function.name",
            "missing_required_parameter",
        ),
        (
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
            "tools.0.function.parameters",
            "invalid_type",
        ),
        (json!({"tool_choice": "sometimes"}), "tool_choice", "invalid_value"),
        (json!({"tool_choice": {"type": "allowed_tools"}}), "tool_choice.type", "unsupported_parameter"),
        (json!({"response_format": {"type": "grammar"}}), "response_format.type", "unsupported_parameter"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}),
            "response_format.json_schema.name",
            "missing_required_parameter",
        ),
    ] {
        let fault = read_value(&with(&fields)).unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (Some(field), Some(code)), "{fields}: {}", fault.message);
    }
}

/// JSON that has the names of a request in likely and unlikely places.
pub(in crate::dialect) fn any_json() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 30] = [
        "model",
        "messages",
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "url",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "tool_call_id",
        "input",
        "output",
        "call_id",
        "summary",
        "choices",
        "delta",
        "message",
        "usage",
        "finish_reason",
        "index",
        "tools",
        "tool_choice",
        "response",
        "item",
        "data",
        "embedding",
    ];
    const TEXTS: [&str; 16] = [
        "user",
        "assistant",
        "tool",
        "system",
        "text",
        "function",
        "function_call",
        "function_call_output",
        "message",
        "reasoning",
        "input_text",
        "image_url",
        "data:image/png;base64,AA",
        "{\"a\":1}",
        "",
        "stop",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&TEXTS[..]).prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(&NAMES[..]), inner), 0..6).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(body in any_json(), messages in any_json()) {
        let _ = read_value(&body);
        let _ = saying(&json!([{"role": "assistant", "content": messages, "tool_calls": [messages]}, messages]));
        let _ = saying(&messages);
    }

    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = read(&body);
    }
}
