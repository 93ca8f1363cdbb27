//! Writes the common tongue as a stream of chat completion chunks.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shared::money::Tokens;

use super::super::json::quoted;
use super::super::response::{created, extra_content, finish_reason, usage};
use super::DONE;
use crate::canonical::response::Event;
use crate::dialect::UsageChunk;
use crate::dialect::translate::WriteEvents;

/// Writes one stream.
#[derive(Debug, Clone)]
pub struct Writer {
    /// A chunk up to its choices.
    head: String,
    usage_chunk: UsageChunk,
    usage: Option<Tokens>,
    begun: bool,
    refused: bool,
    /// Calls that have no arguments yet.
    bare: BTreeSet<usize>,
}

impl Writer {
    /// A stream for a request of this id, the model named as it was asked for.
    pub fn new(model: &str, request_id: &str, usage_chunk: UsageChunk) -> Self {
        let head = format!(
            r#"data: {{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":["#,
            quoted(&format!("chatcmpl-{request_id}")),
            created(request_id),
            quoted(model),
        );
        Self { head, usage_chunk, usage: None, begun: false, refused: false, bare: BTreeSet::new() }
    }

    /// The first chunk says who speaks and nothing else.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            self.delta(r#"{"role":"assistant","content":"","refusal":null}"#, "null", out);
        }
    }

    fn text(&mut self, field: &str, text: &str, out: &mut Vec<u8>) {
        if !text.is_empty() {
            self.begin(out);
            self.delta(&format!("{{\"{field}\":{}}}", quoted(text)), "null", out);
        }
    }

    fn call(&mut self, fragment: &Value, out: &mut Vec<u8>) {
        self.begin(out);
        self.delta(&format!("{{\"tool_calls\":[{fragment}]}}"), "null", out);
    }

    /// A chunk of the only choice; both texts are JSON.
    fn delta(&self, delta: &str, finish: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        for part in [r#"{"index":0,"delta":"#, delta, r#","logprobs":null,"finish_reason":"#, finish, "}]"] {
            out.extend_from_slice(part.as_bytes());
        }
        // Where a usage chunk is to come, every other chunk says that it is not the one.
        let end = match self.usage_chunk {
            UsageChunk::Wanted => ",\"usage\":null}\n\n",
            UsageChunk::Hidden => "}\n\n",
        };
        out.extend_from_slice(end.as_bytes());
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start(_) => self.begin(out),
            Event::Text(text) => self.text("content", text, out),
            Event::Thinking(text) => self.text("reasoning_content", text, out),
            Event::Refusal(text) => {
                self.refused = true;
                self.text("refusal", text, out);
            }
            Event::CallStart { index, id, name, signature } => {
                let mut call = json!({
                    "index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""},
                });
                if let Some(signature) = signature {
                    call["extra_content"] = extra_content(signature);
                }
                self.bare.insert(*index);
                self.call(&call, out);
            }
            Event::CallArguments { fragment, .. } if fragment.is_empty() => {}
            Event::CallArguments { index, fragment } => {
                self.bare.remove(index);
                self.call(&json!({"index": index, "function": {"arguments": fragment}}), out);
            }
            Event::Usage(tokens) => self.usage = Some(*tokens),
            Event::Finish(finish) => {
                self.begin(out);
                // No arguments are an empty object: callers read the JSON as it stands.
                for index in std::mem::take(&mut self.bare) {
                    self.call(&json!({"index": index, "function": {"arguments": "{}"}}), out);
                }
                self.delta("{}", &quoted(finish_reason(finish, self.refused)), out);
            }
            // Chat completions have no place for what is opaque.
            Event::ThinkingSignature(_) | Event::RedactedThinking(_) => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if let (UsageChunk::Wanted, Some(tokens)) = (self.usage_chunk, self.usage) {
            out.extend_from_slice(self.head.as_bytes());
            out.extend_from_slice(format!("],\"usage\":{}}}\n\n", usage(tokens)).as_bytes());
        }
        out.extend_from_slice(&DONE);
    }
}

#[cfg(test)]
pub(in crate::dialect) use tests::any_answer;

#[cfg(test)]
mod tests;
