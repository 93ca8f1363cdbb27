//! Writes the conversation: the user first, neighbours of one role merged, the results of calls right after the calls.

use serde_json::{Value, json};

use super::parts::{self, block};
use crate::canonical::request::{Part, Request, Role, Turn};
use crate::dialect::anthropic::names::Names;
use crate::dialect::anthropic::request::target::Target;
use crate::error::BadRequest;

/// What the user says where the conversation does not begin with the user.
const OPENING: &str = "Begin.";

/// A message in the making.
struct Message<'a> {
    role: Role,
    parts: Vec<&'a Part>,
}

/// The `messages` field.
pub(super) fn messages(request: &Request, names: &Names, target: &Target) -> Result<Value, BadRequest> {
    let mut merged = merge(&request.turns, target);
    let mut written = Vec::with_capacity(merged.len() + 1);
    if merged.first().is_none_or(|first| first.role != Role::User) {
        written.push(json!({"role": "user", "content": OPENING}));
    }
    let last = merged.len().saturating_sub(1);
    for (at, message) in merged.iter_mut().enumerate() {
        results_first(message);
        let mut content = message
            .parts
            .iter()
            .map(|part| block(part, message.role, names))
            .collect::<Result<Vec<Value>, BadRequest>>()?;
        if at == last && message.role == Role::Assistant {
            trim_prefill(&mut content);
        }
        if !content.is_empty() {
            written.push(json!({"role": role(message.role), "content": content}));
        }
    }
    Ok(written.into())
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// Neighbours of one role become one message; what says nothing is gone. Instructions that stand between calls and their results
/// move behind the results: these must follow the calls at once.
fn merge<'a>(turns: &'a [Turn], target: &Target) -> Vec<Message<'a>> {
    let mut merged: Vec<Message<'a>> = Vec::with_capacity(turns.len());
    let mut held: Option<Message<'a>> = None;
    for turn in turns {
        let parts: Vec<&Part> = turn.parts.iter().filter(|part| parts::says_something(part, target)).collect();
        if parts.is_empty() {
            continue;
        }
        let waits = turn.role == Role::System && merged.last().is_some_and(awaits_results);
        if waits || held.is_some() && turn.role == Role::System {
            add(held.get_or_insert(Message { role: Role::System, parts: Vec::new() }), parts);
            continue;
        }
        let is_results = turn.role == Role::User && parts.iter().any(|part| matches!(part, Part::ToolResult(_)));
        if !is_results && let Some(message) = held.take() {
            push(&mut merged, message);
        }
        push(&mut merged, Message { role: turn.role, parts });
    }
    if let Some(message) = held {
        push(&mut merged, message);
    }
    merged
}

fn add<'a>(message: &mut Message<'a>, parts: Vec<&'a Part>) {
    message.parts.extend(parts);
}

fn push<'a>(merged: &mut Vec<Message<'a>>, message: Message<'a>) {
    match merged.last_mut() {
        Some(last) if last.role == message.role => last.parts.extend(message.parts),
        _ => merged.push(message),
    }
}

fn awaits_results(message: &Message<'_>) -> bool {
    message.role == Role::Assistant && message.parts.iter().any(|part| matches!(part, Part::ToolCall(_)))
}

/// The results of calls stand before everything else the user says.
fn results_first(message: &mut Message<'_>) {
    if message.role == Role::User {
        message.parts.sort_by_key(|part| !matches!(part, Part::ToolResult(_)));
    }
}

/// An answer to go on with must not end in space.
fn trim_prefill(content: &mut Vec<Value>) {
    let Some(last) = content.last_mut() else { return };
    let Some(text) = last.get("text").and_then(Value::as_str) else { return };
    let trimmed = text.trim_end().to_owned();
    if trimmed.is_empty() {
        content.pop();
    } else {
        last["text"] = trimmed.into();
    }
}
