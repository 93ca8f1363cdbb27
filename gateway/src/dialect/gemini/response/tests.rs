use proptest::prelude::*;
use serde_json::{Value, json};
use shared::failure::{Class, ErrorPolicy, classify};

use super::*;
use crate::canonical::request::Thinking;

const JSON: Option<&str> = Some("application/json; charset=UTF-8");

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn body(value: &Value) -> Bytes {
    bytes(&value.to_string())
}

fn class(error: &UpstreamError) -> Class {
    classify(&error.signals, ErrorPolicy::Standard, &[]).class
}

fn answer(parts: &Value, finish: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}]})
}

#[test]
fn an_answer_is_read_part_by_part() {
    let given = body(&json!({
        "candidates": [{
            "content": {"role": "model", "parts": [
                {"text": "hm ", "thought": true}, {"text": "hm", "thought": true, "thoughtSignature": "c2ln"},
                {"text": "a"}, {"text": ""}, {"text": "b", "thought_signature": "c2ln"},
                {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "own-1", "name": "g"}},
                {"inlineData": {"mimeType": "image/png", "data": "_-8="}}
            ]},
            "finishReason": "STOP", "safetyRatings": []
        }],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 7, "thoughtsTokenCount": 3},
        "modelVersion": "gemini-3-pro-001", "responseId": "r1"
    }));
    let read = read(JSON, &given).unwrap();
    assert_eq!((read.id.as_deref(), read.choices.len()), (Some("r1"), 1));
    assert_eq!(read.usage, Some(Tokens { input: 60, cached_input: 40, output: 7, reasoning: 3, ..Tokens::default() }));
    assert_eq!(read.choices[0].finish, Finish::ToolCalls);
    let [Part::Thinking(thought), Part::Text(text), Part::ToolCall(first), Part::ToolCall(second), Part::Image(image)] =
        read.choices[0].parts.as_slice()
    else {
        panic!("{:?}", read.choices[0].parts)
    };
    assert_eq!(*thought, Thinking { text: "hm hm".into(), signature: None, redacted: None });
    assert_eq!(text, "ab");
    assert!(first.id.starts_with("call_"));
    assert_eq!((first.signature.as_deref(), second.id.as_str()), (Some("c2ln"), "own-1"));
    assert_eq!(image.source, Source::Inline { mime: "image/png".into(), data: "/+8=".into() });
    let whole = check(JSON, &given).unwrap();
    assert_eq!((whole.usage, whole.output_chars), (read.usage, 5 + 2 + 1 + 6));
}

#[test]
fn why_it_ended_has_its_word() {
    let parts = json!([{"text": "x"}]);
    for (reason, finish) in [
        ("STOP", Finish::Stop),
        ("A_REASON_OF_TOMORROW", Finish::Stop),
        ("OTHER", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("CONTINUATION", Finish::Length),
        ("SAFETY", Finish::Filtered),
        ("RECITATION", Finish::Filtered),
        ("PROHIBITED_CONTENT", Finish::Filtered),
        ("IMAGE_SAFETY", Finish::Filtered),
    ] {
        assert_eq!(read(JSON, &body(&answer(&parts, reason))).unwrap().choices[0].finish, finish, "{reason}");
    }
    for reason in ["MAX_TOKENS", "SAFETY"] {
        let read = read(JSON, &body(&json!({"candidates": [{"finishReason": reason}]}))).unwrap();
        assert!(read.choices[0].parts.is_empty(), "{reason} explains why nothing is said");
    }
}

#[test]
fn a_refused_prompt_is_a_filtered_answer() {
    let given = body(
        &json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}}),
    );
    let read = read(JSON, &given).unwrap();
    assert_eq!(read.choices, [Choice { parts: vec![], finish: Finish::Filtered }]);
    assert_eq!(read.usage, Some(Tokens { input: 4, ..Tokens::default() }));
    assert!(check(JSON, &given).is_ok());
}

#[test]
fn a_success_that_is_none_is_the_upstreams_failure() {
    let empty = [
        "",
        "  \n",
        "{}",
        "null",
        "7",
        "<html>oops</html>",
        "{\"candidates\":",
        r#"{"candidates":[]}"#,
        r#"{"candidates":7}"#,
        r#"{"promptFeedback":{}}"#,
        r#"{"promptFeedback":{"blockReason":"BLOCK_REASON_UNSPECIFIED"}}"#,
        r#"{"candidates":[{}]}"#,
        r#"{"candidates":[{"finishReason":"STOP"}]}"#,
        r#"{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"OTHER"}]}"#,
        r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"x"}]}"#,
        r#"{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}"#,
        r#"{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}"#,
        "[1]",
    ];
    for text in empty {
        assert_eq!(class(&read(JSON, &bytes(text)).unwrap_err()), Class::Unavailable, "{text}");
        // Without a finish reason it only looks unfinished; what it says is nothing all the same.
        if text != r#"{"candidates":[{}]}"# {
            assert_eq!(class(&check(JSON, &bytes(text)).unwrap_err()), Class::Unavailable, "{text}");
        }
    }
    let good = body(&answer(&json!([{"text": "x"}]), "STOP"));
    assert!(check(Some("text/html"), &good).is_err() && read(Some("text/event-stream"), &good).is_err());
    assert!(check(Some("text/plain"), &good).is_ok() && check(None, &good).is_ok());
    let broken = body(&answer(&json!([{"text": "x"}]), "MALFORMED_FUNCTION_CALL"));
    assert!(read(JSON, &broken).is_err(), "no other dialect can say it");
    assert!(check(JSON, &broken).is_ok(), "a Gemini caller can be told");
}

