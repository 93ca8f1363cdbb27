//! Writes events of the common tongue as a stream of this dialect: one block open at a time, numbered without gaps.

mod arguments;

use std::collections::VecDeque;

use serde_json::{Value, json};
use shared::money::Tokens;

use crate::canonical::response::{Event, Finish};
use crate::dialect::anthropic::finish::{self, Calls};
use crate::dialect::anthropic::json::quoted;
use crate::dialect::anthropic::names::call_id;
use crate::dialect::anthropic::response::message_id;
use crate::dialect::anthropic::usage::written;
use crate::dialect::translate::WriteEvents;
use arguments::Arguments;

/// Writes one stream for one client.
///
/// Fragments of several calls may interleave, but blocks may not: the first call is passed on as it comes, and what belongs to
/// other blocks waits until its arguments are whole, or until the answer ends. Nothing is lost and nothing changes its order within
/// a block.
#[derive(Debug, Clone)]
pub struct Writer {
    model: String,
    request_id: String,
    upstream_id: Option<String>,
    started: bool,
    /// The number of the next block.
    next: u64,
    open: Option<Open>,
    /// Blocks that wait for the open call, in the order they began.
    waiting: VecDeque<Waiting>,
    calls: Calls,
    usage: Option<Tokens>,
    finish: Option<Finish>,
}

/// The open block.
#[derive(Debug, Clone)]
enum Open {
    Text,
    Thinking,
    Call { index: usize, arguments: Arguments },
}

/// A block that waits.
#[derive(Debug, Clone)]
enum Waiting {
    Text(String),
    Thinking(String),
    Call { index: usize, id: String, name: String, arguments: String },
}

impl Writer {
    /// For a client that calls the model so; the id of the request stands in for the upstream's id of the message.
    pub fn new(model: &str, request_id: &str) -> Self {
        Self {
            model: model.to_owned(),
            request_id: request_id.to_owned(),
            upstream_id: None,
            started: false,
            next: 0,
            open: None,
            waiting: VecDeque::new(),
            calls: Calls::None,
            usage: None,
            finish: None,
        }
    }

