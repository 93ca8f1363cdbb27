use proptest::prelude::*;
use serde_json::{Map, Value, json};
use shared::failure::{Class, ErrorPolicy, classify};
use shared::money::Tokens;

use super::super::names::Names;
use super::*;
use crate::canonical::request::{Request, Tool};
use crate::canonical::response::{Event, Finish};
use crate::dialect::translate::{ReadEvents, StreamTranslation, WriteEvents};
use crate::error::UpstreamError;

const THOUGHT: &str = r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"totalTokenCount":12,"thoughtsTokenCount":3},"modelVersion":"g-001","responseId":"r"}"#;
const TEXT: &str =
    r#"{"candidates":[{"content":{"parts":[{"text":"Grüße"}],"role":"model"},"index":0}],"modelVersion":"g-001"}"#;
const CALLS: &str = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":[1]}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"own","name":"g","args":{}}}],"role":"model"}}]}"#;
const END: &str = r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":14,"thoughtsTokenCount":3}}"#;

fn class(error: &UpstreamError) -> Class {
    classify(&error.signals, ErrorPolicy::Standard, &[]).class
}

fn read_all(chunks: &[&str]) -> Result<Vec<Event>, Box<UpstreamError>> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    for chunk in chunks {
        events.extend(reader.event(None, chunk.as_bytes())?);
    }
    events.extend(reader.end()?);
    Ok(events)
}

fn pass_all(framing: Framing, chunks: &[&str]) -> Result<String, Box<UpstreamError>> {
    let mut same = Same::new(framing, "g-001");
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(&same.event(None, chunk.as_bytes())?.out);
    }
    out.extend_from_slice(&same.end()?.out);
    Ok(String::from_utf8(out).unwrap())
}

fn write_all(framing: Framing, events: &[Event]) -> Vec<Value> {
    let mut writer = Writer::new("mine", "req", framing);
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    writer.finish(&mut out);
    unframed(framing, &String::from_utf8(out).unwrap())
}

fn unframed(framing: Framing, text: &str) -> Vec<Value> {
    match framing {
        Framing::Array => serde_json::from_str(text).unwrap(),
        Framing::Sse => {
            let chunks = text.strip_suffix("\n\n").unwrap().split("\n\n");
            chunks.map(|chunk| serde_json::from_str(chunk.strip_prefix("data: ").unwrap()).unwrap()).collect()
        }
    }
}

fn finish(reason: &str) -> String {
    format!(r#"{{"candidates":[{{"finishReason":"{reason}"}}]}}"#)
}

#[test]
fn a_stream_is_read_step_by_step() {
    let events = read_all(&[THOUGHT, TEXT, "", CALLS, END, "[DONE]"]).unwrap();
    let Event::CallStart { id, .. } = &events[5 - 1] else { panic!("{events:?}") };
    assert!(id.starts_with("call_") && id.len() == 29);
    let usage = |output| Event::Usage(Tokens { input: 9, output, reasoning: 3, ..Tokens::default() });
    let start = |index, id: &str, name: &str, signature: Option<&str>| Event::CallStart {
        index,
        id: id.into(),
        name: name.into(),
        signature: signature.map(Into::into),
    };
    let arguments = |index, fragment: &str| Event::CallArguments { index, fragment: fragment.into() };
    assert_eq!(
        events,
        [
            Event::Start(Some("r".into())),
            Event::Thinking("hm".into()),
            usage(0),
            Event::Text("Grüße".into()),
            start(0, id, "f", Some("c2ln")),
            arguments(0, "{\"a\":[1]}"),
            start(1, "own", "g", None),
            arguments(1, "{}"),
            usage(2),
            Event::Finish(Finish::ToolCalls),
        ]
    );
}

#[test]
fn the_bytes_of_each_chunk_reach_a_gemini_caller() {
    let chunks = [THOUGHT, TEXT, CALLS, END];
    let expected = format!("data: {}\n\n", chunks.join("\n\ndata: "));
    assert_eq!(pass_all(Framing::Sse, &chunks).unwrap(), expected);
    assert_eq!(pass_all(Framing::Array, &chunks).unwrap(), format!("[{}\n]", chunks.join(",\n")));
    let pretty =
        "{\r\n \"candidates\": [\n{\"content\": {\"parts\": [{\"text\": \"a\\nb\"}]}, \"finishReason\": \"STOP\"}]}";
    let out = pass_all(Framing::Sse, &[pretty, "[DONE]"]).unwrap();
    assert_eq!(out, format!("data: {}\n\n", pretty.replace(['\r', '\n'], " ")), "one line, no marker");
}

#[test]
fn content_commits_and_is_counted_and_the_rest_does_not() {
    let mut same = Same::new(Framing::Sse, "served");
    let role =
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":""}]}}],"usageMetadata":{"promptTokenCount":9}}"#;
    let fed = same.event(None, role.as_bytes()).unwrap();
    assert!(!fed.content && fed.usage.is_none() && !fed.out.is_empty());
    let fed = same.event(None, THOUGHT.as_bytes()).unwrap();
    assert_eq!((fed.content, fed.chars, fed.usage.map(|usage| usage.reasoning)), (true, 2, Some(3)));
    let media = r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]}"#;
    let fed = same.event(None, media.as_bytes()).unwrap();
    assert_eq!((fed.content, fed.chars), (true, 0));
    assert!(same.event(None, CALLS.as_bytes()).unwrap().content);
}

