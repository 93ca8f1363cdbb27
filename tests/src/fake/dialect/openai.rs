//! OpenAI chat completions and embeddings, as the real service answers.

use serde_json::{Map, Value, json};

use super::reply::{Call, Reply};
use super::{Event, all_text};
use crate::fake::rule::{Finish, UsageMode};

/// The error envelope.
pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        402 => ("insufficient_quota", json!("insufficient_quota")),
        403 => ("permission_error", Value::Null),
        404 => ("invalid_request_error", json!("model_not_found")),
        408 => ("timeout", json!("request_timeout")),
        429 => ("requests", json!("rate_limit_exceeded")),
        503 => ("service_unavailable_error", json!("server_is_overloaded")),
        500.. => ("server_error", Value::Null),
        _ => ("invalid_request_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// A chat completion.
pub(super) fn unary(reply: &Reply) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text(), "refusal": null, "annotations": []});
    if !reply.thinking.is_empty() {
        message["reasoning_content"] = json!(reply.thinking);
    }
    if !reply.calls.is_empty() {
        message["content"] = Value::Null;
        message["tool_calls"] = reply.calls.iter().map(tool_call).collect();
    }
    let mut completion = json!({
        "id": format!("chatcmpl-{}", reply.id),
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply)}],
    });
    if let Some(usage) = reply.bend_usage(usage(reply)) {
        completion["usage"] = usage;
    }
    completion["service_tier"] = json!("default");
    completion["system_fingerprint"] = json!("fp_fake");
    completion
}

/// The chunks of a streamed chat completion, `[DONE]` included.
pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    if reply.role_only_first {
        let opening = json!({"role": "assistant", "content": "", "refusal": null});
        events.push(Event::data(&chunk(reply, &opening, None)));
    }
    for thought in reply.thoughts() {
        events.push(Event::data(&chunk(reply, &json!({"reasoning_content": thought}), None)));
    }
    for (place, text) in reply.chunks.iter().enumerate() {
        let mut delta = json!({"content": text});
        if place == 0 && !reply.role_only_first {
            delta["role"] = json!("assistant");
        }
        events.push(Event::data(&chunk(reply, &delta, None)).content());
    }
    events.extend(
        call_deltas(reply)
            .iter()
            .map(|delta| Event::data(&chunk(reply, &json!({"tool_calls": [delta]}), None)).content()),
    );
    events.push(Event::data(&chunk(reply, &json!({}), Some(finish_reason(reply)))));
    if (reply.include_usage || reply.usage == UsageMode::Always)
        && let Some(usage) = reply.bend_usage(usage(reply))
    {
        let mut last = chunk(reply, &Value::Null, None);
        last["choices"] = json!([]);
        last["usage"] = usage;
        events.push(Event::data(&last));
    }
    events.push(Event { name: None, data: "[DONE]".into(), content: false });
    events
}

/// One vector of eight numbers per input, as floats or (what the Python SDK asks for) base64 of little-endian floats.
pub(super) fn embeddings(reply: &Reply, body: &Value) -> Value {
    let inputs: Vec<String> = match body.get("input") {
        Some(Value::Array(inputs)) if !inputs.iter().all(Value::is_number) => inputs.iter().map(all_text).collect(),
        Some(input) => vec![all_text(input)],
        None => Vec::new(),
    };
    let base64 = body.get("encoding_format").and_then(Value::as_str) == Some("base64");
    let vector = |text: &str| {
        let numbers = vector_of(text);
        if base64 { json!(base64_of(&numbers)) } else { json!(numbers) }
    };
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
        .collect();
    let mut answer = json!({"object": "list", "data": data, "model": reply.model});
    let tokens = reply.tokens.prompt;
    if let Some(usage) = reply.bend_usage(json!({"prompt_tokens": tokens, "total_tokens": tokens})) {
        answer["usage"] = usage;
    }
    answer
}

/// Eight numbers that depend only on the text.
pub(super) fn vector_of(text: &str) -> [f32; 8] {
    let mut vector = [0.0; 8];
    for (place, byte) in text.bytes().enumerate() {
        vector[place % 8] += f32::from(byte) / 256.0;
    }
    vector
}

fn base64_of(numbers: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word =
            group.iter().enumerate().fold(0_u32, |word, (place, byte)| word | u32::from(*byte) << (16 - 8 * place));
        for place in 0..4 {
            let digit = DIGITS[((word >> (18 - 6 * place)) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn chunk(reply: &Reply, delta: &Value, finish_reason: Option<&str>) -> Value {
    let mut chunk = Map::new();
    chunk.insert("id".into(), json!(format!("chatcmpl-{}", reply.id)));
    chunk.insert("object".into(), json!("chat.completion.chunk"));
    chunk.insert("created".into(), json!(reply.created));
    chunk.insert("model".into(), json!(reply.model));
    chunk.insert("service_tier".into(), json!("default"));
    chunk.insert("system_fingerprint".into(), json!("fp_fake"));
    chunk.insert(
        "choices".into(),
        json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]),
    );
    if reply.include_usage {
        chunk.insert("usage".into(), Value::Null);
    }
    Value::Object(chunk)
}

fn tool_call(call: &Call) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    json!({"id": format!("call_{}", call.id), "type": "function", "function": function})
}

/// The calls as deltas: id and name come with the first of an index, the arguments in fragments.
fn call_deltas(reply: &Reply) -> Vec<Value> {
    let of_each = reply.calls.iter().enumerate().map(|(index, call)| {
        let mut start = tool_call(call);
        start["index"] = json!(index);
        start["function"]["arguments"] = json!("");
        let more =
            call.fragments().into_iter().map(move |text| json!({"index": index, "function": {"arguments": text}}));
        std::iter::once(start).chain(more).collect::<Vec<Value>>()
    });
    let mut deltas: Vec<(usize, Value)> = of_each.flat_map(|deltas| deltas.into_iter().enumerate()).collect();
    if reply.interleaved {
        // Stable: the nth deltas of all calls, then the next ones.
        deltas.sort_by_key(|(place, _)| *place);
    }
    deltas.into_iter().map(|(_, delta)| delta).collect()
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Length => "length",
        Finish::Filter => "content_filter",
        Finish::Stop if reply.calls.is_empty() => "stop",
        Finish::Stop => "tool_calls",
    }
}

fn usage(reply: &Reply) -> Value {
    let tokens = reply.tokens;
    json!({
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.prompt + tokens.completion,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_floats_is_what_a_client_decodes() {
        assert_eq!(base64_of(&[1.0]), "AACAPw==");
        assert_eq!(base64_of(&[1.0, 2.0, -0.5]), "AACAPwAAAEAAAAC/");
    }
}
