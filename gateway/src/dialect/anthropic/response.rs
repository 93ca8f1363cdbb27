//! Whole answers: checked and renamed between two who speak the dialect, read and written where only one does.

mod check;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use shared::failure::Transport;

use super::error::{broken, in_success};
use super::finish::{self, Calls};
use super::names::call_id;
use super::usage::written;
use crate::canonical::request::{Part, Thinking, ToolCall};
use crate::canonical::response::{Choice, Response};
use crate::canonical::usage;
use crate::error::UpstreamError;

pub use check::{Whole, check, splice_model};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    stop_sequence: Option<String>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    input: Option<Value>,
}

/// Reads the body of a success into the common tongue. What [`check`](fn@check) calls a failure of the upstream is one here.
pub fn read(content_type: Option<&str>, body: &Bytes) -> Result<Response, Box<UpstreamError>> {
    check::is_answer(content_type, body)?;
    // An error has no content; what has neither is no message.
    let parsed = serde_json::from_slice::<Body<'_>>(body)
        .map_err(|_| Box::new(in_success(body).unwrap_or_else(check::no_message)))?;
    let parts = parsed.content.into_iter().filter_map(part).collect::<Result<Vec<Part>, Box<UpstreamError>>>()?;
    let stop_reason = parsed.stop_reason.unwrap_or_default();
    Ok(Response {
        id: parsed.id,
        choices: vec![Choice { parts, finish: finish::read(&stop_reason, parsed.stop_sequence.as_deref()) }],
        usage: parsed.usage.and_then(|usage| usage::anthropic(usage.get())),
    })
}

/// What a block says. Blocks of tools that run at Anthropic are never asked for by a translated request, and are skipped.
fn part(block: Block) -> Option<Result<Part, Box<UpstreamError>>> {
    Some(Ok(match block.kind.as_str() {
        "text" => Part::Text(block.text.filter(|text| !text.is_empty())?),
        "thinking" => Part::Thinking(Thinking {
            text: block.thinking.unwrap_or_default(),
            signature: block.signature.filter(|signature| !signature.is_empty()),
            redacted: None,
        }),
        "redacted_thinking" => {
            let Some(Value::String(data)) = block.data else { return None };
            Part::Thinking(Thinking { redacted: Some(data), ..Thinking::default() })
        }
        "tool_use" => return Some(call(block).map(Part::ToolCall)),
        _ => return None,
    }))
}

fn call(block: Block) -> Result<ToolCall, Box<UpstreamError>> {
    let arguments = match block.input {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(arguments)) => Some(arguments),
        Some(_) => None,
    };
    match (block.id, block.name, arguments) {
        (Some(id), Some(name), Some(arguments)) if !id.is_empty() && !name.is_empty() => {
            Ok(ToolCall { id, name, arguments, signature: None })
        }
        _ => Err(Box::new(broken(Transport::NotTheFormat, "a call without a name, an id or an object of arguments"))),
    }
}

/// An answer for a client of this dialect: its first choice, under the model's name the client knows. Thoughts of another upstream
/// are shown without a signature, which marks them as foreign when they come back.
pub fn write(response: &Response, model: &str, request_id: &str) -> Bytes {
    let (parts, finish) = match response.choices.first() {
        Some(choice) => (choice.parts.as_slice(), Some(&choice.finish)),
        None => (&[][..], None),
    };
    let calls = if parts.iter().any(|part| matches!(part, Part::ToolCall(_))) { Calls::Some } else { Calls::None };
    let (stop_reason, stop_sequence) = finish.map_or(("end_turn", None), |finish| finish::written(finish, calls));
    let body = json!({
        "id": message_id(response.id.as_deref(), request_id),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": parts.iter().filter_map(block).collect::<Vec<Value>>(),
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": written(response.usage),
    });
    Bytes::from(body.to_string())
}

/// The upstream's id if it is one of this dialect, else one made of the request's.
pub(super) fn message_id(upstream: Option<&str>, request_id: &str) -> String {
    match upstream.filter(|id| id.starts_with("msg_")) {
        Some(id) => id.to_owned(),
        None => format!("msg_{}", request_id.replace('-', "")),
    }
}

/// A part as a content block. Media have no place in an answer here.
fn block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(text) | Part::Refusal(text) if text.is_empty() => return None,
        Part::Text(text) | Part::Refusal(text) => json!({"type": "text", "text": text}),
        Part::Thinking(thought) if thought.text.is_empty() => return None,
        Part::Thinking(thought) => json!({"type": "thinking", "thinking": thought.text, "signature": ""}),
        Part::ToolCall(call) => {
            json!({"type": "tool_use", "id": call_id(&call.id), "name": call.name, "input": call.arguments})
        }
        Part::Image(_) | Part::File(_) | Part::ToolResult(_) => return None,
    })
}

#[cfg(test)]
mod tests;
