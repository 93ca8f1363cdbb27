//! Writes the parts of a turn as content blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::TURNS;
use crate::canonical::request::{Media, Part, Role, Source, Thinking, ToolOutcome, ToolResult};
use crate::dialect::anthropic::names::{Names, call_id};
use crate::dialect::anthropic::request::target::{Target, Thoughts};
use crate::error::BadRequest;

const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// True unless the part is empty, or a thought the upstream would refuse.
pub(super) fn says_something(part: &Part, target: &Target) -> bool {
    match part {
        Part::Text(text) | Part::Refusal(text) => !text.trim().is_empty(),
        Part::Thinking(thought) => {
            target.thoughts == Thoughts::Own && (thought.signature.is_some() || thought.redacted.is_some())
        }
        Part::Image(_) | Part::File(_) | Part::ToolCall(_) | Part::ToolResult(_) => true,
    }
}

/// One content block.
pub(super) fn block(part: &Part, role: Role, names: &Names) -> Result<Value, BadRequest> {
    match (part, role) {
        (Part::Text(text) | Part::Refusal(text), _) => Ok(json!({"type": "text", "text": text})),
        (Part::Image(media), Role::User) => image(media),
        (Part::File(media), Role::User) => document(media),
        (Part::ToolResult(result), Role::User) => tool_result(result, names),
        (Part::ToolCall(call), Role::Assistant) => Ok(json!({
            "type": "tool_use",
            "id": call_id(&call.id),
            "name": names.sent(&call.name),
            "input": call.arguments,
        })),
        (Part::Thinking(thought), Role::Assistant) => Ok(thinking(thought)),
        (part, role) => {
            let who = match role {
                Role::System => "instructions",
                Role::User => "the user",
                Role::Assistant => "the assistant",
            };
            let why = format!("{} of {who} cannot be sent to the upstream that serves this model", word(part));
            Err(TURNS.unsupported(&why))
        }
    }
}

fn word(part: &Part) -> &'static str {
    match part {
        Part::Text(_) => "a text",
        Part::Image(_) => "an image",
        Part::File(_) => "a file",
        Part::Thinking(_) => "a thought",
        Part::ToolCall(_) => "a call",
        Part::ToolResult(_) => "a result",
        Part::Refusal(_) => "a refusal",
    }
}

fn thinking(thought: &Thinking) -> Value {
    match &thought.redacted {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => json!({"type": "thinking", "thinking": thought.text, "signature": thought.signature}),
    }
}

fn image(media: &Media) -> Result<Value, BadRequest> {
    let source = match &media.source {
        Source::Url(url) => url_source(url)?,
        Source::Inline { mime, data } => {
            let mime = bare(mime);
            let mime = if mime == "image/jpg" { "image/jpeg".to_owned() } else { mime };
            if !IMAGES.contains(&mime.as_str()) {
                return Err(unknown_media(&mime));
            }
            json!({"type": "base64", "media_type": mime, "data": data})
        }
    };
    Ok(json!({"type": "image", "source": source}))
}

/// PDFs as they are, texts as texts.
fn document(media: &Media) -> Result<Value, BadRequest> {
    let source = match &media.source {
        Source::Url(url) => url_source(url)?,
        Source::Inline { mime, data } => match bare(mime).as_str() {
            pdf @ "application/pdf" => json!({"type": "base64", "media_type": pdf, "data": data}),
            text if text.starts_with("text/") || text == "application/json" => {
                let bytes = STANDARD.decode(data).ok();
                let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                    return Err(TURNS.invalid("a file of text is not UTF-8 in base64"));
                };
                json!({"type": "text", "media_type": "text/plain", "data": text})
            }
            image if IMAGES.contains(&image) => return self::image(media),
            other => return Err(unknown_media(other)),
        },
    };
    let mut document = json!({"type": "document", "source": source});
    if let Some(name) = &media.name {
        document["title"] = name.as_str().into();
    }
    Ok(document)
}

/// A media type without its parameters.
fn bare(mime: &str) -> String {
    mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn unknown_media(mime: &str) -> BadRequest {
    let mime: String = mime.chars().filter(|c| !c.is_control()).take(64).collect();
    TURNS.unsupported(&format!("media of type '{mime}' cannot be sent to the upstream that serves this model"))
}

fn url_source(url: &str) -> Result<Value, BadRequest> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(json!({"type": "url", "url": url}));
    }
    Err(TURNS.unsupported("media must be sent inline or by an http URL to the upstream that serves this model"))
}

fn tool_result(result: &ToolResult, names: &Names) -> Result<Value, BadRequest> {
    let mut block = json!({"type": "tool_result", "tool_use_id": call_id(&result.id)});
    let content = result
        .content
        .iter()
        .filter(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()))
        .map(|part| match part {
            Part::Text(_) | Part::Image(_) | Part::File(_) => self::block(part, Role::User, names),
            part => Err(TURNS.unsupported(&format!("{} cannot be the result of a call", word(part)))),
        })
        .collect::<Result<Vec<Value>, BadRequest>>()?;
    if !content.is_empty() {
        block["content"] = content.into();
    }
    if result.outcome == ToolOutcome::Failed {
        block["is_error"] = true.into();
    }
    Ok(block)
}