    /// The beginning of the message. Written late, so that it holds the usage where the upstream tells it early.
    fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let message = json!({
            "id": message_id(self.upstream_id.as_deref(), &self.request_id),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": written(self.usage.map(|usage| Tokens { output: 0, reasoning: 0, ..usage })),
        });
        put(out, "message_start", &json!({"type": "message_start", "message": message}));
    }

    fn open(&mut self, open: Open, block: &Value, out: &mut Vec<u8>) {
        self.close(out);
        self.start(out);
        put(
            out,
            "content_block_start",
            &json!({"type": "content_block_start", "index": self.next, "content_block": block}),
        );
        self.open = Some(open);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            put(out, "content_block_stop", &json!({"type": "content_block_stop", "index": self.next}));
            self.next += 1;
        }
    }

    /// One delta of the open block. Written by hand: it is what a stream mostly consists of.
    fn delta(&self, kind: &str, field: &str, text: &str, out: &mut Vec<u8>) {
        let (index, text) = (self.next, quoted(text));
        let event = format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"{kind}\",\"{field}\":{text}}}}}\n\n"
        );
        out.extend_from_slice(event.as_bytes());
    }

    /// True while other blocks must wait: a call is open whose arguments are not whole.
    fn must_wait(&self) -> bool {
        match &self.open {
            Some(Open::Call { arguments, .. }) => !arguments.are_whole(),
            _ => false,
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.flush(out);
        if self.must_wait() {
            match self.waiting.back_mut() {
                Some(Waiting::Text(before)) => before.push_str(text),
                _ => self.waiting.push_back(Waiting::Text(text.to_owned())),
            }
            return;
        }
        if !matches!(self.open, Some(Open::Text)) {
            self.open(Open::Text, &json!({"type": "text", "text": ""}), out);
        }
        self.delta("text_delta", "text", text, out);
    }

    fn thinking(&mut self, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.flush(out);
        if self.must_wait() {
            match self.waiting.back_mut() {
                Some(Waiting::Thinking(before)) => before.push_str(text),
                _ => self.waiting.push_back(Waiting::Thinking(text.to_owned())),
            }
            return;
        }
        if !matches!(self.open, Some(Open::Thinking)) {
            self.open(Open::Thinking, &json!({"type": "thinking", "thinking": "", "signature": ""}), out);
        }
        self.delta("thinking_delta", "thinking", text, out);
    }

    fn call(&mut self, index: usize, id: &str, name: &str, out: &mut Vec<u8>) {
        self.calls = Calls::Some;
        self.flush(out);
        if self.must_wait() {
            let (id, name) = (id.to_owned(), name.to_owned());
            self.waiting.push_back(Waiting::Call { index, id, name, arguments: String::new() });
            return;
        }
        let block = json!({"type": "tool_use", "id": call_id(id), "name": name, "input": {}});
        self.open(Open::Call { index, arguments: Arguments::default() }, &block, out);
    }

    fn arguments(&mut self, index: usize, fragment: &str, out: &mut Vec<u8>) {
        if fragment.is_empty() {
            return;
        }
        if let Some(Open::Call { index: open, arguments }) = &mut self.open
            && *open == index
        {
            arguments.take(fragment);
            self.delta("input_json_delta", "partial_json", fragment, out);
            return self.flush(out);
        }
        let waiting = self.waiting.iter_mut().find_map(|block| match block {
            Waiting::Call { index: waiting, arguments, .. } if *waiting == index => Some(arguments),
            _ => None,
        });
        // What comes for a call that was whole and is closed can only be space.
        if let Some(arguments) = waiting {
            arguments.push_str(fragment);
        }
    }

    /// Writes blocks that waited, as far as none must wait any more. The last one stays open, for more may come.
    fn flush(&mut self, out: &mut Vec<u8>) {
        while !self.must_wait()
            && let Some(block) = self.waiting.pop_front()
        {
            self.write_waiting(block, out);
        }
    }

    fn write_waiting(&mut self, block: Waiting, out: &mut Vec<u8>) {
        match block {
            Waiting::Text(text) => {
                self.open(Open::Text, &json!({"type": "text", "text": ""}), out);
                self.delta("text_delta", "text", &text, out);
            }
            Waiting::Thinking(text) => {
                self.open(Open::Thinking, &json!({"type": "thinking", "thinking": "", "signature": ""}), out);
                self.delta("thinking_delta", "thinking", &text, out);
            }
            Waiting::Call { index, id, name, arguments } => {
                let block = json!({"type": "tool_use", "id": call_id(&id), "name": name, "input": {}});
                let mut known = Arguments::default();
                known.take(&arguments);
                self.open(Open::Call { index, arguments: known }, &block, out);
                if !arguments.is_empty() {
                    self.delta("input_json_delta", "partial_json", &arguments, out);
                }
            }
        }
    }

    /// No more of any block will come.
    fn settle(&mut self, out: &mut Vec<u8>) {
        while let Some(block) = self.waiting.pop_front() {
            self.write_waiting(block, out);
        }
        self.close(out);
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start(id) => self.upstream_id.clone_from(id),
            Event::Usage(usage) => self.usage = Some(*usage),
            // Nothing comes after the end but usage.
            _ if self.finish.is_some() => {}
            Event::Text(text) | Event::Refusal(text) => self.text(text, out),
            Event::Thinking(text) => self.thinking(text, out),
            // They mean something only to the upstream that made them.
            Event::ThinkingSignature(_) | Event::RedactedThinking(_) => {}
            Event::CallStart { index, id, name, signature: _ } => self.call(*index, id, name, out),
            Event::CallArguments { index, fragment } => self.arguments(*index, fragment, out),
            Event::Finish(finish) => {
                self.settle(out);
                self.finish = Some(finish.clone());
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.start(out);
        self.settle(out);
        let finish = self.finish.take().unwrap_or(Finish::Stop);
        let (stop_reason, stop_sequence) = finish::written(&finish, self.calls);
        let delta = json!({"stop_reason": stop_reason, "stop_sequence": stop_sequence});
        put(out, "message_delta", &json!({"type": "message_delta", "delta": delta, "usage": written(self.usage)}));
        put(out, "message_stop", &json!({"type": "message_stop"}));
    }
}

fn put(out: &mut Vec<u8>, name: &str, data: &Value) {
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}
