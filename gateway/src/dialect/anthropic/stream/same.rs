//! Passes a stream on to a client of the same dialect: the bytes of each event stay, the model has the caller's name.

use std::ops::Range;

use bytes::Bytes;
use shared::money::Tokens;

use super::event::{Event, parse, truncated};
use crate::canonical::usage::AnthropicUsage;
use crate::dialect::anthropic::json::quoted;
use crate::dialect::translate::{Fed, StreamTranslation};
use crate::error::UpstreamError;

/// The last event of a whole answer.
const STOP: &[u8] = b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// Follows one stream of one attempt.
#[derive(Debug, Clone)]
pub struct Same {
    caller_model: String,
    usage: AnthropicUsage,
    whole: bool,
    done: bool,
}

impl Same {
    /// A stream of which nothing was read yet. `caller_model` is the model as the caller wrote it.
    pub fn new(caller_model: &str) -> Self {
        Self { caller_model: quoted(caller_model), usage: AnthropicUsage::default(), whole: false, done: false }
    }

    /// What was used so far. The beginning of a message knows its input only, so that nothing is reported before its end: a report
    /// would be taken for all there is.
    fn usage(&mut self, event: &Event<'_>) -> Option<Tokens> {
        match event.kind() {
            "message_start" => {
                if let Some(usage) = event.message.as_ref().and_then(|message| message.usage) {
                    self.usage.report(usage.get());
                }
                None
            }
            "message_delta" => {
                self.usage.report(event.usage?.get());
                self.usage.tokens()
            }
            _ => None,
        }
    }
}

impl StreamTranslation for Same {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>> {
        if self.done {
            return Ok(Fed::default());
        }
        let Some(event) = parse(name, data)? else { return Ok(Fed::default()) };
        let usage = self.usage(&event);
        let ends = event.delta.as_ref().is_some_and(|delta| !delta.stop_reason.as_str().is_empty());
        self.done = event.kind() == "message_stop";
        self.whole |= self.done || ends;
        Ok(Fed {
            out: framed(event.kind(), data, event.model_at(data).as_ref(), &self.caller_model),
            content: event.is_content(),
            chars: event.chars(),
            usage,
            done: self.done,
            ..Fed::default()
        })
    }

    fn end(&mut self) -> Result<Fed, Box<UpstreamError>> {
        if self.done {
            return Ok(Fed::default());
        }
        if !self.whole {
            return Err(truncated());
        }
        self.done = true;
        Ok(Fed { out: Bytes::from_static(STOP), done: true, ..Fed::default() })
    }

    fn is_whole(&self) -> bool {
        self.whole
    }
}

/// An event as the client gets it. Events without a name are lost on the vendor's clients, so that each gets its type for one.
fn framed(kind: &str, data: &[u8], model_at: Option<&Range<usize>>, model: &str) -> Bytes {
    let (before, put_in, after) = match model_at {
        Some(at) => (&data[..at.start], model.as_bytes(), &data[at.end..]),
        None => (data, &b""[..], &b""[..]),
    };
    let mut out = Vec::with_capacity(data.len() + kind.len() + put_in.len() + 20);
    // A name is one line.
    if !kind.is_empty() && !kind.contains(['\n', '\r']) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    for part in [before, put_in, after] {
        put(&mut out, part);
    }
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// Data of several lines stays data of several lines.
fn put(out: &mut Vec<u8>, part: &[u8]) {
    if memchr::memchr(b'\n', part).is_none() {
        return out.extend_from_slice(part);
    }
    for (nth, line) in part.split(|byte| *byte == b'\n').enumerate() {
        if nth > 0 {
            out.extend_from_slice(b"\ndata: ");
        }
        out.extend_from_slice(line);
    }
}
