use serde_json::{Map, Value, json};

use super::super::*;
use crate::canonical::request::*;

fn user(text: &str) -> Turn {
    Turn { role: Role::User, parts: vec![Part::Text(text.into())] }
}

fn said(parts: Vec<Part>) -> Turn {
    Turn { role: Role::Assistant, parts }
}

fn call(id: &str, name: &str, signature: Option<&str>) -> Part {
    let arguments = Map::from_iter([("$ref".to_owned(), json!({"const": 1}))]);
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments, signature: signature.map(Into::into) })
}

fn result(id: &str, name: &str, content: Vec<Part>, outcome: ToolOutcome) -> Part {
    Part::ToolResult(ToolResult { id: id.into(), name: name.into(), content, outcome })
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn image(source: Source) -> Part {
    Part::Image(Media { source, name: None, detail: Some("low".into()) })
}

fn png() -> Part {
    image(Source::Inline { mime: "image/png".into(), data: "AAAA".into() })
}

fn written(request: &Request, model: &str) -> Value {
    super::json(&write(request, model).unwrap())
}

fn asking(turns: Vec<Turn>) -> Request {
    Request { turns, ..Request::default() }
}

fn with(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = asking(vec![user("hi")]);
    change(&mut request);
    request
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.into(), description: Some("d".into()), parameters, strict: Some(Strict::Yes) }
}

#[test]
fn a_conversation_with_tools_becomes_contents() {
    let thought = Part::Thinking(Thinking { text: "hm".into(), signature: Some("x".into()), redacted: None });
    let turns = vec![
        Turn { role: Role::System, parts: vec![text("late")] },
        Turn { role: Role::User, parts: vec![text(""), text("look"), png()] },
        said(vec![thought, text("ok"), call("c1", "f", None), call("c2", "9g", None)]),
        Turn { role: Role::User, parts: vec![result("c1", "f", vec![text("{\"a\":1}")], ToolOutcome::Ok)] },
        Turn {
            role: Role::User,
            parts: vec![text("so?"), result("c2", "9g", vec![text("bad"), png()], ToolOutcome::Failed)],
        },
    ];
    let request = Request { system: vec!["early".into(), String::new()], turns, ..Request::default() };
    let nine = super::super::super::names::outgoing("9g");
    let args = json!({"$ref": {"const": 1}});
    let blob = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let expected = |sentinel: bool, nested: bool| {
        let mut first = json!({"functionCall": {"id": "c1", "name": "f", "args": args}});
        if sentinel {
            first["thoughtSignature"] = "skip_thought_signature_validator".into();
        }
        let mut second = json!({"functionResponse": {"id": "c2", "name": nine, "response": {"error": "bad"}}});
        let mut last = vec![json!({"functionResponse": {"id": "c1", "name": "f", "response": {"a": 1}}})];
        if nested {
            second["functionResponse"]["parts"] = json!([blob]);
        }
        last.push(second);
        last.push(json!({"text": "so?"}));
        if !nested {
            last.push(blob.clone());
        }
        json!({
            "systemInstruction": {"parts": [{"text": "early"}, {"text": "late"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "look"}, blob]},
                {"role": "model", "parts": [{"text": "ok"}, first, {"functionCall": {"id": "c2", "name": nine, "args": args}}]},
                {"role": "user", "parts": last}
            ]
        })
    };
    assert_eq!(written(&request, "gemini-2.5-flash"), expected(false, false));
    assert_eq!(written(&request, "gemini-3-pro"), expected(true, true));
    assert_eq!(written(&request, "claude-sonnet-5"), expected(false, false));
}

