//! Requests: looked into without being taken apart, with edits in the two places that must change; or read into the common tongue
//! and written from it.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::{memchr, memmem};

use super::json::range_in;
use crate::dialect::{Answer, UsageChunk};
use crate::error::BadRequest;

pub(in crate::dialect) mod check;
mod fields;
pub(in crate::dialect) mod read;
pub(in crate::dialect) mod write;

pub(in crate::dialect) use read::signature_in;
pub use read::{DROPPED, DROPPED_IN_MESSAGES, read};
pub use write::{DROPPED_INTO, write};

/// What the gateway needs to know of a request. Holds no part of the body but the model's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The model as the caller wrote it.
    pub model: String,
    /// Whether a stream is asked for.
    pub answer: Answer,
    /// Whether the client wants the usage chunk of a stream.
    pub usage_chunk: UsageChunk,
    /// The most tokens each choice may have, if the client says so.
    pub max_output_tokens: Option<u64>,
    /// How many choices are asked for (`n`); 1 unless the client says otherwise.
    pub choices: u64,
    /// Bytes of messages and tools, attachments counted as a fixed size each: a base for estimating input tokens.
    pub prompt_chars: u64,
    model_at: Range<usize>,
    usage_edit: Option<Edit>,
}

/// Bytes to put in the place of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    at: Range<usize>,
    text: Cow<'static, str>,
}

/// What one attachment counts in [`Peek::prompt_chars`], whatever its size in base64.
const ATTACHMENT_CHARS: u64 = 4_000;

/// Checks that a body is one JSON object with a model and messages, and says where they are. Builds no tree; nothing but the fields
/// needed is looked at, and unknown ones may hold anything that is JSON.
pub fn peek(body: &Bytes) -> Result<Peek, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|_| check::malformed("it is not UTF-8"))?;
    let fields = fields::read(text)?;
    let model_raw = fields.model.ok_or_else(|| check::missing("model"))?;
    let model = check::model(model_raw)?;
    let messages = check::messages(fields.messages.as_ref())?;
    let answer = if check::flag("stream", fields.stream)? { Answer::Stream } else { Answer::Whole };
    let model_at = range_in(body, model_raw);
    let (wanted, usage_edit) = check::stream_options(body, fields.stream_options, model_at.end)?;
    let max_tokens = check::count("max_tokens", fields.max_tokens)?;
    let max_completion = check::count("max_completion_tokens", fields.max_completion_tokens)?;
    Ok(Peek {
        model,
        answer,
        usage_chunk: wanted,
        max_output_tokens: max_completion.or(max_tokens),
        choices: check::count("n", fields.n)?.unwrap_or(1).max(1),
        prompt_chars: messages + fields.tools.map_or(0, |tools| tools.get().len() as u64),
        model_at,
        usage_edit: if answer == Answer::Stream { usage_edit } else { None },
    })
}

/// The body for an upstream: its name for the model, and in a stream a wish for the usage chunk. Every other byte stays, and without
/// a change the same bytes are returned uncopied.
pub fn splice(body: &Bytes, peek: &Peek, upstream_model: &str) -> Bytes {
    let model = (upstream_model != peek.model)
        .then(|| Edit { at: peek.model_at.clone(), text: super::json::quoted(upstream_model).into() });
    // The edits are applied in the order of their places.
    let mut edits: Vec<&Edit> = model.iter().chain(&peek.usage_edit).collect();
    if edits.is_empty() {
        return body.clone();
    }
    edits.sort_by_key(|edit| edit.at.start);
    let grown: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut spliced = Vec::with_capacity(body.len() + grown);
    let mut from = 0;
    for edit in edits {
        spliced.extend_from_slice(&body[from..edit.at.start]);
        spliced.extend_from_slice(edit.text.as_bytes());
        from = edit.at.end;
    }
    spliced.extend_from_slice(&body[from..]);
    spliced.into()
}

/// The length of a text, each base64 attachment in it counted as [`ATTACHMENT_CHARS`].
pub(in crate::dialect) fn without_attachments(text: &str) -> u64 {
    let mut length = text.len() as u64;
    for at in memmem::find_iter(text.as_bytes(), b";base64,") {
        let size = memchr(b'"', &text.as_bytes()[at..]).unwrap_or(0) as u64;
        if size > ATTACHMENT_CHARS {
            length = length.saturating_sub(size) + ATTACHMENT_CHARS;
        }
    }
    length
}

#[cfg(test)]
mod tests;
