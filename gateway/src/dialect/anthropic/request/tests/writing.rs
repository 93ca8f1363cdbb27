//! From the common tongue to an upstream.

use serde_json::{Map, Value, json};

use super::FULL;
use crate::canonical::request::*;
use crate::dialect::Answer;
use crate::dialect::anthropic::request::{
    Sampling as TakesSampling, Target, ThinkingForm, Thoughts, read, write, write_count,
};
use crate::error::BadRequest;

const CLASSIC: Target = Target {
    sampling: TakesSampling::Taken,
    thinking: ThinkingForm::Budget,
    thoughts: Thoughts::Foreign,
    max_output: None,
};
const MODERN: Target = Target { sampling: TakesSampling::Refused, thinking: ThinkingForm::Adaptive, ..CLASSIC };

fn sent(request: &Request, target: &Target) -> Result<Value, BadRequest> {
    write(request, "up", target).map(|body| serde_json::from_slice(&body).unwrap())
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn turn(role: Role, parts: Vec<Part>) -> Turn {
    Turn { role, parts }
}

fn call(id: &str, name: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: Map::new(), signature: Some("g".into()) })
}

fn result(id: &str, said: &str) -> Part {
    let content = vec![text(said)];
    Part::ToolResult(ToolResult { id: id.into(), name: "f".into(), content, outcome: ToolOutcome::Ok })
}

fn function(name: &str) -> Tool {
    Tool { name: name.into(), description: None, parameters: json!({"type": "object"}), strict: Some(Strict::Yes) }
}

fn hello() -> Request {
    Request { turns: vec![turn(Role::User, vec![text("Hi")])], ..Request::default() }
}

fn thinks(amount: Amount) -> Request {
    Request { reasoning: Some(Reasoning { amount, visible: Visible::Yes }), ..hello() }
}

