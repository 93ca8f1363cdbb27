//! Whole answers of the Responses API: checked and passed on with the model named as the caller did, or written from the common tongue.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::Transport;

use super::super::openai::error::{self, broken};
use super::super::openai::json::{present, quoted, range_in, replaced};
use super::super::openai::response::refuse_foreign;
use super::json::Said;
use crate::canonical::usage;
use crate::dialect::translate::WholeAnswer;
use crate::error::UpstreamError;

mod write;

pub use write::write;
pub(super) use write::{Head, Place, call_item, message_item, reasoning_item, refusal_part, text_part};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(default)]
    output: Option<Said>,
}

/// An answer for a caller of the same dialect: checked, and every byte but the model's name as received. An answer that failed, holds
/// an error or is no answer is a failure of the upstream.
pub fn pass(content_type: Option<&str>, body: &Bytes, caller_model: &str) -> Result<WholeAnswer, Box<UpstreamError>> {
    refuse_foreign(content_type, body)?;
    let foreign = |reason| Err(Box::new(broken(Transport::NotTheFormat, reason)));
    let Ok(parsed) = serde_json::from_slice::<Body<'_>>(body) else {
        return foreign("a success whose body is not a response");
    };
    if parsed.error.is_some() {
        return Err(Box::new(error::read(None, body)));
    }
    if parsed.status.is_some_and(|status| status.get() == "\"failed\"") {
        return Err(Box::new(broken(Transport::ErrorInSuccess, "the upstream broke off its answer")));
    }
    let Some(Said(output_chars)) = parsed.output else {
        return foreign("a success without an output");
    };
    let made = parsed.id.and_then(|id| serde_json::from_str(id.get()).ok());
    let usage = parsed.usage.and_then(|usage| usage::openai_responses(usage.get()));
    let body = match parsed.model {
        Some(model) => replaced(body, &range_in(body, model), &quoted(caller_model)),
        None => body.clone(),
    };
    Ok(WholeAnswer { body, usage, output_chars, made, ..WholeAnswer::default() })
}

#[cfg(test)]
mod tests;
