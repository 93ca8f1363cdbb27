//! Into the common tongue and out of it.

use proptest::prelude::*;
use serde_json::{Value, json};
use shared::money::Tokens;

use super::*;
use crate::canonical::response::{Event, Finish};
use crate::dialect::anthropic::names::Names;
use crate::dialect::anthropic::stream::Reader;

fn start(index: usize, id: &str, name: &str) -> Event {
    Event::CallStart { index, id: id.into(), name: name.into(), signature: None }
}

fn more(index: usize, fragment: &str) -> Event {
    Event::CallArguments { index, fragment: fragment.into() }
}

fn text(text: &str) -> Event {
    Event::Text(text.into())
}

const USED: Tokens = Tokens {
    input: 25,
    cached_input: 4,
    cache_write: 2,
    output: 80,
    reasoning: 9,
    cache_write_1h: 0,
    input_audio: 0,
    output_audio: 0,
};

#[test]
fn a_stream_is_read_into_the_common_tongue() {
    let expected = vec![
        Event::Start(Some("msg_1".into())),
        Event::Thinking("Let me \"think\"…".into()),
        Event::ThinkingSignature("EqQBCgIYAhIM1+/==".into()),
        text("Grüße 😀"),
        text(" 北"),
        start(0, "toolu_1", "weather"),
        more(0, "{\"city\": \"San"),
        more(0, " Francisco\"}"),
        start(1, "toolu_2", "now"),
        more(1, "{}"),
        Event::Usage(USED),
        Event::Finish(Finish::ToolCalls),
    ];
    for ends in ["\n", "\r\n", "\r"] {
        let stream = STREAM.replace('\n', ends);
        let bytes = stream.as_bytes();
        for at in (0..bytes.len()).step_by(7) {
            assert_eq!(said(&[&bytes[..at], &bytes[at..]]).unwrap(), expected, "split at {at}");
        }
    }
}

#[test]
fn arguments_given_whole_at_the_beginning_of_a_call_are_kept() {
    let block = |input: &str| {
        format!(
            r#"{{"type":"content_block_start","index":4,"content_block":{{"type":"tool_use","id":"a","name":"f","input":{input}}}}}"#
        )
    };
    let stop = r#"{"type":"content_block_stop","index":4}"#;
    let delta =
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}}"#;
    let read = |events: &[&str]| {
        let mut reader = Reader::default();
        events.iter().flat_map(|data| reader.event(None, data.as_bytes()).unwrap()).collect::<Vec<Event>>()
    };
    assert_eq!(read(&[&block(r#"{"a":1}"#), stop]), vec![start(0, "a", "f"), more(0, r#"{"a":1}"#)]);
    assert_eq!(read(&[&block(r#"{"a":1}"#), delta, stop]), vec![start(0, "a", "f"), more(0, r#"{"b":2}"#)]);
    assert_eq!(read(&[&block("null"), stop]), vec![start(0, "a", "f"), more(0, "{}")]);
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#;
    let finish = Event::Finish(Finish::ToolCalls);
    assert_eq!(read(&[&block("{}"), end]), vec![start(0, "a", "f"), more(0, "{}"), finish], "a block that never stops");
}

#[test]
fn blocks_of_tools_that_run_elsewhere_and_unknown_ones_are_skipped() {
    let mut reader = Reader::default();
    for data in [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{}}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"brand_new","delta":7}"#,
    ] {
        let read = reader.event(None, data.as_bytes());
        assert!(read.as_ref().is_ok_and(Vec::is_empty) || data.contains("brand_new"), "{data}: {read:?}");
    }
    let nameless = br#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a"}}"#;
    assert!(reader.event(None, nameless).is_err());
}

/// The data of written events.
fn data(out: &str) -> Vec<Value> {
    let event = |event: &str| {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name, "every event bears its type as its name");
        data
    };
    out.split_terminator("\n\n").map(event).collect()
}

/// A message put together from its stream, as the vendor's clients do it. Checks that blocks are numbered without gaps and that one
/// is open at a time.
fn assembled(out: &str) -> (Vec<Value>, Value) {
    let events = data(out);
    assert_eq!(events.first().unwrap()["type"], "message_start");
    assert!(events[0]["message"]["usage"]["input_tokens"].is_u64());
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    let mut blocks: Vec<Value> = Vec::new();
    let mut open = None;
    for event in &events[1..events.len() - 2] {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((open, &event["index"]), (None, &json!(blocks.len())));
                open = Some(blocks.len());
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(event["index"], json!(open.unwrap()));
                let (block, delta) = (blocks.last_mut().unwrap(), &event["delta"]);
                let (from, to) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "input_json_delta" => ("partial_json", "json"),
                    other => panic!("{other}"),
                };
                let joined = format!("{}{}", block[to].as_str().unwrap_or_default(), delta[from].as_str().unwrap());
                block[to] = joined.into();
            }
            "content_block_stop" => {
                assert_eq!(event["index"], json!(open.unwrap()));
                open = None;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(open, None);
    (blocks, events[events.len() - 2].clone())
}

#[test]
fn a_stream_survives_the_way_through_the_common_tongue() {
    let events = said(&[STREAM.as_bytes()]).unwrap();
    let (blocks, last) = assembled(&written(&events));
    assert_eq!(
        blocks,
        vec![
            json!({"type": "thinking", "thinking": "Let me \"think\"…", "signature": ""}),
            json!({"type": "text", "text": "Grüße 😀 北"}),
            json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}, "json": "{\"city\": \"San Francisco\"}"}),
            json!({"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}, "json": "{}"}),
        ]
    );
    assert_eq!(last["delta"], json!({"stop_reason": "tool_use", "stop_sequence": null}));
    let usage = json!({"input_tokens": 25, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4,
        "output_tokens": 89, "output_tokens_details": {"thinking_tokens": 9}});
    assert_eq!(last["usage"], usage);
}

#[test]
fn the_bytes_of_a_written_stream_are_these() {
    let events = [
        Event::Start(Some("chatcmpl-1".into())),
        text(""),
        text("a\n"),
        Event::Usage(Tokens { input: 3, output: 1, ..Tokens::default() }),
        Event::Finish(Finish::StopText(Some("END".into()))),
        text("never"),
        Event::Usage(Tokens { input: 3, output: 2, ..Tokens::default() }),
    ];
    let expected = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_0190ab","type":"message","role":"assistant","model":"mine","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\n"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"},"usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

"#;
    assert_eq!(written(&events), expected);
}

#[test]
fn an_answer_of_nothing_is_whole_too() {
    let (blocks, last) = assembled(&written(&[Event::Start(None), Event::Finish(Finish::Refused)]));
    assert!(blocks.is_empty());
    assert_eq!(last["delta"]["stop_reason"], "refusal");
    assert_eq!(last["usage"]["output_tokens"], 0, "a usage is always there");
}

#[test]
fn the_first_call_is_passed_on_as_it_comes_and_the_next_as_soon_as_it_is_whole() {
    let mut writer = super::super::Writer::new("m", "r");
    let mut step = |event: Event| {
        let mut out = Vec::new();
        writer.write(&event, &mut out);
        String::from_utf8(out).unwrap().matches("event: ").count()
    };
    assert_eq!(step(start(0, "a", "f")), 2, "message_start and content_block_start");
    assert_eq!(step(more(0, "{\"x\":\"}\\\"\"")), 1);
    assert_eq!(step(start(1, "b", "g")), 0, "it waits");
    assert_eq!(step(more(1, "{\"y\":")), 0);
    assert_eq!(step(text("later")), 0);
    assert_eq!(step(more(0, "}")), 4, "its delta and stop, then the second call's start and delta");
    assert_eq!(step(more(1, "1}")), 4, "its delta and stop, then the text's start and delta");
    assert_eq!(step(text(" on")), 1);
}

#[test]
fn functions_get_their_own_names_back() {
    let mut request = crate::canonical::request::Request::default();
    for name in ["a.b", "a_b", "plain"] {
        let parameters = json!({"type": "object"});
        let tool = crate::canonical::request::Tool { name: name.into(), description: None, parameters, strict: None };
        request.tools.push(tool);
    }
    let names = Names::of(&request);
    let sent = names.sent("a.b").to_owned();
    assert!(sent.starts_with("a_b_") && sent.len() < 30, "{sent}");
    assert_eq!((names.sent("plain"), names.sent("a_b")), ("plain", "a_b"));
    let block = format!(
        r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"a","name":"{sent}"}}}}"#
    );
    assert_eq!(Reader::new(names).event(None, block.as_bytes()).unwrap(), vec![start(0, "a", "a.b")]);
}

