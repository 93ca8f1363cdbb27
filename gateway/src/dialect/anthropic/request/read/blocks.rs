//! Reads the content blocks of a message.

use std::collections::HashMap;

use serde_json::Value;

use crate::canonical::request::{Media, Part, Source, Thinking, ToolCall, ToolOutcome, ToolResult};
use crate::dialect::anthropic::object::{Object, Path, UNTRANSLATED};
use crate::error::BadRequest;

/// Whose words the blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// Instructions.
    System,
    /// The caller.
    User,
    /// The model.
    Assistant,
    /// A function.
    Tool,
}

/// The function behind the id of each call so far.
pub(super) type Names = HashMap<String, String>;

/// A text, or a list of blocks.
pub(super) fn content(
    content: Value,
    path: Path<'_>,
    speaker: Speaker,
    names: &mut Names,
) -> Result<Vec<Part>, BadRequest> {
    let list = match content {
        Value::String(text) => return Ok(some_text(text).collect()),
        Value::Array(list) => list,
        other => return Err(path.wrong_type("a string or an array", &other)),
    };
    let mut parts = Vec::with_capacity(list.len());
    for (at, value) in list.into_iter().enumerate() {
        block(value, Path::Element(&path, at), speaker, names, &mut parts)?;
    }
    Ok(parts)
}

/// An empty text says nothing.
fn some_text(text: String) -> impl Iterator<Item = Part> {
    (!text.is_empty()).then_some(Part::Text(text)).into_iter()
}

fn block(
    value: Value,
    path: Path<'_>,
    speaker: Speaker,
    names: &mut Names,
    parts: &mut Vec<Part>,
) -> Result<(), BadRequest> {
    use Speaker::{Assistant, Tool, User};
    let mut block = Object::of(value, path)?;
    block.leave_out(&["cache_control"]);
    let kind = block.need_text("type")?;
    match (kind.as_str(), speaker) {
        ("text", _) => {
            parts.extend(some_text(block.need_text("text")?));
            // On the assistant's own words they tell where these came from.
            if speaker == Assistant {
                block.leave_out(&["citations"]);
            }
            no_citations(&mut block)?;
        }
        ("image", User | Tool) => parts.push(image(&mut block)?),
        ("document", User | Tool) => document(&mut block, parts)?,
        ("search_result", User | Tool) => parts.push(search_result(&mut block)?),
        ("tool_result", User) => parts.push(tool_result(&mut block, names)?),
        ("tool_use", Assistant) => parts.push(tool_use(&mut block, names)?),
        ("thinking", Assistant) => parts.push(Part::Thinking(Thinking {
            text: block.text("thinking")?.unwrap_or_default(),
            signature: block.text("signature")?.filter(|signature| !signature.is_empty()),
            redacted: None,
        })),
        ("redacted_thinking", Assistant) => {
            parts.push(Part::Thinking(Thinking { redacted: block.text("data")?, ..Thinking::default() }));
        }
        _ => return Err(block.at("type").unsupported(&format!("'{}' is {UNTRANSLATED} here", short(&kind)))),
    }
    block.end()
}