#[test]
fn a_calls_own_signature_goes_back_to_gemini_and_to_no_one_else() {
    let request = asking(vec![user("x"), said(vec![call("c", "f", Some("c2ln")), call("d", "f", None)])]);
    let signatures = |model: &str| {
        let body = written(&request, model);
        let parts = body["contents"][1]["parts"].as_array().unwrap().clone();
        parts.iter().map(|part| part.get("thoughtSignature").cloned()).collect::<Vec<_>>()
    };
    assert_eq!(signatures("gemini-3-pro"), [Some(json!("c2ln")), None]);
    assert_eq!(signatures("gemini-2.5-pro"), [Some(json!("c2ln")), None]);
    assert_eq!(signatures("claude-opus-4-6"), [None, None]);
    let foreign = asking(vec![user("x"), said(vec![call("c", "f", Some("no base64!"))])]);
    let body = written(&foreign, "gemini-3-pro");
    assert_eq!(body["contents"][1]["parts"][0]["thoughtSignature"], "skip_thought_signature_validator");
}

#[test]
fn instructions_alone_are_said_by_the_user() {
    let request = Request { system: vec!["do it".into()], ..Request::default() };
    let expected = json!({"contents": [{"role": "user", "parts": [{"text": "do it"}]}]});
    assert_eq!(written(&request, "gemini-3-pro"), expected);
    assert!(write(&Request::default(), "gemini-3-pro").is_err());
}

#[test]
fn a_result_is_an_object_and_no_number_of_it_is_rounded() {
    let response = |given: &str| {
        let turn = Turn { role: Role::User, parts: vec![result("c", "f", vec![text(given)], ToolOutcome::Ok)] };
        written(&asking(vec![turn]), "g")["contents"][0]["parts"][0]["functionResponse"]["response"].clone()
    };
    assert_eq!(response("{\"b\":1,\"a\":[0.5]}"), json!({"b": 1, "a": [0.5]}));
    for plain in ["", "yes", "[1]", "7", "{broken", "{\"n\":12345678901234567890123}", "{\"n\":[1e300]}"] {
        assert_eq!(response(plain), json!({"result": plain}), "{plain}");
    }
}

#[test]
fn schemas_go_as_plain_json_schema_but_to_claude() {
    let schema = json!({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": false});
    let request = with(|request| {
        request.tools = vec![tool("f", schema.clone()), tool("g", json!({"type": "object", "properties": {}}))];
        request.tool_choice = Some(ToolChoice::Function("f".into()));
        request.format = Some(Format::JsonSchema { name: "n".into(), schema: schema.clone(), strict: None });
    });
    let body = written(&request, "gemini-3-pro");
    assert_eq!(
        body["tools"],
        json!([{"functionDeclarations": [
            {"name": "f", "description": "d", "parametersJsonSchema": schema},
            {"name": "g", "description": "d"}
        ]}])
    );
    assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}));
    assert_eq!(body["generationConfig"], json!({"responseMimeType": "application/json", "responseJsonSchema": schema}));
    let body = written(&request, "claude-sonnet-5");
    let declarations = &body["tools"][0]["functionDeclarations"];
    assert_eq!(
        declarations[0]["parameters"]["properties"]["a"],
        json!({"enum": ["1"], "type": "STRING", "format": "enum"})
    );
    assert_eq!(declarations[1]["parameters"], json!({"type": "OBJECT", "properties": {}}));
    assert_eq!(body["generationConfig"]["responseSchema"]["type"], "OBJECT");
}

#[test]
fn a_choice_of_calls_has_its_mode() {
    for (choice, mode) in [(ToolChoice::Auto, "AUTO"), (ToolChoice::None, "NONE"), (ToolChoice::Any, "ANY")] {
        let request = with(|request| {
            request.tools = vec![tool("f", json!({}))];
            request.tool_choice = Some(choice.clone());
        });
        assert_eq!(written(&request, "g")["toolConfig"], json!({"functionCallingConfig": {"mode": mode}}));
        let without = write(&Request { tools: vec![], ..request }, "g");
        assert_eq!(without.is_err(), choice == ToolChoice::Any, "{choice:?}");
    }
}

