//! Gemini, as the real service answers, and its Cloud Code Assist wrapping.

use serde_json::{Value, json};

use super::openai::vector_of;
use super::reply::Reply;
use super::{Event, all_text};
use crate::fake::rule::Finish;

/// The error envelope.
pub(super) fn error(status: u16, message: &str) -> Value {
    let canonical = match status {
        400 | 413 | 422 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        500 => "INTERNAL",
        501.. => "UNAVAILABLE",
        _ => "UNKNOWN",
    };
    json!({"error": {"code": status, "message": message, "status": canonical}})
}

/// A whole answer.
pub(super) fn unary(reply: &Reply) -> Value {
    let mut parts = Vec::new();
    if !reply.thinking.is_empty() {
        parts.push(thought(&reply.thinking));
    }
    if reply.calls.is_empty() {
        parts.push(signed(reply, json!({"text": reply.text()})));
    }
    parts.extend(function_calls(reply));
    chunk(reply, &parts, Some(finish_reason(reply)), reply.tokens.completion)
}

/// The chunks of a stream: deltas of parts, the last with finish reason and final usage.
pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    let mut spoken = 0;
    for text in reply.thoughts() {
        events.push(Event::data(&chunk(reply, &[thought(&text)], None, 0)));
    }
    for text in &reply.chunks {
        spoken += super::tokens_of(text.len());
        let running = spoken.min(reply.tokens.completion);
        events.push(Event::data(&chunk(reply, &[json!({"text": text})], None, running)).content());
    }
    for call in function_calls(reply) {
        events.push(Event::data(&chunk(reply, &[call], None, reply.tokens.completion)).content());
    }
    let end = json!({"text": ""});
    let end = if reply.calls.is_empty() { signed(reply, end) } else { end };
    let last = chunk(reply, &[end], Some(finish_reason(reply)), reply.tokens.completion);
    events.push(Event::data(&last));
    events
}

/// Code Assist's envelope around an answer.
pub(super) fn wrapped(answer: Value, call: u64) -> Value {
    let mut envelope = json!({});
    envelope["response"] = answer;
    envelope["traceId"] = json!(format!("{call:016x}"));
    envelope
}

/// Code Assist's envelope around every chunk.
pub(super) fn wrapped_events(events: Vec<Event>, call: u64) -> Vec<Event> {
    let wrap = |event: Event| match serde_json::from_str(&event.data) {
        Ok(data) => Event { data: wrapped(data, call).to_string(), ..event },
        Err(_) => event,
    };
    events.into_iter().map(wrap).collect()
}

/// One vector.
pub(super) fn embedding(text: &str) -> Value {
    json!({"embedding": {"values": vector_of(text)}})
}

/// One vector per request of a batch.
pub(super) fn embeddings(body: &Value) -> Value {
    let requests = body.get("requests").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let vectors: Vec<Value> = requests.iter().map(|request| json!({"values": vector_of(&all_text(request))})).collect();
    json!({"embeddings": vectors})
}

fn chunk(reply: &Reply, parts: &[Value], finish_reason: Option<&str>, completion: u64) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}});
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = json!(reason);
    }
    candidate["index"] = json!(0);
    let mut chunk = json!({"candidates": [candidate]});
    if let Some(usage) = reply.bend_usage(usage(reply, completion)) {
        chunk["usageMetadata"] = usage;
    }
    chunk["modelVersion"] = json!(reply.model);
    chunk["responseId"] = json!(reply.id);
    chunk
}

fn thought(text: &str) -> Value {
    json!({"text": text, "thought": true})
}

/// The last part of an answer that was thought about carries what proves it.
fn signed(reply: &Reply, mut part: Value) -> Value {
    if !reply.thinking.is_empty() {
        part["thoughtSignature"] = json!(reply.signature());
    }
    part
}

/// The calls, each whole; the first is signed. Like the real service they have no ids.
fn function_calls(reply: &Reply) -> Vec<Value> {
    let mut parts: Vec<Value> =
        reply.calls.iter().map(|call| json!({"functionCall": {"name": call.name, "args": call.arguments}})).collect();
    if let Some(first) = parts.first_mut() {
        first["thoughtSignature"] = json!(reply.signature());
    }
    parts
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        // Tool calls end with STOP too.
        Finish::Stop => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filter => "SAFETY",
    }
}

/// Here the candidates' tokens exclude the thoughts.
fn usage(reply: &Reply, completion: u64) -> Value {
    let tokens = reply.tokens;
    let candidates = completion.saturating_sub(tokens.reasoning);
    let mut usage = json!({
        "promptTokenCount": tokens.prompt,
        "candidatesTokenCount": candidates,
        "totalTokenCount": tokens.prompt + candidates + tokens.reasoning,
    });
    if tokens.cached > 0 {
        usage["cachedContentTokenCount"] = json!(tokens.cached);
    }
    if tokens.reasoning > 0 {
        usage["thoughtsTokenCount"] = json!(tokens.reasoning);
    }
    usage
}
