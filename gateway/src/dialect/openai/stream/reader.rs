//! Reads a stream of chat completion chunks into the common tongue.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use shared::failure::Transport;

use super::super::json::Index;
use super::super::media::minted;
use super::super::names::Names;
use super::super::request::signature_in;
use super::super::response::{finish, reasoning, settled, text_of, texts};
use super::{broken, read_error};
use crate::canonical::request::Part;
use crate::canonical::response::{Event, Finish};
use crate::canonical::usage;
use crate::dialect::translate::ReadEvents;
use crate::error::UpstreamError;

/// Follows one stream of one choice. Fragments of calls may interleave, lack their index, bring the arguments before the name, or all
/// of a call at once.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    names: Names,
    started: bool,
    /// Something of an answer came.
    content: bool,
    refused: bool,
    calls: Vec<Call>,
    begun: usize,
    /// Why the upstream said that the answer ended.
    said: Option<Finish>,
    end: End,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// It was told in the common tongue.
    Told,
    /// `[DONE]` came, and it was told.
    Done,
}

/// A call of the answer.
#[derive(Debug, Clone, Default)]
struct Call {
    /// The upstream's number of it, where it has one.
    number: Option<u64>,
    id: Option<String>,
    signature: Option<String>,
    /// Arguments that came before the name.
    waiting: String,
    /// Its index in the common tongue, once its name is known.
    index: Option<usize>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Index,
    #[serde(default)]
    delta: Option<Map<String, Value>>,
    #[serde(default)]
    finish_reason: Option<Value>,
}

fn foreign(reason: &str) -> Box<UpstreamError> {
    Box::new(broken(Transport::NotTheFormat, reason))
}