#[test]
fn how_much_to_think_is_said_as_the_model_is_told() {
    let thinking = |model: &str, amount: Amount| {
        let request = with(|request| request.reasoning = Some(Reasoning { amount, visible: Visible::No }));
        written(&request, model)["generationConfig"]["thinkingConfig"].clone()
    };
    let level = |level: &str| json!({"thinkingLevel": level});
    let budget = |budget: i64| json!({"thinkingBudget": budget});
    for (model, amount, expected) in [
        ("gemini-3-pro", Amount::Effort(Effort::None), level("MINIMAL")),
        ("gemini-3-pro", Amount::Effort(Effort::XHigh), level("HIGH")),
        ("gemini-4-pro", Amount::Effort(Effort::Max), level("XHIGH")),
        ("gemini-3-pro", Amount::Budget(9_000), level("MEDIUM")),
        ("gemini-3-pro", Amount::Dynamic, Value::Null),
        ("gemini-2.5-flash", Amount::Effort(Effort::None), budget(0)),
        ("gemini-2.5-flash", Amount::Effort(Effort::XHigh), budget(24_576)),
        ("gemini-2.5-flash", Amount::Dynamic, budget(-1)),
        ("gemini-2.5-pro", Amount::Effort(Effort::None), budget(128)),
        ("gemini-2.5-pro", Amount::Effort(Effort::Max), budget(32_768)),
        ("gemini-2.5-flash-lite", Amount::Budget(3), budget(512)),
        ("gemini-2.0-flash", Amount::Effort(Effort::None), Value::Null),
        ("gemini-2.0-flash", Amount::Effort(Effort::Low), budget(1_024)),
        ("claude-opus-4-6", Amount::Effort(Effort::Low), budget(1_024)),
        ("claude-opus-4-6", Amount::Effort(Effort::Max), budget(-1)),
    ] {
        assert_eq!(thinking(model, amount), expected, "{model} {amount:?}");
    }
    let request = with(|request| {
        request.reasoning = Some(Reasoning { amount: Amount::Budget(2_000), visible: Visible::Yes });
        request.max_output = Some(500);
    });
    let config = written(&request, "claude-opus-4-6")["generationConfig"].clone();
    assert_eq!(config["thinkingConfig"], json!({"thinkingBudget": 2_000, "includeThoughts": true}));
    assert_eq!(config["maxOutputTokens"], 3_024);
}

#[test]
fn numbers_keep_their_kind() {
    let request = with(|request| {
        request.max_output = Some(9);
        request.sampling = Sampling {
            temperature: serde_json::Number::from_f64(1.0),
            top_k: Some(40.into()),
            seed: Some((-3).into()),
            stop: vec!["a".into()],
            choices: Some(2),
            ..Sampling::default()
        };
    });
    let body = String::from_utf8(write(&request, "g").unwrap().to_vec()).unwrap();
    let config = r#""generationConfig":{"temperature":1.0,"topK":40,"seed":-3,"stopSequences":["a"],"candidateCount":2,"maxOutputTokens":9}"#;
    assert!(body.contains(config), "{body}");
}

#[test]
fn what_gemini_cannot_say_is_named() {
    let url = |url: &str| asking(vec![Turn { role: Role::User, parts: vec![image(Source::Url(url.into()))] }]);
    for (request, field) in [
        (with(|request| _ = request.rest.insert("logit_bias".into(), json!({}))), "logit_bias"),
        (with(|request| request.sampling.stop = vec!["s".into(); 6]), "stop"),
        (
            with(|request| {
                request.answer = Answer::Stream;
                request.sampling.choices = Some(2);
            }),
            "n",
        ),
        (
            with(|request| {
                request.parallel_calls = Some(ParallelCalls::Forbidden);
                request.tools = vec![tool("f", json!({}))];
            }),
            "parallel_tool_calls",
        ),
        (with(|request| request.tool_choice = Some(ToolChoice::Function("f".into()))), "tool_choice"),
        (url("https://example.com/a.png"), "messages"),
        (url("https://example.com/?u=https://youtu.be/x"), "messages"),
    ] {
        assert_eq!(write(&request, "g").unwrap_err().field.as_deref(), Some(field));
    }
    assert!(write(&with(|request| request.parallel_calls = Some(ParallelCalls::Forbidden)), "g").is_ok());
    let body = written(&url("https://youtu.be/x"), "g");
    assert_eq!(body["contents"][0]["parts"], json!([{"fileData": {"fileUri": "https://youtu.be/x"}}]));
}
