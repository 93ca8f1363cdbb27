//! The upstreams: what they answer, whole and streamed, and how a stream of theirs is followed.

use bytes::Bytes;
use gateway::dialect::Dialect;
use gateway::dialect::translate::StreamTranslation;
use gateway::error::UpstreamError;
use gateway::upstream::sse::{Event, Scanner};
use serde_json::Value;
use shared::money::Tokens;

use super::callers::Caller;
use super::golden::fixture;

pub(crate) const UPSTREAMS: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::CodeAssist];

/// What the answers say: text of two pieces; thoughts, text and two calls; a text cut off.
pub(crate) const ANSWERS: [&str; 3] = ["text", "tools", "length"];

/// The model at an upstream.
pub(crate) fn model(upstream: Dialect) -> &'static str {
    match upstream {
        Dialect::OpenAi => "gpt-5.1",
        Dialect::Anthropic => "claude-sonnet-4-5",
        Dialect::Gemini | Dialect::CodeAssist => "gemini-2.5-flash",
    }
}

/// The form of an answer: an upstream of OpenAI's answers a caller of its Responses API in kind.
pub(crate) fn form(caller: Caller, upstream: Dialect) -> &'static str {
    match upstream {
        Dialect::OpenAi if caller == Caller::Responses => "responses",
        Dialect::OpenAi => "openai",
        Dialect::Anthropic => "anthropic",
        Dialect::Gemini | Dialect::CodeAssist => "gemini",
    }
}

/// A body or the data of an event, in its upstream's envelope if it has one.
pub(crate) fn enveloped(upstream: Dialect, body: &str) -> String {
    let body = body.trim_end();
    if upstream == Dialect::CodeAssist { format!(r#"{{"response":{body},"traceId":"t"}}"#) } else { body.to_owned() }
}

/// A whole answer.
pub(crate) fn whole(caller: Caller, upstream: Dialect, answer: &str) -> Bytes {
    enveloped(upstream, &fixture(&format!("answers/{answer}.{}.json", form(caller, upstream)))).into()
}

/// The same answer as a stream, its lines ended by line feeds.
pub(crate) fn stream(caller: Caller, upstream: Dialect, answer: &str) -> String {
    let text = fixture(&format!("answers/{answer}.{}.sse", form(caller, upstream)));
    let lines = text.split('\n').map(|line| match line.strip_prefix("data: ") {
        Some(data) => format!("data: {}", enveloped(upstream, data)),
        None => line.to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// An event, named as its upstream names it.
pub(crate) fn framed(upstream: Dialect, event: &Value) -> String {
    let data = enveloped(upstream, &event.to_string());
    match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// What came of a stream.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    pub(crate) out: Vec<u8>,
    pub(crate) usage: Option<Tokens>,
    pub(crate) error: Option<Box<UpstreamError>>,
}

impl Followed {
    pub(crate) fn text(&self) -> &str {
        assert!(self.error.is_none(), "{:?}", self.error);
        std::str::from_utf8(&self.out).unwrap()
    }
}

/// Reads a stream in these pieces, as the flow does.
pub(crate) fn follow<'a>(
    mut translation: Box<dyn StreamTranslation>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Followed {
    let mut scanner = Scanner::new();
    let mut followed = Followed::default();
    for piece in pieces {
        scanner.push(Bytes::copy_from_slice(piece));
        while let Ok(Some(event)) = scanner.next() {
            match translation.event(event.name.as_deref(), &event.data) {
                Ok(fed) => {
                    followed.out.extend_from_slice(&fed.out);
                    followed.usage = fed.usage.or(followed.usage);
                    if fed.done {
                        return followed;
                    }
                }
                Err(error) => return Followed { error: Some(error), ..followed },
            }
        }
    }
    match translation.end() {
        Ok(fed) => {
            followed.out.extend_from_slice(&fed.out);
            followed.usage = fed.usage.or(followed.usage);
        }
        Err(error) => followed.error = Some(error),
    }
    followed
}

/// The events of a stream in these pieces.
pub(crate) fn scanned(pieces: &[&[u8]]) -> Vec<Event> {
    let mut scanner = Scanner::new();
    let mut all = Vec::new();
    for piece in pieces {
        scanner.push(Bytes::copy_from_slice(piece));
        while let Some(event) = scanner.next().unwrap() {
            all.push(event);
        }
    }
    all
}

/// The events of a caller's stream that are JSON.
pub(crate) fn values(caller: Caller, text: &str) -> Vec<Value> {
    if caller == Caller::GeminiArray {
        return serde_json::from_str(text).unwrap();
    }
    let events = scanned(&[text.as_bytes()]);
    let data = events.iter().map(|event| &event.data).filter(|data| data.as_ref() != b"[DONE]");
    data.map(|data| serde_json::from_slice(data).unwrap()).collect()
}
