//! What every direction of translation offers to the flow: one call made, one body read, one stream followed.

use bytes::Bytes;
use shared::money::Tokens;

use crate::canonical::response::Event;
use crate::error::UpstreamError;

/// A whole answer as the caller gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeAnswer {
    /// The body, in the caller's dialect.
    pub body: Bytes,
    /// What it used, if the upstream said so believably.
    pub usage: Option<Tokens>,
    /// Characters of the answer: a base for estimating output tokens.
    pub output_chars: u64,
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
}

/// Follows one stream of one attempt, from the upstream's dialect to the caller's.
pub trait StreamTranslation: Send + Sync + std::fmt::Debug {
    /// Takes the next event. An error ends the stream: what the upstream said is classed by the failure table.
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>>;

    /// The upstream's response has ended. What the caller still gets if the answer is whole (its dialect's end marker included);
    /// an error if it is not: a truncated answer never looks complete.
    fn end(&mut self) -> Result<Fed, Box<UpstreamError>>;

    /// Whether the upstream has said that its answer is whole, though content may never have come.
    fn is_whole(&self) -> bool;
}

/// Reads the events of an upstream into the common tongue.
pub trait ReadEvents {
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
pub trait WriteEvents {
    /// One step of the answer, framed; nothing where the dialect has no word for it.
    fn write(&mut self, event: &Event, out: &mut Vec<u8>);

    /// The answer is whole: what the dialect says last, its end marker included.
    fn finish(&mut self, out: &mut Vec<u8>);
}
