use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::canonical::request::{
    Media, Reasoning, Role, Source, Thinking, ToolCall, ToolOutcome, ToolResult, Turn, Visible,
};
use crate::dialect::openai::request::read;

fn written(request: &Request) -> Value {
    serde_json::from_slice(&write(request, "up").unwrap()).unwrap()
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn turn(role: Role, parts: Vec<Part>) -> Turn {
    Turn { role, parts }
}

fn asking(turns: Vec<Turn>) -> Request {
    Request { turns, ..Request::default() }
}

fn call(id: &str, name: &str) -> Part {
    let arguments = json!({"q": 1.0}).as_object().unwrap().clone();
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments, signature: Some("sig".into()) })
}

fn result(id: &str, content: Vec<Part>, outcome: ToolOutcome) -> Part {
    Part::ToolResult(ToolResult { id: id.into(), name: "f".into(), content, outcome })
}

fn image() -> Part {
    let source = Source::Inline { mime: "image/png".into(), data: "AAAA".into() };
    Part::Image(Media { source, name: None, detail: None })
}

#[test]
fn a_plain_question_is_a_plain_request() {
    let request = Request { system: vec!["a".into(), "b".into()], ..asking(vec![turn(Role::User, vec![text("hi")])]) };
    let expected = json!({"model": "up", "messages": [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "hi"},
    ]});
    assert_eq!(written(&request), expected);
}

#[test]
fn results_stand_right_after_their_calls_and_their_images_after_all_of_them() {
    let request = asking(vec![
        turn(Role::User, vec![text("look"), image()]),
        turn(Role::Assistant, vec![Part::Thinking(Thinking { text: "hm".into(), ..Thinking::default() })]),
        turn(Role::Assistant, vec![text("I will."), call("c1", "f")]),
        turn(Role::Assistant, vec![call("c2", "f")]),
        turn(Role::User, vec![text("by the way"), result("c1", vec![image()], ToolOutcome::Ok)]),
        turn(Role::User, vec![result("c2", vec![text("no"), text("way")], ToolOutcome::Failed), text("go on")]),
    ]);
    let wire_image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let wire_call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"q\":1.0}"}});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "look"}, wire_image]},
        {"role": "assistant", "content": "I will.", "tool_calls": [wire_call("c1"), wire_call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "The result follows in the next message."},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no\nway"},
        {"role": "user", "content": [{"type": "text", "text": "The result of f (c1):"}, wire_image]},
        {"role": "user", "content": "by the way"},
        {"role": "user", "content": "go on"},
    ]);
    assert_eq!(written(&request)["messages"], expected);
}

#[test]
fn every_setting_is_written() {
    let number = |value: Value| value.as_number().cloned();
    let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let loose = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let tool = |name: &str, parameters: &Value| Tool {
        name: name.into(),
        description: Some("d".into()),
        parameters: parameters.clone(),
        strict: Some(Strict::Yes),
    };
    let request = Request {
        tools: vec![tool("f", &strict), tool("g.h", &loose)],
        tool_choice: Some(ToolChoice::Function("g.h".into())),
        parallel_calls: Some(ParallelCalls::Forbidden),
        max_output: Some(9),
        sampling: Sampling {
            temperature: number(json!(0.5)),
            top_p: number(json!(0.9)),
            stop: vec!["x".into()],
            seed: number(json!(1)),
            presence_penalty: number(json!(0.1)),
            frequency_penalty: number(json!(0.2)),
            ..Sampling::default()
        },
        format: Some(Format::JsonSchema { name: "my answer".into(), schema: strict.clone(), strict: None }),
        reasoning: Some(Reasoning { amount: Amount::Budget(8_000), visible: Visible::Yes }),
        user: Some("u".repeat(65)),
        answer: Answer::Stream,
        ..asking(vec![turn(Role::User, vec![text("hi")])])
    };
    let body = written(&request);
    let user = body["user"].as_str().unwrap();
    assert!(user.len() <= 64 && user.starts_with("user_"), "{user}");
    let expected = json!({
        "model": "up",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": strict, "description": "d", "strict": true}},
            {"type": "function", "function": {"name": "g_h", "parameters": loose, "description": "d"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "g_h"}},
        "parallel_tool_calls": false,
        "max_completion_tokens": 9,
        "temperature": 0.5, "top_p": 0.9, "seed": 1, "presence_penalty": 0.1, "frequency_penalty": 0.2, "stop": ["x"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "my_answer", "schema": strict, "strict": true}},
        "reasoning_effort": "medium",
        "user": user,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(body, expected);
}

#[test]
fn without_functions_nothing_is_said_of_them() {
    let request = Request {
        tool_choice: Some(ToolChoice::Auto),
        parallel_calls: Some(ParallelCalls::Allowed),
        ..asking(vec![turn(Role::User, vec![text("hi")])])
    };
    let body = written(&request);
    assert_eq!((&body["tool_choice"], &body["parallel_tool_calls"]), (&Value::Null, &Value::Null));
}

#[test]
fn json_is_asked_for_in_words_where_nothing_else_does() {
    let json_object = |said: &str| {
        let request = Request { format: Some(Format::JsonObject), ..asking(vec![turn(Role::User, vec![text(said)])]) };
        written(&request)["messages"].clone()
    };
    assert_eq!(json_object("hi")[0], json!({"role": "system", "content": "Answer in JSON."}));
    assert_eq!(json_object("in Json please").as_array().unwrap().len(), 1);
}

#[test]
fn documents_and_sound_are_written_where_openai_has_a_place_for_them() {
    let file = |mime: &str, data: &str| {
        let source = Source::Inline { mime: mime.into(), data: data.into() };
        Part::File(Media { source, name: Some("n".into()), detail: None })
    };
    let content = |part: Part| {
        let body = written(&asking(vec![turn(Role::User, vec![text("x"), part])]));
        body["messages"][0]["content"][1].clone()
    };
    assert_eq!(
        content(file("application/pdf", "AAAA")),
        json!({"type": "file", "file": {"filename": "n", "file_data": "data:application/pdf;base64,AAAA"}})
    );
    assert_eq!(content(file("text/plain", "aGk=")), json!({"type": "text", "text": "hi"}));
    assert_eq!(
        content(file("audio/mpeg", "AAAA")),
        json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}})
    );
}

