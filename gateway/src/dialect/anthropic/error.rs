//! The Anthropic error envelope, both ways.

use bytes::Bytes;
use serde_json::{Map, Value, json};
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

/// A fault as the last event of a stream: no `message_stop` follows it.
pub fn event(fault: &Fault) -> Bytes {
    Bytes::from(format!("event: error\ndata: {}\n\n", to_json(fault)))
}

/// What keeps a silent stream open. All of the vendor's clients skip it.
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n")
}

fn to_json(fault: &Fault) -> String {
    let mut error = json!({"type": fault.anthropic_type, "message": fault.message});
    if let Some(code) = &fault.openai_code {
        error["details"] = json!({"error_code": code});
    }
    json!({"type": "error", "error": error}).to_string()
}

/// Reads an error body: an envelope, a list of one envelope, an error that is only a text, a page, a text, nothing. `status` is
/// absent for an error inside a success; its own number or the status that belongs to its type stands in for it then.
pub fn read(status: Option<u16>, body: &[u8]) -> UpstreamError {
    let json: Option<Value> = if body.len() <= MAX_JSON { serde_json::from_slice(body).ok() } else { None };
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)]);
    let mut signals = Signals::new(Family::Anthropic);
    signals.status = status;
    signals.body = Signals::text(&text);
    if status.is_none() {
        signals.transport = Some(Transport::ErrorInSuccess);
    }
    let Some(said) = json.as_ref().and_then(Said::find) else {
        return UpstreamError { signals, reason: unstructured(&text), kind: None, code: None, param: None, json };
    };
    signals.family = said.family;
    if status.is_none() {
        signals.status = said.status();
    }
    signals.kind = Signals::text(said.kind.unwrap_or_default());
    signals.code = Signals::text(said.code.as_deref().unwrap_or_default());
    let message = said.message.unwrap_or_default();
    signals.message = Signals::text(message);
    let reason = if message.is_empty() { "no reason given".to_owned() } else { readable(message) };
    let code = said.code.as_deref().map(readable);
    UpstreamError { signals, reason, kind: None, code, param: None, json }
}

/// The error a success holds in place of its answer, if it holds one that says anything.
pub(super) fn in_success(body: &[u8]) -> Option<UpstreamError> {
    let said = read(None, body);
    (!said.signals.kind.is_empty() || !said.signals.message.is_empty()).then_some(said)
}

/// An answer that is no answer, without words of the upstream.
pub fn broken(transport: Transport, reason: &str) -> UpstreamError {
    UpstreamError::of_transport(Family::Anthropic, transport, reason)
}

/// The parts of an error object.
struct Said<'a> {
    family: Family,
    message: Option<&'a str>,
    kind: Option<&'a str>,
    code: Option<String>,
    /// A code that is a number: the status, where a Claude is served by others.
    number: Option<u16>,
}

impl<'a> Said<'a> {
    fn find(body: &'a Value) -> Option<Self> {
        let body = match body {
            Value::Array(list) => list.first()?,
            other => other,
        };
        let outer = body.as_object()?;
        match outer.get("error") {
            Some(Value::Object(error)) => Some(Self::of(error)),
            Some(Value::String(message)) => {
                Some(Self { family: Family::Anthropic, message: Some(message), kind: None, code: None, number: None })
            }
            _ => {
                let text = |name: &str| outer.get(name).and_then(Value::as_str);
                let message = text("message").or_else(|| text("detail"))?;
                Some(Self {
                    family: Family::Anthropic,
                    message: Some(message),
                    kind: text("type"),
                    code: None,
                    number: None,
                })
            }
        }
    }

    /// An `error` object: Anthropic's, or Google's where a Claude is served by Google.
    fn of(error: &'a Map<String, Value>) -> Self {
        let text = |name: &str| error.get(name).and_then(Value::as_str);
        let (message, details) = (text("message"), error.get("details"));
        let number = error.get("code").and_then(Value::as_u64).and_then(|number| u16::try_from(number).ok());
        let coded = details.and_then(|details| details.get("error_code")).and_then(Value::as_str);
        if let (None, Some(status)) = (text("type"), text("status")) {
            let reason =
                details.and_then(Value::as_array).and_then(|list| list.iter().find_map(|one| one.get("reason")));
            let code = reason.and_then(Value::as_str).map(str::to_owned);
            return Self { family: Family::Google, message, kind: Some(status), code, number };
        }
        let code = coded.or_else(|| text("code")).map(str::to_owned);
        Self { family: Family::Anthropic, message, kind: text("type"), code, number }
    }

    /// The status an error gives itself, else the one that belongs to its type.
    fn status(&self) -> Option<u16> {
        if let Some(number) = self.number.filter(|number| (400..=599).contains(number)) {
            return Some(number);
        }
        Some(match self.kind? {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "conflict_error" => 409,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "api_error" => 500,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
