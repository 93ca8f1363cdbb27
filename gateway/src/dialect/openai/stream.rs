//! Streams of chat completions: events passed on with the model named as the client did, or read into the common tongue and written
//! from it.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::Transport;
use shared::money::Tokens;

use super::error::{broken, read as read_error};
use super::json::{Delta, Finish, Index, present, quoted, range_in};
use crate::canonical::usage;
use crate::dialect::UsageChunk;
use crate::error::UpstreamError;

mod reader;
mod same;
mod writer;

pub use reader::Reader;
pub use same::Same;
pub use writer::Writer;
#[cfg(test)]
pub(in crate::dialect) use writer::any_answer;

/// The last event of a complete stream.
pub const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// One event, read.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// `[DONE]`.
    Done,
    /// An event without data: nothing.
    Nothing,
    /// The upstream reports an error, or sends what is no chunk. The stream is over.
    Error(Box<UpstreamError>),
    /// A chunk of the answer.
    Chunk(Chunk),
}

/// A chunk of the answer. One chunk can hold content, the end and the usage at once, or none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// True when it brings something of the answer, reasoning and tool calls included. The first such chunk commits.
    pub content: bool,
    /// Characters of the answer in it.
    pub chars: u64,
    /// True when it ends a choice.
    pub finish: bool,
    /// What the request used, if it says so believably.
    pub usage: Option<Tokens>,
    /// True when it is the chunk that brings nothing but the usage.
    pub usage_only: bool,
    model_at: Option<Range<usize>>,
}

/// Follows one stream of one attempt, from its first event to its last.
#[derive(Debug, Clone, Default)]
pub struct StreamState {
    /// Bit n: choice n was seen, or ended. Choices beyond 127 share the last bit.
    seen: u128,
    ended: u128,
    done: bool,
    chars: u64,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
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
    delta: Delta,
    #[serde(default)]
    finish_reason: Finish,
}

impl StreamState {
    /// A stream of which nothing was read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next event. `name` is the text of its `event:` line.
    pub fn read(&mut self, name: Option<&[u8]>, data: &[u8]) -> Piece {
        let trimmed = data.trim_ascii();
        if trimmed.is_empty() {
            return Piece::Nothing;
        }
        if trimmed == b"[DONE]" {
            self.done = true;
            return Piece::Done;
        }
        // A derived struct would take a list for its fields in order; a list is how some upstreams wrap an error.
        if name == Some(b"error") || trimmed.starts_with(b"[") {
            return error_piece(data);
        }
        let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else {
            let reason = "the stream holds an event that is no chunk of a chat completion";
            return Piece::Error(Box::new(broken(Transport::NotTheFormat, reason)));
        };
        if event.error.is_some() {
            return error_piece(data);
        }
        self.take(data, &event)
    }

    fn take(&mut self, data: &[u8], event: &Event<'_>) -> Piece {
        let choices = event.choices.as_deref().unwrap_or_default();
        let mut chunk = Chunk {
            content: false,
            chars: 0,
            finish: false,
            usage: event.usage.and_then(|usage| usage::openai(usage.get())),
            usage_only: choices.is_empty() && event.usage.is_some(),
            model_at: event.model.map(|model| range_in(data, model)),
        };
        for choice in choices {
            let bit = 1 << choice.index.0.min(127);
            self.seen |= bit;
            chunk.content |= choice.delta.content;
            chunk.chars += choice.delta.chars;
            match choice.finish_reason {
                Finish::None => {}
                Finish::Error => {
                    let reason = "the upstream broke off its answer";
                    return Piece::Error(Box::new(broken(Transport::ErrorInSuccess, reason)));
                }
                Finish::Ended => {
                    self.ended |= bit;
                    chunk.finish = true;
                }
            }
        }
        self.chars += chunk.chars;
        self.usage = chunk.usage.or(self.usage);
        Piece::Chunk(chunk)
    }

    /// True when the answer is whole: the upstream said `[DONE]`, or ended every choice it began. A stream that ends before is
    /// truncated.
    pub fn is_complete(&self) -> bool {
        self.done || self.has_ended()
    }

    /// True when every choice that was begun was ended.
    pub fn has_ended(&self) -> bool {
        self.ended != 0 && self.ended == self.seen
    }

    /// True when the upstream said `[DONE]`.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The last believable usage.
    pub fn usage(&self) -> Option<Tokens> {
        self.usage
    }

    /// Characters of the answer so far: a base for estimating output tokens.
    pub fn chars(&self) -> u64 {
        self.chars
    }
}

fn error_piece(data: &[u8]) -> Piece {
    Piece::Error(Box::new(read_error(None, data)))
}

/// A chunk as the client gets it: framed anew, its model named as the caller did, every other byte as received. `None` for the usage
/// chunk of a client that did not ask for it.
pub fn write(data: &[u8], chunk: &Chunk, caller_model: &CallerModel, usage_chunk: UsageChunk) -> Option<Bytes> {
    if chunk.usage_only && usage_chunk == UsageChunk::Hidden {
        return None;
    }
    let quoted = &caller_model.0;
    let (before, model, after) = match &chunk.model_at {
        Some(at) => (&data[..at.start], quoted.as_bytes(), &data[at.end..]),
        None => (data, &b""[..], &b""[..]),
    };
    let mut out = Vec::with_capacity(data.len() + quoted.len() + 8);
    out.extend_from_slice(b"data: ");
    for part in [before, model, after] {
        put(&mut out, part);
    }
    out.extend_from_slice(b"\n\n");
    Some(out.into())
}

/// Data of several lines stays data of several lines.
pub(in crate::dialect) fn put(out: &mut Vec<u8>, part: &[u8]) {
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

/// The caller's name of the model, ready to be put into chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerModel(pub(in crate::dialect) String);

impl CallerModel {
    /// From the name as the caller wrote it.
    pub fn new(name: &str) -> Self {
        Self(quoted(name))
    }
}

#[cfg(test)]
mod tests;