#[test]
fn a_request_that_was_read_is_written_with_everything_it_said() {
    let mut request = read(FULL.as_bytes()).unwrap();
    request.reasoning = None;
    let body = sent(&request, &Target { thoughts: Thoughts::Own, ..CLASSIC }).unwrap();
    let mut expected: Value = serde_json::from_str(FULL).unwrap();
    let fields = expected.as_object_mut().unwrap();
    for gone in ["thinking", "service_tier", "mcp_servers", "container", "context_management"] {
        fields.remove(gone);
    }
    expected["model"] = json!("up");
    expected["system"] = json!([{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]);
    expected["messages"][0]["content"] = json!([{"type": "text", "text": "Hi"}]);
    let calls = &mut expected["messages"][1]["content"];
    calls[2] = json!({"type": "text", "text": "Calling."});
    calls[3].as_object_mut().unwrap().remove("caller");
    let results = &mut expected["messages"][2]["content"];
    results[0]["content"][1]["source"]["data"] = json!("+/8=");
    results[1] = json!({"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true,
        "content": [{"type": "text", "text": "broken"}]});
    results[5] = json!({"type": "text", "text": "Old."});
    let list = results.as_array_mut().unwrap();
    list.push(json!({"type": "text", "text": "Note"}));
    list.push(json!({"type": "text", "text": "words"}));
    expected["messages"][3]["content"] = json!([{"type": "text", "text": "From now on in verse."}]);
    expected["messages"][4]["content"] = json!([{"type": "text", "text": "Roses"}]);
    expected["tools"][0].as_object_mut().unwrap().remove("eager_input_streaming");
    expected["tools"][1] = json!({"name": "now", "input_schema": {"type": "object"}});
    let schema = json!({"type": "object", "additionalProperties": false});
    expected["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    assert_eq!(body, expected);
    assert_eq!(write(&request, "up", &CLASSIC).unwrap(), write(&request, "up", &CLASSIC).unwrap());
}

#[test]
fn thoughts_of_others_are_left_out() {
    let body = sent(&read(FULL.as_bytes()).unwrap(), &Target { sampling: TakesSampling::Taken, ..MODERN }).unwrap();
    let kinds: Vec<&Value> = body["messages"][1]["content"].as_array().unwrap().iter().map(|b| &b["type"]).collect();
    assert_eq!(kinds, ["text", "tool_use", "tool_use"]);
    assert_eq!(body["output_config"]["effort"], "high");
}

#[test]
fn a_conversation_begins_with_the_user_and_neighbours_are_one() {
    use Role::{Assistant, System, User};
    for (turns, expected) in [
        (vec![], json!([["user", "Begin."]])),
        (vec![turn(System, vec![text("Be")])], json!([["user", "Begin."], ["system", "Be"]])),
        (
            vec![turn(Assistant, vec![text("Hello")]), turn(User, vec![text("a")])],
            json!([["user", "Begin."], ["assistant", "Hello"], ["user", "a"]]),
        ),
        (vec![turn(User, vec![text("a")]), turn(User, vec![text("b"), text(" ")])], json!([["user", "a", "b"]])),
        (
            vec![turn(User, vec![text("a")]), turn(Assistant, vec![text("")]), turn(User, vec![text("b")])],
            json!([["user", "a", "b"]]),
        ),
        (
            vec![turn(User, vec![text("a")]), turn(Assistant, vec![Part::Refusal("No".into()), text("x \n")])],
            json!([["user", "a"], ["assistant", "No", "x"]]),
        ),
    ] {
        let body = sent(&Request { turns, ..Request::default() }, &CLASSIC).unwrap();
        let flat = |message: &Value| {
            let mut words = vec![message["role"].clone()];
            match &message["content"] {
                Value::Array(blocks) => words.extend(blocks.iter().map(|block| block["text"].clone())),
                other => words.push(other.clone()),
            }
            Value::Array(words)
        };
        let found: Vec<Value> = body["messages"].as_array().unwrap().iter().map(flat).collect();
        assert_eq!(json!(found), expected);
    }
}

#[test]
fn all_results_of_a_turn_come_first_in_one_user_message_right_after_the_calls() {
    let turns = vec![
        turn(Role::User, vec![text("go")]),
        turn(Role::Assistant, vec![call("a", "f")]),
        turn(Role::Assistant, vec![call("b", "g")]),
        turn(Role::System, vec![text("careful")]),
        turn(Role::User, vec![text("well"), result("a", "1")]),
        turn(Role::User, vec![result("b", "2")]),
        turn(Role::User, vec![text("then")]),
    ];
    let body = sent(&Request { turns, ..Request::default() }, &CLASSIC).unwrap();
    let shape = |message: &Value| {
        let blocks = message["content"].as_array().unwrap().iter();
        let word = |block: &Value| {
            let word = block.get("id").or_else(|| block.get("tool_use_id")).or_else(|| block.get("text"));
            word.and_then(Value::as_str).unwrap().to_owned()
        };
        format!("{}: {}", message["role"].as_str().unwrap(), blocks.map(word).collect::<Vec<_>>().join(" "))
    };
    let found: Vec<String> = body["messages"].as_array().unwrap().iter().map(shape).collect();
    assert_eq!(found, ["user: go", "assistant: a b", "user: a b well", "system: careful", "user: then"]);
    // Nothing is offered, but what was called must be known.
    let stub = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    assert_eq!((&body["tools"], &body["tool_choice"]), (&json!([stub("f"), stub("g")]), &json!({"type": "none"})));
}

#[test]
fn odd_ids_and_names_are_replaced_everywhere_alike() {
    let id = "call:1|rs_0".to_owned() + &"x".repeat(80);
    let turns = vec![turn(Role::Assistant, vec![call(&id, "files.read")]), turn(Role::User, vec![result(&id, "1")])];
    let tools = vec![function("files.read")];
    let tool_choice = Some(ToolChoice::Function("files.read".into()));
    let body = sent(&Request { turns, tools, tool_choice, ..Request::default() }, &CLASSIC).unwrap();
    let used = &body["messages"][1]["content"][0];
    assert_eq!(used["id"], body["messages"][2]["content"][0]["tool_use_id"]);
    assert!(used["id"].as_str().unwrap().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    for name in [&used["name"], &body["tools"][0]["name"], &body["tool_choice"]["name"]] {
        assert_eq!(name, "files_read");
    }
    assert_eq!(body["tools"][0].get("strict"), None);
}

#[test]
fn a_choice_of_tools_carries_whether_several_may_be_called() {
    let single = Some(ParallelCalls::Forbidden);
    for (tool_choice, parallel_calls, expected) in [
        (None, None, Value::Null),
        (None, single, json!({"type": "auto", "disable_parallel_tool_use": true})),
        (None, Some(ParallelCalls::Allowed), Value::Null),
        (Some(ToolChoice::Auto), None, json!({"type": "auto"})),
        (Some(ToolChoice::Any), single, json!({"type": "any", "disable_parallel_tool_use": true})),
        (Some(ToolChoice::None), single, json!({"type": "none"})),
        (Some(ToolChoice::Function("f".into())), None, json!({"type": "tool", "name": "f"})),
    ] {
        let request = Request { tools: vec![function("f")], tool_choice, parallel_calls, ..hello() };
        assert_eq!(sent(&request, &CLASSIC).unwrap()["tool_choice"], expected);
    }
    let request = Request { tool_choice: Some(ToolChoice::Auto), parallel_calls: single, ..hello() };
    let body = sent(&request, &CLASSIC).unwrap();
    assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None), "no choice where nothing is offered");
}

#[test]
fn a_budget_fits_below_the_limit_of_the_answer_and_never_raises_it() {
    for (amount, max_output, config, max_tokens) in [
        (Amount::Effort(Effort::None), None, json!({"type": "disabled"}), 4_096),
        (Amount::Budget(0), Some(10), json!({"type": "disabled"}), 10),
        (Amount::Effort(Effort::Minimal), None, json!({"type": "enabled", "budget_tokens": 1_024}), 5_120),
        (Amount::Effort(Effort::Medium), None, json!({"type": "enabled", "budget_tokens": 8_192}), 12_288),
        (Amount::Effort(Effort::Max), None, json!({"type": "enabled", "budget_tokens": 32_768}), 36_864),
        (Amount::Dynamic, None, json!({"type": "enabled", "budget_tokens": 8_192}), 12_288),
        (Amount::Budget(2_000), Some(3_000), json!({"type": "enabled", "budget_tokens": 2_000}), 3_000),
        (Amount::Effort(Effort::High), Some(6_000), json!({"type": "enabled", "budget_tokens": 3_000}), 6_000),
        (Amount::Effort(Effort::High), Some(1_500), json!({"type": "enabled", "budget_tokens": 1_024}), 1_500),
        (Amount::Effort(Effort::High), Some(1_024), json!({"type": "disabled"}), 1_024),
    ] {
        let body = sent(&Request { max_output, ..thinks(amount) }, &CLASSIC).unwrap();
        assert_eq!(
            (&body["thinking"], &body["max_tokens"]),
            (&config, &json!(max_tokens)),
            "{amount:?} {max_output:?}"
        );
    }
    let small = Target { max_output: Some(32_000), ..CLASSIC };
    let body = sent(&thinks(Amount::Effort(Effort::Max)), &small).unwrap();
    assert_eq!((&body["thinking"]["budget_tokens"], &body["max_tokens"]), (&json!(16_000), &json!(32_000)));
    assert_eq!(sent(&hello(), &CLASSIC).unwrap().get("thinking"), None);
}

#[test]
fn a_model_that_thinks_by_itself_is_told_a_level() {
    for (amount, effort) in [
        (Amount::Dynamic, Value::Null),
        (Amount::Effort(Effort::Minimal), json!("low")),
        (Amount::Effort(Effort::XHigh), json!("xhigh")),
        (Amount::Effort(Effort::Max), json!("max")),
        (Amount::Budget(9_000), json!("medium")),
    ] {
        let body = sent(&thinks(amount), &MODERN).unwrap();
        assert_eq!(body["thinking"], json!({"type": "adaptive", "display": "summarized"}));
        assert_eq!((&body["output_config"]["effort"], &body["max_tokens"]), (&effort, &json!(4_096)), "{amount:?}");
    }
    let body = sent(&thinks(Amount::Effort(Effort::None)), &MODERN).unwrap();
    assert_eq!((&body["thinking"], body.get("output_config")), (&json!({"type": "disabled"}), None));
}

#[test]
fn thinking_yields_to_a_forced_call_and_to_a_loop_that_began_without() {
    let forced = Request {
        tools: vec![function("f")],
        tool_choice: Some(ToolChoice::Any),
        ..thinks(Amount::Effort(Effort::High))
    };
    for target in [CLASSIC, MODERN] {
        assert_eq!(sent(&forced, &target).unwrap()["thinking"], json!({"type": "disabled"}));
    }
    let thought = Thinking { text: "Hm".into(), signature: Some("s".into()), redacted: None };
    let mut request = thinks(Amount::Effort(Effort::High));
    request.tools = vec![function("f")];
    request.turns.push(turn(Role::Assistant, vec![Part::Thinking(thought), call("a", "f")]));
    request.turns.push(turn(Role::User, vec![result("a", "1")]));
    let kind = |target| sent(&request, target).unwrap()["thinking"]["type"].clone();
    assert_eq!(kind(&CLASSIC), "disabled");
    assert_eq!(kind(&MODERN), "adaptive");
    let own = Target { thoughts: Thoughts::Own, ..CLASSIC };
    assert_eq!(kind(&own), "enabled");
    let first = &sent(&request, &own).unwrap()["messages"][1]["content"][0];
    assert_eq!(first, &json!({"type": "thinking", "thinking": "Hm", "signature": "s"}));
}

fn draws(sampling: Sampling) -> Request {
    Request { sampling, ..hello() }
}

fn number(text: &str) -> Option<serde_json::Number> {
    text.parse().ok()
}

#[test]
fn sampling_is_sent_where_it_is_taken_and_neutral_values_nowhere() {
    let sampling =
        |temperature, top_p| Sampling { temperature: number(temperature), top_p: number(top_p), ..Sampling::default() };
    for (temperature, sent_as) in
        [("0.2", json!(0.2)), ("0", json!(0)), ("1", Value::Null), ("1.7", Value::Null), ("-1", json!(0))]
    {
        let body = sent(&draws(sampling(temperature, "1.0")), &CLASSIC).unwrap();
        assert_eq!((&body["temperature"], body.get("top_p")), (&sent_as, None), "{temperature}");
    }
    let body = sent(&draws(sampling("1.0", "1")), &MODERN).unwrap();
    assert_eq!((body.get("temperature"), body.get("top_p")), (None, None));
    let zero = Sampling {
        presence_penalty: number("0.0"),
        frequency_penalty: number("0"),
        choices: Some(1),
        ..Sampling::default()
    };
    assert!(sent(&draws(zero), &MODERN).is_ok());
}

#[test]
fn what_cannot_be_said_is_refused_by_name() {
    let one = |sampling: Sampling| draws(sampling);
    let mut rest = Map::new();
    rest.insert("logit_bias".into(), json!({"50256": -100}));
    let file = |mime: &str| {
        let source = Source::Inline { mime: mime.into(), data: "AA==".into() };
        Part::File(Media { source, name: None, detail: None })
    };
    let with = |role, part| Request {
        turns: vec![turn(Role::User, vec![text("a")]), turn(role, vec![part])],
        ..Request::default()
    };
    let local = Media { source: Source::Url("gs://b/o".into()), name: None, detail: None };
    let png =
        Media { source: Source::Inline { mime: "image/png".into(), data: "AA==".into() }, name: None, detail: None };
    let refused = [
        ("n", one(Sampling { choices: Some(2), ..Sampling::default() })),
        ("seed", one(Sampling { seed: number("7"), ..Sampling::default() })),
        ("presence_penalty", one(Sampling { presence_penalty: number("0.5"), ..Sampling::default() })),
        ("frequency_penalty", one(Sampling { frequency_penalty: number("-1"), ..Sampling::default() })),
        ("stop", one(Sampling { stop: vec!["\n".into()], ..Sampling::default() })),
        ("logit_bias", Request { rest, ..hello() }),
        ("response_format", Request { format: Some(Format::JsonObject), ..hello() }),
        ("tool_choice", Request { tool_choice: Some(ToolChoice::Any), ..hello() }),
        ("messages", with(Role::User, file("audio/wav"))),
        ("messages", with(Role::User, file("image/tiff"))),
        ("messages", with(Role::User, Part::Image(local))),
        ("messages", with(Role::Assistant, Part::Image(png))),
        ("messages", with(Role::System, call("a", "f"))),
    ];
    for (field, request) in refused {
        let fault = sent(&request, &CLASSIC).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some(field), "{fault}");
    }
    for field in ["temperature", "top_p", "top_k"] {
        let mut sampling = Sampling::default();
        let place = match field {
            "temperature" => &mut sampling.temperature,
            "top_p" => &mut sampling.top_p,
            _ => &mut sampling.top_k,
        };
        *place = number("0.5");
        let request = draws(sampling);
        assert_eq!(sent(&request, &MODERN).unwrap_err().field.as_deref(), Some(field));
        let thinking = Request { reasoning: thinks(Amount::Dynamic).reasoning, ..request };
        assert_eq!(sent(&thinking, &CLASSIC).unwrap_err().field.as_deref(), Some(field));
    }
}

