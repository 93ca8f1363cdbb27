//! The conversation as Gemini's contents.

use serde_json::{Map, Value, json};

use super::super::super::base64;
use super::super::super::fields::unsupported;
use super::super::super::model;
use super::super::super::names::outgoing;
use super::super::super::response::SKIP_SIGNATURE;
use crate::canonical::request::{Media, Part, Request, Role, Source, ToolCall, ToolOutcome, ToolResult};
use crate::error::BadRequest;

/// What was written.
pub(super) struct Written {
    pub(super) system: Option<Value>,
    pub(super) contents: Value,
}

/// Gemini has one place for instructions, so those in the middle of the conversation join it. Neighbours of one role become one turn,
/// and the results of a turn come first in it. A conversation of instructions alone is said by the user.
pub(super) fn write(request: &Request, upstream_model: &str) -> Result<Written, BadRequest> {
    let mut system: Vec<Value> =
        request.system.iter().filter(|text| !text.is_empty()).map(|text| json!({"text": text})).collect();
    let mut turns: Vec<(Role, Vec<Value>)> = Vec::new();
    for turn in &request.turns {
        if turn.role == Role::System {
            system.extend(turn.parts.iter().filter_map(instruction));
            continue;
        }
        let parts = match turn.role {
            Role::Assistant => spoken(&turn.parts, upstream_model)?,
            _ => heard(&turn.parts, upstream_model)?,
        };
        match turns.last_mut() {
            _ if parts.is_empty() => {}
            Some((role, before)) if *role == turn.role => before.extend(parts),
            _ => turns.push((turn.role, parts)),
        }
    }
    for (role, parts) in &mut turns {
        if *role == Role::Assistant {
            sign_first_call(parts, upstream_model);
        } else {
            // Stable: results keep the order of their calls.
            parts.sort_by_key(|part| part.get("functionResponse").is_none());
        }
    }
    if turns.is_empty() {
        if system.is_empty() {
            return Err(unsupported("messages".to_owned(), "there is nothing in them"));
        }
        turns.push((Role::User, std::mem::take(&mut system)));
    }
    let contents = turns.into_iter().map(|(role, parts)| {
        let role = if role == Role::Assistant { "model" } else { "user" };
        json!({"role": role, "parts": parts})
    });
    let contents = contents.collect();
    Ok(Written { system: (!system.is_empty()).then(|| json!({"parts": system})), contents })
}

fn instruction(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) if !text.is_empty() => Some(json!({"text": text})),
        _ => None,
    }
}

/// What the model said. Its thoughts are left out.
fn spoken(parts: &[Part], upstream_model: &str) -> Result<Vec<Value>, BadRequest> {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) if !text.is_empty() => out.push(json!({"text": text})),
            Part::Text(_) | Part::Refusal(_) | Part::Thinking(_) | Part::ToolResult(_) => {}
            Part::Image(media) | Part::File(media) => out.push(blob(media)?),
            Part::ToolCall(call) => out.push(written_call(call, upstream_model)),
        }
    }
    Ok(out)
}

fn written_call(call: &ToolCall, upstream_model: &str) -> Value {
    let mut part = Map::new();
    part.insert("functionCall".into(), json!({"id": call.id, "name": outgoing(&call.name), "args": call.arguments}));
    // A signature is Gemini's own; Claude behind Google has another kind.
    if let Some(signature) = call.signature.as_ref().filter(|signature| base64::is_valid(signature))
        && !model::is_claude(upstream_model)
    {
        part.insert("thoughtSignature".into(), signature.clone().into());
    }
    part.into()
}

/// Newer models refuse a step whose first call has no signature; one that was made elsewhere gets the word for that.
fn sign_first_call(parts: &mut [Value], upstream_model: &str) {
    if !model::signs_calls(upstream_model) {
        return;
    }
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(Value::Object(part)) = first
        && !part.contains_key("thoughtSignature")
    {
        part.insert("thoughtSignature".into(), SKIP_SIGNATURE.into());
    }
}

/// What the user and its functions said.
fn heard(parts: &[Part], upstream_model: &str) -> Result<Vec<Value>, BadRequest> {
    let mut out = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) if !text.is_empty() => out.push(json!({"text": text})),
            Part::Text(_) | Part::Refusal(_) | Part::Thinking(_) | Part::ToolCall(_) => {}
            Part::Image(media) | Part::File(media) => out.push(blob(media)?),
            Part::ToolResult(result) => written_result(result, upstream_model, &mut out)?,
        }
    }
    Ok(out)
}

/// A result. Its media lie within it where the model knows that, else beside it.
fn written_result(result: &ToolResult, upstream_model: &str, out: &mut Vec<Value>) -> Result<(), BadRequest> {
    let mut texts = Vec::new();
    let mut media = Vec::new();
    for part in &result.content {
        match part {
            Part::Text(text) | Part::Refusal(text) => texts.push(text.as_str()),
            Part::Image(found) | Part::File(found) => media.push(blob(found)?),
            Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {}
        }
    }
    let text = texts.join("\n");
    let response = match result.outcome {
        ToolOutcome::Ok => as_object(&text).unwrap_or_else(|| json!({"result": text})),
        ToolOutcome::Failed => json!({"error": text}),
    };
    let mut written = json!({"id": result.id, "name": outgoing(&result.name), "response": response});
    if !media.is_empty() && model::signs_calls(upstream_model) {
        written["parts"] = std::mem::take(&mut media).into();
    }
    out.push(json!({"functionResponse": written}));
    out.extend(media);
    Ok(())
}

/// A text that is a JSON object, unless reading it would round a number.
fn as_object(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok().filter(is_exact)
}

fn is_exact(value: &Value) -> bool {
    /// Whole numbers from here on are not all floats.
    const LARGE: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => number.as_f64().is_some_and(|float| float.abs() < LARGE),
        Value::Array(list) => list.iter().all(is_exact),
        Value::Object(map) => map.values().all(is_exact),
        _ => true,
    }
}

/// Places that Google's upstreams read by themselves.
const READ_BY_GOOGLE: &[&str] = &[
    "gs://",
    "https://generativelanguage.googleapis.com/",
    "https://www.youtube.com/",
    "https://youtube.com/",
    "https://youtu.be/",
];

/// Whether Google's upstreams read what lies there by themselves.
pub(in crate::dialect) fn reads_itself(url: &str) -> bool {
    READ_BY_GOOGLE.iter().any(|place| url.starts_with(place))
}

fn blob(media: &Media) -> Result<Value, BadRequest> {
    match &media.source {
        Source::Inline { mime, data } => Ok(json!({"inlineData": {"mimeType": mime, "data": data}})),
        Source::Url(url) if reads_itself(url) => Ok(json!({"fileData": {"fileUri": url}})),
        Source::Url(_) => Err(unsupported(
            "messages".to_owned(),
            "images and files behind a URL are not fetched; send them inline in base64",
        )),
    }
}
