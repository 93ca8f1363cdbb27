//! From a caller into the common tongue.

use serde_json::{Map, Value, json};

use super::FULL;
use crate::canonical::request::*;
use crate::dialect::Answer;
use crate::dialect::anthropic::request::read;
use crate::error::BadRequest;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!() };
    object
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn media(source: Source, name: Option<&str>) -> Media {
    Media { source, name: name.map(str::to_owned), detail: None }
}

fn inline(mime: &str, data: &str) -> Source {
    Source::Inline { mime: mime.into(), data: data.into() }
}

fn call(id: &str, name: &str, arguments: Value) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: object(arguments), signature: None })
}

fn full_turns() -> Vec<Turn> {
    let signed = Thinking { text: "Hm".into(), signature: Some("sig==".into()), redacted: None };
    let look = ToolResult {
        id: "toolu_1".into(),
        name: "look".into(),
        content: vec![text("seen"), Part::Image(media(inline("image/png", "+/8="), None))],
        outcome: ToolOutcome::Ok,
    };
    let now = ToolResult {
        id: "toolu_2".into(),
        name: "now".into(),
        content: vec![text("broken")],
        outcome: ToolOutcome::Failed,
    };
    let calls = vec![
        Part::Thinking(signed),
        Part::Thinking(Thinking { redacted: Some("opaque".into()), ..Thinking::default() }),
        text("Calling."),
        call("toolu_1", "look", json!({"b": 1.0, "a": [u64::MAX]})),
        call("toolu_2", "now", json!({})),
    ];
    let results = vec![
        Part::ToolResult(look),
        Part::ToolResult(now),
        text("And?"),
        Part::Image(media(Source::Url("https://x.test/a.png".into()), None)),
        Part::File(media(inline("application/pdf", "JVBERg=="), Some("Report"))),
        text("Old."),
        text("Note"),
        text("words"),
    ];
    vec![
        Turn { role: Role::User, parts: vec![text("Hi")] },
        Turn { role: Role::Assistant, parts: calls },
        Turn { role: Role::User, parts: results },
        Turn { role: Role::System, parts: vec![text("From now on in verse.")] },
        Turn { role: Role::Assistant, parts: vec![text("Roses")] },
    ]
}

#[test]
fn everything_a_request_says_is_read() {
    let request = read(FULL.as_bytes()).unwrap();
    let number = |text: &str| Some(text.parse::<serde_json::Number>().unwrap());
    let look = Tool {
        name: "look".into(),
        description: Some("Looks.".into()),
        parameters: json!({"type": "object", "properties": {"a": {"type": "array"}}}),
        strict: None,
    };
    let now = Tool {
        name: "now".into(),
        description: None,
        parameters: json!({"type": "object"}),
        strict: Some(Strict::Yes),
    };
    let expected = Request {
        system: vec!["Be brief.".into(), "Be kind.".into()],
        turns: full_turns(),
        tools: vec![look, now],
        tool_choice: Some(ToolChoice::Auto),
        parallel_calls: Some(ParallelCalls::Forbidden),
        max_output: Some(1_024),
        sampling: Sampling {
            temperature: number("0.70"),
            top_p: number("0.9"),
            top_k: number("40"),
            stop: vec!["END".into()],
            ..Sampling::default()
        },
        format: Some(Format::JsonSchema { name: "output".into(), schema: json!({"type": "object"}), strict: None }),
        reasoning: Some(Reasoning { amount: Amount::Effort(Effort::High), visible: Visible::No }),
        user: Some("u1".into()),
        answer: Answer::Stream,
        rest: Map::new(),
    };
    assert_eq!(request, expected);
}

fn with(fields: &Value) -> Result<Request, BadRequest> {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    read(body.to_string().as_bytes())
}

