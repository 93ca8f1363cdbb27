//! Reads input items into turns.

use std::collections::HashMap;

use serde_json::Value;

use super::super::super::openai::Dropped;
use super::super::super::openai::media::{source, standard_base64};
use super::super::super::openai::request::read::{arguments, parts::file_source};
use super::super::super::openai::request::signature_in;
use super::super::super::openai::tree::{At, Object};
use crate::canonical::request::{Media, Part, Role, Source, Thinking, ToolCall, ToolOutcome, ToolResult, Turn};
use crate::error::BadRequest;

/// Fields of items that are left out on the way to another dialect, and why that does no harm.
pub const DROPPED_IN_ITEMS: &[Dropped] = &[
    ("id", "names the item at OpenAI"),
    ("status", "says how far an earlier answer had come"),
    ("phase", "says which part of an earlier answer it was"),
    ("annotations", "notes on an earlier answer, for people"),
    ("logprobs", "notes on an earlier answer, for people"),
    ("prompt_cache_breakpoint", "a hint for a cache; the answer is the same without it"),
    ("encrypted_content", "opaque reasoning means something only to the upstream that made it"),
    ("parsed", "an SDK's own reading of an earlier answer"),
    ("parsed_arguments", "an SDK's own reading of an earlier answer"),
    ("created_by", "says who put the item into a conversation at OpenAI"),
];

/// What the items say.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) system: Vec<String>,
    pub(super) turns: Vec<Turn>,
    /// The name of each call so far.
    names: HashMap<String, String>,
}

pub(super) fn read(input: Value, at: &At<'_>) -> Result<Conversation, BadRequest> {
    let mut conversation = Conversation::default();
    let items = match input {
        Value::String(text) => {
            conversation.turns.push(Turn { role: Role::User, parts: vec![Part::Text(text)] });
            return Ok(conversation);
        }
        Value::Array(items) => items,
        other => return Err(at.wrong("a string or an array of items", &other)),
    };
    if items.is_empty() {
        return Err(at.invalid("expected at least one item"));
    }
    for (nth, item) in items.into_iter().enumerate() {
        let at = at.nth(nth);
        conversation.take(Object::new(item, &at)?, &at)?;
    }
    Ok(conversation)
}

impl Conversation {
    fn take(&mut self, mut item: Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let kind = item.text("type")?;
        match kind.as_deref() {
            None | Some("message") => self.message(&mut item, at)?,
            Some("function_call") => self.call(&mut item, at)?,
            Some("function_call_output") => self.output(&mut item, at)?,
            Some("reasoning") => self.reasoning(&mut item)?,
            Some(_) => return Err(at.field("type").unsupported("no such item can be")),
        }
        item.close(DROPPED_IN_ITEMS)
    }

    fn message(&mut self, item: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let role = item.need_text("role")?;
        let parts = content(item.need("content")?, &at.field("content"))?;
        match role.as_str() {
            "user" => self.turns.push(Turn { role: Role::User, parts }),
            "assistant" => self.said_by_model(parts),
            "system" | "developer" => {
                let text = |(nth, part)| match part {
                    Part::Text(text) => Ok(text),
                    _ => Err(at.field("content").nth(nth).unsupported("instructions can only be text")),
                };
                let texts: Vec<String> = parts.into_iter().enumerate().map(text).collect::<Result<_, _>>()?;
                if self.turns.is_empty() {
                    self.system.extend(texts);
                } else {
                    self.turns.push(Turn { role: Role::System, parts: texts.into_iter().map(Part::Text).collect() });
                }
            }
            _ => return Err(at.field("role").invalid("no such role")),
        }
        Ok(())
    }

    fn call(&mut self, item: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let id = item.need_text("call_id")?;
        if id.is_empty() {
            return Err(at.field("call_id").invalid("it must not be empty"));
        }
        let name = item.need_text("name")?;
        let arguments = arguments(item.take("arguments"), &at.field("arguments"))?;
        let signature = item.take("extra_content").and_then(|extra| signature_in(&extra));
        self.names.insert(id.clone(), name.clone());
        self.said_by_model(vec![Part::ToolCall(ToolCall { id, name, arguments, signature })]);
        Ok(())
    }

