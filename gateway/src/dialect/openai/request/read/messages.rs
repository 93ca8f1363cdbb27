//! Reads messages into turns.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::super::media::minted;
use super::super::super::tree::{At, Object};
use super::super::check::bad;
use super::DROPPED_IN_MESSAGES;
use super::parts;
use crate::canonical::request::{Part, Role, Thinking, ToolCall, ToolOutcome, ToolResult, Turn};
use crate::error::BadRequest;

/// What the messages say.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) system: Vec<String>,
    pub(super) turns: Vec<Turn>,
    /// The name of each call so far.
    names: HashMap<String, String>,
    /// Calls without ids that have no answer yet, oldest first.
    unanswered: Vec<(String, String)>,
}

pub(super) fn read(messages: Value, at: &At<'_>) -> Result<Conversation, BadRequest> {
    let messages = at.list(messages)?;
    if messages.is_empty() {
        let message = "Invalid 'messages': expected at least one message, but got an empty array.".to_owned();
        return Err(bad("messages", "empty_array", message));
    }
    let mut conversation = Conversation::default();
    for (nth, message) in messages.into_iter().enumerate() {
        let at = at.nth(nth);
        conversation.take(Object::new(message, &at)?, &at)?;
    }
    Ok(conversation)
}

impl Conversation {
    fn take(&mut self, mut message: Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let role = message.need_text("role")?;
        match role.as_str() {
            "system" | "developer" => self.instructions(&mut message, at)?,
            "user" => {
                let content = message.need("content")?;
                let parts = parts::user(content, &at.field("content"))?;
                self.turns.push(Turn { role: Role::User, parts });
            }
            "assistant" => self.assistant(&mut message, at)?,
            "tool" => self.tool(&mut message, at)?,
            "function" => return self.function(message, at),
            _ => return Err(at.field("role").invalid("no such role")),
        }
        message.close(DROPPED_IN_MESSAGES)
    }

    /// Instructions before the conversation are the system's; later ones keep their place.
    fn instructions(&mut self, message: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let content = message.need("content")?;
        let texts = parts::texts(content, &at.field("content"))?;
        if self.turns.is_empty() {
            self.system.extend(texts);
        } else {
            self.turns.push(Turn { role: Role::System, parts: texts.into_iter().map(Part::Text).collect() });
        }
        Ok(())
    }

    fn assistant(&mut self, message: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let mut parts = Vec::new();
        let (content, other_name) = (message.text("reasoning_content")?, message.text("reasoning")?);
        if let Some(text) = content.or(other_name).filter(|text| !text.is_empty()) {
            parts.push(Part::Thinking(Thinking { text, ..Thinking::default() }));
        }
        if let Some(content) = message.take("content") {
            parts.extend(parts::assistant(content, &at.field("content"))?);
        }
        if let Some(refusal) = message.text("refusal")?.filter(|refusal| !refusal.is_empty()) {
            parts.push(Part::Refusal(refusal));
        }
        let calls = message.list("tool_calls")?.unwrap_or_default();
        let at_calls = at.field("tool_calls");
        for (nth, call) in calls.into_iter().enumerate() {
            let at = at_calls.nth(nth);
            parts.push(Part::ToolCall(self.call(Object::new(call, &at)?, &at)?));
        }
        if let Some(call) = message.take("function_call") {
            let at = at.field("function_call");
            parts.push(Part::ToolCall(self.old_call(Object::new(call, &at)?, &at)?));
        }
        self.turns.push(Turn { role: Role::Assistant, parts });
        Ok(())
    }

    fn call(&mut self, mut call: Object<'_>, at: &At<'_>) -> Result<ToolCall, BadRequest> {
        if call.text("type")?.is_some_and(|kind| kind != "function") {
            return Err(at.field("type").unsupported("only functions can be"));
        }
        let id = call.need_text("id")?;
        if id.is_empty() {
            return Err(at.field("id").invalid("it must not be empty"));
        }
        let at_function = at.field("function");
        let mut function = Object::new(call.need("function")?, &at_function)?;
        let name = function.need_text("name")?;
        let arguments = arguments(function.take("arguments"), &at_function.field("arguments"))?;
        function.close(DROPPED_IN_MESSAGES)?;
        // The carrier that Google's own compatible endpoint uses.
        let signature = call.take("extra_content").and_then(|extra| signature_in(&extra));
        call.take("index");
        call.close(DROPPED_IN_MESSAGES)?;
        self.names.insert(id.clone(), name.clone());
        Ok(ToolCall { id, name, arguments, signature })
    }

    /// A call of old, without an id: one is made from what it says and where.
    fn old_call(&mut self, mut call: Object<'_>, at: &At<'_>) -> Result<ToolCall, BadRequest> {
        let name = call.need_text("name")?;
        let arguments = arguments(call.take("arguments"), &at.field("arguments"))?;
        call.close(&[])?;
        let said = serde_json::to_string(&arguments).unwrap_or_default();
        let id = minted("call_", &[&self.turns.len().to_string(), &name, &said]);
        self.unanswered.push((name.clone(), id.clone()));
        Ok(ToolCall { id, name, arguments, signature: None })
    }

    fn tool(&mut self, message: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let id = message.need_text("tool_call_id")?;
        let Some(name) = self.names.get(&id).cloned() else {
            return Err(at.field("tool_call_id").invalid("no call before it has this id"));
        };
        let content = message.need("content")?;
        let content = parts::user(content, &at.field("content"))?;
        self.result(ToolResult { id, name, content, outcome: ToolOutcome::Ok });
        Ok(())
    }

    /// The answer of a function of old, which is found by its name.
    fn function(&mut self, mut message: Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let name = message.need_text("name")?;
        let Some(place) = self.unanswered.iter().position(|(called, _)| *called == name) else {
            return Err(at.field("name").invalid("no call before it has this name"));
        };
        let (name, id) = self.unanswered.remove(place);
        let content = match message.take("content") {
            Some(content) => parts::user(content, &at.field("content"))?,
            None => Vec::new(),
        };
        message.close(DROPPED_IN_MESSAGES)?;
        self.result(ToolResult { id, name, content, outcome: ToolOutcome::Ok });
        Ok(())
    }

    /// Results that follow each other are one turn.
    fn result(&mut self, result: ToolResult) {
        let part = Part::ToolResult(result);
        match self.turns.last_mut() {
            Some(Turn { role: Role::User, parts }) if matches!(parts.last(), Some(Part::ToolResult(_))) => {
                parts.push(part);
            }
            _ => self.turns.push(Turn { role: Role::User, parts: vec![part] }),
        }
    }
}

/// The arguments of a call: JSON text of an object. No text is no arguments.
pub(in crate::dialect) fn arguments(value: Option<Value>, at: &At<'_>) -> Result<Map<String, Value>, BadRequest> {
    let text = match value {
        None => return Ok(Map::new()),
        Some(Value::String(text)) => text,
        Some(other) => return Err(at.wrong("a string", &other)),
    };
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(&text).map_err(|_| at.invalid("expected the JSON text of an object"))
}

/// A Gemini thought signature where Google's compatible endpoint puts it.
pub(in crate::dialect) fn signature_in(extra: &Value) -> Option<String> {
    let signature = extra.get("google")?.get("thought_signature")?.as_str()?;
    (!signature.is_empty()).then(|| signature.to_owned())
}
