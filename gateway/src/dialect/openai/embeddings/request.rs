//! Requests for embeddings.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::json::{kind_of, present, quoted, range_in, replaced};
use super::super::request::check;
use super::super::tree::{At, Dropped, Object, unsupported};
use crate::canonical::embeddings::Request;
use crate::error::BadRequest;

/// How vectors are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As lists of numbers.
    #[default]
    Float,
    /// As base64 of little-endian 32-bit floats.
    Base64,
}

/// What the gateway needs to know of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The model as the caller wrote it.
    pub model: String,
    /// How the caller wants the vectors.
    pub encoding: Encoding,
    /// Bytes of the input: a base for estimating tokens.
    pub prompt_chars: u64,
    model_at: Range<usize>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    input: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    encoding_format: Option<&'a RawValue>,
}

/// Fields that are left out on the way to another dialect, and why that does no harm.
pub const DROPPED: &[Dropped] = &[
    ("user", "tells OpenAI whom to blame; vectors are the same without it"),
    ("safety_identifier", "tells OpenAI whom to blame; vectors are the same without it"),
];

/// Checks that a body is one JSON object with a model and an input, and says where the model is.
pub fn peek(body: &Bytes) -> Result<Peek, BadRequest> {
    let fields: Fields<'_> = check::fields(body)?;
    let model = fields.model.ok_or_else(|| check::missing("model"))?;
    let input = fields.input.filter(|input| input.get() != "null").ok_or_else(|| check::missing("input"))?;
    if !input.get().starts_with(['"', '[']) {
        return Err(check::wrong_type("input", "a string or an array", kind_of(input.get())));
    }
    let encoding = match fields.encoding_format.map(RawValue::get) {
        None | Some("null" | "\"float\"") => Encoding::Float,
        Some("\"base64\"") => Encoding::Base64,
        Some(_) => return Err(At::BODY.field("encoding_format").invalid("expected 'float' or 'base64'")),
    };
    Ok(Peek {
        model: check::model(model)?,
        encoding,
        prompt_chars: input.get().len() as u64,
        model_at: range_in(body, model),
    })
}

/// The body for an upstream: its name for the model, every other byte as it was.
pub fn splice(body: &Bytes, peek: &Peek, upstream_model: &str) -> Bytes {
    if upstream_model == peek.model {
        return body.clone();
    }
    replaced(body, &peek.model_at, &quoted(upstream_model))
}

/// The request in the common tongue. Input in tokens is an error: they mean something only to OpenAI's models.
pub fn read(body: &[u8]) -> Result<Request, BadRequest> {
    let mut body = Object::body(body)?;
    body.take("model");
    body.take("encoding_format");
    let at = At::BODY.field("input");
    let texts = match body.need("input")? {
        Value::String(text) => vec![text],
        Value::Array(list) if list.is_empty() => return Err(at.invalid("expected at least one text")),
        Value::Array(list) => {
            let text = |(nth, text): (usize, Value)| match text {
                Value::Number(_) | Value::Array(_) => {
                    Err(at.nth(nth).unsupported("tokens mean nothing to it, only text"))
                }
                other => at.nth(nth).text(other),
            };
            list.into_iter().enumerate().map(text).collect::<Result<_, _>>()?
        }
        other => return Err(at.wrong("a string or an array of strings", &other)),
    };
    Ok(Request { texts, dimensions: body.count("dimensions")?, rest: body.rest(DROPPED) })
}

/// The request as a body for an upstream of OpenAI's.
pub fn write(request: &Request, upstream_model: &str) -> Result<Bytes, BadRequest> {
    if let Some(field) = request.rest.keys().next() {
        return Err(unsupported(field.clone(), "it has no counterpart there"));
    }
    let mut body = Map::new();
    body.insert("model".into(), upstream_model.into());
    body.insert("input".into(), request.texts.clone().into());
    body.insert("encoding_format".into(), json!("float"));
    if let Some(dimensions) = request.dimensions {
        body.insert("dimensions".into(), dimensions.into());
    }
    Ok(Value::Object(body).to_string().into())
}
