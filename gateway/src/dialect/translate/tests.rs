use super::*;
use crate::canonical::request::{Thinking, ToolCall};
use crate::canonical::response::{Choice, Finish};
use crate::dialect::UsageChunk;
use crate::dialect::openai::names::Names;
use crate::dialect::openai::stream as chat;
use crate::dialect::openai_responses::request::Echo;
use crate::dialect::openai_responses::stream as responses;
use crate::upstream::sse::Scanner;

const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

/// A stream as an upstream sends it: text of several bytes a letter, two calls that cross over, the usage, the marker.
const UPSTREAM: &str = "\u{feff}: a comment\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\ndata: \"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße 北 😀\"}}]}\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}},{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{\"}}]}}]}\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":1}\"}},{\"index\":1,\"function\":{\"arguments\":\"}\"}}]}}]}\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
data: {\"id\":\"c\",\"model\":\"up\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n\
data: [DONE]\n\n";

fn to_chat() -> Box<dyn StreamTranslation> {
    let reader = chat::Reader::new(Names::default());
    Box::new(Cross::new(reader, chat::Writer::new("mine", REQUEST, UsageChunk::Wanted)))
}

fn to_responses() -> Box<dyn StreamTranslation> {
    let reader = chat::Reader::new(Names::default());
    Box::new(Cross::new(reader, responses::Writer::new("mine", REQUEST, &Echo::default())))
}

fn same() -> Box<dyn StreamTranslation> {
    Box::new(chat::Same::new("mine", UsageChunk::Wanted))
}

/// What a stream that comes in these chunks comes to.
fn followed<'a>(mut stream: Box<dyn StreamTranslation>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Fed {
    let mut scanner = Scanner::new();
    let mut sum = Fed::default();
    let mut out = Vec::new();
    let mut add = |fed: Fed| {
        out.extend_from_slice(&fed.out);
        sum.content |= fed.content;
        sum.chars += fed.chars;
        sum.usage = fed.usage.or(sum.usage);
        sum.done |= fed.done;
    };
    for chunk in chunks {
        scanner.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = scanner.next().unwrap() {
            add(stream.event(event.name.as_deref(), &event.data).unwrap());
        }
    }
    add(stream.end().unwrap());
    sum.out = out.into();
    sum
}

#[test]
fn every_way_counts_the_same_and_ends_once() {
    for stream in [to_chat, to_responses, same] {
        let fed = followed(stream(), [UPSTREAM.as_bytes()]);
        let tokens = Tokens { input: 5, output: 4, reasoning: 3, ..Tokens::default() };
        assert_eq!((fed.content, fed.done, fed.usage), (true, true, Some(tokens)));
        let out = std::str::from_utf8(&fed.out).unwrap();
        assert!(out.ends_with("data: [DONE]\n\n") || out.contains("event: response.completed\n"), "{out}");
        assert!(!out.contains("\"up\"") && out.contains("\"mine\"") && out.contains("Grüße 北 😀"), "{out}");
    }
    // Passed on unread, the ids of calls count too.
    assert_eq!(followed(to_chat(), [UPSTREAM.as_bytes()]).chars, 2 + 9 + 1 + 1 + 1 + 7 + 1);
}

#[test]
fn neither_the_cut_nor_the_line_ends_of_an_upstream_show() {
    for stream in [to_chat, to_responses, same] {
        let expected = followed(stream(), [UPSTREAM.as_bytes()]);
        for line_end in ["\n", "\r\n", "\r"] {
            let upstream = UPSTREAM.replace('\n', line_end);
            let upstream = upstream.as_bytes();
            assert_eq!(followed(stream(), upstream.chunks(1)), expected);
            for at in 1..upstream.len() {
                assert_eq!(followed(stream(), [&upstream[..at], &upstream[at..]]), expected, "cut at {at}");
            }
        }
    }
}

#[test]
fn a_truncated_stream_never_looks_complete() {
    let whole: Vec<&str> = UPSTREAM.split_inclusive("\n\n").collect();
    // Whole from the reason on.
    for kept in 0..whole.len() - 3 {
        for stream in [to_chat, to_responses, same] {
            let mut stream = stream();
            let mut scanner = Scanner::new();
            scanner.push(Bytes::from(whole[..kept].concat()));
            while let Some(event) = scanner.next().unwrap() {
                let fed = stream.event(event.name.as_deref(), &event.data).unwrap();
                let out = std::str::from_utf8(&fed.out).unwrap();
                assert!(!out.contains("[DONE]") && !out.contains("response.completed") && !fed.done, "{out}");
            }
            assert!(!stream.is_whole());
            assert!(stream.end().is_err());
        }
    }
}

#[test]
fn lifecycle_is_no_content_and_an_error_is_what_it_was() {
    let mut stream = to_responses();
    let fed = stream.event(None, br#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#).unwrap();
    assert!(!fed.content && fed.out.starts_with(b"event: response.created\n"));
    let error = stream.event(None, br#"{"error":{"message":"busy","code":"server_is_overloaded"}}"#).unwrap_err();
    assert_eq!((error.reason.as_str(), error.code.as_deref()), ("busy", Some("server_is_overloaded")));
}

#[test]
fn a_whole_answer_is_counted_without_what_is_opaque() {
    let thinking = Thinking { text: "hm".into(), signature: Some("sig".into()), redacted: Some("xxx".into()) };
    let arguments = serde_json::json!({"a": 1}).as_object().unwrap().clone();
    let call = ToolCall { id: "c".into(), name: "f".into(), arguments, signature: Some("sig".into()) };
    let parts = vec![Part::Thinking(thinking), Part::Text("hé".into()), Part::ToolCall(call)];
    let usage = Some(Tokens::default());
    let answer = Response { id: None, choices: vec![Choice { parts, finish: Finish::Stop }], usage };
    let whole = WholeAnswer::crossed(&answer, Bytes::from_static(b"{}"));
    assert_eq!((whole.output_chars, whole.usage, whole.body), (2 + 2 + 1 + 7, usage, Bytes::from_static(b"{}")));
}