#[test]
fn a_stream_that_ends_before_its_answer_is_never_whole() {
    for (chunks, expected) in [(vec![], "without saying anything"), (vec![TEXT], "before it was complete")] {
        let error = read_all(&chunks).unwrap_err();
        assert!(error.reason.contains(expected), "{}", error.reason);
        assert_eq!(class(&error), Class::Unavailable);
        assert_eq!(pass_all(Framing::Sse, &chunks).unwrap_err().reason, error.reason);
    }
    let two = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0,"finishReason":"STOP"},{"content":{"parts":[{"text":"b"}]},"index":1}]}"#;
    assert!(pass_all(Framing::Sse, &[two]).is_err(), "candidate 1 has not ended");
    assert!(pass_all(Framing::Sse, &[two, r#"{"candidates":[{"index":1,"finishReason":"STOP"}]}"#]).is_ok());
}

#[test]
fn an_end_without_content_is_a_failure_unless_it_says_why() {
    for reason in ["STOP", "OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        let end = finish(reason);
        assert_eq!(class(&read_all(&[&end]).unwrap_err()), Class::Unavailable, "{reason}");
        assert_eq!(class(&pass_all(Framing::Sse, &[&end]).unwrap_err()), Class::Unavailable, "{reason}");
    }
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#.to_owned();
    for (end, expected) in
        [(finish("MAX_TOKENS"), Finish::Length), (finish("SAFETY"), Finish::Filtered), (blocked, Finish::Filtered)]
    {
        let events = read_all(&[&end]).unwrap();
        assert_eq!(events, [Event::Start(None), Event::Finish(expected)]);
        assert!(pass_all(Framing::Sse, &[&end]).is_ok());
    }
    assert!(read_all(&[TEXT, &finish("STOP"), &finish("STOP")]).is_ok(), "older models end every chunk");
    assert!(read_all(&[TEXT, &finish("MALFORMED_FUNCTION_CALL")]).is_err(), "no other dialect can say it");
    assert!(pass_all(Framing::Sse, &[TEXT, &finish("MALFORMED_FUNCTION_CALL")]).is_ok(), "a Gemini caller can be told");
}

#[test]
fn errors_in_the_stream_are_read_as_errors() {
    for (name, data, expected) in [
        (
            None,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            Class::Capacity,
        ),
        (None, r#"[{"error":{"code":429,"message":"per minute","status":"RESOURCE_EXHAUSTED"}}]"#, Class::RateLimited),
        (Some(&b"error"[..]), r#"{"message":"gone"}"#, Class::Unavailable),
        (None, "<html>", Class::Unavailable),
        (None, "null", Class::Unavailable),
        (None, r#"{"candidates":7}"#, Class::Unavailable),
    ] {
        let error = Reader::default().event(name, data.as_bytes()).unwrap_err();
        assert_eq!(class(&error), expected, "{data}");
        assert_eq!(
            class(&Same::new(Framing::Sse, "served").event(name, data.as_bytes()).unwrap_err()),
            expected,
            "{data}"
        );
    }
}

#[test]
fn media_in_a_stream_cannot_cross() {
    let media = r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]}"#;
    assert!(read_all(&[media]).is_err());
}

#[test]
fn names_that_had_to_change_come_home() {
    let tool = Tool { name: "9 lives".into(), description: None, parameters: json!({}), strict: None };
    let request = Request { tools: vec![tool], ..Request::default() };
    let sent = super::super::names::outgoing("9 lives");
    let chunk = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": sent}}]}}]}).to_string();
    let events = Reader::new(Names::of(&request)).event(None, chunk.as_bytes()).unwrap();
    assert!(matches!(&events[1], Event::CallStart { name, .. } if name == "9 lives"), "{events:?}");
}

#[test]
fn a_stream_is_written_as_gemini_writes_it() {
    let start = |index, id: &str| Event::CallStart { index, id: id.into(), name: format!("f{index}"), signature: None };
    let more = |index, fragment: &str| Event::CallArguments { index, fragment: fragment.into() };
    let events = [
        Event::Start(Some("up".into())),
        Event::Thinking("hm".into()),
        Event::ThinkingSignature("foreign".into()),
        Event::Text(String::new()),
        Event::Text("a".into()),
        start(0, "c0"),
        more(0, "{\"x\""),
        start(1, "c1"),
        more(1, ""),
        more(0, ":1}"),
        Event::Finish(Finish::ToolCalls),
        Event::Usage(Tokens { input: 4, output: 2, ..Tokens::default() }),
    ];
    let chunk = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "modelVersion": "mine", "responseId": "up"});
    let mut last = chunk(json!([{"text": ""}]));
    last["candidates"][0]["finishReason"] = "STOP".into();
    last["usageMetadata"] = json!({"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6});
    let calls = json!([
        {"functionCall": {"id": "c0", "name": "f0", "args": {"x": 1}}, "thoughtSignature": "skip_thought_signature_validator"},
        {"functionCall": {"id": "c1", "name": "f1", "args": {}}}
    ]);
    let expected = [chunk(json!([{"text": "hm", "thought": true}])), chunk(json!([{"text": "a"}])), chunk(calls), last];
    for framing in [Framing::Sse, Framing::Array] {
        assert_eq!(write_all(framing, &events), expected);
    }
    let nothing = write_all(Framing::Sse, &[Event::Finish(Finish::Filtered)]);
    assert_eq!(nothing[0]["candidates"][0]["finishReason"], "SAFETY");
}

#[test]
fn calls_before_text_stay_before_it_and_odd_arguments_become_an_object() {
    let start = |index| Event::CallStart { index, id: "c".into(), name: "f".into(), signature: Some("c2ln".into()) };
    let more = |index, fragment: &str| Event::CallArguments { index, fragment: fragment.into() };
    let events = [
        start(0),
        more(0, "[1]"),
        Event::Text("then".into()),
        start(1),
        more(1, "{broken"),
        Event::Finish(Finish::Stop),
    ];
    let chunks = write_all(Framing::Sse, &events);
    let part = |nth: usize| chunks[nth]["candidates"][0]["content"]["parts"][0].clone();
    assert_eq!(part(0)["functionCall"]["args"], json!({"arguments": [1]}));
    assert_eq!(part(0)["thoughtSignature"], "c2ln");
    assert_eq!(part(1)["text"], "then");
    assert_eq!(part(2)["functionCall"]["args"], json!({"arguments": "{broken"}));
}

/// Fragments of several calls in any interleaving that keeps each call's own order.
fn interleaved() -> impl Strategy<Value = (Vec<Map<String, Value>>, Vec<Event>)> {
    let arguments = prop::collection::btree_map("\\PC{0,6}", "\\PC{0,12}", 0..4)
        .prop_map(|map| map.into_iter().map(|(name, text)| (name, Value::from(text))).collect::<Map<_, _>>());
    (prop::collection::vec(arguments, 1..4), prop::collection::vec((0usize..4, 1usize..5), 0..60)).prop_map(
        |(calls, picks)| {
            let texts: Vec<Vec<char>> =
                calls.iter().map(|call| Value::Object(call.clone()).to_string().chars().collect()).collect();
            let mut at = vec![0_usize; calls.len()];
            let mut events: Vec<Event> = (0..calls.len())
                .map(|index| Event::CallStart { index, id: format!("c{index}"), name: "f".into(), signature: None })
                .collect();
            let rest = (0..calls.len()).map(|index| (index, usize::MAX));
            for (index, size) in picks.into_iter().chain(rest).map(|(index, size)| (index % calls.len(), size)) {
                let end = at[index].saturating_add(size).min(texts[index].len());
                let fragment: String = texts[index][at[index]..end].iter().collect();
                at[index] = end;
                events.push(Event::CallArguments { index, fragment });
            }
            events.push(Event::Finish(Finish::ToolCalls));
            (calls, events)
        },
    )
}

proptest! {
    #[test]
    fn arguments_are_intact_under_any_interleaving((calls, events) in interleaved()) {
        let chunks = write_all(Framing::Sse, &events);
        let written: Vec<Map<String, Value>> = chunks
            .iter()
            .flat_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array().unwrap())
            .filter_map(|part| part["functionCall"]["args"].as_object().cloned())
            .collect();
        prop_assert_eq!(written, calls);
    }

    #[test]
    fn what_is_written_reads_back_the_same(texts in prop::collection::vec("\\PC{1,9}", 1..5), (_, calls) in interleaved()) {
        let mut events: Vec<Event> = texts.iter().cloned().map(Event::Text).collect();
        events.extend(calls);
        let chunks: Vec<String> = write_all(Framing::Array, &events).iter().map(Value::to_string).collect();
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let read = read_all(&chunks).unwrap();
        let said: Vec<&str> = read.iter().filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None }).collect();
        prop_assert_eq!(said, texts);
        prop_assert_eq!(read.last(), Some(&Event::Finish(Finish::ToolCalls)));
        prop_assert_eq!(unframed(Framing::Sse, &pass_all(Framing::Sse, &chunks).unwrap()).len(), chunks.len());
    }

    #[test]
    fn no_json_makes_it_panic(value in crate::dialect::gemini::request::any_json()) {
        for body in [value.clone(), json!({"candidates": [value]}), json!({"candidates": [{"content": {"parts": [value]}}]})] {
            let body = body.to_string();
            let _ = read_all(&[&body, &body]);
            let _ = pass_all(Framing::Array, &[&body, &body]);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..80), at in 0..CALLS.len(), byte in any::<u8>()) {
        let mut broken = CALLS.as_bytes().to_vec();
        broken[at] = byte;
        for data in [data, broken] {
            let _ = Reader::default().event(None, &data);
            let _ = Same::new(Framing::Sse, "served").event(None, &data);
        }
    }
}

#[test]
fn with_what_a_later_request_goes_on_is_told_of_streams_and_whole_answers() {
    let token = END.replacen('{', r#"{"continuationToken":"t","#, 1);
    let mut same = Same::new(Framing::Sse, "g-001");
    assert_eq!(same.event(None, TEXT.as_bytes()).unwrap().made, None);
    assert_eq!(same.event(None, token.as_bytes()).unwrap().made.as_deref(), Some("t"));
    let whole = TEXT.replacen('{', r#"{"continuationToken":"t","#, 1).replacen(
        r#""index""#,
        r#""finishReason":"STOP","index""#,
        1,
    );
    let whole = super::super::response::check(None, &bytes::Bytes::from(whole)).unwrap();
    assert_eq!(whole.continuation.as_deref(), Some("t"));
}
