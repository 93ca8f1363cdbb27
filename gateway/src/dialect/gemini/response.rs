//! Whole answers: checked for a caller of the same dialect, read into the common tongue, and written from it.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use shared::failure::Transport;
use shared::money::Tokens;

use super::answer::{Answer, Ended, reason};
use super::base64;
use super::error::{broken, read as read_error};
use super::glance::Glance;
use crate::canonical::request::{Media, Part, Source, ToolCall};
use crate::canonical::response::{Choice, Finish, Response};
use crate::canonical::usage;
use crate::dialect::openai::json::{quoted, replaced};
use crate::error::UpstreamError;

/// The documented word in the place of a thought signature for a call that a model of another maker made.
pub(super) const SKIP_SIGNATURE: &str = "skip_thought_signature_validator";

/// What is known of a good whole answer that passes as it is but for the model's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// What it used, if the upstream says so believably.
    pub usage: Option<Tokens>,
    /// Characters of the answer, over all candidates: a base for estimating output tokens.
    pub output_chars: u64,
    /// With what a later request may go on from it.
    pub continuation: Option<String>,
    model_at: Option<Range<usize>>,
}

/// The body with the model named as the caller did. Every other byte stays; a body that names no model is left alone.
pub fn splice_model(body: &Bytes, whole: &Whole, caller_model: &str) -> Bytes {
    match &whole.model_at {
        Some(at) => replaced(body, at, &quoted(caller_model)),
        None => body.clone(),
    }
}

/// Checks the body of a success for a caller of the same dialect. A good one is a JSON object with content, a block reason or an end
/// that explains why there is none; anything else is a failure of the upstream: an error inside a success, an empty body or answer, a
/// page, a broken or foreign JSON, a call that is none.
pub fn check(content_type: Option<&str>, body: &Bytes) -> Result<Whole, Box<UpstreamError>> {
    precheck(content_type, body)?;
    let glance = Glance::at(body)?;
    if glance.is_silent() {
        return Err(not_the_format("a success without a candidate"));
    }
    glance.fault(false).map_or(Ok(()), Err)?;
    let continuation = glance.continuation();
    Ok(Whole { usage: glance.usage(), output_chars: glance.chars(), continuation, model_at: glance.model_at(body) })
}

/// Reads the body of a success into the common tongue. It fails where [`check`] does, and where the model broke after content.
pub fn read(content_type: Option<&str>, body: &Bytes) -> Result<Response, Box<UpstreamError>> {
    precheck(content_type, body)?;
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else {
        return Err(not_the_format("a success whose body is not a Gemini answer"));
    };
    if answer.error.is_some() {
        return Err(Box::new(read_error(None, body)));
    }
    let usage = answer.usage_metadata.as_ref().and_then(usage::gemini);
    let id = answer.response_id.filter(|id| !id.is_empty());
    let mut choices = Vec::with_capacity(answer.candidates.len());
    for candidate in answer.candidates {
        let mut parts: Vec<Part> = Vec::new();
        let mut calls = 0;
        for part in candidate.content.unwrap_or_default().parts {
            // The whole body is the seed: it holds the response's id, its time and its usage.
            let Some(part) = part.into_part(body, choices.len() * 1_000 + calls) else { continue };
            calls += usize::from(matches!(part, Part::ToolCall(_)));
            push_joined(&mut parts, part);
        }
        let ended = candidate.finish_reason.as_deref().and_then(Ended::of).unwrap_or(Ended::Done);
        if ended == Ended::Broken {
            return Err(broke_off());
        }
        if ended == Ended::Done && parts.is_empty() {
            return Err(said_nothing());
        }
        choices.push(Choice { parts, finish: ended.finish(calls) });
    }
    if choices.is_empty() {
        let blocked = answer.prompt_feedback.and_then(|feedback| feedback.block_reason);
        if !blocked.is_some_and(|reason| is_block(&reason)) {
            return Err(not_the_format("a success without a candidate"));
        }
        choices.push(Choice { parts: Vec::new(), finish: Finish::Filtered });
    }
    Ok(Response { id, choices, usage })
}

/// Whether a block reason says that the prompt was refused.
pub(super) fn is_block(reason: &str) -> bool {
    !matches!(reason, "" | "BLOCK_REASON_UNSPECIFIED" | "BLOCKED_REASON_UNSPECIFIED")
}

fn precheck(content_type: Option<&str>, body: &Bytes) -> Result<(), Box<UpstreamError>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Box::new(broken(Transport::Empty, "a success without a body")));
    }
    if content_type.is_some_and(is_foreign) {
        return Err(not_the_format("a success of another content type"));
    }
    // A list is how some of Google's front ends wrap an error.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(Box::new(read_error(None, body)));
    }
    Ok(())
}

