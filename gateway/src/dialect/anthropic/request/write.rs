//! Writes a request of the common tongue for an upstream.

mod parts;
mod settings;
mod turns;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::target::Target;
use crate::canonical::request::Request;
use crate::dialect::Answer;
use crate::dialect::anthropic::names::Names;
use crate::dialect::anthropic::object::{Path, bad};
use crate::error::BadRequest;

/// The body of a request for a message.
///
/// What a Claude cannot do (several choices, seeds, penalties, audio, JSON without a schema, sampling where it is refused) is a fault
/// that names the field; what is left out silently stands in [`super::DROPPED_INTO`]. The same request gives the same bytes.
pub fn write(request: &Request, upstream_model: &str, target: &Target) -> Result<Bytes, BadRequest> {
    let mut body = prompt(request, upstream_model, target)?;
    let thinking = settings::thinking(request, target);
    body.insert("max_tokens".into(), thinking.max_tokens.into());
    if request.answer == Answer::Stream {
        body.insert("stream".into(), true.into());
    }
    settings::sampling(&request.sampling, &thinking, target, &mut body)?;
    if let Some(user) = &request.user {
        body.insert("metadata".into(), json!({"user_id": user}));
    }
    Ok(Bytes::from(Value::Object(body).to_string()))
}

/// The body of a request for a count of tokens: only what is counted.
pub fn write_count(request: &Request, upstream_model: &str, target: &Target) -> Result<Bytes, BadRequest> {
    Ok(Bytes::from(Value::Object(prompt(request, upstream_model, target)?).to_string()))
}

/// What both kinds of body have: everything that makes the prompt.
fn prompt(request: &Request, upstream_model: &str, target: &Target) -> Result<Map<String, Value>, BadRequest> {
    if let Some((field, _)) = request.rest.iter().find(|(_, value)| !value.is_null()) {
        return Err(unsupported(field.clone(), "not supported by the upstream that serves this model"));
    }
    let names = Names::of(request);
    let mut body = Map::new();
    body.insert("model".into(), upstream_model.into());
    let system: Vec<Value> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    settings::tools(request, &names, &mut body)?;
    body.insert("messages".into(), turns::messages(request, &names, target)?);
    let thinking = settings::thinking(request, target);
    if let Some(config) = &thinking.config {
        body.insert("thinking".into(), config.clone());
    }
    let mut output = Map::new();
    if let Some(effort) = thinking.effort {
        output.insert("effort".into(), effort.into());
    }
    if let Some(format) = settings::format(request.format.as_ref())? {
        output.insert("format".into(), format);
    }
    if !output.is_empty() {
        body.insert("output_config".into(), output.into());
    }
    Ok(body)
}

/// A field whose wish cannot be fulfilled here.
fn unsupported(field: impl Into<std::borrow::Cow<'static, str>>, why: &str) -> BadRequest {
    bad(field, "unsupported_parameter", why)
}

/// The place of what is wrong with a turn: callers count their messages in their own way.
const TURNS: Path<'static> = Path::Field(&Path::Root, "messages");
