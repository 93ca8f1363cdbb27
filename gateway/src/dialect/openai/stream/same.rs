//! From an upstream of chat completions to a client of them.

use shared::failure::Transport;

use super::{CallerModel, DONE, Piece, StreamState, broken, write};
use crate::dialect::UsageChunk;
use crate::dialect::translate::{Fed, StreamTranslation};
use crate::error::UpstreamError;

/// Passes every chunk on as received but for the model's name. The usage chunk is kept from a client that did not ask for it.
#[derive(Debug, Clone)]
pub struct Same {
    state: StreamState,
    model: CallerModel,
    usage_chunk: UsageChunk,
    content: bool,
}

impl Same {
    /// A stream of which nothing was read yet.
    pub fn new(caller_model: &str, usage_chunk: UsageChunk) -> Self {
        Self { state: StreamState::new(), model: CallerModel::new(caller_model), usage_chunk, content: false }
    }

    /// An answer may be empty and say so properly; one that says nothing at all is none.
    fn says_something(&self) -> bool {
        self.content || self.state.has_ended()
    }
}

impl StreamTranslation for Same {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>> {
        if self.state.is_done() {
            return Ok(Fed { done: true, ..Fed::default() });
        }
        match self.state.read(name, data) {
            Piece::Nothing => Ok(Fed::default()),
            Piece::Done if self.says_something() => Ok(Fed { out: DONE, done: true, ..Fed::default() }),
            Piece::Done => Err(Box::new(broken(Transport::Empty, "the stream ended without an answer"))),
            Piece::Error(error) => Err(error),
            Piece::Chunk(chunk) => {
                self.content |= chunk.content;
                let out = write(data, &chunk, &self.model, self.usage_chunk).unwrap_or_default();
                Ok(Fed { out, content: chunk.content, chars: chunk.chars, usage: chunk.usage, ..Fed::default() })
            }
        }
    }

    fn end(&mut self) -> Result<Fed, Box<UpstreamError>> {
        if self.state.is_done() {
            return Ok(Fed { done: true, ..Fed::default() });
        }
        if self.state.has_ended() {
            return Ok(Fed { out: DONE, done: true, ..Fed::default() });
        }
        Err(Box::new(if self.content {
            broken(Transport::Truncated, "the answer ended before it was complete")
        } else {
            broken(Transport::Empty, "the stream ended without an answer")
        }))
    }

    fn is_whole(&self) -> bool {
        self.state.is_complete() && self.says_something()
    }
}

#[cfg(test)]
mod tests;
