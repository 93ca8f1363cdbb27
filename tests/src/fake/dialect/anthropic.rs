//! Anthropic messages, as the real service answers.

use serde_json::{Value, json};

use super::Event;
use super::reply::{Call, Reply};
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
    let mut blocks = Vec::new();
    if !reply.thinking.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": reply.thinking, "signature": reply.signature()}));
    }
    if reply.calls.is_empty() {
        blocks.push(json!({"type": "text", "text": reply.text()}));
    }
    blocks.extend(reply.calls.iter().map(|call| tool_use(call, call.arguments.clone())));
    let mut message = message(reply, json!(blocks), json!(stop_reason(reply)));
    message["stop_sequence"] = json!(reply.stop_text);
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
    for (index, block) in streamed_blocks(reply).into_iter().enumerate() {
        events.push(named(&json!({"type": "content_block_start", "index": index, "content_block": block.start})));
        if index == 0 {
            events.push(named(&json!({"type": "ping"})));
        }
        for delta in block.deltas {
            let content = matches!(delta["type"].as_str(), Some("text_delta" | "input_json_delta"));
            let event = named(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
            events.push(if content { event.content() } else { event });
        }
        events.push(named(&json!({"type": "content_block_stop", "index": index})));
    }
    let mut last = json!({"type": "message_delta", "delta": {"stop_reason": stop_reason(reply), "stop_sequence": reply.stop_text}});
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

fn tool_use(call: &Call, input: Value) -> Value {
    let mut block = json!({"type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.name});
    block["input"] = input;
    block
}

/// A block as it is streamed.
struct Block {
    start: Value,
    deltas: Vec<Value>,
}

fn streamed_blocks(reply: &Reply) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !reply.thinking.is_empty() {
        let thoughts = reply.thoughts().into_iter().map(|text| json!({"type": "thinking_delta", "thinking": text}));
        let signature = json!({"type": "signature_delta", "signature": reply.signature()});
        blocks.push(Block {
            start: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas: thoughts.chain([signature]).collect(),
        });
    }
    if reply.calls.is_empty() {
        let deltas = reply.chunks.iter().map(|text| json!({"type": "text_delta", "text": text})).collect();
        blocks.push(Block { start: json!({"type": "text", "text": ""}), deltas });
    }
    blocks.extend(reply.calls.iter().map(|call| {
        let fragments = std::iter::once(String::new()).chain(call.fragments());
        let deltas = fragments.map(|text| json!({"type": "input_json_delta", "partial_json": text})).collect();
        Block { start: tool_use(call, json!({})), deltas }
    }));
    blocks
}

fn stop_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Length => "max_tokens",
        Finish::Filter => "refusal",
        Finish::Stop if !reply.calls.is_empty() => "tool_use",
        Finish::Stop if reply.stop_text.is_some() => "stop_sequence",
        Finish::Stop => "end_turn",
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
        "output_tokens_details": {"thinking_tokens": tokens.reasoning.min(output)},
        "service_tier": "standard",
    })
}