#[test]
fn thinking_and_effort_say_how_much_to_think() {
    let of = |amount, visible| Some(Reasoning { amount, visible });
    let (yes, no) = (Visible::Yes, Visible::No);
    for (fields, expected) in [
        (json!({}), None),
        (json!({"thinking": null, "output_config": null}), None),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}), of(Amount::Budget(2_048), yes)),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": {"effort": "low"}}),
            of(Amount::Budget(2_048), yes),
        ),
        (json!({"thinking": {"type": "adaptive"}}), of(Amount::Dynamic, yes)),
        (json!({"thinking": {"type": "adaptive", "display": "omitted"}}), of(Amount::Dynamic, no)),
        (json!({"thinking": {"type": "between_tools"}}), of(Amount::Dynamic, yes)),
        (
            json!({"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}),
            of(Amount::Effort(Effort::None), no),
        ),
        (json!({"output_config": {"effort": "low"}}), of(Amount::Effort(Effort::Low), no)),
        (json!({"output_config": {"effort": "medium"}}), of(Amount::Effort(Effort::Medium), no)),
        (json!({"output_config": {"effort": "xhigh"}}), of(Amount::Effort(Effort::XHigh), no)),
        (json!({"output_config": {"effort": "max"}}), of(Amount::Effort(Effort::Max), no)),
    ] {
        assert_eq!(with(&fields).unwrap().reasoning, expected, "{fields}");
    }
}

#[test]
fn a_choice_of_tools_is_read_with_whether_several_may_be_called() {
    use ParallelCalls::{Allowed, Forbidden};
    for (choice, expected) in [
        (json!({"type": "auto"}), (Some(ToolChoice::Auto), None)),
        (json!({"type": "any", "disable_parallel_tool_use": true}), (Some(ToolChoice::Any), Some(Forbidden))),
        (json!({"type": "any", "disable_parallel_tool_use": false}), (Some(ToolChoice::Any), Some(Allowed))),
        (json!({"type": "none"}), (Some(ToolChoice::None), None)),
        (json!({"type": "tool", "name": "f"}), (Some(ToolChoice::Function("f".into())), None)),
    ] {
        let request = with(&json!({"tool_choice": choice})).unwrap();
        assert_eq!((request.tool_choice, request.parallel_calls), expected, "{choice}");
    }
}

#[test]
fn thoughts_of_other_upstreams_have_no_signature_and_empty_texts_are_nothing() {
    let messages = json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm", "signature": ""}, {"type": "text", "text": ""}]}]);
    let request = with(&json!({"messages": messages, "system": ""})).unwrap();
    let thought = Thinking { text: "Hm".into(), ..Thinking::default() };
    assert_eq!(request.turns[0].parts, vec![Part::Thinking(thought)]);
    assert!(request.system.is_empty());
}

#[test]
fn found_texts_and_lists_of_blocks_become_text() {
    let messages = json!([{"role": "user", "content": [
        {"type": "search_result", "title": "T", "source": "https://s", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "citations": {"enabled": false}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "c"}]}},
        {"type": "document", "source": {"type": "content", "content": "d"}},
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}
    ]}]);
    let parts = with(&json!({"messages": messages})).unwrap().turns.remove(0).parts;
    let pdf = Part::File(media(Source::Url("https://x/a.pdf".into()), None));
    assert_eq!(parts, vec![text("T\nhttps://s\n\na\nb"), text("c"), text("d"), pdf]);
}

#[test]
fn what_no_other_dialect_can_say_is_kept_apart_or_refused() {
    let request = with(&json!({"inference_geo": "us", "container": "c1", "mcp_servers": [], "speed": "fast"})).unwrap();
    assert_eq!(request.rest.keys().collect::<Vec<_>>(), ["inference_geo", "container"]);
}

fn user(block: &Value) -> Value {
    json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [block]}]})
}

fn assistant(block: &Value) -> Value {
    json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [block]}]})
}

