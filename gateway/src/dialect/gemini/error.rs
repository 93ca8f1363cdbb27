//! The Google error envelope, both ways.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use shared::failure::{Family, Signals, Transport};

use crate::error::{Fault, UpstreamError, readable, unstructured};

mod said;

use said::Said;

/// Larger bodies are not read as JSON: an honest error is short.
const MAX_JSON: usize = 256 * 1024;
/// As much of a body as is looked at when it is not JSON, in bytes.
const MAX_TEXT: usize = 8 * 1024;

/// A fault as a response body.
pub fn envelope(fault: &Fault) -> Bytes {
    Bytes::from(to_json(fault))
}

/// A fault as the last event of a stream: no `event:` line, and `error` is the first key.
pub fn event(fault: &Fault) -> Bytes {
    Bytes::from(format!("data: {}\n\n", to_json(fault)))
}

/// A fault as the last element of a stream that is a JSON array and has begun.
pub fn element(fault: &Fault) -> Bytes {
    Bytes::from(format!(",\n{}\n]", to_json(fault)))
}

/// A fault as the only element of a stream that is a JSON array.
pub fn only_element(fault: &Fault) -> Bytes {
    Bytes::from(format!("[\n{}\n]", to_json(fault)))
}

/// What keeps a silent stream alive: blank lines, in events and in an array alike. The official Python SDK takes nothing else.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b"\n\n")
}

fn to_json(fault: &Fault) -> String {
    let mut details = Vec::new();
    if let Some(seconds) = fault.retry_after {
        let wait = format!("{seconds}s");
        details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait}));
    }
    if let Some(reason) = fault.refusal.map(Cow::Borrowed).or_else(|| fault.openai_code.clone()) {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason.to_ascii_uppercase(),
            "domain": "headgate",
        }));
    }
    if let Some(field) = &fault.param {
        let violation = json!({"field": field, "description": fault.message});
        details.push(json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}));
    }
    let mut error = Map::new();
    error.insert("code".into(), fault.status.as_u16().into());
    error.insert("message".into(), fault.message.clone().into());
    error.insert("status".into(), fault.gemini_status.into());
    if !details.is_empty() {
        error.insert("details".into(), details.into());
    }
    json!({"error": error}).to_string()
}

/// Reads an error body: an envelope, a list of one envelope, an error that is only a text, a page, a text, nothing. `status` is
/// absent for an error inside a success; the error's own code stands in for it then.
pub fn read(status: Option<u16>, body: &[u8]) -> UpstreamError {
    let json: Option<Value> = if body.len() <= MAX_JSON { serde_json::from_slice(body).ok() } else { None };
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)]);
    let mut signals = Signals::new(Family::Google);
    signals.status = status;
    signals.body = Signals::text(&text);
    if status.is_none() {
        signals.transport = Some(Transport::ErrorInSuccess);
    }
    let Some(said) = json.as_ref().and_then(Said::find) else {
        return UpstreamError { signals, reason: unstructured(&text), kind: None, code: None, param: None, json };
    };
    if status.is_none() {
        signals.status = said.status();
    }
    signals.kind = Signals::text(said.kind.unwrap_or_default());
    signals.code = Signals::text(&said.reason(signals.status));
    let message = said.message.unwrap_or_default();
    signals.message = Signals::text(message);
    let reason = if message.is_empty() { "no reason given".to_owned() } else { readable(message) };
    // Google's words are not OpenAI's type and code: the caller gets those that belong to the status.
    let param = said.field().map(readable);
    UpstreamError { signals, reason, kind: None, code: None, param, json }
}

/// An answer that is no answer, without words of the upstream.
pub fn broken(transport: Transport, reason: &str) -> UpstreamError {
    UpstreamError::of_transport(Family::Google, transport, reason)
}

#[cfg(test)]
mod tests;
