//! The OpenAI error envelope, both ways.

use bytes::Bytes;
use serde_json::{Value, json};
use shared::failure::{Family, Signals, Transport};

use crate::error::{Fault, UpstreamError, readable, unstructured};

/// Larger bodies are not read as JSON: an honest error is short.
const MAX_JSON: usize = 256 * 1024;
/// As much of a body as is looked at when it is not JSON, in bytes.
const MAX_TEXT: usize = 8 * 1024;

/// A fault as a response body.
pub fn envelope(fault: &Fault) -> Bytes {
    Bytes::from(to_json(fault))
}

/// A fault as the last event of a stream: no `[DONE]` follows it.
pub fn event(fault: &Fault) -> Bytes {
    Bytes::from(format!("data: {}\n\n", to_json(fault)))
}

/// What keeps a silent stream alive: a comment, which all SDKs skip.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

fn to_json(fault: &Fault) -> String {
    json!({"error": {
        "message": fault.message,
        "type": fault.openai_type,
        "param": fault.param,
        "code": fault.openai_code,
    }})
    .to_string()
}

/// Reads an error body: an envelope, a list of one envelope, an error that is only a text, a page, a text, nothing. `status` is
/// absent for an error inside a success; the error's own numeric code stands in for it then.
pub fn read(status: Option<u16>, body: &[u8]) -> UpstreamError {
    let json: Option<Value> = if body.len() <= MAX_JSON { serde_json::from_slice(body).ok() } else { None };
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)]);
    let mut signals = Signals::new(Family::OpenAi);
    signals.status = status;
    signals.body = Signals::text(&text);
    if status.is_none() {
        signals.transport = Some(Transport::ErrorInSuccess);
    }
    let Some(said) = json.as_ref().and_then(Said::find) else {
        return UpstreamError { signals, reason: unstructured(&text), kind: None, code: None, param: None, json };
    };
    if status.is_none() {
        signals.status = said.numeric_code();
    }
    signals.kind = Signals::text(said.kind.unwrap_or_default());
    signals.code = Signals::text(&said.code.clone().unwrap_or_default());
    let message = said.message.unwrap_or_default();
    signals.message = Signals::text(message);
    let reason = if message.is_empty() { "no reason given".to_owned() } else { readable(message) };
    let (kind, code, param) = (said.kind.map(readable), said.code.as_deref().map(readable), said.param.map(readable));
    UpstreamError { signals, reason, kind, code, param, json }
}

/// An answer that is no answer, without words of the upstream.
pub fn broken(transport: Transport, reason: &str) -> UpstreamError {
    UpstreamError::of_transport(Family::OpenAi, transport, reason)
}

/// The parts of an error object.
struct Said<'a> {
    message: Option<&'a str>,
    kind: Option<&'a str>,
    code: Option<String>,
    param: Option<&'a str>,
}

impl<'a> Said<'a> {
    fn find(body: &'a Value) -> Option<Self> {
        let body = match body {
            Value::Array(list) => list.first()?,
            other => other,
        };
        let outer = body.as_object()?;
        match outer.get("error") {
            Some(Value::Object(error)) => {
                let text = |name: &str| error.get(name).and_then(Value::as_str);
                Some(Self {
                    message: text("message").or_else(|| text("detail")),
                    kind: text("type").or_else(|| text("status")),
                    code: error.get("code").and_then(word),
                    param: text("param"),
                })
            }
            Some(Value::String(message)) => {
                Some(Self { message: Some(message), kind: None, code: outer.get("code").and_then(word), param: None })
            }
            // Compatible servers: `{"object":"error","message":…}`, `{"detail":…}`, `{"message":…}`.
            _ => {
                let text = |name: &str| outer.get(name).and_then(Value::as_str);
                let message = text("message").or_else(|| text("detail"))?;
                let code = outer.get("code").and_then(word);
                Some(Self { message: Some(message), kind: text("type"), code, param: text("param") })
            }
        }
    }

    /// A code that is an HTTP error status.
    fn numeric_code(&self) -> Option<u16> {
        self.code.as_deref()?.parse().ok().filter(|code| (400..=599).contains(code))
    }
}

/// A code: a word, or a number some servers send.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
