//! What every direction of translation offers to the flow: one call made, one body read, one stream followed.

use std::fmt;

use bytes::Bytes;
use shared::money::Tokens;

use super::thoughts::{Gatherer, Kept};
use crate::canonical::request::Part;
use crate::canonical::response::{Event, Response};
use crate::error::UpstreamError;

/// A whole answer as the caller gets it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WholeAnswer {
    /// The body, in the caller's dialect.
    pub body: Bytes,
    /// What it used, if the upstream said so believably.
    pub usage: Option<Tokens>,
    /// Characters of the answer: a base for estimating output tokens.
    pub output_chars: u64,
    /// What proves the thoughts before its calls, where the caller's dialect cannot carry it: kept before the caller has the answer.
    pub kept: Vec<Kept>,
    /// The id under which the upstream keeps it, if a later request may go on from it there.
    pub made: Option<String>,
}

/// What one upstream event came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fed {
    /// What the caller gets for it, framed in its dialect; may be empty.
    pub out: Bytes,
    /// Whether it brings something of the answer (reasoning and calls included). The first such event commits.
    pub content: bool,
    /// Characters of the answer in it.
    pub chars: u64,
    /// What the request used so far, if it says so believably; the last one counts.
    pub usage: Option<Tokens>,
    /// The answer is whole and the caller has its end: nothing of the upstream is passed on any more.
    pub done: bool,
    /// What proves the thoughts before its calls, where the caller's dialect cannot carry it: kept before the caller has them.
    pub kept: Vec<Kept>,
    /// The id under which the upstream keeps the answer, if a later request may go on from it there.
    pub made: Option<String>,
}

/// Follows one stream of one attempt, from the upstream's dialect to the caller's.
pub trait StreamTranslation: Send + Sync + fmt::Debug {
    /// Takes the next event. An error ends the stream: what the upstream said is classed by the failure table.
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>>;

    /// The upstream's response has ended. What the caller still gets if the answer is whole (its dialect's end marker included);
    /// an error if it is not: a truncated answer never looks complete.
    fn end(&mut self) -> Result<Fed, Box<UpstreamError>>;

    /// Whether the upstream has said that its answer is whole, though content may never have come.
    fn is_whole(&self) -> bool;
}

/// Reads the events of an upstream into the common tongue.
pub trait ReadEvents: Send + Sync + fmt::Debug {
    /// Takes the next event. An error ends the stream: what the upstream said is classed by the failure table.
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Vec<Event>, Box<UpstreamError>>;

    /// The upstream's response has ended. What is still to be said if the answer is whole; an error if it is not.
    fn end(&mut self) -> Result<Vec<Event>, Box<UpstreamError>>;

    /// Whether the upstream has said that its answer is whole, though content may never have come.
    fn is_whole(&self) -> bool;

    /// Whether it has said so with the very last event of its dialect: nothing that comes after matters. Dialects without such an
    /// event end with the response.
    fn is_over(&self) -> bool {
        false
    }
}

/// Writes the common tongue as the events of a caller.
pub trait WriteEvents: Send + Sync + fmt::Debug {
    /// One step of the answer, framed; nothing where the dialect has no word for it.
    fn write(&mut self, event: &Event, out: &mut Vec<u8>);

    /// The answer is whole: what the dialect says last, its end marker included.
    fn finish(&mut self, out: &mut Vec<u8>);
}

impl<R: ReadEvents + ?Sized> ReadEvents for Box<R> {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Vec<Event>, Box<UpstreamError>> {
        (**self).event(name, data)
    }

    fn end(&mut self) -> Result<Vec<Event>, Box<UpstreamError>> {
        (**self).end()
    }

    fn is_whole(&self) -> bool {
        (**self).is_whole()
    }

    fn is_over(&self) -> bool {
        (**self).is_over()
    }
}

impl<W: WriteEvents + ?Sized> WriteEvents for Box<W> {
    fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        (**self).write(event, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        (**self).finish(out);
    }
}