    fn output(&mut self, item: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
        let id = item.need_text("call_id")?;
        let Some(name) = self.names.get(&id).cloned() else {
            return Err(at.field("call_id").invalid("no call before it has this id"));
        };
        let content = content(item.need("output")?, &at.field("output"))?;
        let part = Part::ToolResult(ToolResult { id, name, content, outcome: ToolOutcome::Ok });
        match self.turns.last_mut() {
            Some(Turn { role: Role::User, parts }) if matches!(parts.last(), Some(Part::ToolResult(_))) => {
                parts.push(part);
            }
            _ => self.turns.push(Turn { role: Role::User, parts: vec![part] }),
        }
        Ok(())
    }

    /// Earlier thought: its summary, or the thought itself where it is open.
    fn reasoning(&mut self, item: &mut Object<'_>) -> Result<(), BadRequest> {
        let mut texts = Vec::new();
        for field in ["summary", "content"] {
            for mut piece in item.list(field)?.unwrap_or_default() {
                if let Some(Value::String(text)) = piece.get_mut("text").map(Value::take) {
                    texts.push(text);
                }
            }
        }
        if !texts.is_empty() {
            let text = texts.join("\n\n");
            self.said_by_model(vec![Part::Thinking(Thinking { text, ..Thinking::default() })]);
        }
        Ok(())
    }

    /// Items of the model that follow each other are one turn.
    fn said_by_model(&mut self, said: Vec<Part>) {
        match self.turns.last_mut() {
            Some(Turn { role: Role::Assistant, parts }) => parts.extend(said),
            _ => self.turns.push(Turn { role: Role::Assistant, parts: said }),
        }
    }
}

/// A text, or a list of parts.
fn content(content: Value, at: &At<'_>) -> Result<Vec<Part>, BadRequest> {
    let list = match content {
        Value::String(text) => return Ok(vec![Part::Text(text)]),
        Value::Array(list) => list,
        other => return Err(at.wrong("a string or an array of parts", &other)),
    };
    let mut parts = Vec::with_capacity(list.len());
    for (nth, part) in list.into_iter().enumerate() {
        let at = at.nth(nth);
        let mut part = Object::new(part, &at)?;
        let kind = part.need_text("type")?;
        parts.push(match kind.as_str() {
            "input_text" | "output_text" | "text" => Part::Text(part.need_text("text")?),
            "refusal" => Part::Refusal(part.need_text("refusal")?),
            "input_image" => image(&mut part, &at)?,
            "input_file" => file(&mut part, &at)?,
            "input_audio" => audio(&mut part, &at)?,
            _ => return Err(at.field("type").unsupported("no such part can be")),
        });
        part.close(DROPPED_IN_ITEMS)?;
    }
    Ok(parts)
}

fn refuse_file_id(part: &mut Object<'_>, at: &At<'_>) -> Result<(), BadRequest> {
    match part.take("file_id") {
        None => Ok(()),
        Some(_) => Err(at.field("file_id").unsupported("the file lies at OpenAI")),
    }
}

fn image(part: &mut Object<'_>, at: &At<'_>) -> Result<Part, BadRequest> {
    refuse_file_id(part, at)?;
    let url = part.need_text("image_url")?;
    let source = source(url, &at.field("image_url"))?;
    Ok(Part::Image(Media { source, name: None, detail: part.text("detail")? }))
}

fn file(part: &mut Object<'_>, at: &At<'_>) -> Result<Part, BadRequest> {
    refuse_file_id(part, at)?;
    let name = part.text("filename")?;
    let source = if let Some(url) = part.text("file_url")? {
        source(url, &at.field("file_url"))?
    } else {
        let data = part.need_text("file_data")?;
        file_source(data, name.as_deref(), &at.field("file_data"))?
    };
    Ok(Part::File(Media { source, name, detail: None }))
}

fn audio(part: &mut Object<'_>, at: &At<'_>) -> Result<Part, BadRequest> {
    let at = at.field("input_audio");
    let mut audio = Object::new(part.need("input_audio")?, &at)?;
    let data = standard_base64(&audio.need_text("data")?).into_owned();
    let mime = format!("audio/{}", audio.need_text("format")?.to_ascii_lowercase());
    audio.close(DROPPED_IN_ITEMS)?;
    Ok(Part::File(Media { source: Source::Inline { mime, data }, name: None, detail: None }))
}
