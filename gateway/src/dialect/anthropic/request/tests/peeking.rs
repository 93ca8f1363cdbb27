//! Between two who speak the dialect.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use shared::failure::{Family, Signals};

use super::FULL;
use crate::dialect::Answer;
use crate::dialect::anthropic::request::{Purpose, peek, refuses_thoughts, splice, without_thoughts};

fn spliced(body: &str) -> String {
    let body = Bytes::from(body.to_owned());
    let found = peek(&body, Purpose::Message).unwrap();
    String::from_utf8(splice(&body, &found, "up").to_vec()).unwrap()
}

#[test]
fn only_the_models_name_changes() {
    assert_eq!(spliced(FULL), FULL.replace("\"claude-mine\"", "\"up\""));
    let odd = r#" {"max_tokens" :1e3 , "messages":[{}],"x":1.0,"model":"cl\u0061ude", "x2":[1E5,"\ud83d"]} "#
        .replace("1e3 ", "1000 ");
    assert_eq!(spliced(&odd), odd.replace(r#""cl\u0061ude""#, "\"up\""));
    let body = Bytes::from_static(br#"{"model":"up","max_tokens":1,"messages":[{"role":"user","content":"a"}]}"#);
    let same = splice(&body, &peek(&body, Purpose::Message).unwrap(), "up");
    assert_eq!(same.as_ptr(), body.as_ptr(), "nothing is copied without a change");
}

#[test]
fn what_the_gateway_needs_is_found() {
    let body = Bytes::from_static(FULL.as_bytes());
    let found = peek(&body, Purpose::Message).unwrap();
    assert_eq!(
        (found.model.as_str(), found.answer, found.max_output_tokens),
        ("claude-mine", Answer::Stream, Some(1_024))
    );
    assert!((1_800..FULL.len() as u64).contains(&found.prompt_chars), "{}", found.prompt_chars);
    let count = Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#);
    let found = peek(&count, Purpose::Count).unwrap();
    assert_eq!((found.max_output_tokens, found.answer), (None, Answer::Whole));
    assert_eq!(found.prompt_chars, 31);
    assert_eq!(peek(&count, Purpose::Message).unwrap_err().field.as_deref(), Some("max_tokens"));
}

#[test]
fn an_attachment_counts_the_same_whatever_its_size_and_a_long_text_counts_in_full() {
    let chars = |data: &str| {
        let source = json!({"type": "base64", "media_type": "image/png", "data": data});
        let body = json!({"model": "m", "max_tokens": 1, "messages": [
            {"role": "user", "content": [{"type": "image", "source": source}]}]});
        peek(&Bytes::from(body.to_string()), Purpose::Message).unwrap().prompt_chars
    };
    assert_eq!(chars(&"QUJD".repeat(10_000)), chars(&"-_8=".repeat(100_000)));
    assert!(chars(&"QUJD".repeat(10_000)) < 5_000);
    assert!(chars(&"many words ".repeat(10_000)) > 100_000);
}

#[test]
fn every_fault_of_a_body_is_named() {
    for (body, field) in [
        ("", None),
        ("[]", None),
        ("{", None),
        ("\u{1}", None),
        (r#"{"model":"a","model":"b","max_tokens":1,"messages":[{}]}"#, None),
        (r#"{"max_tokens":1,"messages":[{}]}"#, Some("model")),
        (r#"{"model":"","max_tokens":1,"messages":[{}]}"#, Some("model")),
        (r#"{"model":7,"max_tokens":1,"messages":[{}]}"#, Some("model")),
        (r#"{"model":null,"max_tokens":1,"messages":[{}]}"#, Some("model")),
        (r#"{"model":"m","max_tokens":1}"#, Some("messages")),
        (r#"{"model":"m","max_tokens":1,"messages":{}}"#, Some("messages")),
        (r#"{"model":"m","max_tokens":1,"messages":[ ]}"#, Some("messages")),
        (r#"{"model":"m","messages":[{}]}"#, Some("max_tokens")),
        (r#"{"model":"m","max_tokens":null,"messages":[{}]}"#, Some("max_tokens")),
        (r#"{"model":"m","max_tokens":-1,"messages":[{}]}"#, Some("max_tokens")),
        (r#"{"model":"m","max_tokens":"1","messages":[{}]}"#, Some("max_tokens")),
        (r#"{"model":"m","max_tokens":1,"messages":[{}],"stream":1}"#, Some("stream")),
    ] {
        let fault = peek(&Bytes::from_static(body.as_bytes()), Purpose::Message).unwrap_err();
        assert_eq!(fault.field.as_deref(), field, "{body}: {fault}");
    }
    assert!(peek(&Bytes::from_static(b"{\"model\":\"\xff\"}"), Purpose::Message).is_err());
}

const MIXED: &str = r#"{"model":"m","max_tokens":9,"thinking": {"type":"enabled","budget_tokens":1024},"messages":[
 {"role":"user","content":"\"signature\":\"\""},
 {"role":"assistant","content":[{"type":"thinking","thinking":"x","signature" : ""}, {"type":"text","text":"a",  "n":1.0},{"type":"thinking","thinking":"own","signature":"EqQ="}]},
 {"role":"user","content":[{"type":"text","text":"b"}]},
 {"role":"assistant","content":[{"type":"thinking","thinking":"y","signature":""}]}]}"#;

#[test]
fn thoughts_of_other_upstreams_are_taken_out_and_every_other_block_stays() {
    let expected = r#"{"model":"up","max_tokens":9,"thinking": {"type":"disabled"},"messages":[{"role":"user","content":"\"signature\":\"\""},{"role":"assistant","content":[{"type":"text","text":"a",  "n":1.0},{"type":"thinking","thinking":"own","signature":"EqQ="}]},{"role":"user","content":[{"type":"text","text":"b"}]}]}"#;
    assert_eq!(spliced(MIXED), expected);
}

#[test]
fn thinking_goes_on_where_the_last_turn_keeps_its_thoughts() {
    let body = r#"{"model":"up","max_tokens":9,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":""},{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"own","signature":"E"}]}]}"#;
    assert_eq!(spliced(body), body.replace(r#"{"type":"thinking","thinking":"x","signature":""},"#, ""));
    let quoted = r#"{"model":"up","max_tokens":9,"messages":[{"role":"user","content":"say \"signature\":\"\""}]}"#;
    assert_eq!(spliced(quoted), quoted);
}

#[test]
fn all_thoughts_go_when_the_upstream_refused_them() {
    let without = without_thoughts(&Bytes::from_static(MIXED.as_bytes())).unwrap();
    let without: Value = serde_json::from_slice(&without).unwrap();
    assert_eq!(without["messages"][1]["content"], json!([{"type": "text", "text": "a", "n": 1.0}]));
    assert_eq!((without["messages"].as_array().unwrap().len(), &without["thinking"]["type"]), (3, &json!("disabled")));
    assert_eq!(without_thoughts(&Bytes::from_static(br#"{"messages":[{"role":"user","content":"a"}]}"#)), None);
    for (status, message, refused) in [
        (400, "messages.1.content.0: Invalid `signature` in `thinking` block", true),
        (400, "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", true),
        (400, "messages: at least one message is required", false),
        (500, "Invalid `signature` in `thinking` block", false),
    ] {
        let signals =
            Signals { status: Some(status), message: Signals::text(message), ..Signals::new(Family::Anthropic) };
        assert_eq!(refuses_thoughts(&signals), refused, "{status} {message}");
    }
}

proptest! {
    #[test]
    fn a_splice_is_json_again_and_changes_nothing_else(
        model in ".{0,9}", extra in ".{0,9}", text in ".{0,30}", foreign in any::<bool>(), upstream in ".{0,9}",
    ) {
        let signature = if foreign { "" } else { "EqQ=" };
        let body = json!({"x": extra, "model": format!("m{model}"), "max_tokens": 1, "messages": [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": text, "signature": signature}, {"type": "text", "text": text}]},
        ]});
        let bytes = Bytes::from(body.to_string());
        let found = peek(&bytes, Purpose::Message).unwrap();
        let spliced: Value = serde_json::from_slice(&splice(&bytes, &found, &upstream)).unwrap();
        let mut expected = body.clone();
        expected["model"] = upstream.into();
        if foreign {
            expected["messages"][0]["content"].as_array_mut().unwrap().remove(0);
        }
        prop_assert_eq!(spliced, expected);
    }
}
