//! Writes the common tongue as a whole chat completion.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use shared::money::Tokens;

use super::super::media::data_url;
use crate::canonical::request::{Part, Source, ToolCall};
use crate::canonical::response::{Choice, Finish, Response};

/// The answer as a caller of chat completions gets it, the model named as it was asked for.
pub fn write(answer: &Response, model: &str, request_id: &str) -> Bytes {
    let choices: Vec<Value> =
        answer.choices.iter().enumerate().map(|(index, choice)| write_choice(index, choice)).collect();
    let mut body = json!({
        "id": format!("chatcmpl-{request_id}"),
        "object": "chat.completion",
        "created": created(request_id),
        "model": model,
        "choices": choices,
    });
    if let Some(tokens) = answer.usage {
        body["usage"] = usage(tokens);
    }
    body.to_string().into()
}

/// When a request was made, in seconds since 1970: its id says so. 0 for an id of another kind.
pub(in crate::dialect) fn created(request_id: &str) -> u64 {
    let timestamp = uuid::Uuid::parse_str(request_id).ok().and_then(|id| id.get_timestamp());
    timestamp.map_or(0, |timestamp| timestamp.to_unix().0)
}

/// What was used, in OpenAI's inclusive figures.
pub(in crate::dialect) fn usage(tokens: Tokens) -> Value {
    let (prompt, completion) = (tokens.all_input(), tokens.all_output());
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached_input,
            "cache_write_tokens": tokens.all_cache_writes(),
            "audio_tokens": tokens.input_audio,
        },
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": tokens.output_audio,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

/// Why an answer ended, in OpenAI's words. A refusal in words is an answer that ended by itself.
pub(in crate::dialect) fn finish_reason(finish: &Finish, refused_in_words: bool) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopText(_) => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Refused if refused_in_words => "stop",
        Finish::Filtered | Finish::Refused => "content_filter",
    }
}

fn write_choice(index: usize, choice: &Choice) -> Value {
    let (mut text, mut thought, mut refusal) = (String::new(), String::new(), String::new());
    let (mut calls, mut images) = (Vec::new(), Vec::new());
    for part in &choice.parts {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Thinking(thinking) => thought.push_str(&thinking.text),
            Part::Refusal(more) => refusal.push_str(more),
            Part::ToolCall(call) => calls.push(write_call(call)),
            Part::Image(media) => {
                let url = match &media.source {
                    Source::Inline { mime, data } => data_url(mime, data),
                    Source::Url(url) => url.clone(),
                };
                images.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            Part::File(_) | Part::ToolResult(_) => {}
        }
    }
    let refused = !refusal.is_empty();
    let silent = text.is_empty() && (refused || !calls.is_empty());
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if silent { Value::Null } else { text.into() });
    if !thought.is_empty() {
        message.insert("reasoning_content".into(), thought.into());
    }
    message.insert("refusal".into(), if refused { refusal.into() } else { Value::Null });
    message.insert("annotations".into(), json!([]));
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    if !images.is_empty() {
        message.insert("images".into(), images.into());
    }
    json!({
        "index": index,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_reason(&choice.finish, refused),
    })
}

fn write_call(call: &ToolCall) -> Value {
    let mut written = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": Value::Object(call.arguments.clone()).to_string()},
    });
    if let Some(signature) = &call.signature {
        written["extra_content"] = extra_content(signature);
    }
    written
}

/// Where a Gemini thought signature rides: callers that send the call back as they got it send it back too.
pub(in crate::dialect) fn extra_content(signature: &str) -> Value {
    json!({"google": {"thought_signature": signature}})
}

#[cfg(test)]
mod tests;