impl Reader {
    /// A stream of which nothing was read yet. `names` are those of the request that was written for the upstream.
    pub fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    fn choice(&mut self, choice: Choice, events: &mut Vec<Event>) -> Result<(), Box<UpstreamError>> {
        // More than one choice is never asked for on this way.
        if choice.index.0 > 0 {
            return Ok(());
        }
        if let Some(mut delta) = choice.delta {
            self.delta(&mut delta, events)?;
        }
        match choice.finish_reason {
            Some(Value::String(reason)) if reason == "error" => {
                Err(Box::new(broken(Transport::ErrorInSuccess, "the upstream broke off its answer")))
            }
            Some(Value::String(reason)) if !reason.is_empty() => {
                self.said.get_or_insert(finish(Some(&reason)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn delta(&mut self, delta: &mut Map<String, Value>, events: &mut Vec<Event>) -> Result<(), Box<UpstreamError>> {
        let before = events.len();
        events.extend(reasoning(delta).map(Event::Thinking));
        let mut parts = Vec::new();
        texts(delta.remove("content"), &mut parts);
        events.extend(parts.into_iter().filter_map(|part| match part {
            Part::Text(text) => Some(Event::Text(text)),
            _ => None,
        }));
        if let Some(refusal) = text_of(delta.remove("refusal")) {
            self.refused = true;
            events.push(Event::Refusal(refusal));
        }
        match delta.remove("tool_calls") {
            Some(Value::Array(calls)) => {
                for call in calls {
                    self.fragment(call, events)?;
                }
            }
            None | Some(Value::Null) => {}
            Some(_) => return Err(foreign("a chunk whose calls are no list")),
        }
        if let Some(function @ Value::Object(_)) = delta.remove("function_call") {
            self.fragment(serde_json::json!({"index": 0, "function": function}), events)?;
        }
        self.content |= events.len() > before;
        Ok(())
    }

    /// A piece of a call.
    fn fragment(&mut self, mut fragment: Value, events: &mut Vec<Event>) -> Result<(), Box<UpstreamError>> {
        if !fragment.is_object() {
            return Err(foreign("a chunk with a call that is no object"));
        }
        let number = fragment["index"].as_u64();
        let id = text_of(Some(fragment["id"].take()));
        let signature = fragment.get("extra_content").and_then(signature_in);
        let mut function = fragment["function"].take();
        let name = function.get_mut("name").and_then(|name| text_of(Some(name.take())));
        let arguments = match function.get_mut("arguments").map(Value::take) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(object) => object.to_string(),
        };
        self.content = true;
        let place = self.place(number, id.as_deref());
        let call = &mut self.calls[place];
        call.id = call.id.take().or(id);
        call.signature = call.signature.take().or(signature);
        match (call.index, name) {
            (Some(_), _) => {}
            (None, None) => {
                call.waiting.push_str(&arguments);
                return Ok(());
            }
            (None, Some(name)) => {
                let index = self.begun;
                self.begun += 1;
                call.index = Some(index);
                let id = call.id.clone().unwrap_or_else(|| minted("call_", &[&index.to_string(), &name]));
                let name = self.names.incoming(&name).to_owned();
                events.push(Event::CallStart { index, id, name, signature: call.signature.clone() });
                let waited = std::mem::take(&mut call.waiting);
                push_arguments(call.index, waited, events);
            }
        }
        push_arguments(call.index, arguments, events);
        Ok(())
    }

    /// Which call a fragment belongs to. A number alone is not enough: some servers number all calls 0 and tell them apart by their
    /// ids only; others give no number at all.
    fn place(&mut self, number: Option<u64>, id: Option<&str>) -> usize {
        let last = match number {
            Some(_) => self.calls.iter().rposition(|call| call.number == number),
            None => self.calls.len().checked_sub(1),
        };
        let same = last.filter(|place| match (id, self.calls[*place].id.as_deref()) {
            (Some(id), Some(known)) => id == known,
            _ => true,
        });
        same.unwrap_or_else(|| {
            self.calls.push(Call { number, ..Call::default() });
            self.calls.len() - 1
        })
    }

    /// Tells the end, once.
    fn tell(&mut self, events: &mut Vec<Event>) -> Result<(), Box<UpstreamError>> {
        if self.end != End::Open {
            return Ok(());
        }
        if self.calls.iter().any(|call| call.index.is_none()) {
            return Err(foreign("a call of no function"));
        }
        self.end = End::Told;
        let said = self.said.clone().unwrap_or(Finish::Stop);
        events.push(Event::Finish(settled(said, self.begun > 0, self.refused)));
        Ok(())
    }
}

fn push_arguments(index: Option<usize>, fragment: String, events: &mut Vec<Event>) {
    if let (Some(index), false) = (index, fragment.is_empty()) {
        events.push(Event::CallArguments { index, fragment });
    }
}

impl ReadEvents for Reader {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Vec<Event>, Box<UpstreamError>> {
        let trimmed = data.trim_ascii();
        let mut events = Vec::new();
        if trimmed.is_empty() || self.end == End::Done {
            return Ok(events);
        }
        if trimmed == b"[DONE]" {
            if self.said.is_none() && !self.content {
                return Err(Box::new(broken(Transport::Empty, "the stream ended without an answer")));
            }
            self.tell(&mut events)?;
            self.end = End::Done;
            return Ok(events);
        }
        if name == Some(b"error") || trimmed.starts_with(b"[") {
            return Err(Box::new(read_error(None, data)));
        }
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
            return Err(foreign("the stream holds an event that is no chunk of a chat completion"));
        };
        if chunk.error.is_some() {
            return Err(Box::new(read_error(None, data)));
        }
        if !self.started {
            self.started = true;
            events.push(Event::Start(text_of(chunk.id)));
        }
        for choice in chunk.choices.unwrap_or_default() {
            self.choice(choice, &mut events)?;
        }
        events.extend(chunk.usage.and_then(|usage| usage::openai(usage.get())).map(Event::Usage));
        Ok(events)
    }

    fn end(&mut self) -> Result<Vec<Event>, Box<UpstreamError>> {
        let mut events = Vec::new();
        if self.is_whole() {
            self.tell(&mut events)?;
            return Ok(events);
        }
        Err(Box::new(if self.content {
            broken(Transport::Truncated, "the answer ended before it was complete")
        } else {
            broken(Transport::Empty, "the stream ended without an answer")
        }))
    }

    fn is_whole(&self) -> bool {
        self.end != End::Open || self.said.is_some()
    }

    fn is_over(&self) -> bool {
        self.end == End::Done
    }
}

#[cfg(test)]
mod tests;
