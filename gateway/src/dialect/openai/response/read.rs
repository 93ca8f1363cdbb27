//! Reads a whole chat completion into the common tongue.

use bytes::Bytes;
use serde_json::{Map, Value};
use shared::failure::Transport;

use super::super::error::broken;
use super::super::media::{minted, source};
use super::super::request::signature_in;
use super::super::tree::At;
use crate::canonical::request::{Media, Part, Thinking, ToolCall};
use crate::canonical::response::{Choice, Finish, Response};
use crate::canonical::usage;
use crate::error::UpstreamError;

/// The answer in the common tongue, checked as [`check`](super::check) does. A call whose arguments were cut off by the limit on
/// tokens is left out; one whose arguments are broken otherwise is a failure of the upstream.
pub fn read(content_type: Option<&str>, body: &Bytes) -> Result<Response, Box<UpstreamError>> {
    super::check(content_type, body)?;
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(body) else {
        return Err(foreign("a success whose body is not a chat completion"));
    };
    let Some(Value::Array(mut choices)) = answer.remove("choices") else {
        return Err(foreign("a success without a choice"));
    };
    choices.sort_by_key(|choice| choice["index"].as_u64().unwrap_or(0));
    let choices = choices.into_iter().filter_map(|choice| read_choice(choice).transpose()).collect::<Result<_, _>>()?;
    Ok(Response {
        id: answer.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned),
        choices,
        usage: answer.get("usage").and_then(usage::openai_value),
    })
}

fn foreign(reason: &str) -> Box<UpstreamError> {
    Box::new(broken(Transport::NotTheFormat, reason))
}

/// `None` for a choice without a message.
fn read_choice(mut choice: Value) -> Result<Option<Choice>, Box<UpstreamError>> {
    let Some(Value::Object(mut message)) = choice.get_mut("message").map(Value::take) else { return Ok(None) };
    let said = finish(choice["finish_reason"].as_str());
    let mut parts = Vec::new();
    if let Some(text) = reasoning(&mut message) {
        parts.push(Part::Thinking(Thinking { text, ..Thinking::default() }));
    }
    texts(message.remove("content"), &mut parts);
    if let Some(Value::Array(images)) = message.remove("images") {
        parts.extend(images.into_iter().filter_map(image));
    }
    let refusal = text_of(message.remove("refusal"));
    let refused = refusal.is_some();
    parts.extend(refusal.map(Part::Refusal));
    let calls = calls(&mut message, &said)?;
    let finish = settled(said, !calls.is_empty(), refused);
    parts.extend(calls.into_iter().map(Part::ToolCall));
    Ok(Some(Choice { parts, finish }))
}

/// Why an answer ended, in the common tongue. A reason of tomorrow is taken for the usual one.
pub(in crate::dialect) fn finish(reason: Option<&str>) -> Finish {
    match reason {
        Some("length" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::Filtered,
        Some("tool_calls" | "function_call") => Finish::ToolCalls,
        _ => Finish::Stop,
    }
}

/// The reason after all was said: some upstreams say `stop` where they call, or `tool_calls` where they do not.
pub(in crate::dialect) fn settled(said: Finish, calls: bool, refused: bool) -> Finish {
    match said {
        Finish::Stop | Finish::ToolCalls if calls => Finish::ToolCalls,
        Finish::Stop | Finish::ToolCalls if refused => Finish::Refused,
        Finish::ToolCalls => Finish::Stop,
        other => other,
    }
}

/// Visible thought, under either of its names.
pub(in crate::dialect) fn reasoning(message: &mut Map<String, Value>) -> Option<String> {
    let (one, other) = (message.remove("reasoning_content"), message.remove("reasoning"));
    text_of(one).or_else(|| text_of(other))
}

/// A text that is not empty.
pub(in crate::dialect) fn text_of(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The texts of a content, which is one or a list of parts.
pub(in crate::dialect) fn texts(content: Option<Value>, parts: &mut Vec<Part>) {
    match content {
        Some(Value::String(text)) if !text.is_empty() => parts.push(Part::Text(text)),
        Some(Value::Array(list)) => {
            for mut part in list {
                match part.get_mut("text").map(Value::take) {
                    Some(Value::String(text)) if !text.is_empty() => parts.push(Part::Text(text)),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// An image the model made, as some compatible servers give it.
fn image(mut image: Value) -> Option<Part> {
    let Value::String(url) = image.pointer_mut("/image_url/url")?.take() else { return None };
    let source = source(url, &At::BODY).ok()?;
    Some(Part::Image(Media { source, name: None, detail: None }))
}

fn calls(message: &mut Map<String, Value>, said: &Finish) -> Result<Vec<ToolCall>, Box<UpstreamError>> {
    let mut listed = match message.remove("tool_calls") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    if let Some(function @ Value::Object(_)) = message.remove("function_call") {
        listed.push(serde_json::json!({"function": function}));
    }
    let mut calls = Vec::with_capacity(listed.len());
    for (nth, mut call) in listed.into_iter().enumerate() {
        let signature = signature_in(&call["extra_content"]);
        let id = text_of(call.get_mut("id").map(Value::take));
        let mut function = call.get_mut("function").map_or(Value::Null, Value::take);
        let Some(name) = text_of(function.get_mut("name").map(Value::take)) else {
            return Err(foreign("a call of no function"));
        };
        let arguments = match function.get_mut("arguments").map(Value::take) {
            None | Some(Value::Null) => Some(Map::new()),
            Some(Value::Object(arguments)) => Some(arguments),
            Some(Value::String(text)) if text.trim().is_empty() => Some(Map::new()),
            Some(Value::String(text)) => serde_json::from_str(&text).ok(),
            Some(_) => None,
        };
        let Some(arguments) = arguments else {
            if *said == Finish::Length {
                continue;
            }
            return Err(foreign("a call whose arguments are no JSON object"));
        };
        let id = id.unwrap_or_else(|| {
            let said = serde_json::to_string(&arguments).unwrap_or_default();
            minted("call_", &[&nth.to_string(), &name, &said])
        });
        calls.push(ToolCall { id, name, arguments, signature });
    }
    Ok(calls)
}

#[cfg(test)]
mod tests;
