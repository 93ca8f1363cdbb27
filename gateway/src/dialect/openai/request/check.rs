//! The rules of the known fields, and the words for breaking them.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Edit;
use super::fields::Messages;
use crate::dialect::UsageChunk;
use crate::dialect::openai::json::{kind_of, present, range_in};
use crate::error::BadRequest;

const WISH: &str = "\"include_usage\":true";

pub(in crate::dialect) fn bad(field: impl Into<Cow<'static, str>>, code: &'static str, message: String) -> BadRequest {
    BadRequest { field: Some(field.into()), code: Some(code), message }
}

pub(in crate::dialect) fn malformed(why: &str) -> BadRequest {
    let message = format!("The body of the request could not be parsed as JSON: {why}.");
    BadRequest { field: None, code: Some("invalid_json"), message }
}

pub(in crate::dialect) fn not_an_object(kind: &str) -> BadRequest {
    let message = format!("The body of the request must be a JSON object, but is {kind}.");
    BadRequest { field: None, code: Some("invalid_type"), message }
}

pub(in crate::dialect) fn missing(field: impl Into<Cow<'static, str>>) -> BadRequest {
    let field = field.into();
    let message = format!("Missing required parameter: '{field}'.");
    bad(field, "missing_required_parameter", message)
}

/// Two values for one field: which one an upstream takes cannot be known.
pub(in crate::dialect) fn duplicate(field: impl Into<Cow<'static, str>>) -> BadRequest {
    let field = field.into();
    let message = format!("Parameter given twice: '{field}'.");
    bad(field, "duplicate_parameter", message)
}

/// The known fields of a body that must be one JSON object; unknown ones may hold anything that is JSON.
pub(in crate::dialect) fn fields<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("it is not UTF-8"))?;
    // A derived struct would take a list for its fields in order.
    if !text.trim_ascii_start().starts_with('{') {
        let whole: &RawValue = serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
        return Err(not_an_object(kind_of(whole.get())));
    }
    serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        match why.strip_prefix("duplicate field `").and_then(|rest| rest.split_once('`')) {
            Some((field, _)) => duplicate(field.to_owned()),
            None => malformed(&why),
        }
    })
}

pub(in crate::dialect) fn wrong_type(field: impl Into<Cow<'static, str>>, expected: &str, found: &str) -> BadRequest {
    let field = field.into();
    let message = format!("Invalid type for '{field}': expected {expected}, but got {found} instead.");
    bad(field, "invalid_type", message)
}

/// The model's name: a text that is not empty.
pub(in crate::dialect) fn model(raw: &RawValue) -> Result<String, BadRequest> {
    let model: String =
        serde_json::from_str(raw.get()).map_err(|_| wrong_type("model", "a string", kind_of(raw.get())))?;
    if model.is_empty() { Err(missing("model")) } else { Ok(model) }
}

/// A list of objects, at least one. Gives their size in characters.
pub(super) fn messages(messages: Option<&Messages>) -> Result<u64, BadRequest> {
    match messages {
        None => Err(missing("messages")),
        Some(Messages::NotAList(kind)) => Err(wrong_type("messages", "an array of objects", kind)),
        Some(Messages::List { odd: Some((at, kind)), .. }) => {
            Err(wrong_type(format!("messages[{at}]"), "an object", kind))
        }
        Some(Messages::List { count: 0, .. }) => Err(bad(
            "messages",
            "empty_array",
            "Invalid 'messages': expected at least one message, but got an empty array.".into(),
        )),
        Some(Messages::List { chars, .. }) => Ok(*chars),
    }
}

/// A boolean; absent and null are false.
pub(in crate::dialect) fn flag(field: &'static str, raw: Option<&RawValue>) -> Result<bool, BadRequest> {
    match raw.map(RawValue::get) {
        None | Some("null" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(wrong_type(field, "a boolean", kind_of(other))),
    }
}

/// A whole number that is not negative; absent and null are none.
pub(in crate::dialect) fn count(field: &'static str, raw: Option<&RawValue>) -> Result<Option<u64>, BadRequest> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(text) => match serde_json::from_str(text) {
            Ok(count) => Ok(Some(count)),
            Err(_) if text.starts_with('-') => {
                Err(bad(field, "integer_below_min_value", format!("Invalid '{field}': it must not be negative.")))
            }
            Err(_) => Err(wrong_type(field, "an integer", kind_of(text))),
        },
    }
}

/// Whether the client wants the usage chunk, and what to change so that we get it.
pub(super) fn stream_options(
    body: &Bytes,
    raw: Option<&RawValue>,
    model_end: usize,
) -> Result<(UsageChunk, Option<Edit>), BadRequest> {
    let hidden = |at, text: String| Ok((UsageChunk::Hidden, Some(Edit { at, text: text.into() })));
    let Some(raw) = raw else {
        return hidden(model_end..model_end, format!(",\"stream_options\":{{{WISH}}}"));
    };
    let at = range_in(body, raw);
    if raw.get() == "null" {
        return hidden(at, format!("{{{WISH}}}"));
    }
    if !raw.get().starts_with('{') {
        return Err(wrong_type("stream_options", "an object", kind_of(raw.get())));
    }
    let options: Options<'_> =
        serde_json::from_str(raw.get()).map_err(|_| duplicate("stream_options.include_usage"))?;
    match options.include_usage {
        Some(wish) if flag("stream_options.include_usage", Some(wish))? => Ok((UsageChunk::Wanted, None)),
        Some(wish) => hidden(range_in(body, wish), "true".into()),
        None => {
            let inside = at.start + 1;
            let empty = raw.get()[1..].trim_start().starts_with('}');
            hidden(inside..inside, format!("{WISH}{}", if empty { "" } else { "," }))
        }
    }
}

#[derive(Deserialize)]
struct Options<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    include_usage: Option<&'a RawValue>,
}
