//! Writes turns as messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::super::media::data_url;
use super::super::super::names::{Names, call_id};
use super::super::super::tree::unsupported;
use super::mentions_json;
use crate::canonical::request::{Format, Media, Part, Request, Role, Source, ToolOutcome, ToolResult, Turn};
use crate::error::BadRequest;

/// What stands for a result that is no text: the media follow in a message of the user.
const SEE_BELOW: &str = "The result follows in the next message.";

pub(super) fn write(request: &Request, names: &Names) -> Result<Vec<Value>, BadRequest> {
    let mut messages = Vec::with_capacity(request.turns.len() + 1);
    let mut system = request.system.join("\n\n");
    if request.format == Some(Format::JsonObject) && !mentions_json(request) {
        system.push_str(if system.is_empty() { "Answer in JSON." } else { "\n\nAnswer in JSON." });
    }
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system}));
    }
    for run in request.turns.chunk_by(|one, next| one.role == next.role) {
        match run.first().map(|turn| turn.role) {
            Some(Role::System) => instructions(run, &mut messages),
            Some(Role::User) => user(run, &mut messages)?,
            Some(Role::Assistant) => assistant(run, names, &mut messages)?,
            None => {}
        }
    }
    Ok(messages)
}

fn instructions(run: &[Turn], messages: &mut Vec<Value>) {
    for turn in run {
        let text = joined(&turn.parts, "\n\n");
        if !text.is_empty() {
            messages.push(json!({"role": "system", "content": text}));
        }
    }
}

/// What the user's side says between two answers. All results come first, each as a message of its own: they must stand right after
/// their calls. Then what of them is no text, then the rest.
fn user(run: &[Turn], messages: &mut Vec<Value>) -> Result<(), BadRequest> {
    let results = || run.iter().flat_map(|turn| &turn.parts).filter_map(as_result);
    for result in results() {
        messages.push(result_message(result));
    }
    for result in results() {
        let media: Vec<&Part> = result.content.iter().filter(|part| is_media(part)).collect();
        if media.is_empty() {
            continue;
        }
        let label = format!("The result of {} ({}):", result.name, call_id(&result.id));
        let mut parts = vec![text_part(&label)];
        for part in media {
            parts.push(media_part(part)?);
        }
        messages.push(json!({"role": "user", "content": parts}));
    }
    for turn in run {
        let parts: Vec<&Part> = turn.parts.iter().filter(|part| as_result(part).is_none()).collect();
        if let Some(content) = content(&parts)? {
            messages.push(json!({"role": "user", "content": content}));
        }
    }
    Ok(())
}

fn result_message(result: &ToolResult) -> Value {
    let text = joined(&result.content, "\n");
    let text = match result.outcome {
        ToolOutcome::Failed => format!("Error: {text}"),
        ToolOutcome::Ok if text.is_empty() && result.content.iter().any(is_media) => SEE_BELOW.to_owned(),
        ToolOutcome::Ok => text,
    };
    json!({"role": "tool", "tool_call_id": call_id(&result.id), "content": text})
}

/// A text where that is all, else a list of parts; `None` if nothing is left to say.
fn content(parts: &[&Part]) -> Result<Option<Value>, BadRequest> {
    let mut said = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) if text.is_empty() => {}
            Part::Text(text) | Part::Refusal(text) => said.push(text_part(text)),
            Part::Image(_) | Part::File(_) => said.push(media_part(part)?),
            Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {}
        }
    }
    Ok(match said.as_mut_slice() {
        [] => None,
        [only] if only["type"] == "text" => Some(only["text"].take()),
        _ => Some(said.into()),
    })
}

/// What the model said until the user's side spoke again is one message: its calls must stand right before their results.
fn assistant(run: &[Turn], names: &Names, messages: &mut Vec<Value>) -> Result<(), BadRequest> {
    let (mut text, mut refusal, mut calls) = (String::new(), String::new(), Vec::new());
    for turn in run {
        let mut begins = true;
        for part in &turn.parts {
            match part {
                Part::Text(more) => {
                    if begins && !text.is_empty() && !more.is_empty() {
                        text.push_str("\n\n");
                    }
                    begins = false;
                    text.push_str(more);
                }
                Part::Refusal(more) => refusal.push_str(more),
                Part::ToolCall(call) => calls.push(json!({
                    "id": call_id(&call.id),
                    "type": "function",
                    "function": {
                        "name": names.outgoing(&call.name),
                        "arguments": Value::Object(call.arguments.clone()).to_string(),
                    },
                })),
                Part::Thinking(_) | Part::ToolResult(_) => {}
                Part::Image(_) | Part::File(_) => {
                    return Err(unsupported("messages", "OpenAI takes no media said by the model"));
                }
            }
        }
    }
    if text.is_empty() && refusal.is_empty() && calls.is_empty() {
        return Ok(());
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if text.is_empty() { Value::Null } else { text.into() });
    if !refusal.is_empty() {
        message.insert("refusal".into(), refusal.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    messages.push(Value::Object(message));
    Ok(())
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn media_part(part: &Part) -> Result<Value, BadRequest> {
    match part {
        Part::Image(media) => Ok(image(media)),
        Part::File(media) => file(media),
        _ => Err(unsupported("messages", "this is no place for it")),
    }
}

fn image(media: &Media) -> Value {
    let url = match &media.source {
        Source::Inline { mime, data } => data_url(mime, data),
        Source::Url(url) => url.clone(),
    };
    let mut image = json!({"url": url});
    if let Some(detail) = &media.detail {
        image["detail"] = detail.as_str().into();
    }
    json!({"type": "image_url", "image_url": image})
}

fn file(media: &Media) -> Result<Value, BadRequest> {
    let Source::Inline { mime, data } = &media.source else {
        return Err(unsupported("messages", "OpenAI takes no document by its URL, only within the request"));
    };
    if let Some(format) = mime.strip_prefix("audio/") {
        let format = match format {
            "wav" | "x-wav" | "wave" => "wav",
            "mp3" | "mpeg" => "mp3",
            _ => return Err(unsupported("messages", "OpenAI takes no audio but WAV and MP3")),
        };
        return Ok(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}));
    }
    if mime.starts_with("video/") {
        return Err(unsupported("messages", "OpenAI takes no video"));
    }
    // Plain text is read by every model, a file only by some.
    if mime == "text/plain"
        && let Some(text) = STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    {
        return Ok(text_part(&text));
    }
    let name = media.name.as_deref().unwrap_or("file");
    Ok(json!({"type": "file", "file": {"filename": name, "file_data": data_url(mime, data)}}))
}

fn joined(parts: &[Part], between: &str) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) | Part::Refusal(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join(between)
}

fn as_result(part: &Part) -> Option<&ToolResult> {
    match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    }
}

fn is_media(part: &Part) -> bool {
    matches!(part, Part::Image(_) | Part::File(_))
}
