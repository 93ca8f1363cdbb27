//! Reads a caller's body into the common tongue.

mod blocks;
mod settings;

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::dropped::is_dropped;
use crate::canonical::request::{Part, Request, Role, Sampling, Turn};
use crate::dialect::Answer;
use crate::dialect::anthropic::object::{Object, Path, malformed};
use crate::error::BadRequest;
use blocks::Speaker;

/// A client's note to Anthropic's accounting, sent as a block of system text; new in each request.
const BILLING_NOTE: &str = "x-anthropic-billing-header";

/// Reads a request for a message or for a count of tokens.
///
/// Everything it says is in the result, or is listed in [`super::DROPPED`], or is a fault that names its field: blocks and settings
/// that no other dialect has among them. Unknown top-level fields are kept in `rest`.
pub fn read(body: &[u8]) -> Result<Request, BadRequest> {
    let body: Value = serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))?;
    let Value::Object(_) = body else {
        return Err(BadRequest { message: "The request body must be an object.".into(), ..malformed("") });
    };
    let mut body = Object::of(body, Path::Root)?;
    body.leave_out(&["model"]);
    let (tool_choice, parallel_calls) = settings::tool_choice(&mut body)?;
    let (format, effort) = settings::output_config(&mut body)?;
    Ok(Request {
        system: system(&mut body)?,
        turns: turns(&mut body)?,
        tools: settings::tools(&mut body)?,
        tool_choice,
        parallel_calls,
        max_output: body.count("max_tokens")?,
        sampling: Sampling {
            temperature: body.number("temperature")?,
            top_p: body.number("top_p")?,
            top_k: body.number("top_k")?,
            stop: settings::stop_sequences(&mut body)?,
            ..Sampling::default()
        },
        format,
        reasoning: settings::reasoning(&mut body, effort)?,
        user: settings::user(&mut body)?,
        answer: if body.flag("stream")? == Some(true) { Answer::Stream } else { Answer::Whole },
        rest: rest(body),
    })
}

/// Unknown fields that say something.
fn rest(body: Object<'_>) -> Map<String, Value> {
    let says_something = |value: &Value| match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    body.rest().into_iter().filter(|(name, value)| !is_dropped(name) && says_something(value)).collect()
}

/// The system prompt: one text, or a list of them.
fn system(body: &mut Object<'_>) -> Result<Vec<String>, BadRequest> {
    let Some(system) = body.take("system") else { return Ok(Vec::new()) };
    let path = body.at("system");
    let parts = blocks::content(system, path, Speaker::System, &mut HashMap::new())?;
    let texts = parts.into_iter().filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None });
    Ok(texts.filter(|text| !text.trim_start().starts_with(BILLING_NOTE)).collect())
}

fn turns(body: &mut Object<'_>) -> Result<Vec<Turn>, BadRequest> {
    let messages = body.list("messages")?.ok_or_else(|| body.at("messages").missing())?;
    let list = body.at("messages");
    if messages.is_empty() {
        return Err(list.invalid("at least one message is required"));
    }
    let mut names = HashMap::new();
    let turn = |(at, message)| {
        let path = Path::Element(&list, at);
        let mut message = Object::of(message, path)?;
        let (role, speaker) = match message.need_text("role")?.as_str() {
            "user" => (Role::User, Speaker::User),
            "assistant" => (Role::Assistant, Speaker::Assistant),
            "system" => (Role::System, Speaker::System),
            _ => return Err(message.at("role").invalid("Input should be 'user', 'assistant' or 'system'")),
        };
        let content = message.need("content")?;
        let parts = blocks::content(content, message.at("content"), speaker, &mut names)?;
        message.leave_out(&["id", "cache_control"]);
        message.end()?;
        Ok(Turn { role, parts })
    };
    messages.into_iter().enumerate().map(turn).collect()
}
