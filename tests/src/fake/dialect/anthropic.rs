//! Anthropic messages, as the real service answers.

use serde_json::{Value, json};

use super::{Event, Reply};
use crate::fake::rule::Finish;

/// The error envelope.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"})
}

/// A message.
pub(super) fn unary(reply: &Reply) -> Value {
    let block = match &reply.tool_call {
        Some(call) => tool_use(reply, &call.name, call.arguments.clone()),
        None => json!({"type": "text", "text": reply.text()}),
    };
    let mut message = message(reply, json!([block]), json!(stop_reason(reply)));
    if let Some(usage) = reply.bend_usage(usage(reply, reply.tokens.completion)) {
        message["usage"] = usage;
    }
    message
}

/// The events of a streamed message.
pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut start = message(reply, json!([]), Value::Null);
    if let Some(usage) = reply.bend_usage(usage(reply, 1)) {
        start["usage"] = usage;
    }
    let mut events = vec![named(&json!({"type": "message_start", "message": start}))];
    let block = match &reply.tool_call {
        Some(call) => tool_use(reply, &call.name, json!({})),
        None => json!({"type": "text", "text": ""}),
    };
    events.push(named(&json!({"type": "content_block_start", "index": 0, "content_block": block})));
    events.push(named(&json!({"type": "ping"})));
    let delta = |delta: Value| named(&json!({"type": "content_block_delta", "index": 0, "delta": delta})).content();
    if let Some(call) = &reply.tool_call {
        events.push(delta(json!({"type": "input_json_delta", "partial_json": ""})));
        events.push(delta(json!({"type": "input_json_delta", "partial_json": call.arguments.to_string()})));
    }
    events.extend(reply.chunks.iter().map(|text| delta(json!({"type": "text_delta", "text": text}))));
    events.push(named(&json!({"type": "content_block_stop", "index": 0})));
    let mut last =
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null}});
    if let Some(usage) = reply.bend_usage(usage(reply, reply.tokens.completion)) {
        last["usage"] = usage;
    }
    events.push(named(&last));
    events.push(named(&json!({"type": "message_stop"})));
    events
}

/// An event whose `event:` line is its own type.
fn named(data: &Value) -> Event {
    let name = match data["type"].as_str() {
        Some("message_start") => "message_start",
        Some("content_block_start") => "content_block_start",
        Some("content_block_delta") => "content_block_delta",
        Some("content_block_stop") => "content_block_stop",
        Some("message_delta") => "message_delta",
        Some("message_stop") => "message_stop",
        _ => "ping",
    };
    Event::named(name, data)
}

fn message(reply: &Reply, content: Value, stop_reason: Value) -> Value {
    let mut message = json!({
        "id": format!("msg_{}", reply.id),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
    });
    message["content"] = content;
    message["stop_reason"] = stop_reason;
    message["stop_sequence"] = Value::Null;
    message
}

fn tool_use(reply: &Reply, name: &str, input: Value) -> Value {
    let mut block = json!({"type": "tool_use", "id": format!("toolu_{}", reply.id), "name": name});
    block["input"] = input;
    block
}

fn stop_reason(reply: &Reply) -> &'static str {
    match (reply.finish, &reply.tool_call) {
        (Finish::Length, _) => "max_tokens",
        (Finish::Filter, _) => "refusal",
        (Finish::Stop, Some(_)) => "tool_use",
        (Finish::Stop, None) => "end_turn",
    }
}

/// Here `input_tokens` excludes what came from or went to the cache.
fn usage(reply: &Reply, output: u64) -> Value {
    let tokens = reply.tokens;
    json!({
        "input_tokens": tokens.prompt.saturating_sub(tokens.cached + tokens.cache_write),
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    })
}
