//! Whole answers: checked and passed on with the model named as the caller did, or read into the common tongue and written from it.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::Transport;
use shared::money::Tokens;

use super::error::{self, broken};
use super::json::{Delta, Finish, present, quoted, range_in, replaced};
use crate::dialect::translate::WholeAnswer;
use crate::error::UpstreamError;

mod read;
mod write;

pub use read::read;
pub(in crate::dialect) use read::{finish, reasoning, settled, text_of, texts};
pub use write::write;
pub(in crate::dialect) use write::{created, extra_content, finish_reason, usage};

/// What is known of a good whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// What it used, if the upstream says so believably.
    pub usage: Option<Tokens>,
    /// Characters of the answer, over all choices: a base for estimating output tokens.
    pub output_chars: u64,
    model_at: Option<Range<usize>>,
}

#[derive(Deserialize)]
struct Body<'a> {
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
    message: Option<Delta>,
    #[serde(default)]
    finish_reason: Finish,
}

/// Checks the body of a success. A good one is a JSON object with at least one choice that has a message; anything else is a failure
/// of the upstream: an error inside a success, an empty body, a page, a broken or foreign JSON.
pub fn check(content_type: Option<&str>, body: &Bytes) -> Result<Whole, Box<UpstreamError>> {
    refuse_foreign(content_type, body)?;
    let foreign = |reason| Err(Box::new(broken(Transport::NotTheFormat, reason)));
    let Ok(parsed) = serde_json::from_slice::<Body<'_>>(body) else {
        return foreign("a success whose body is not a chat completion");
    };
    if parsed.error.is_some() {
        return Err(Box::new(error::read(None, body)));
    }
    let choices = parsed.choices.unwrap_or_default();
    if choices.iter().all(|choice| choice.message.is_none()) {
        return foreign("a success without a choice");
    }
    if choices.iter().any(|choice| choice.finish_reason == Finish::Error) {
        return Err(Box::new(broken(Transport::ErrorInSuccess, "the upstream broke off its answer")));
    }
    Ok(Whole {
        usage: parsed.usage.and_then(|usage| crate::canonical::usage::openai(usage.get())),
        output_chars: choices.iter().filter_map(|choice| choice.message).map(|message| message.chars).sum(),
        model_at: parsed.model.map(|model| range_in(body, model)),
    })
}

/// A success must be JSON, and must be an object: a list is how some upstreams wrap an error.
pub(in crate::dialect) fn refuse_foreign(content_type: Option<&str>, body: &Bytes) -> Result<(), Box<UpstreamError>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Box::new(broken(Transport::Empty, "a success without a body")));
    }
    if content_type.is_some_and(is_foreign) {
        return Err(Box::new(broken(Transport::NotTheFormat, "a success of another content type")));
    }
    // A derived struct would take a list for its fields in order.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(Box::new(error::read(None, body)));
    }
    Ok(())
}

/// An answer for a caller of the same dialect: checked, and every byte but the model's name as received.
pub fn pass(content_type: Option<&str>, body: &Bytes, caller_model: &str) -> Result<WholeAnswer, Box<UpstreamError>> {
    let whole = check(content_type, body)?;
    let body = splice_model(body, &whole, caller_model);
    Ok(WholeAnswer { body, usage: whole.usage, output_chars: whole.output_chars, ..WholeAnswer::default() })
}

/// The body with the model named as the caller did. Every other byte stays; a body that names no model is left alone.
pub fn splice_model(body: &Bytes, whole: &Whole, caller_model: &str) -> Bytes {
    match &whole.model_at {
        Some(at) => replaced(body, at, &quoted(caller_model)),
        None => body.clone(),
    }
}

/// A declared type that cannot be JSON. Sloppy ones, `text/plain` for example, are judged by the body.
fn is_foreign(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(
        kind.as_str(),
        "text/html" | "text/event-stream" | "application/xhtml+xml" | "application/xml" | "text/xml"
    )
}

#[cfg(test)]
mod tests;
