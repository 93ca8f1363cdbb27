use proptest::prelude::*;
use serde_json::json;
use shared::money::Tokens;

use super::*;
use crate::dialect::openai::request::read::any_json;

fn feed(same: &mut Same, name: &str, data: &str) -> Fed {
    same.event(Some(name.as_bytes()), data.as_bytes()).unwrap()
}

const CREATED: &str = r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","model":"up","output":[],"usage":null,"error":null}}"#;
const ADDED: &str =
    r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","content":[]}}"#;
const PART: &str = r#"{"type":"response.content_part.added","part":{"type":"output_text","text":""}}"#;
const DELTA: &str = r#"{"type":"response.output_text.delta","delta":"hé","logprobs":[]}"#;
const DONE: &str = r#"{"type":"response.output_text.done","text":"hé"}"#;
const CALL: &str = r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"f","type":"function_call","call_id":"c","name":"look","arguments":""}}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"id":"r","model":"up","output":[{"model":"up"}],"usage":{"input_tokens":5,"output_tokens":2}}}"#;

#[test]
fn a_stream_is_passed_on_with_the_callers_name_of_the_model() {
    let mut same = Same::new("mine", Keeps::No);
    for (data, content, chars) in
        [(CREATED, false, 0), (ADDED, false, 0), (PART, false, 0), (DELTA, true, 2), (DONE, false, 0), (CALL, true, 4)]
    {
        let kind = data.split('"').nth(3).unwrap();
        let fed = feed(&mut same, kind, data);
        let expected = format!("event: {kind}\ndata: {}\n\n", data.replacen("\"up\"", "\"mine\"", 1));
        assert_eq!(fed.out, expected);
        assert_eq!((fed.content, fed.chars, fed.done), (content, chars, false), "{data}");
    }
    assert!(!same.is_whole());
    let last = same.event(None, COMPLETED.as_bytes()).unwrap();
    let expected = format!("event: response.completed\ndata: {}\n\n", COMPLETED.replacen("\"up\"", "\"mine\"", 1));
    assert_eq!((last.out, last.done), (expected.into(), true));
    assert_eq!(last.usage, Some(Tokens { input: 5, output: 2, ..Tokens::default() }));
    assert!(same.is_whole());
    let after = Fed { done: true, ..Fed::default() };
    assert_eq!((same.event(None, b"[DONE]").unwrap(), same.end().unwrap()), (after.clone(), after));
}

#[test]
fn a_stream_that_breaks_off_is_never_whole() {
    let ended = |data: &[&str]| {
        let mut same = Same::new("mine", Keeps::No);
        for data in data {
            feed(&mut same, "", data);
        }
        same.end().map(|_| ()).map_err(|error| error.signals.transport)
    };
    assert_eq!(ended(&[CREATED]), Err(Some(Transport::Empty)));
    assert_eq!(ended(&[CREATED, "[DONE]"]), Err(Some(Transport::Empty)));
    assert_eq!(ended(&[CREATED, DELTA]), Err(Some(Transport::Truncated)));
    assert_eq!(ended(&[CREATED, r#"{"type":"response.incomplete","response":{}}"#]), Ok(()));
}

#[test]
fn errors_in_the_stream_are_read_as_errors() {
    for (name, data, code, reason) in [
        (
            None,
            r#"{"type":"error","code":"rate_limit_exceeded","message":"slow","param":null,"sequence_number":1}"#,
            Some("rate_limit_exceeded"),
            "slow",
        ),
        (
            Some("error"),
            r#"{"type":"error","error":{"type":"t","code":"insufficient_quota","message":"broke"}}"#,
            Some("insufficient_quota"),
            "broke",
        ),
        (
            None,
            r#"{"type":"response.failed","response":{"model":"up","error":{"code":"server_error","message":"gone"}}}"#,
            Some("server_error"),
            "gone",
        ),
        (None, r#"{"type":"response.failed","response":{}}"#, None, "the upstream broke off its answer"),
        (None, r#"[{"error":{"message":"x"}}]"#, None, "x"),
        (None, "<html>", None, "the stream holds an event that is none of a response"),
    ] {
        let error = Same::new("mine", Keeps::No).event(name.map(str::as_bytes), data.as_bytes()).unwrap_err();
        assert_eq!((error.code.as_deref(), error.reason.as_str()), (code, reason), "{data}");
    }
}

proptest! {
    #[test]
    fn no_stream_makes_it_panic(json in any_json(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut same = Same::new("mine", Keeps::No);
        let _ = same.event(Some(&bytes), &bytes);
        for kind in ["response.created", "response.output_item.added", "response.output_text.delta", "response.failed", "x\ny"] {
            let event = json!({"type": kind, "response": json, "item": json, "delta": json});
            let _ = same.event(None, event.to_string().as_bytes());
            let _ = same.event(Some(kind.as_bytes()), json.to_string().as_bytes());
        }
    }
}

#[test]
fn the_id_under_which_an_answer_is_kept_is_told_when_it_begins_and_if_it_is_kept() {
    let made = |keeps: Keeps, data: &str| feed(&mut Same::new("mine", keeps), "", data).made;
    assert_eq!(made(Keeps::Yes, CREATED).as_deref(), Some("r"));
    assert_eq!(made(Keeps::No, CREATED), None);
    assert_eq!(made(Keeps::Yes, COMPLETED), None, "once is enough");
}