#[test]
fn an_error_in_a_success_is_read_as_an_error() {
    for text in [
        r#"{"error":{"code":429,"message":"Quota exceeded for x per minute","status":"RESOURCE_EXHAUSTED"}}"#,
        r#"[{"error":{"code":429,"message":"Quota exceeded for x per minute","status":"RESOURCE_EXHAUSTED"}}]"#,
    ] {
        assert_eq!(class(&read(JSON, &bytes(text)).unwrap_err()), Class::RateLimited);
        assert_eq!(class(&check(JSON, &bytes(text)).unwrap_err()), Class::RateLimited);
    }
}

#[test]
fn an_answer_is_written_as_gemini_writes_it() {
    let arguments = Map::from_iter([("a".to_owned(), json!(1))]);
    let call = |id: &str, signature: Option<&str>| {
        let (id, name, signature) = (id.to_owned(), "f".to_owned(), signature.map(str::to_owned));
        Part::ToolCall(ToolCall { id, name, arguments: arguments.clone(), signature })
    };
    let thinking = Thinking { text: "hm".into(), signature: Some("foreign".into()), redacted: None };
    let redacted = Thinking { redacted: Some("x".into()), ..Thinking::default() };
    let response = Response {
        id: None,
        choices: vec![
            Choice {
                parts: vec![
                    Part::Thinking(thinking),
                    Part::Thinking(redacted),
                    Part::Text("a".into()),
                    call("c1", None),
                    call("c2", Some("not base64!")),
                ],
                finish: Finish::ToolCalls,
            },
            Choice { parts: vec![], finish: Finish::Filtered },
        ],
        usage: Some(Tokens { input: 5, cached_input: 2, cache_write: 1, output: 3, reasoning: 4, ..Tokens::default() }),
    };
    let written: Value = serde_json::from_slice(&write(&response, "mine", "req-1")).unwrap();
    assert_eq!(
        written,
        json!({
            "candidates": [
                {"content": {"role": "model", "parts": [
                    {"text": "hm", "thought": true},
                    {"text": "a"},
                    {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "skip_thought_signature_validator"},
                    {"functionCall": {"id": "c2", "name": "f", "args": {"a": 1}}}
                ]}, "finishReason": "STOP", "index": 0},
                {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "SAFETY", "index": 1}
            ],
            "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 3, "totalTokenCount": 15, "cachedContentTokenCount": 2, "thoughtsTokenCount": 4},
            "modelVersion": "mine",
            "responseId": "req-1"
        })
    );
}

fn any_answer() -> impl Strategy<Value = Response> {
    let part = prop_oneof![
        "\\PC{1,9}".prop_map(Part::Text),
        "[a-z]{1,5}".prop_map(|name| {
            let id = format!("call_{name}");
            Part::ToolCall(ToolCall { id, name, arguments: Map::new(), signature: Some("c2ln".into()) })
        })
    ];
    let count = 0u64..1_000;
    (prop::collection::vec(part, 1..4), count.clone(), count.clone(), count.clone(), count).prop_map(
        |(parts, input, cached_input, output, reasoning)| {
            let mut joined = Vec::new();
            for part in parts {
                push_joined(&mut joined, part);
            }
            let calls = joined.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
            let finish = if calls > 0 { Finish::ToolCalls } else { Finish::Stop };
            let usage = Some(Tokens { input, cached_input, output, reasoning, ..Tokens::default() });
            Response { id: Some("r".into()), choices: vec![Choice { parts: joined, finish }], usage }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(response in any_answer()) {
        let written = write(&response, "m", "q");
        prop_assert_eq!(&read(JSON, &written).unwrap(), &response);
        prop_assert_eq!(check(JSON, &written).unwrap().usage, response.usage);
    }

    #[test]
    fn no_json_makes_it_panic(value in crate::dialect::gemini::request::any_json()) {
        for body in [body(&value), body(&json!({"candidates": [value]})), body(&json!({"candidates": [{"content": {"parts": [value]}}]}))] {
            let _ = read(JSON, &body);
            let _ = check(JSON, &body);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = read(None, &Bytes::from(data.clone()));
        let _ = check(None, &Bytes::from(data));
    }
}
