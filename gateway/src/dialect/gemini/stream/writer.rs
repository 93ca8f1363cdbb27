//! A stream from the common tongue to a Gemini caller.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shared::money::Tokens;

use super::super::answer::reason;
use super::super::response::{skip_signature, usage_metadata, written_call};
use super::frame::{Frame, Framing};
use crate::canonical::request::ToolCall;
use crate::canonical::response::{Event, Finish};
use crate::dialect::translate::WriteEvents;

/// Writes one stream. Text goes out as it comes; a call is held until its arguments are complete, for Gemini sends it whole.
#[derive(Debug)]
pub struct Writer {
    frame: Frame,
    model: String,
    id: String,
    /// By index: several may be told at once.
    pending: BTreeMap<usize, Pending>,
    signed: bool,
    usage: Option<Tokens>,
    finish: Finish,
}

/// A call whose arguments are still coming.
#[derive(Debug, Default)]
struct Pending {
    id: String,
    name: String,
    signature: Option<String>,
    arguments: String,
}

impl Writer {
    /// A stream of which nothing was written yet. `model` is the caller's own name for it; `request_id` stands in for an id that the
    /// upstream does not give.
    pub fn new(model: &str, request_id: &str, framing: Framing) -> Self {
        Self {
            frame: Frame::new(framing),
            model: model.to_owned(),
            id: request_id.to_owned(),
            pending: BTreeMap::new(),
            signed: false,
            usage: None,
            finish: Finish::Stop,
        }
    }

    fn chunk(&mut self, parts: &[Value], finish: Option<&Finish>, out: &mut Vec<u8>) {
        let mut candidate = Map::new();
        candidate.insert("content".into(), json!({"role": "model", "parts": parts}));
        if let Some(finish) = finish {
            candidate.insert("finishReason".into(), reason(finish).into());
        }
        candidate.insert("index".into(), 0.into());
        let mut chunk = Map::new();
        chunk.insert("candidates".into(), json!([candidate]));
        if finish.is_some()
            && let Some(usage) = &self.usage
        {
            chunk.insert("usageMetadata".into(), usage_metadata(usage));
        }
        chunk.insert("modelVersion".into(), self.model.as_str().into());
        chunk.insert("responseId".into(), self.id.as_str().into());
        self.frame.chunk(Value::Object(chunk).to_string().as_bytes(), out);
    }

    /// Something else follows, or nothing: the calls are complete.
    fn calls(&mut self, out: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        let calls = pending.into_values().map(|call| {
            let mut part = written_call(&call.complete());
            if let Value::Object(part) = &mut part
                && !std::mem::replace(&mut self.signed, true)
            {
                skip_signature(part);
            }
            part
        });
        let calls: Vec<Value> = calls.collect();
        if !calls.is_empty() {
            self.chunk(&calls, None, out);
        }
    }

    fn text(&mut self, part: &Value, out: &mut Vec<u8>) {
        self.calls(out);
        self.chunk(std::slice::from_ref(part), None, out);
    }
}

impl Pending {
    /// The whole call. Gemini's arguments are an object, so what is none becomes the one field of an object.
    fn complete(self) -> ToolCall {
        let arguments = if self.arguments.trim().is_empty() {
            Map::new()
        } else {
            match serde_json::from_str(&self.arguments) {
                Ok(Value::Object(map)) => map,
                Ok(other) => Map::from_iter([("arguments".to_owned(), other)]),
                Err(_) => Map::from_iter([("arguments".to_owned(), self.arguments.into())]),
            }
        };
        ToolCall { id: self.id, name: self.name, arguments, signature: self.signature }
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start(Some(id)) => self.id.clone_from(id),
            Event::Text(text) | Event::Refusal(text) if !text.is_empty() => self.text(&json!({"text": text}), out),
            Event::Thinking(text) if !text.is_empty() => self.text(&json!({"text": text, "thought": true}), out),
            Event::CallStart { index, id, name, signature } => {
                let call = self.pending.entry(*index).or_default();
                call.id.clone_from(id);
                call.name.clone_from(name);
                call.signature.clone_from(signature);
            }
            Event::CallArguments { index, fragment } => {
                self.pending.entry(*index).or_default().arguments.push_str(fragment);
            }
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::Finish(finish) => {
                self.finish = finish.clone();
                self.calls(out);
            }
            // Foreign signatures and redacted thoughts mean nothing to a Gemini caller.
            Event::Start(None)
            | Event::Text(_)
            | Event::Refusal(_)
            | Event::Thinking(_)
            | Event::ThinkingSignature(_)
            | Event::RedactedThinking(_) => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.calls(out);
        let finish = self.finish.clone();
        self.chunk(&[json!({"text": ""})], Some(&finish), out);
        self.frame.end(out);
    }
}
