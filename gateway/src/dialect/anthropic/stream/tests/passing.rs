//! Between two who speak the dialect.

use proptest::prelude::*;
use shared::failure::Transport;
use shared::money::Tokens;

use super::*;
use crate::dialect::anthropic::stream::Same;
use crate::dialect::translate::{Fed, StreamTranslation};

fn passed(pieces: &[&[u8]]) -> (String, Vec<Fed>) {
    let mut same = Same::new("mine");
    let mut fed = Vec::new();
    each(pieces, |name, data| same.event(name, data).map(|one| fed.push(one))).unwrap();
    fed.push(same.end().unwrap());
    let out: Vec<u8> = fed.iter().flat_map(|one| one.out.to_vec()).collect();
    (String::from_utf8(out).unwrap(), fed)
}

fn expected() -> String {
    STREAM.replace("\"claude-up\"", "\"mine\"")
}

#[test]
fn only_the_models_name_changes() {
    let (out, fed) = passed(&[STREAM.as_bytes()]);
    assert_eq!(out, expected());
    let usage: Vec<Tokens> = fed.iter().filter_map(|one| one.usage).collect();
    assert_eq!(
        usage,
        vec![Tokens { input: 25, cached_input: 4, cache_write: 2, output: 80, reasoning: 9, ..Tokens::default() }]
    );
    assert_eq!(fed.iter().filter(|one| one.done).count(), 1);
    assert_eq!(fed.iter().map(|one| one.chars).sum::<u64>(), 15 + 7 + 2 + 7 + 13 + 12 + 3);
}

#[test]
fn the_beginning_and_a_ping_are_no_content_and_thoughts_are() {
    let (_, fed) = passed(&[STREAM.as_bytes()]);
    assert_eq!(fed.iter().position(|one| one.content), Some(3), "the first thought commits");
    for (data, content) in [
        (r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#, false),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}"#, false),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#, true),
        (r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}}"#, true),
        (r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x"}}"#, true),
        (r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}"#, true),
        (r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#, false),
    ] {
        assert_eq!(Same::new("m").event(None, data.as_bytes()).unwrap().content, content, "{data}");
    }
}

#[test]
fn the_output_is_the_same_however_the_bytes_come() {
    for ends in ["\n", "\r\n", "\r"] {
        let stream = format!("\u{feff}: hi{ends}{ends}{}", STREAM.replace('\n', ends));
        let bytes = stream.as_bytes();
        for at in 0..bytes.len() {
            assert_eq!(passed(&[&bytes[..at], &bytes[at..]]).0, expected(), "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(passed(&single).0, expected());
    }
}

#[test]
fn events_without_a_name_get_theirs_and_unknown_ones_pass() {
    let unnamed: Vec<&str> = STREAM.split_inclusive('\n').filter(|line| !line.starts_with("event:")).collect();
    let (out, _) = passed(&[unnamed.concat().as_bytes()]);
    assert_eq!(out, expected());
    let odd = br#"{"type":"brand_new","x":1.0}"#;
    let fed = Same::new("m").event(None, odd).unwrap();
    assert_eq!(fed.out, "event: brand_new\ndata: {\"type\":\"brand_new\",\"x\":1.0}\n\n");
    let fed = Same::new("m").event(Some(b"typeless"), b"{\n\"a\":1}").unwrap();
    assert_eq!(fed.out, "event: typeless\ndata: {\ndata: \"a\":1}\n\n");
}

#[test]
fn a_stream_that_ends_too_early_is_truncated_wherever_it_ends() {
    let events: Vec<&str> = STREAM.split_inclusive("\n\n").collect();
    let told_why = events.iter().position(|event| event.contains("stop_reason\":\"tool_use")).unwrap();
    for kept in 0..=told_why {
        let mut same = Same::new("m");
        each(&[events[..kept].concat().as_bytes()], |name, data| same.event(name, data).map(drop)).unwrap();
        assert!(!same.is_whole());
        assert_eq!(same.end().unwrap_err().signals.transport, Some(Transport::Truncated), "{kept} events");
        let error = said(&[events[..kept].concat().as_bytes()]).unwrap_err();
        assert_eq!(error.signals.transport, Some(Transport::Truncated), "{kept} events");
    }
}

#[test]
fn an_answer_that_told_why_it_ended_is_whole_without_its_last_event() {
    let cut = STREAM.replace("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "data: [DONE]\n\n");
    assert_eq!(passed(&[cut.as_bytes()]).0, expected());
}

#[test]
fn nothing_is_passed_on_after_the_end() {
    let twice = [STREAM, STREAM].concat();
    assert_eq!(passed(&[twice.as_bytes()]).0, expected());
}

#[test]
fn errors_in_the_stream_end_it_whatever_their_form() {
    for (name, data, status) in [
        (Some("error"), r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Some(529)),
        (None, r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#, Some(429)),
        (None, r#"{"error":{"message":"x"}}"#, None),
        (None, r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#, Some(503)),
        (Some("error"), "gone", None),
    ] {
        for error in [
            Same::new("m").event(name.map(str::as_bytes), data.as_bytes()).unwrap_err(),
            super::super::Reader::default().event(name.map(str::as_bytes), data.as_bytes()).unwrap_err(),
        ] {
            assert_eq!(error.signals.status, status, "{data}");
            assert_eq!(error.signals.transport, Some(Transport::ErrorInSuccess), "{data}");
        }
    }
    let page = Same::new("m").event(None, b"<html>").unwrap_err();
    assert_eq!(page.signals.transport, Some(Transport::NotTheFormat));
}

#[test]
fn a_usage_is_reported_only_when_the_whole_of_it_is_known() {
    let without = STREAM.replace(r#","usage":{"output_tokens":89,"output_tokens_details":{"thinking_tokens":9}}"#, "");
    assert_ne!(without, STREAM);
    assert!(passed(&[without.as_bytes()]).1.iter().all(|one| one.usage.is_none()));
    let wrong = STREAM.replace("\"output_tokens\":89", "\"output_tokens\":\"89\"");
    assert!(passed(&[wrong.as_bytes()]).1.iter().all(|one| one.usage.is_none()));
}

proptest! {
    #[test]
    fn no_data_makes_it_panic(name in proptest::option::of(".{0,9}"), data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let name = name.as_deref().map(str::as_bytes);
        let _ = Same::new("m").event(name, &data);
        let _ = super::super::Reader::default().event(name, &data);
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..STREAM.len(), byte in any::<u8>()) {
        let mut bytes = STREAM.as_bytes().to_vec();
        bytes[at] = byte;
        let (mut same, mut reader) = (Same::new("m"), super::super::Reader::default());
        let _ = each(&[&bytes], |name, data| same.event(name, data).map(drop));
        let _ = each(&[&bytes], |name, data| reader.event(name, data).map(drop));
    }
}
