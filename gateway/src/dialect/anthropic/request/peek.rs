//! Looks into a request body without taking it apart, and edits the places that must change.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::thoughts;
use crate::dialect::Answer;
use crate::dialect::anthropic::json::{Edit, edited, present, quoted, range_in};
use crate::dialect::anthropic::object::{bad, malformed};
use crate::error::BadRequest;

/// What a body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A message is to be made.
    Message,
    /// Tokens are to be counted.
    Count,
}

/// What the gateway needs to know of a request. Holds no part of the body but the model's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The model as the caller wrote it.
    pub model: String,
    /// Whether a stream is asked for.
    pub answer: Answer,
    /// The most tokens of the answer; always there for a message.
    pub max_output_tokens: Option<u64>,
    /// Bytes of messages, system and tools, attachments counted as a fixed size each: a base for estimating input tokens.
    pub prompt_chars: u64,
    model_at: Range<usize>,
    /// Thoughts no upstream has signed, taken out: Anthropic refuses them.
    thoughts: Vec<Edit>,
}

/// What one attachment counts in [`Peek::prompt_chars`], whatever its size in base64.
const ATTACHMENT_CHARS: u64 = 4_000;

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

/// Checks that a body is one JSON object with a model and messages (and for a message with a `max_tokens`), and says where they are.
/// Builds no tree; unknown fields may hold anything that is JSON.
pub fn peek(body: &Bytes, purpose: Purpose) -> Result<Peek, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("it is not UTF-8"))?;
    // A derived struct would take a list for its fields in order.
    if text.trim_start().starts_with('[') {
        return Err(BadRequest { message: "The request body must be an object.".into(), ..malformed("") });
    }
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
    let model_raw = fields.model.ok_or_else(|| missing("model"))?;
    let model: String =
        serde_json::from_str(model_raw.get()).map_err(|_| wrong("model", "Input should be a string"))?;
    if model.is_empty() {
        return Err(wrong("model", "Input should not be empty"));
    }
    let messages = fields.messages.ok_or_else(|| missing("messages"))?;
    check_list(messages.get())?;
    let max_output_tokens = count("max_tokens", fields.max_tokens)?;
    if purpose == Purpose::Message && max_output_tokens.is_none() {
        return Err(missing("max_tokens"));
    }
    let prompt = [Some(messages), fields.system, fields.tools];
    Ok(Peek {
        model,
        answer: answer(fields.stream)?,
        max_output_tokens,
        prompt_chars: prompt.into_iter().flatten().map(|part| without_attachments(part.get())).sum(),
        model_at: range_in(body, model_raw),
        thoughts: thoughts::unsigned(body, messages, fields.thinking),
    })
}

/// The body for an upstream: its name for the model, without thoughts no Anthropic upstream made. Every other byte stays, and without
/// a change the same bytes are returned uncopied.
pub fn splice(body: &Bytes, peek: &Peek, upstream_model: &str) -> Bytes {
    let model =
        (upstream_model != peek.model).then(|| Edit { at: peek.model_at.clone(), text: quoted(upstream_model).into() });
    let mut edits: Vec<&Edit> = model.iter().chain(&peek.thoughts).collect();
    edited(body, &mut edits)
}

fn missing(field: &'static str) -> BadRequest {
    bad(field, "missing_required_parameter", "Field required")
}

fn wrong(field: &'static str, why: &str) -> BadRequest {
    bad(field, "invalid_type", why)
}

fn check_list(messages: &str) -> Result<(), BadRequest> {
    match messages.strip_prefix('[') {
        None => Err(wrong("messages", "Input should be an array")),
        Some(rest) if rest.trim_start().starts_with(']') => {
            Err(bad("messages", "invalid_value", "at least one message is required"))
        }
        Some(_) => Ok(()),
    }
}

fn answer(stream: Option<&RawValue>) -> Result<Answer, BadRequest> {
    match stream.map(RawValue::get) {
        None | Some("false") => Ok(Answer::Whole),
        Some("true") => Ok(Answer::Stream),
        Some(_) => Err(wrong("stream", "Input should be a boolean")),
    }
}

fn count(field: &'static str, raw: Option<&RawValue>) -> Result<Option<u64>, BadRequest> {
    let wrong = |_| wrong(field, "Input should be a whole number that is not negative");
    raw.map(|raw| serde_json::from_str(raw.get()).map_err(wrong)).transpose()
}

/// The length of a text, each base64 attachment in it counted as [`ATTACHMENT_CHARS`].
fn without_attachments(text: &str) -> u64 {
    let mut length = text.len() as u64;
    for at in memmem::find_iter(text.as_bytes(), b"\"data\"") {
        let rest = text[at + "\"data\"".len()..].trim_start();
        let Some(value) = rest.strip_prefix(':').and_then(|rest| rest.trim_start().strip_prefix('"')) else { continue };
        let size = memchr::memchr(b'"', value.as_bytes()).unwrap_or(0);
        if size as u64 > ATTACHMENT_CHARS && value.bytes().take(256).all(is_base64) {
            length = length.saturating_sub(size as u64) + ATTACHMENT_CHARS;
        }
    }
    length
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}
