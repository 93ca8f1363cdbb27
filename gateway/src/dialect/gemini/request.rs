//! Requests: looks into a body without taking it apart, reads one into the common tongue, and writes one from it.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use super::fields::missing;
use super::url::{Method, resource};
use crate::dialect::Answer;
use crate::dialect::bound::Bound;
use crate::error::BadRequest;

mod peeked;
mod read;
mod write;

pub(super) use read::contents::part_text;
pub(super) use read::conversation;
pub use read::{DROPPED, read};
pub use write::{DROPPED as DROPPED_INTO, write};
pub(in crate::dialect) use write::{body, reads_itself};

/// What the gateway needs to know of a request. Holds no part of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The model, from the URL.
    pub model: String,
    /// What is asked of it, from the URL.
    pub method: Method,
    /// Whether a stream is asked for.
    pub answer: Answer,
    /// The most tokens each candidate may have, if the client says so.
    pub max_output_tokens: Option<u64>,
    /// How many candidates are asked for; 1 unless the client says otherwise.
    pub choices: u64,
    /// Bytes of contents, instructions and tools, attachments counted as a fixed size each: a base for estimating input tokens.
    pub prompt_chars: u64,
    /// What is kept at the upstream that the request goes on from: only that upstream can serve it.
    pub bound_to: Option<Bound>,
    /// Where the body names the model once more.
    models_at: Vec<Range<usize>>,
}

/// What one attachment counts in [`Peek::prompt_chars`], whatever its size in base64.
const ATTACHMENT_CHARS: u64 = 4_000;

/// Checks that a body is one JSON object with what its method needs. Builds no tree; nothing but the fields needed is looked at, and
/// unknown ones may hold anything that is JSON.
pub fn peek(body: &Bytes, model: &str, method: Method) -> Result<Peek, BadRequest> {
    if model.is_empty() {
        return Err(missing("model".to_owned()));
    }
    let found = peeked::look(body, method)?;
    Ok(Peek {
        model: model.to_owned(),
        method,
        answer: if let Method::Generate(answer) = method { answer } else { Answer::Whole },
        max_output_tokens: found.max_output_tokens,
        choices: found.choices.unwrap_or(1).max(1),
        prompt_chars: found.prompt_chars,
        bound_to: found.bound_to,
        models_at: found.models_at,
    })
}

/// The body for a Gemini upstream: where it names the model once more, the upstream's name. Every other byte stays, and without a
/// change the same bytes are returned uncopied.
pub fn splice(body: &Bytes, peek: &Peek, upstream_model: &str) -> Bytes {
    let name = serde_json::Value::from(resource(upstream_model)).to_string();
    if peek.models_at.iter().all(|at| body[at.clone()] == *name.as_bytes()) {
        return body.clone();
    }
    let mut spliced = Vec::with_capacity(body.len() + name.len() * peek.models_at.len());
    let mut from = 0;
    for at in &peek.models_at {
        spliced.extend_from_slice(&body[from..at.start]);
        spliced.extend_from_slice(name.as_bytes());
        from = at.end;
    }
    spliced.extend_from_slice(&body[from..]);
    spliced.into()
}

/// The length of a text, each base64 attachment in it counted as [`ATTACHMENT_CHARS`].
fn without_attachments(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut length = bytes.len() as u64;
    for at in memmem::find_iter(bytes, b"\"data\"") {
        let rest = bytes[at + b"\"data\"".len()..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start) else { continue };
        let Some(value) = value.strip_prefix(b"\"") else { continue };
        let size = memchr::memchr(b'"', value).unwrap_or(0) as u64;
        if size > ATTACHMENT_CHARS {
            length = length.saturating_sub(size) + ATTACHMENT_CHARS;
        }
    }
    length
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::any_json;
