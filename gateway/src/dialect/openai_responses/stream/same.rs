//! From an upstream of the Responses API to a caller of it.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::Transport;

use super::super::super::openai::error::{broken, read as read_error};
use super::super::super::openai::json::{Chars, present, quoted, range_in};
use super::super::super::openai::stream::put;
use super::super::json::Said;
use super::super::request::Keeps;
use crate::canonical::usage;
use crate::dialect::translate::{Fed, StreamTranslation};
use crate::error::UpstreamError;

/// Passes every event on as received but for the model's name.
#[derive(Debug, Clone)]
pub struct Same {
    model: String,
    keeps: Keeps,
    content: bool,
    done: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    response: Option<Inner<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    delta: Option<Chars>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Inner<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<Cow<'a, str>>,
}

impl Same {
    /// A stream of which nothing was read yet.
    pub fn new(caller_model: &str, keeps: Keeps) -> Self {
        Self { model: quoted(caller_model), keeps, content: false, done: false }
    }

    fn take(&mut self, data: &[u8], event: &Event<'_>, kind: &str) -> Fed {
        let model = event.response.as_ref().and_then(|response| response.model).map(|model| range_in(data, model));
        let mut fed = Fed { out: self.framed(kind, data, model), ..Fed::default() };
        if let Some(usage) = event.response.as_ref().and_then(|response| response.usage) {
            fed.usage = usage::openai_responses(usage.get());
        }
        match kind {
            "response.created" if self.keeps == Keeps::Yes => {
                let id = event.response.as_ref().and_then(|response| response.id);
                fed.made = id.and_then(|id| serde_json::from_str(id.get()).ok());
            }
            "response.completed" | "response.incomplete" => {
                self.done = true;
                fed.done = true;
            }
            // An item that is more than a place for deltas: a call, the use of a tool.
            "response.output_item.added" => {
                let raw = event.item.map_or("null", RawValue::get);
                let kind = serde_json::from_str::<Item<'_>>(raw).ok().and_then(|item| item.kind);
                if kind.is_some_and(|kind| !matches!(kind.as_ref(), "message" | "reasoning")) {
                    fed.content = true;
                    fed.chars = serde_json::from_str::<Said>(raw).unwrap_or_default().0;
                }
            }
            _ => {
                if let Some(Chars(chars)) = event.delta {
                    fed.content = chars > 0;
                    fed.chars = chars;
                }
            }
        }
        self.content |= fed.content;
        fed
    }

    fn framed(&self, kind: &str, data: &[u8], model: Option<Range<usize>>) -> Bytes {
        let (before, model, after) = match model {
            Some(at) => (&data[..at.start], self.model.as_bytes(), &data[at.end..]),
            None => (data, &b""[..], &b""[..]),
        };
        let mut out = Vec::with_capacity(data.len() + kind.len() + model.len() + 20);
        // A kind with a line end in it would be two fields.
        if !kind.is_empty() && !kind.contains(['\n', '\r']) {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(kind.as_bytes());
            out.push(b'\n');
        }
        out.extend_from_slice(b"data: ");
        for part in [before, model, after] {
            put(&mut out, part);
        }
        out.extend_from_slice(b"\n\n");
        out.into()
    }
}

impl StreamTranslation for Same {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>> {
        let trimmed = data.trim_ascii();
        if self.done {
            return Ok(Fed { done: true, ..Fed::default() });
        }
        if trimmed.is_empty() || trimmed == b"[DONE]" {
            return Ok(Fed::default());
        }
        if name == Some(b"error") || trimmed.starts_with(b"[") {
            return Err(Box::new(read_error(None, data)));
        }
        let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else {
            let reason = "the stream holds an event that is none of a response";
            return Err(Box::new(broken(Transport::NotTheFormat, reason)));
        };
        let named = name.map(String::from_utf8_lossy);
        let kind = event.kind.as_deref().or(named.as_deref()).unwrap_or_default();
        if kind == "error" || event.error.is_some() {
            return Err(Box::new(read_error(None, data)));
        }
        if kind == "response.failed" {
            let error = event.response.as_ref().and_then(|response| response.error);
            return Err(Box::new(match error {
                Some(error) => read_error(None, format!("{{\"error\":{}}}", error.get()).as_bytes()),
                None => broken(Transport::ErrorInSuccess, "the upstream broke off its answer"),
            }));
        }
        Ok(self.take(data, &event, kind))
    }

    fn end(&mut self) -> Result<Fed, Box<UpstreamError>> {
        if self.done {
            return Ok(Fed { done: true, ..Fed::default() });
        }
        Err(Box::new(if self.content {
            broken(Transport::Truncated, "the answer ended before it was complete")
        } else {
            broken(Transport::Empty, "the stream ended without an answer")
        }))
    }

    fn is_whole(&self) -> bool {
        self.done
    }
}

#[cfg(test)]
mod tests;