#[test]
fn what_openai_cannot_be_told_is_named() {
    let hi = || asking(vec![turn(Role::User, vec![text("hi")])]);
    let file = |source| Part::File(Media { source, name: None, detail: None });
    let inline = |mime: &str| Source::Inline { mime: mime.into(), data: "AAAA".into() };
    let many = |answer| {
        let mut request = Request { answer, ..hi() };
        request.sampling.choices = Some(2);
        request
    };
    let mut top_k = hi();
    top_k.sampling.top_k = json!(40).as_number().cloned();
    let mut unknown = hi();
    unknown.rest.insert("mcp_servers".into(), json!([]));
    for (request, field) in [
        (top_k, "top_k"),
        (unknown, "mcp_servers"),
        (many(Answer::Stream), "n"),
        (asking(vec![turn(Role::User, vec![file(Source::Url("https://x/a.pdf".into()))])]), "messages"),
        (asking(vec![turn(Role::User, vec![file(inline("audio/flac"))])]), "messages"),
        (asking(vec![turn(Role::User, vec![file(inline("video/mp4"))])]), "messages"),
        (asking(vec![turn(Role::Assistant, vec![image()])]), "messages"),
    ] {
        let fault = write(&request, "up").unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (Some(field), Some("unsupported_parameter")));
    }
    assert_eq!(written(&many(Answer::Whole))["n"], 2);
}

#[test]
fn long_ids_of_calls_are_shortened_alike_in_call_and_result() {
    let long = "x".repeat(41);
    let request = asking(vec![
        turn(Role::Assistant, vec![call(&long, "f")]),
        turn(Role::User, vec![result(&long, vec![], ToolOutcome::Ok)]),
    ]);
    let messages = &written(&request)["messages"];
    let id = messages[0]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40);
    assert_eq!(messages[1]["tool_call_id"], id);
    assert_eq!(messages[1]["content"], "");
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[a-z ]{0,6}".prop_map(Part::Text),
        Just(image()),
        "[a-c]{1,2}".prop_map(|id| call(&id, "f")),
        ("[a-c]{1,2}", "[a-z]{0,4}").prop_map(|(id, said)| result(&id, vec![text(&said), image()], ToolOutcome::Ok)),
        "[a-z]{0,4}".prop_map(Part::Refusal),
        "[a-z]{0,4}".prop_map(|text| Part::Thinking(Thinking { text, ..Thinking::default() })),
    ]
}

proptest! {
    #[test]
    fn no_message_is_written_that_says_nothing(
        turns in prop::collection::vec(
            (prop::sample::select(&[Role::System, Role::User, Role::Assistant][..]), prop::collection::vec(any_part(), 0..4)),
            1..6,
        ),
    ) {
        let turns = turns.into_iter().map(|(role, parts)| turn(role, parts)).collect();
        // Media said by the model are the only thing here that cannot be written.
        let Ok(body) = write(&asking(turns), "up") else { return Ok(()) };
        let body: Value = serde_json::from_slice(&body).unwrap();
        for message in body["messages"].as_array().unwrap() {
            match message["role"].as_str().unwrap() {
                "assistant" => prop_assert!(
                    message["content"].is_string() || message["tool_calls"].is_array() || message["refusal"].is_string()
                ),
                "tool" => prop_assert!(message["tool_call_id"].is_string() && message["content"].is_string()),
                "system" | "user" => {
                    let content = &message["content"];
                    let says = content.as_str().is_some_and(|text| !text.is_empty());
                    prop_assert!(says || content.as_array().is_some_and(|parts| !parts.is_empty()));
                }
                other => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn what_is_read_and_written_reads_the_same_again(
        texts in prop::collection::vec("[a-z]{1,8}", 1..5), temperature in prop::option::of(0u64..3), stream in any::<bool>(),
    ) {
        let mut turns: Vec<Turn> = Vec::new();
        for (nth, said) in texts.iter().enumerate() {
            turns.push(turn(Role::User, vec![text(said)]));
            let id = format!("call_{nth}");
            let arguments = json!({"said": said}).as_object().unwrap().clone();
            let called = ToolCall { id: id.clone(), name: "f".into(), arguments, signature: None };
            turns.push(turn(Role::Assistant, vec![text("well"), Part::ToolCall(called)]));
            turns.push(turn(Role::User, vec![result(&id, vec![text("ok")], ToolOutcome::Ok)]));
        }
        let mut request = Request { system: vec!["s".into()], answer: if stream { Answer::Stream } else { Answer::Whole }, ..asking(turns) };
        request.sampling.temperature = temperature.map(Number::from);
        prop_assert_eq!(read(&write(&request, "up").unwrap()).unwrap(), request);
    }
}
