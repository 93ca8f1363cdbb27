//! OpenAI responses, as the real service answers; simple (text or one tool call).

use serde_json::{Value, json};

use super::{Event, Reply};
use crate::fake::rule::Finish;

/// A response object.
pub(super) fn unary(reply: &Reply) -> Value {
    finished(reply)
}

/// The events of a streamed response, in the order the SDK's helper enforces.
pub(super) fn events(reply: &Reply) -> Vec<Event> {
    let mut stream = Sequence::default();
    let begun = object(reply, "in_progress", &json!([]), &Value::Null);
    stream.push("response.created", &json!({"response": begun}));
    stream.push("response.in_progress", &json!({"response": begun}));
    let item = output_item(reply);
    let item_id = item["id"].clone();
    let place = json!({"item_id": item_id, "output_index": 0});
    if reply.tool_call.is_some() {
        let mut opened = item.clone();
        opened["arguments"] = json!("");
        opened["status"] = json!("in_progress");
        stream.push("response.output_item.added", &json!({"output_index": 0, "item": opened}));
        stream.push_content("response.function_call_arguments.delta", &with(&place, "delta", &item["arguments"]));
        stream.push("response.function_call_arguments.done", &with(&place, "arguments", &item["arguments"]));
    } else {
        let mut opened = item.clone();
        opened["content"] = json!([]);
        opened["status"] = json!("in_progress");
        stream.push("response.output_item.added", &json!({"output_index": 0, "item": opened}));
        let place = with(&place, "content_index", &json!(0));
        let empty = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
        stream.push("response.content_part.added", &with(&place, "part", &empty));
        for text in &reply.chunks {
            let delta = with(&with(&place, "delta", &json!(text)), "logprobs", &json!([]));
            stream.push_content("response.output_text.delta", &delta);
        }
        let done = with(&with(&place, "text", &json!(reply.text())), "logprobs", &json!([]));
        stream.push("response.output_text.done", &done);
        stream.push("response.content_part.done", &with(&place, "part", &item["content"][0]));
    }
    stream.push("response.output_item.done", &json!({"output_index": 0, "item": item}));
    let last = if reply.finish == Finish::Stop { "response.completed" } else { "response.incomplete" };
    stream.push(last, &json!({"response": finished(reply)}));
    stream.events
}

/// Numbers events as they are pushed.
#[derive(Default)]
struct Sequence {
    events: Vec<Event>,
}

impl Sequence {
    fn push(&mut self, name: &'static str, fields: &Value) {
        let numbered = with(fields, "sequence_number", &json!(self.events.len()));
        let mut event = json!({"type": name});
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), numbered) {
            event.extend(fields);
        }
        self.events.push(Event::named(name, &event));
    }

    fn push_content(&mut self, name: &'static str, fields: &Value) {
        self.push(name, fields);
        if let Some(event) = self.events.last_mut() {
            event.content = true;
        }
    }
}

fn with(object: &Value, field: &str, value: &Value) -> Value {
    let mut object = object.clone();
    object[field] = value.clone();
    object
}

fn finished(reply: &Reply) -> Value {
    let (status, details) = match reply.finish {
        Finish::Stop => ("completed", Value::Null),
        Finish::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
        Finish::Filter => ("incomplete", json!({"reason": "content_filter"})),
    };
    let mut response = object(reply, status, &json!([output_item(reply)]), &details);
    let tokens = reply.tokens;
    let usage = json!({
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.completion,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.completion,
    });
    if let Some(usage) = reply.bend_usage(usage) {
        response["usage"] = usage;
    }
    response
}

fn object(reply: &Reply, status: &str, output: &Value, incomplete: &Value) -> Value {
    json!({
        "id": format!("resp_{}", reply.id),
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": null,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": null,
    })
}

fn output_item(reply: &Reply) -> Value {
    match &reply.tool_call {
        Some(call) => json!({
            "type": "function_call",
            "id": format!("fc_{}", reply.id),
            "call_id": format!("call_{}", reply.id),
            "name": call.name,
            "arguments": call.arguments.to_string(),
            "status": "completed",
        }),
        None => json!({
            "type": "message",
            "id": format!("msg_{}", reply.id),
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": reply.text(), "annotations": [], "logprobs": []}],
        }),
    }
}