/// Arguments of some calls, cut into fragments and dealt out in any order that keeps each call's own.
fn interleaved() -> impl Strategy<Value = (Vec<String>, Vec<Event>)> {
    let arguments = prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        ("[a-z\"\\\\{}\\[\\]é😀 ]{0,12}", 0..9_u32)
            .prop_map(|(text, number)| json!({"k": text, "n": [{"x": number}]}).to_string()),
        "[{}\"\\\\a ]{0,12}",
    ];
    let calls = proptest::collection::vec(arguments, 1..5);
    (calls, proptest::collection::vec(any::<(u16, u8, bool)>(), 0..60)).prop_map(|(calls, choices)| {
        let mut rest: Vec<&str> = calls.iter().map(String::as_str).collect();
        let mut started = 0;
        let mut events = Vec::new();
        for (which, length, speaks) in choices {
            let which = usize::from(which) % (started + 1);
            if which == started && started < calls.len() {
                events.push(start(started, &format!("id{started}"), "f"));
                started += 1;
            } else if which < started {
                let at =
                    rest[which].char_indices().nth(usize::from(length % 5)).map_or(rest[which].len(), |(at, _)| at);
                let (fragment, left) = rest[which].split_at(at);
                events.push(more(which, fragment));
                rest[which] = left;
            }
            if speaks && length % 7 == 0 {
                events.push(text("w"));
            }
        }
        for which in started..calls.len() {
            events.push(start(which, &format!("id{which}"), "f"));
        }
        events.extend(rest.iter().enumerate().map(|(which, left)| more(which, left)));
        events.push(Event::Finish(Finish::ToolCalls));
        (calls, events)
    })
}

proptest! {
    #[test]
    fn the_arguments_of_interleaved_calls_stay_whole((calls, events) in interleaved()) {
        let words = events.iter().filter(|event| matches!(event, Event::Text(_))).count();
        let (blocks, _) = assembled(&written(&events));
        let found: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_use").collect();
        prop_assert_eq!(found.len(), calls.len());
        for (nth, (block, arguments)) in found.iter().zip(&calls).enumerate() {
            prop_assert_eq!(&block["id"], &json!(format!("id{nth}")));
            // Of arguments that are whole before their end, only what follows the end may be left out.
            let got = block["json"].as_str().unwrap_or_default();
            let valid = serde_json::from_str::<Value>(arguments).is_ok();
            prop_assert!(if valid { got == arguments } else { arguments.starts_with(got) }, "{arguments} became {got}");
        }
        let spoken: usize = blocks.iter().filter_map(|block| block["text"].as_str()).map(str::len).sum();
        prop_assert_eq!(spoken, words);
    }
}