#[test]
fn files_become_documents_and_texts_stay_readable() {
    let file = |mime: &str, data: &str| {
        let source = Source::Inline { mime: mime.into(), data: data.into() };
        Part::File(Media { source, name: Some("n".into()), detail: None })
    };
    let image = Media {
        source: Source::Inline { mime: "image/JPG".into(), data: "AA==".into() },
        name: None,
        detail: Some("low".into()),
    };
    let parts = vec![file("application/pdf", "JVBERg=="), file("text/csv; charset=utf-8", "YSxi"), Part::Image(image)];
    let body = sent(&Request { turns: vec![turn(Role::User, parts)], ..Request::default() }, &CLASSIC).unwrap();
    assert_eq!(
        body["messages"][0]["content"],
        json!([
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}, "title": "n"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}, "title": "n"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AA=="}},
        ])
    );
    let broken = Request { turns: vec![turn(Role::User, vec![file("text/plain", "%%")])], ..Request::default() };
    assert_eq!(sent(&broken, &CLASSIC).unwrap_err().field.as_deref(), Some("messages"));
}

#[test]
fn a_count_asks_for_the_prompt_alone() {
    let request = Request {
        max_output: Some(9),
        answer: Answer::Stream,
        user: Some("u".into()),
        system: vec!["Be".into()],
        sampling: Sampling { temperature: number("0.5"), stop: vec!["x".into()], ..Sampling::default() },
        tools: vec![function("f")],
        ..hello()
    };
    let body: Value = serde_json::from_slice(&write_count(&request, "up", &MODERN).unwrap()).unwrap();
    let fields: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["model", "system", "tools", "messages"]);
    let whole = sent(&Request { sampling: Sampling::default(), ..request }, &MODERN).unwrap();
    assert_eq!((&whole["stream"], &whole["metadata"]), (&json!(true), &json!({"user_id": "u"})));
}
