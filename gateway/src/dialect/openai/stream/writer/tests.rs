use proptest::prelude::*;
use shared::money::Tokens;

use super::*;
use crate::canonical::response::Finish;
use crate::dialect::openai::names::Names;
use crate::dialect::openai::stream::Reader;
use crate::dialect::translate::ReadEvents;

const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

fn written(events: &[Event], usage_chunk: UsageChunk) -> String {
    let mut writer = Writer::new("my \"m\"", REQUEST, usage_chunk);
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    writer.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// The data of each frame.
fn data(out: &str) -> Vec<&str> {
    out.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap()).collect()
}

fn tokens() -> Tokens {
    Tokens { input: 1, cached_input: 2, cache_write: 3, output: 4, reasoning: 5, ..Tokens::default() }
}

fn call(index: usize, id: &str) -> Event {
    Event::CallStart { index, id: id.into(), name: "f".into(), signature: None }
}

#[test]
fn a_stream_is_written_as_openai_writes_it() {
    let events = [
        Event::Start(Some("msg_1".into())),
        Event::Thinking("hm".into()),
        Event::ThinkingSignature("s".into()),
        Event::Usage(Tokens::default()),
        Event::Text("Grüße\n".into()),
        Event::Text(String::new()),
        Event::Finish(Finish::Stop),
        Event::Usage(tokens()),
    ];
    let head = r#"{"id":"chatcmpl-0190163d-8694-739b-aea5-966c26f8ad91","object":"chat.completion.chunk","created":1718360049,"model":"my \"m\"","choices":"#;
    let chunk = |delta: &str, finish: &str| {
        format!(r#"{head}[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":null}}"#)
    };
    let usage = r#"{"prompt_tokens":6,"completion_tokens":9,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":3,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":5,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}"#;
    let expected = [
        chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null"),
        chunk(r#"{"reasoning_content":"hm"}"#, "null"),
        chunk(r#"{"content":"Grüße\n"}"#, "null"),
        chunk("{}", "\"stop\""),
        format!(r#"{head}[],"usage":{usage}}}"#),
        "[DONE]".into(),
    ];
    assert_eq!(data(&written(&events, UsageChunk::Wanted)), expected);
    let hidden = written(&events, UsageChunk::Hidden);
    assert!(!hidden.contains("usage"), "{hidden}");
    assert_eq!(data(&hidden).len(), 5);
}

#[test]
fn calls_are_numbered_signed_and_never_without_arguments() {
    let signed = Event::CallStart { index: 1, id: "b".into(), name: "g".into(), signature: Some("sig".into()) };
    let events = [
        call(0, "a"),
        signed,
        Event::CallArguments { index: 0, fragment: "{\"x\":1}".into() },
        Event::Finish(Finish::ToolCalls),
    ];
    let out = written(&events, UsageChunk::Hidden);
    let deltas: Vec<Value> = data(&out)
        .iter()
        .filter_map(|data| serde_json::from_str::<Value>(data).ok())
        .map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].clone())
        .collect();
    let expected = [
        Value::Null,
        json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]),
        json!([{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""},
            "extra_content": {"google": {"thought_signature": "sig"}}}]),
        json!([{"index": 0, "function": {"arguments": "{\"x\":1}"}}]),
        json!([{"index": 1, "function": {"arguments": "{}"}}]),
        Value::Null,
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn every_reason_has_its_word() {
    for (events, word) in [
        (vec![Event::Finish(Finish::Stop)], "stop"),
        (vec![Event::Finish(Finish::StopText(Some("x".into())))], "stop"),
        (vec![Event::Finish(Finish::ToolCalls)], "tool_calls"),
        (vec![Event::Finish(Finish::Length)], "length"),
        (vec![Event::Finish(Finish::Filtered)], "content_filter"),
        (vec![Event::Finish(Finish::Refused)], "content_filter"),
        (vec![Event::Refusal("no".into()), Event::Finish(Finish::Refused)], "stop"),
    ] {
        let out = written(&events, UsageChunk::Hidden);
        assert!(out.contains(&format!("\"finish_reason\":\"{word}\"}}]}}\n\ndata: [DONE]")), "{out}");
    }
}

/// The events of an answer that a reader of chat completions could give.
pub(in crate::dialect) fn any_answer() -> impl Strategy<Value = Vec<Event>> {
    let said = prop_oneof![
        "\\PC{1,6}".prop_map(Event::Text),
        "\\PC{1,6}".prop_map(Event::Thinking),
        "\\PC{1,6}".prop_map(Event::Refusal),
        Just(Event::Usage(tokens())),
    ];
    let called = (0usize..3, "[a-z{}\"]{1,4}");
    let mixed = prop::collection::vec(prop_oneof![said.prop_map(Ok), called.prop_map(Err)], 0..16);
    (mixed, prop::sample::select(&[Finish::Length, Finish::Filtered][..])).prop_map(|(mixed, finish)| {
        let mut events = vec![Event::Start(Some("c".into()))];
        let mut numbers: Vec<usize> = Vec::new();
        for step in mixed {
            match step {
                Ok(said) => events.push(said),
                Err((wish, fragment)) => {
                    let index = numbers.iter().position(|known| *known == wish).unwrap_or_else(|| {
                        numbers.push(wish);
                        events.push(call(numbers.len() - 1, &format!("id{wish}")));
                        numbers.len() - 1
                    });
                    events.push(Event::CallArguments { index, fragment });
                }
            }
        }
        events.push(Event::Finish(finish));
        events
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same_again(events in any_answer()) {
        let out = written(&events, UsageChunk::Wanted);
        let mut reader = Reader::new(Names::default());
        let mut found = Vec::new();
        for data in data(&out) {
            found.extend(reader.event(None, data.as_bytes()).unwrap());
        }
        // The usage is told once, at the end but for the reason.
        let usage = events.iter().rfind(|event| matches!(event, Event::Usage(_))).cloned();
        let mut expected: Vec<Event> = events.into_iter().filter(|event| !matches!(event, Event::Usage(_))).collect();
        expected[0] = Event::Start(Some(format!("chatcmpl-{REQUEST}")));
        expected.splice(expected.len() - 1..expected.len() - 1, usage);
        prop_assert_eq!(found, expected);
    }
}
