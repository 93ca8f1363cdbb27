//! Requests of the Responses API: looked into without being taken apart, with an edit in the one place that must change; or read into
//! the common tongue.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::openai::json::{kind_of, present, quoted, range_in, replaced};
use super::super::openai::request::check;
use super::super::openai::request::without_attachments;
use crate::dialect::Answer;
use crate::dialect::bound::Bound;
use crate::error::BadRequest;

mod items;
mod read;

pub use items::DROPPED_IN_ITEMS;
pub use read::{DROPPED, Echo, echo, read};

/// What the gateway needs to know of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The model as the caller wrote it.
    pub model: String,
    /// Whether a stream is asked for.
    pub answer: Answer,
    /// The most tokens of an answer, if the caller says so.
    pub max_output_tokens: Option<u64>,
    /// Bytes of instructions, input and tools, attachments counted as a fixed size each: a base for estimating input tokens.
    pub prompt_chars: u64,
    /// What was kept at the upstream that the request goes on from: only that upstream can serve it.
    pub bound_to: Option<Bound>,
    /// Whether the upstream is to keep the answer.
    pub keeps: Keeps,
    model_at: Range<usize>,
}

/// Whether an upstream keeps its answer, so that a later request may go on from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// It does, unless the caller says otherwise.
    Yes,
    /// The caller says otherwise.
    No,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    input: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    max_output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    conversation: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    store: Option<&'a RawValue>,
}

/// Checks that a body is one JSON object with a model, and says where it is. Builds no tree.
pub fn peek(body: &Bytes) -> Result<Peek, BadRequest> {
    let fields: Fields<'_> = check::fields(body)?;
    let model = fields.model.ok_or_else(|| check::missing("model"))?;
    if let Some(input) = fields.input.map(RawValue::get)
        && !input.starts_with(['"', '[', 'n'])
    {
        return Err(check::wrong_type("input", "a string or an array of items", kind_of(input)));
    }
    let said = [fields.input, fields.instructions, fields.tools];
    Ok(Peek {
        model: check::model(model)?,
        answer: if check::flag("stream", fields.stream)? { Answer::Stream } else { Answer::Whole },
        max_output_tokens: check::count("max_output_tokens", fields.max_output_tokens)?,
        prompt_chars: said.iter().flatten().map(|raw| without_attachments(raw.get())).sum(),
        bound_to: Bound::in_field("previous_response_id", fields.previous_response_id)
            .or_else(|| Bound::in_field("conversation", fields.conversation)),
        keeps: if fields.store.is_some_and(|store| store.get() == "false") { Keeps::No } else { Keeps::Yes },
        model_at: range_in(body, model),
    })
}

/// The body for an upstream of the same dialect: its name for the model, every other byte as it was.
pub fn splice(body: &Bytes, peek: &Peek, upstream_model: &str) -> Bytes {
    if upstream_model == peek.model {
        return body.clone();
    }
    replaced(body, &peek.model_at, &quoted(upstream_model))
}

#[cfg(test)]
mod tests;
