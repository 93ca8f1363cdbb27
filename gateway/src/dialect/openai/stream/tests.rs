use proptest::prelude::*;
use serde_json::{Value, json};
use shared::failure::{Class, ErrorPolicy, classify};

use super::*;

const CONTENT: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,"delta":{"content":"Grüße"},"logprobs":null,"finish_reason":null}],"usage":null}"#;
const USAGE: &str = r#"{"id":"c","model":"up","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
const END: &str = r#"{"id":"c","model":"up","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// The data of one written event.
fn unframed(event: &Bytes) -> String {
    let text = std::str::from_utf8(event).unwrap().strip_suffix("\n\n").unwrap();
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_prefix("data: ").unwrap()).collect();
    lines.join("\n")
}

fn piece(data: &str) -> Piece {
    StreamState::new().read(None, data.as_bytes())
}

fn chunk(data: &str) -> Chunk {
    match piece(data) {
        Piece::Chunk(chunk) => chunk,
        other => panic!("{data}: {other:?}"),
    }
}

fn error(data: &str) -> UpstreamError {
    match piece(data) {
        Piece::Error(error) => *error,
        other => panic!("{data}: {other:?}"),
    }
}

fn delta(delta: &str) -> Chunk {
    chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#))
}

#[test]
fn content_is_whatever_brings_something_of_the_answer() {
    for (text, chars) in [
        (r#"{"content":"hé\n"}"#, 3),
        (r#"{"role":"assistant","content":"a"}"#, 1),
        (r#"{"reasoning_content":"hm"}"#, 2),
        (r#"{"reasoning":"hm","reasoning_details":[{"text":"hm"}]}"#, 2),
        (r#"{"refusal":"no"}"#, 2),
        (r#"{"tool_calls":[{"index":0,"id":"ab","function":{"name":"f","arguments":""}}]}"#, 3),
        (r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}"#, 4),
        (r#"{"function_call":{"name":"f"}}"#, 1),
        (r#"{"content":[{"type":"text","text":"x"}]}"#, 5),
        (r#"{"audio":{"data":"AAAA"}}"#, 0),
    ] {
        let chunk = delta(text);
        assert!(chunk.content, "{text}");
        assert_eq!(chunk.chars, chars, "{text}");
    }
}

#[test]
fn roles_empty_deltas_and_filter_results_are_no_content() {
    for text in [
        r#"{"role":"assistant"}"#,
        r#"{"role":"assistant","content":""}"#,
        r#"{"role":"assistant","content":null,"refusal":null,"tool_calls":null}"#,
        r#"{"tool_calls":[]}"#,
        "{}",
        "null",
        r#"{"unheard_of":"x"}"#,
    ] {
        assert!(!delta(text).content, "{text}");
    }
    let filter = r#"{"choices":[],"created":0,"id":"","prompt_filter_results":[{"prompt_index":0}]}"#;
    let found = chunk(filter);
    assert!(!found.content && !found.usage_only && !found.finish);
    assert!(write(filter.as_bytes(), &found, &CallerModel::new("m"), UsageChunk::Hidden).is_some());
    assert!(!chunk("{}").content);
}

#[test]
fn one_chunk_can_be_content_end_and_usage_at_once() {
    let all = r#"{"model":"up","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
    let mut state = StreamState::new();
    let Piece::Chunk(chunk) = state.read(None, all.as_bytes()) else { panic!() };
    assert!(chunk.content && chunk.finish && !chunk.usage_only);
    assert_eq!(chunk.usage, Some(Tokens { input: 5, output: 2, ..Tokens::default() }));
    assert_eq!((state.usage(), state.chars(), state.is_complete()), (chunk.usage, 1, true));
}

#[test]
fn the_usage_chunk_is_kept_from_a_client_that_did_not_ask() {
    let usage = chunk(USAGE);
    assert!(usage.usage_only && !usage.content);
    let model = CallerModel::new("mine");
    assert_eq!(write(USAGE.as_bytes(), &usage, &model, UsageChunk::Hidden), None);
    let shown = write(USAGE.as_bytes(), &usage, &model, UsageChunk::Wanted).unwrap();
    assert_eq!(shown, format!("data: {}\n\n", USAGE.replace("\"up\"", "\"mine\"")));
}

#[test]
fn a_usage_that_cannot_be_true_leaves_the_last_good_one() {
    let mut state = StreamState::new();
    state.read(None, USAGE.as_bytes());
    state.read(None, br#"{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":2}}"#);
    assert_eq!(state.usage(), Some(Tokens { input: 5, output: 2, ..Tokens::default() }));
}

#[test]
fn only_the_models_name_changes_in_a_chunk() {
    let out = write(CONTENT.as_bytes(), &chunk(CONTENT), &CallerModel::new("my \"m\""), UsageChunk::Hidden).unwrap();
    assert_eq!(out, format!("data: {}\n\n", CONTENT.replace("\"up\"", r#""my \"m\"""#)));
    let nameless = r#"{"choices":[{"delta":{"content":"\ud83d\ude00 1.0"}}]}"#;
    let out = write(nameless.as_bytes(), &chunk(nameless), &CallerModel::new("m"), UsageChunk::Hidden).unwrap();
    assert_eq!(out, format!("data: {nameless}\n\n"));
}

#[test]
fn data_of_several_lines_stays_readable() {
    let pretty = "{\n \"model\":\n\"up\",\n\"choices\":[]\n}";
    let out = write(pretty.as_bytes(), &chunk(pretty), &CallerModel::new("m"), UsageChunk::Hidden).unwrap();
    assert_eq!(unframed(&out), pretty.replace("\"up\"", "\"m\""));
}

#[test]
fn done_and_empty_events_are_told_apart_from_chunks() {
    assert_eq!(piece("[DONE]"), Piece::Done);
    assert_eq!(piece(" [DONE] "), Piece::Done);
    assert_eq!(piece(""), Piece::Nothing);
    assert_eq!(piece(" \n"), Piece::Nothing);
}

#[test]
fn a_stream_is_whole_once_every_begun_choice_has_ended_or_done_was_said() {
    let choice = |index: u32, finish: &str| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":{finish}}}]}}"#)
    };
    let complete_after = |events: &[String]| {
        let mut state = StreamState::new();
        for event in events {
            state.read(None, event.as_bytes());
        }
        state.is_complete()
    };
    assert!(!complete_after(&[]));
    assert!(!complete_after(&[choice(0, "null")]));
    assert!(!complete_after(&[choice(0, "\"\"")]));
    assert!(complete_after(&[choice(0, "null"), choice(0, "\"stop\"")]));
    assert!(complete_after(&[choice(0, "\"a_reason_of_tomorrow\"")]));
    assert!(!complete_after(&[choice(0, "null"), choice(1, "null"), choice(0, "\"stop\"")]));
    assert!(complete_after(&[choice(0, "\"stop\""), choice(1, "null"), choice(1, "\"length\"")]));
    assert!(complete_after(&[choice(0, "null"), "[DONE]".into()]));
    assert!(!complete_after(&[USAGE.into()]));
    assert!(complete_after(&[choice(4_000_000_000, "\"stop\"")]));
}

#[test]
fn errors_in_the_stream_are_read_as_errors() {
    for (data, class) in [
        (r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#, Class::Capacity),
        (
            r#"{"error":{"code":502,"message":"bad"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            Class::Unavailable,
        ),
        (r#"[{"error":{"code":429,"message":"per minute"}}]"#, Class::RateLimited),
        (r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, Class::ContextLength),
        (r#"{"error":"broke"}"#, Class::Unavailable),
        (r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, Class::Unavailable),
        ("<html>", Class::Unavailable),
        ("{\"choices\":", Class::Unavailable),
        ("null", Class::Unavailable),
        ("[1]", Class::Unavailable),
        (r#"{"choices":[7]}"#, Class::Unavailable),
    ] {
        assert_eq!(classify(&error(data).signals, ErrorPolicy::Standard, &[]).class, class, "{data}");
    }
    let named = StreamState::new().read(Some(b"error"), br#"{"message":"gone"}"#);
    assert!(matches!(named, Piece::Error(error) if error.reason == "gone"));
    assert!(matches!(piece(r#"{"error":null,"choices":[]}"#), Piece::Chunk(_)));
}

#[test]
fn a_whole_stream_reads_from_role_to_done() {
    let mut state = StreamState::new();
    let role = r#"{"model":"up","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let kinds: Vec<(bool, bool)> = [role, CONTENT, END, USAGE]
        .iter()
        .map(|data| match state.read(None, data.as_bytes()) {
            Piece::Chunk(chunk) => (chunk.content, chunk.finish),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [(false, false), (true, false), (false, true), (false, false)]);
    assert!(state.is_complete() && !state.is_done());
    assert_eq!(state.read(None, b"[DONE]"), Piece::Done);
    assert!(state.is_done());
}

proptest! {
    #[test]
    fn a_written_chunk_means_the_same_but_for_the_model(
        content in "\\PC{0,20}", extra in "\\PC{0,8}", model in "\\PC{0,12}", pretty in any::<bool>(),
    ) {
        let original = json!({
            "x": {"model": extra}, "model": "up", "choices": [{"index": 0, "delta": {"content": content}}], extra: 1,
        });
        let text = if pretty { serde_json::to_string_pretty(&original) } else { serde_json::to_string(&original) }.unwrap();
        let Piece::Chunk(chunk) = StreamState::new().read(None, text.as_bytes()) else { panic!() };
        prop_assert_eq!(chunk.chars, content.chars().count() as u64);
        let out = write(text.as_bytes(), &chunk, &CallerModel::new(&model), UsageChunk::Hidden).unwrap();
        let mut expected = original;
        expected["model"] = model.into();
        prop_assert_eq!(serde_json::from_str::<Value>(&unframed(&out)).unwrap(), expected);
    }

    #[test]
    fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..80), at in 0..CONTENT.len(), byte in any::<u8>()) {
        let mut state = StreamState::new();
        state.read(None, &data);
        let mut broken = CONTENT.as_bytes().to_vec();
        broken[at] = byte;
        if let Piece::Chunk(chunk) = state.read(None, &broken) {
            write(&broken, &chunk, &CallerModel::new("m"), UsageChunk::Hidden);
        }
    }
}
