//! Writes the common tongue as a stream of the Responses API.

use serde_json::{Map, Value, json};
use shared::money::Tokens;

use super::super::request::Echo;
use super::super::response::{Head, Place, call_item, message_item, reasoning_item, refusal_part, text_part};
use crate::canonical::response::{Event, Finish};
use crate::dialect::translate::WriteEvents;

/// Writes one stream: every item is added, filled and done, in the order the SDKs' helpers insist on. Calls stay open until the
/// end, since their fragments may interleave; each says by its place which one it is.
#[derive(Debug, Clone)]
pub struct Writer {
    head: Head,
    sequence: u64,
    begun: bool,
    /// The items so far; null for one that is not done.
    output: Vec<Value>,
    open: Option<Open>,
    calls: Vec<Call>,
    usage: Option<Tokens>,
    finish: Option<Finish>,
}

/// The item that deltas other than of calls go into.
#[derive(Debug, Clone)]
enum Open {
    Thought { id: String, place: usize, text: String },
    Message { id: String, place: usize, done: Vec<Value>, kind: Kind, text: String },
}

/// The kind of a part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Refusal,
}

#[derive(Debug, Clone)]
struct Call {
    /// Its number in the common tongue.
    index: usize,
    item: String,
    place: usize,
    id: String,
    name: String,
    signature: Option<String>,
    arguments: String,
}

impl Kind {
    fn part(self, text: &str) -> Value {
        match self {
            Self::Text => text_part(text),
            Self::Refusal => refusal_part(text),
        }
    }
}

impl Writer {
    /// A stream for a request of this id, the model named as it was asked for.
    pub fn new(model: &str, request_id: &str, echo: &Echo) -> Self {
        Self {
            head: Head::new(model, request_id, echo.clone()),
            sequence: 0,
            begun: false,
            output: Vec::new(),
            open: None,
            calls: Vec::new(),
            usage: None,
            finish: None,
        }
    }

    fn emit(&mut self, kind: &str, fields: Value, out: &mut Vec<u8>) {
        let mut event = Map::new();
        event.insert("type".into(), kind.into());
        event.insert("sequence_number".into(), self.sequence.into());
        self.sequence += 1;
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        out.extend_from_slice(format!("event: {kind}\ndata: {}\n\n", Value::Object(event)).as_bytes());
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.begun {
            return;
        }
        self.begun = true;
        for kind in ["response.created", "response.in_progress"] {
            let response = self.head.object(Place::InProgress, Vec::new(), None);
            self.emit(kind, json!({"response": response}), out);
        }
    }

    /// Keeps the next place for an item.
    fn place(&mut self) -> usize {
        self.output.push(Value::Null);
        self.output.len() - 1
    }

    fn add(&mut self, place: usize, item: &Value, out: &mut Vec<u8>) {
        self.emit("response.output_item.added", json!({"output_index": place, "item": item}), out);
    }

    fn done(&mut self, place: usize, item: Value, out: &mut Vec<u8>) {
        self.emit("response.output_item.done", json!({"output_index": place, "item": item}), out);
        self.output[place] = item;
    }

    fn think(&mut self, more: &str, out: &mut Vec<u8>) {
        if !matches!(self.open, Some(Open::Thought { .. })) {
            self.close(out);
            let place = self.place();
            let id = self.head.item_id("rs", place);
            self.add(place, &reasoning_item(&id, None), out);
            let part = json!({"type": "summary_text", "text": ""});
            let fields = json!({"item_id": id, "output_index": place, "summary_index": 0, "part": part});
            self.emit("response.reasoning_summary_part.added", fields, out);
            self.open = Some(Open::Thought { id, place, text: String::new() });
        }
        if let Some(Open::Thought { id, place, text }) = &mut self.open {
            text.push_str(more);
            let fields = json!({"item_id": id, "output_index": place, "summary_index": 0, "delta": more});
            self.emit("response.reasoning_summary_text.delta", fields, out);
        }
    }

    fn say(&mut self, said: Kind, more: &str, out: &mut Vec<u8>) {
        match &self.open {
            Some(Open::Message { kind, .. }) if *kind == said => {}
            Some(Open::Message { .. }) => {
                self.end_part(out);
                self.begin_part(said, out);
            }
            _ => {
                self.close(out);
                let place = self.place();
                let id = self.head.item_id("msg", place);
                self.add(place, &message_item(&id, None), out);
                self.open = Some(Open::Message { id, place, done: Vec::new(), kind: said, text: String::new() });
                self.begin_part(said, out);
            }
        }
        if let Some(Open::Message { id, place, done, text, .. }) = &mut self.open {
            text.push_str(more);
            let mut fields = json!({"item_id": id, "output_index": place, "content_index": done.len(), "delta": more});
            let event = match said {
                Kind::Text => {
                    fields["logprobs"] = json!([]);
                    "response.output_text.delta"
                }
                Kind::Refusal => "response.refusal.delta",
            };
            self.emit(event, fields, out);
        }
    }

