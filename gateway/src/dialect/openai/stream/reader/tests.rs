use proptest::prelude::*;
use serde_json::json;
use shared::money::Tokens;

use super::*;
use crate::dialect::openai::request::read::any_json;

/// A chunk with this delta.
fn delta(delta: &Value) -> String {
    json!({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn calls(calls: &Value) -> String {
    delta(&json!({"tool_calls": calls}))
}

/// All events of a stream of these data, its end included.
fn read_with(mut reader: Reader, stream: &[String]) -> Result<Vec<Event>, Box<UpstreamError>> {
    let mut events = Vec::new();
    for data in stream {
        events.extend(reader.event(None, data.as_bytes())?);
    }
    events.extend(reader.end()?);
    Ok(events)
}

fn read(stream: &[String]) -> Vec<Event> {
    read_with(Reader::default(), stream).unwrap()
}

fn error(stream: &[String]) -> UpstreamError {
    *read_with(Reader::default(), stream).unwrap_err()
}

fn start() -> Event {
    Event::Start(Some("c1".into()))
}

fn call(index: usize, id: &str, name: &str) -> Event {
    Event::CallStart { index, id: id.into(), name: name.into(), signature: None }
}

fn arguments(index: usize, fragment: &str) -> Event {
    Event::CallArguments { index, fragment: fragment.into() }
}

#[test]
fn text_thought_refusal_usage_and_end_are_read() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}).to_string();
    let stream = [
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "hm"})),
        delta(&json!({"content": "Grüße", "reasoning": "so"})),
        delta(&json!({"content": [{"type": "text", "text": "!"}], "refusal": null})),
        finish("length"),
        usage,
        "[DONE]".into(),
    ];
    let tokens = Tokens { input: 5, output: 2, ..Tokens::default() };
    let expected = [
        start(),
        Event::Thinking("hm".into()),
        Event::Thinking("so".into()),
        Event::Text("Grüße".into()),
        Event::Text("!".into()),
        Event::Usage(tokens),
        Event::Finish(Finish::Length),
    ];
    assert_eq!(read(&stream), expected);
    let refusal = [delta(&json!({"refusal": "no"})), finish("stop")];
    assert_eq!(read(&refusal)[1..], [Event::Refusal("no".into()), Event::Finish(Finish::Refused)]);
}

#[test]
fn interleaved_calls_keep_their_arguments_apart() {
    let stream = [
        calls(&json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}])),
        calls(
            &json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}}, {"index": 0, "function": {"arguments": "[1"}}]),
        ),
        calls(&json!([{"index": 1, "function": {"arguments": "}"}}])),
        calls(&json!([{"index": 0, "function": {"arguments": "]"}}])),
        finish("tool_calls"),
    ];
    let expected = [
        start(),
        call(0, "a", "f"),
        call(1, "b", "g"),
        arguments(1, "{"),
        arguments(0, "[1"),
        arguments(1, "}"),
        arguments(0, "]"),
        Event::Finish(Finish::ToolCalls),
    ];
    assert_eq!(read(&stream), expected);
}

#[test]
fn odd_calls_are_understood() {
    // All of a call at once; every call numbered 0; no number; arguments before the name; arguments as an object; a stop that calls.
    let whole = |id: &str| json!({"index": 0, "id": id, "function": {"name": "f", "arguments": "{}"}});
    let nameless = json!({"index": 5, "function": {"arguments": "{\"a\""}});
    let named = json!({"index": 5, "id": "d", "function": {"name": "g", "arguments": ":1}"}});
    let stream = [
        calls(&json!([whole("a"), whole("b")])),
        calls(&json!([{"id": "c", "function": {"name": "f", "arguments": {"x": 1}}}])),
        calls(&json!([{"function": {"arguments": " "}}])),
        calls(&json!([nameless])),
        calls(&json!([named])),
        finish("stop"),
    ];
    let expected = [
        start(),
        call(0, "a", "f"),
        arguments(0, "{}"),
        call(1, "b", "f"),
        arguments(1, "{}"),
        call(2, "c", "f"),
        arguments(2, "{\"x\":1}"),
        arguments(2, " "),
        call(3, "d", "g"),
        arguments(3, "{\"a\""),
        arguments(3, ":1}"),
        Event::Finish(Finish::ToolCalls),
    ];
    assert_eq!(read(&stream), expected);
}

#[test]
fn a_call_without_an_id_gets_one_and_functions_of_old_are_calls() {
    let stream = [
        delta(&json!({"function_call": {"name": "f", "arguments": ""}})),
        delta(&json!({"function_call": {"arguments": "{}"}})),
        finish("function_call"),
    ];
    let events = read(&stream);
    let Event::CallStart { id, .. } = &events[1] else { panic!("{events:?}") };
    assert!(id.starts_with("call_") && id.len() <= 40);
    assert_eq!(events[2..], [arguments(0, "{}"), Event::Finish(Finish::ToolCalls)]);
    assert_eq!(events, read(&stream));
}

