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
    pub bound_to: Option<String>,
    model_at: Range<usize>,
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
        bound_to: bound_to(fields.previous_response_id).or_else(|| bound_to(fields.conversation)),
        model_at: range_in(body, model),
    })
}

/// The id of an earlier answer, or of a conversation (a text, or an object with it).
fn bound_to(raw: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Object { id: String },
    }
    match serde_json::from_str(raw?.get()).ok()? {
        Id::Text(id) | Id::Object { id } => Some(id),
    }
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