#[test]
fn every_fault_names_its_field() {
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "AA=="});
    for (fields, field) in [
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "Hi"}), "messages"),
        (json!({"messages": ["Hi"]}), "messages.0"),
        (json!({"messages": [{"content": "Hi"}]}), "messages.0.role"),
        (json!({"messages": [{"role": "tool", "content": "Hi"}]}), "messages.0.role"),
        (json!({"messages": [{"role": "user"}]}), "messages.0.content"),
        (json!({"messages": [{"role": "user", "content": 7}]}), "messages.0.content"),
        (json!({"messages": [{"role": "user", "content": "a", "mood": 1}]}), "messages.0.mood"),
        (user(&json!(7)), "messages.1.content.0"),
        (user(&json!({"text": "a"})), "messages.1.content.0.type"),
        (user(&json!({"type": "text"})), "messages.1.content.0.text"),
        (user(&json!({"type": "text", "text": "a", "mood": "x"})), "messages.1.content.0.mood"),
        (user(&json!({"type": "video"})), "messages.1.content.0.type"),
        (user(&json!({"type": "tool_use", "id": "a", "name": "f", "input": {}})), "messages.1.content.0.type"),
        (user(&json!({"type": "container_upload", "file_id": "f"})), "messages.1.content.0.type"),
        (
            user(&json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
            "messages.1.content.0.source.type",
        ),
        (
            user(&json!({"type": "image", "source": {"type": "base64", "data": "AA=="}})),
            "messages.1.content.0.source.media_type",
        ),
        (user(&json!({"type": "image"})), "messages.1.content.0.source"),
        (
            user(&json!({"type": "document", "source": {"type": "file", "file_id": "f"}})),
            "messages.1.content.0.source.type",
        ),
        (
            user(&json!({"type": "document", "source": pdf, "citations": {"enabled": true}})),
            "messages.1.content.0.citations",
        ),
        (user(&json!({"type": "tool_result", "tool_use_id": "never"})), "messages.1.content.0.tool_use_id"),
        (assistant(&json!({"type": "tool_use", "id": "a", "name": "f", "input": "x"})), "messages.1.content.0.input"),
        (assistant(&json!({"type": "tool_use", "id": "", "name": "f", "input": {}})), "messages.1.content.0.id"),
        (
            assistant(
                &json!({"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "code_execution_20250825"}}),
            ),
            "messages.1.content.0.caller",
        ),
        (
            assistant(&json!({"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}})),
            "messages.1.content.0.type",
        ),
        (
            assistant(&json!({"type": "image", "source": {"type": "url", "url": "https://x"}})),
            "messages.1.content.0.type",
        ),
        (json!({"system": 7}), "system"),
        (json!({"system": [{"type": "image"}]}), "system.0.type"),
        (json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}), "tools.0.type"),
        (json!({"tools": [{"name": "f", "input_schema": "x"}]}), "tools.0.input_schema"),
        (json!({"tools": [{"name": "f", "allowed_callers": ["code_execution_20250825"]}]}), "tools.0.allowed_callers"),
        (json!({"tools": [{"input_schema": {}}]}), "tools.0.name"),
        (json!({"tools": [{"name": "f", "mood": 1}]}), "tools.0.mood"),
        (json!({"tool_choice": {"type": "tool"}}), "tool_choice.name"),
        (json!({"tool_choice": {"type": "some"}}), "tool_choice.type"),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"stop_sequences": ["a", 7]}), "stop_sequences.1"),
        (json!({"thinking": {"type": "enabled"}}), "thinking.budget_tokens"),
        (json!({"thinking": {"type": "deep"}}), "thinking.type"),
        (json!({"thinking": {"type": "adaptive", "display": "loud"}}), "thinking.display"),
        (json!({"output_config": {"effort": "huge"}}), "output_config.effort"),
        (json!({"output_config": {"format": {"type": "xml"}}}), "output_config.format.type"),
        (json!({"output_config": {"format": {"type": "json_schema"}}}), "output_config.format.schema"),
        (json!({"output_config": {"task_budget": {}}}), "output_config.task_budget"),
        (json!({"metadata": {"user_id": "u", "team": "t"}}), "metadata.team"),
    ] {
        let fault = with(&fields).map(|request| format!("{request:?}")).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some(field), "{fields}");
        assert!(fault.message.starts_with(&format!("{field}: ")), "{fault}");
        assert!(fault.code.is_some());
    }
    for body in ["", "{", "7", "[]", "null", "\"x\"", "{\"messages\":[]} x"] {
        assert_eq!(read(body.as_bytes()).unwrap_err().code, Some("invalid_json"), "{body}");
    }
}