/// A declared type that cannot be JSON. Sloppy ones, `text/plain` for example, are judged by the body.
fn is_foreign(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(
        kind.as_str(),
        "text/html" | "text/event-stream" | "application/xhtml+xml" | "application/xml" | "text/xml"
    )
}

pub(super) fn not_the_format(reason: &str) -> Box<UpstreamError> {
    Box::new(broken(Transport::NotTheFormat, reason))
}

pub(super) fn broke_off() -> Box<UpstreamError> {
    Box::new(broken(Transport::ErrorInSuccess, "the upstream broke off its answer"))
}

pub(super) fn said_nothing() -> Box<UpstreamError> {
    Box::new(broken(Transport::Empty, "the upstream ended its answer without saying anything"))
}

/// Texts that follow each other are one.
fn push_joined(parts: &mut Vec<Part>, part: Part) {
    match (parts.last_mut(), part) {
        (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
        (Some(Part::Thinking(before)), Part::Thinking(thinking)) => before.text.push_str(&thinking.text),
        (_, part) => parts.push(part),
    }
}

/// Writes an answer for a Gemini caller. `model` is its own name for the model.
pub fn write(response: &Response, model: &str, request_id: &str) -> Bytes {
    let candidates: Vec<Value> =
        response.choices.iter().enumerate().map(|(index, choice)| candidate(choice, index)).collect();
    let mut out = Map::new();
    out.insert("candidates".into(), candidates.into());
    if let Some(usage) = &response.usage {
        out.insert("usageMetadata".into(), usage_metadata(usage));
    }
    out.insert("modelVersion".into(), model.into());
    out.insert("responseId".into(), response.id.as_deref().unwrap_or(request_id).into());
    Value::Object(out).to_string().into()
}

fn candidate(choice: &Choice, index: usize) -> Value {
    let mut parts: Vec<Value> = choice.parts.iter().filter_map(written).collect();
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(Value::Object(call)) = first {
        skip_signature(call);
    }
    if parts.is_empty() {
        parts.push(json!({"text": ""}));
    }
    json!({"content": {"role": "model", "parts": parts}, "finishReason": reason(&choice.finish), "index": index})
}

/// One part for a Gemini caller; nothing for what Gemini has no part for.
fn written(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(text) | Part::Refusal(text) => json!({"text": text}),
        Part::Thinking(thinking) if thinking.text.is_empty() => return None,
        Part::Thinking(thinking) => json!({"text": thinking.text, "thought": true}),
        Part::ToolCall(call) => written_call(call),
        Part::Image(Media { source, .. }) | Part::File(Media { source, .. }) => match source {
            Source::Inline { mime, data } => json!({"inlineData": {"mimeType": mime, "data": data}}),
            Source::Url(url) => json!({"fileData": {"fileUri": url}}),
        },
        Part::ToolResult(_) => return None,
    })
}

/// A call as a part.
pub(super) fn written_call(call: &ToolCall) -> Value {
    let mut part = Map::new();
    part.insert("functionCall".into(), json!({"id": call.id, "name": call.name, "args": call.arguments}));
    // The official SDKs refuse an answer whose signature is no base64.
    if let Some(signature) = call.signature.as_ref().filter(|signature| base64::is_valid(signature)) {
        part.insert("thoughtSignature".into(), signature.clone().into());
    }
    part.into()
}

/// The first call of an answer must carry a signature when the caller sends it back to a Gemini model, now or after a failover.
pub(super) fn skip_signature(part: &mut Map<String, Value>) {
    if !part.contains_key("thoughtSignature") {
        part.insert("thoughtSignature".into(), SKIP_SIGNATURE.into());
    }
}

/// Usage as Gemini counts: the prompt includes what came from a cache, the candidates exclude thoughts.
pub(super) fn usage_metadata(tokens: &Tokens) -> Value {
    let prompt = tokens.all_input();
    let mut out = Map::new();
    out.insert("promptTokenCount".into(), prompt.into());
    out.insert("candidatesTokenCount".into(), (tokens.output + tokens.output_audio).into());
    out.insert("totalTokenCount".into(), (prompt + tokens.all_output()).into());
    if tokens.cached_input > 0 {
        out.insert("cachedContentTokenCount".into(), tokens.cached_input.into());
    }
    if tokens.reasoning > 0 {
        out.insert("thoughtsTokenCount".into(), tokens.reasoning.into());
    }
    out.into()
}

#[cfg(test)]
mod tests;