#[test]
fn signatures_and_own_names_come_home() {
    use crate::canonical::request::{Request, Tool};
    let tool = Tool { name: "ns.f".into(), description: None, parameters: json!({}), strict: None };
    let names = Names::of(&Request { tools: vec![tool], ..Request::default() });
    let signed = json!([{"index": 0, "id": "a", "function": {"name": "ns_f"},
        "extra_content": {"google": {"thought_signature": "c2ln"}}}]);
    let events = read_with(Reader::new(names), &[calls(&signed), finish("tool_calls")]).unwrap();
    let expected = Event::CallStart { index: 0, id: "a".into(), name: "ns.f".into(), signature: Some("c2ln".into()) };
    assert_eq!(events[1], expected);
}

#[test]
fn a_stream_that_breaks_off_is_never_whole() {
    let text = delta(&json!({"content": "a"}));
    let role = delta(&json!({"role": "assistant"}));
    for (stream, transport) in [
        (vec![], Transport::Empty),
        (vec![role.clone()], Transport::Empty),
        (vec![role, "[DONE]".into()], Transport::Empty),
        (vec![text.clone()], Transport::Truncated),
        (vec![text.clone(), "<html>".into()], Transport::NotTheFormat),
        (vec![text.clone(), finish("error")], Transport::ErrorInSuccess),
        (vec![text.clone(), json!({"error": {"message": "x"}}).to_string()], Transport::ErrorInSuccess),
        (vec![calls(&json!([{"index": 0, "function": {"arguments": "{}"}}])), finish("stop")], Transport::NotTheFormat),
        (vec![calls(&json!([7]))], Transport::NotTheFormat),
    ] {
        assert_eq!(error(&stream).signals.transport, Some(transport), "{stream:?}");
    }
    // Said by `[DONE]` alone, or by the reason alone.
    assert_eq!(read(&[text.clone(), "[DONE]".into()]).last(), Some(&Event::Finish(Finish::Stop)));
    assert_eq!(read(&[text, finish("content_filter")]).last(), Some(&Event::Finish(Finish::Filtered)));
    assert_eq!(read(&[finish("stop")]), [start(), Event::Finish(Finish::Stop)]);
}

#[test]
fn the_end_is_over_only_after_done() {
    let mut reader = Reader::default();
    reader.event(None, finish("stop").as_bytes()).unwrap();
    assert!(reader.is_whole() && !reader.is_over());
    assert_eq!(reader.event(None, b"[DONE]").unwrap(), [Event::Finish(Finish::Stop)]);
    assert!(reader.is_over());
    assert_eq!(reader.event(None, b"{\"error\":1}").unwrap(), []);
    assert_eq!(reader.end().unwrap(), []);
}

proptest! {
    /// Any cut of the arguments of any number of calls, woven in any order.
    #[test]
    fn arguments_survive_any_interleaving(
        texts in prop::collection::vec(prop::collection::vec("[a-z{}\",:é]{0,4}", 1..5), 1..5), seed in any::<prop::sample::Index>(),
    ) {
        let mut left: Vec<(usize, usize)> = texts.iter().enumerate().map(|(call, _)| (call, 0)).collect();
        let mut stream = Vec::new();
        let mut turn = seed.index(1 << 20);
        while !left.is_empty() {
            turn = turn * 1_103_515_245 % 2_147_483_647 + 12_345;
            let nth = turn % left.len();
            let (call, at) = left[nth];
            let mut fragment = json!({"index": call, "function": {"arguments": texts[call][at]}});
            if at == 0 {
                fragment["id"] = format!("id{call}").into();
                fragment["function"]["name"] = format!("f{call}").into();
            }
            stream.push(calls(&json!([fragment])));
            if at + 1 == texts[call].len() { left.remove(nth); } else { left[nth].1 += 1; }
        }
        stream.push(finish("tool_calls"));
        let mut found = vec![(String::new(), String::new()); texts.len()];
        for event in read(&stream) {
            match event {
                Event::CallStart { index, id, .. } => found[index].0 = id,
                Event::CallArguments { index, fragment } => found[index].1.push_str(&fragment),
                _ => {}
            }
        }
        for (call, fragments) in texts.iter().enumerate() {
            prop_assert!(found.contains(&(format!("id{call}"), fragments.concat())), "{:?}", found);
        }
    }

    #[test]
    fn no_stream_makes_it_panic(data in prop::collection::vec(any_json(), 0..4), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut reader = Reader::default();
        let _ = reader.event(None, &bytes);
        for data in &data {
            let _ = reader.event(None, delta(data).as_bytes());
            let _ = reader.event(None, calls(&json!([data])).as_bytes());
            let _ = reader.event(Some(b"x"), data.to_string().as_bytes());
        }
        let _ = reader.end();
    }
}
