//! Checks a whole answer and names the model as the caller did.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::Transport;
use shared::money::Tokens;

use crate::canonical::usage;
use crate::dialect::anthropic::error::{broken, read as read_error};
use crate::dialect::anthropic::json::{Edit, Text, edited, present, quoted, range_in};
use crate::error::UpstreamError;

/// What is known of a good whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// What it used, if the upstream says so believably.
    pub usage: Option<Tokens>,
    /// Characters of the answer: a base for estimating output tokens.
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
    #[serde(borrow, default)]
    content: Option<Vec<Block<'a>>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// Checks the body of a success. A good one is a JSON object with content, which may be empty; anything else is a failure of the
/// upstream: an error inside a success, an empty body, a page, a broken or foreign JSON.
pub fn check(content_type: Option<&str>, body: &Bytes) -> Result<Whole, Box<UpstreamError>> {
    is_answer(content_type, body)?;
    let parsed = serde_json::from_slice::<Body<'_>>(body).map_err(|_| Box::new(no_message()))?;
    if parsed.error.is_some() {
        return Err(Box::new(read_error(None, body)));
    }
    let content = parsed.content.ok_or_else(|| Box::new(no_message()))?;
    Ok(Whole {
        usage: parsed.usage.and_then(|usage| usage::anthropic(usage.get())),
        output_chars: content.iter().map(Block::chars).sum(),
        model_at: parsed.model.map(|model| range_in(body, model)),
    })
}

impl Block<'_> {
    fn chars(&self) -> u64 {
        let input = self.input.map_or(0, |input| input.get().chars().count() as u64);
        self.text.chars() + self.thinking.chars() + self.name.chars() + input
    }
}

/// Checks what can be told without reading the JSON.
pub(super) fn is_answer(content_type: Option<&str>, body: &Bytes) -> Result<(), Box<UpstreamError>> {
    let start = body.trim_ascii_start();
    if start.is_empty() {
        return Err(Box::new(broken(Transport::Empty, "a success without a body")));
    }
    if content_type.is_some_and(is_foreign) {
        return Err(Box::new(broken(Transport::NotTheFormat, "a success of another content type")));
    }
    // A derived struct would take a list for its fields in order; a list is how some upstreams wrap an error.
    if start.starts_with(b"[") {
        return Err(Box::new(read_error(None, body)));
    }
    Ok(())
}

/// A body that is neither a message nor an error.
pub(super) fn no_message() -> UpstreamError {
    broken(Transport::NotTheFormat, "a success whose body is not a message")
}

/// The body with the model named as the caller did. Every other byte stays; a body that names no model is left alone.
pub fn splice_model(body: &Bytes, whole: &Whole, caller_model: &str) -> Bytes {
    let edit = whole.model_at.clone().map(|at| Edit { at, text: quoted(caller_model).into() });
    let edit = edit.filter(|edit| body[edit.at.clone()] != *edit.text.as_bytes());
    edited(body, &mut edit.iter().collect::<Vec<_>>())
}

/// A declared type that cannot be JSON. Sloppy ones, `text/plain` for example, are judged by the body.
fn is_foreign(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(
        kind.as_str(),
        "text/html" | "text/event-stream" | "application/xhtml+xml" | "application/xml" | "text/xml"
    )
}