/// A caller's word as a message may repeat it.
fn short(word: &str) -> String {
    word.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Answers that cite can only be had from Anthropic.
fn no_citations(block: &mut Object<'_>) -> Result<(), BadRequest> {
    match block.take("citations") {
        None => Ok(()),
        Some(Value::Array(list)) if list.is_empty() => Ok(()),
        Some(config) if config.get("enabled") == Some(&Value::Bool(false)) => Ok(()),
        Some(_) => Err(block.at("citations").unsupported(UNTRANSLATED)),
    }
}

fn image(block: &mut Object<'_>) -> Result<Part, BadRequest> {
    block.leave_out(&["transformations"]);
    let source = block.need("source")?;
    let at = block.at("source");
    let mut source = Object::of(source, at)?;
    let media = match source.need_text("type")?.as_str() {
        "base64" => inline(&mut source)?,
        "url" => Source::Url(source.need_text("url")?),
        _ => return Err(source.at("type").unsupported("only base64 and url sources are supported here")),
    };
    source.end()?;
    Ok(Part::Image(Media { source: media, name: None, detail: None }))
}

fn inline(source: &mut Object<'_>) -> Result<Source, BadRequest> {
    let mime = source.need_text("media_type")?;
    Ok(Source::Inline { mime, data: standard_base64(source.need_text("data")?) })
}

/// Base64 in the standard alphabet, padded.
fn standard_base64(data: String) -> String {
    if !data.contains(['-', '_']) {
        return data;
    }
    let mut data = data.replace('-', "+").replace('_', "/");
    while !data.len().is_multiple_of(4) {
        data.push('=');
    }
    data
}

/// A document: a file, or words that are put where they stood.
fn document(block: &mut Object<'_>, parts: &mut Vec<Part>) -> Result<(), BadRequest> {
    no_citations(block)?;
    let title = block.text("title")?;
    if let Some(context) = block.text("context")? {
        parts.extend(some_text(context));
    }
    let source = block.need("source")?;
    let at = block.at("source");
    let mut source = Object::of(source, at)?;
    match source.need_text("type")?.as_str() {
        "base64" => parts.push(Part::File(Media { source: inline(&mut source)?, name: title, detail: None })),
        "url" => {
            let url = Source::Url(source.need_text("url")?);
            parts.push(Part::File(Media { source: url, name: title, detail: None }));
        }
        "text" => {
            source.leave_out(&["media_type"]);
            parts.extend(title.into_iter().flat_map(some_text));
            parts.extend(some_text(source.need_text("data")?));
        }
        "content" => {
            parts.extend(title.into_iter().flat_map(some_text));
            let inner = source.need("content")?;
            parts.extend(content(inner, source.at("content"), Speaker::Tool, &mut Names::new())?);
        }
        _ => return Err(source.at("type").unsupported(&format!("an uploaded file is {UNTRANSLATED}"))),
    }
    source.end()
}

/// A found text, with where it was found.
fn search_result(block: &mut Object<'_>) -> Result<Part, BadRequest> {
    no_citations(block)?;
    let mut text = format!("{}\n{}\n", block.need_text("title")?, block.need_text("source")?);
    let found = block.need("content")?;
    for part in content(found, block.at("content"), Speaker::System, &mut Names::new())? {
        if let Part::Text(found) = part {
            text.push('\n');
            text.push_str(&found);
        }
    }
    Ok(Part::Text(text))
}

fn tool_result(block: &mut Object<'_>, names: &Names) -> Result<Part, BadRequest> {
    let id = block.need_text("tool_use_id")?;
    let Some(name) = names.get(&id).cloned() else {
        return Err(block.at("tool_use_id").invalid("no tool_use block before has this id"));
    };
    let parts = match block.take("content") {
        None => Vec::new(),
        Some(inner) => content(inner, block.at("content"), Speaker::Tool, &mut Names::new())?,
    };
    let outcome = if block.flag("is_error")? == Some(true) { ToolOutcome::Failed } else { ToolOutcome::Ok };
    Ok(Part::ToolResult(ToolResult { id, name, content: parts, outcome }))
}

fn tool_use(block: &mut Object<'_>, names: &mut Names) -> Result<Part, BadRequest> {
    only_direct(block.take("caller"), block.at("caller"))?;
    let (id, name) = (block.need_text("id")?, block.need_text("name")?);
    if id.is_empty() {
        return Err(block.at("id").invalid("Input should not be empty"));
    }
    let arguments = match block.need("input")? {
        Value::Object(arguments) => arguments,
        other => return Err(block.at("input").wrong_type("an object", &other)),
    };
    names.insert(id.clone(), name.clone());
    Ok(Part::ToolCall(ToolCall { id, name, arguments, signature: None }))
}

/// Calls made by code that ran at Anthropic belong to a conversation only Anthropic can go on with.
fn only_direct(caller: Option<Value>, path: Path<'_>) -> Result<(), BadRequest> {
    match caller {
        Some(caller) if caller.get("type").and_then(Value::as_str) != Some("direct") => {
            Err(path.unsupported(UNTRANSLATED))
        }
        _ => Ok(()),
    }
}