    fn begin_part(&mut self, said: Kind, out: &mut Vec<u8>) {
        if let Some(Open::Message { id, place, done, kind, .. }) = &mut self.open {
            *kind = said;
            let fields = json!({
                "item_id": id, "output_index": place, "content_index": done.len(), "part": said.part(""),
            });
            self.emit("response.content_part.added", fields, out);
        }
    }

    fn end_part(&mut self, out: &mut Vec<u8>) {
        let Some(Open::Message { id, place, done, kind, text }) = &mut self.open else { return };
        let text = std::mem::take(text);
        let part = kind.part(&text);
        let of = json!({"item_id": id, "output_index": place, "content_index": done.len()});
        let kind = *kind;
        done.push(part.clone());
        let mut fields = of.clone();
        let event = match kind {
            Kind::Text => {
                fields["text"] = text.into();
                fields["logprobs"] = json!([]);
                "response.output_text.done"
            }
            Kind::Refusal => {
                fields["refusal"] = text.into();
                "response.refusal.done"
            }
        };
        self.emit(event, fields, out);
        let mut fields = of;
        fields["part"] = part;
        self.emit("response.content_part.done", fields, out);
    }

    /// Ends the open item, calls aside.
    fn close(&mut self, out: &mut Vec<u8>) {
        self.end_part(out);
        match self.open.take() {
            None => {}
            Some(Open::Message { id, place, done, .. }) => {
                self.done(place, message_item(&id, Some(done)), out);
            }
            Some(Open::Thought { id, place, text }) => {
                let of = json!({"item_id": id, "output_index": place, "summary_index": 0});
                let mut fields = of.clone();
                fields["text"] = text.as_str().into();
                self.emit("response.reasoning_summary_text.done", fields, out);
                let mut fields = of;
                fields["part"] = json!({"type": "summary_text", "text": text});
                self.emit("response.reasoning_summary_part.done", fields, out);
                self.done(place, reasoning_item(&id, Some(&text)), out);
            }
        }
    }

    fn call(&mut self, index: usize, id: &str, name: &str, signature: Option<&str>, out: &mut Vec<u8>) {
        self.close(out);
        let place = self.place();
        let item = self.head.item_id("fc", place);
        self.add(place, &call_item(&item, (id, name), signature, None), out);
        let (id, name, signature) = (id.to_owned(), name.to_owned(), signature.map(str::to_owned));
        self.calls.push(Call { index, item, place, id, name, signature, arguments: String::new() });
    }

    fn arguments(&mut self, index: usize, fragment: &str, out: &mut Vec<u8>) {
        let Some(call) = self.calls.iter_mut().find(|call| call.index == index) else { return };
        call.arguments.push_str(fragment);
        let fields = json!({"item_id": call.item, "output_index": call.place, "delta": fragment});
        self.emit("response.function_call_arguments.delta", fields, out);
    }

    fn close_calls(&mut self, out: &mut Vec<u8>) {
        for mut call in std::mem::take(&mut self.calls) {
            // No arguments are an empty object: callers read the JSON as it stands.
            if call.arguments.is_empty() {
                "{}".clone_into(&mut call.arguments);
                let fields = json!({"item_id": call.item, "output_index": call.place, "delta": "{}"});
                self.emit("response.function_call_arguments.delta", fields, out);
            }
            let fields = json!({
                "item_id": call.item, "output_index": call.place, "name": call.name, "arguments": call.arguments,
            });
            self.emit("response.function_call_arguments.done", fields, out);
            let names = (call.id.as_str(), call.name.as_str());
            let item = call_item(&call.item, names, call.signature.as_deref(), Some(&call.arguments));
            self.done(call.place, item, out);
        }
    }
}

impl WriteEvents for Writer {
    fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        if !matches!(event, Event::Usage(_)) {
            self.begin(out);
        }
        match event {
            Event::Thinking(text) if !text.is_empty() => self.think(text, out),
            Event::Text(text) if !text.is_empty() => self.say(Kind::Text, text, out),
            Event::Refusal(text) if !text.is_empty() => self.say(Kind::Refusal, text, out),
            Event::CallStart { index, id, name, signature } => self.call(*index, id, name, signature.as_deref(), out),
            Event::CallArguments { index, fragment } if !fragment.is_empty() => self.arguments(*index, fragment, out),
            Event::Usage(tokens) => self.usage = Some(*tokens),
            Event::Finish(finish) => {
                self.close(out);
                self.close_calls(out);
                self.finish = Some(finish.clone());
            }
            // What is opaque would mean nothing to OpenAI, where it may come back to.
            Event::Start(_)
            | Event::ThinkingSignature(_)
            | Event::RedactedThinking(_)
            | Event::Thinking(_)
            | Event::Text(_)
            | Event::Refusal(_)
            | Event::CallArguments { .. } => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.close(out);
        self.close_calls(out);
        let finish = self.finish.take().unwrap_or(Finish::Stop);
        let output = std::mem::take(&mut self.output);
        let response = self.head.object(Place::Ended(&finish), output, self.usage);
        let kind = if response["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        self.emit(kind, json!({"response": response}), out);
    }
}

#[cfg(test)]
mod tests;