/// A stream from one dialect to another, through the common tongue.
#[derive(Debug, Clone)]
pub struct Cross<R, W> {
    reader: R,
    writer: W,
    done: bool,
    /// Where the upstream proves its thoughts.
    gatherer: Option<Gatherer>,
}

impl<R: ReadEvents, W: WriteEvents> Cross<R, W> {
    /// A stream of which nothing was read yet.
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, done: false, gatherer: None }
    }

    /// The same of an upstream that proves its thoughts.
    #[must_use]
    pub fn gathering(self, gatherer: Gatherer) -> Self {
        Self { gatherer: Some(gatherer), ..self }
    }

    fn fed(&mut self, events: &[Event], last: bool) -> Fed {
        let mut fed = Fed::default();
        let mut out = Vec::new();
        for event in events {
            fed.content |= is_content(event);
            fed.chars += event_chars(event);
            if let Event::Usage(tokens) = event {
                fed.usage = Some(*tokens);
            }
            fed.kept.extend(self.gatherer.as_mut().and_then(|gatherer| gatherer.event(event)));
            self.writer.write(event, &mut out);
        }
        if last {
            self.writer.finish(&mut out);
            self.done = true;
            fed.done = true;
        }
        fed.out = out.into();
        fed
    }
}

impl<R, W> StreamTranslation for Cross<R, W>
where
    R: ReadEvents,
    W: WriteEvents,
{
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>> {
        if self.done {
            return Ok(Fed { done: true, ..Fed::default() });
        }
        let events = self.reader.event(name, data)?;
        let last = self.reader.is_over();
        Ok(self.fed(&events, last))
    }

    fn end(&mut self) -> Result<Fed, Box<UpstreamError>> {
        if self.done {
            return Ok(Fed { done: true, ..Fed::default() });
        }
        let events = self.reader.end()?;
        Ok(self.fed(&events, true))
    }

    fn is_whole(&self) -> bool {
        self.reader.is_whole()
    }
}

impl WholeAnswer {
    /// An answer that was read into the common tongue and written as `body`.
    pub fn crossed(answer: &Response, body: Bytes) -> Self {
        let parts = answer.choices.iter().flat_map(|choice| &choice.parts);
        Self { body, usage: answer.usage, output_chars: parts.map(part_chars).sum(), ..Self::default() }
    }
}

/// Whether a step brings something of the answer.
fn is_content(event: &Event) -> bool {
    match event {
        Event::Text(text) | Event::Thinking(text) | Event::Refusal(text) => !text.is_empty(),
        Event::RedactedThinking(_) | Event::CallStart { .. } => true,
        Event::CallArguments { fragment, .. } => !fragment.is_empty(),
        Event::Start(_) | Event::ThinkingSignature(_) | Event::Usage(_) | Event::Finish(_) => false,
    }
}

/// The characters of a step that were generated; opaque texts are not counted.
fn event_chars(event: &Event) -> u64 {
    match event {
        Event::Text(text) | Event::Thinking(text) | Event::Refusal(text) => count(text),
        Event::CallStart { name, .. } => count(name),
        Event::CallArguments { fragment, .. } => count(fragment),
        Event::Start(_)
        | Event::ThinkingSignature(_)
        | Event::RedactedThinking(_)
        | Event::Usage(_)
        | Event::Finish(_) => 0,
    }
}

fn part_chars(part: &Part) -> u64 {
    match part {
        Part::Text(text) | Part::Refusal(text) => count(text),
        Part::Thinking(thinking) => count(&thinking.text),
        Part::ToolCall(call) => {
            count(&call.name) + serde_json::to_string(&call.arguments).map_or(0, |arguments| count(&arguments))
        }
        Part::Image(_) | Part::File(_) | Part::ToolResult(_) => 0,
    }
}

fn count(text: &str) -> u64 {
    text.chars().count() as u64
}

#[cfg(test)]
mod tests;
