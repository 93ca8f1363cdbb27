//! OpenAI responses, as the real service answers: reasoning, then text or tool calls.

use serde_json::{Value, json};

use super::Event;
use super::reply::Reply;
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
    for (output_index, item) in output(reply).iter().enumerate() {
        let mut opened = item.clone();
        opened["status"] = json!("in_progress");
        let place = json!({"item_id": item["id"], "output_index": output_index});
        match item["type"].as_str() {
            Some("reasoning") => {
                opened["summary"] = json!([]);
                stream.push("response.output_item.added", &json!({"output_index": output_index, "item": opened}));
                reasoning_events(reply, &place, &mut stream);
            }
            Some("function_call") => {
                opened["arguments"] = json!("");
                stream.push("response.output_item.added", &json!({"output_index": output_index, "item": opened}));
                let fragments = &reply.calls[output_index - usize::from(!reply.thinking.is_empty())].fragments();
                for text in fragments {
                    stream.push_content("response.function_call_arguments.delta", &with(&place, "delta", &json!(text)));
                }
                let done = with(&with(&place, "arguments", &item["arguments"]), "name", &item["name"]);
                stream.push("response.function_call_arguments.done", &done);
            }
            _ => {
                opened["content"] = json!([]);
                stream.push("response.output_item.added", &json!({"output_index": output_index, "item": opened}));
                text_events(reply, &with(&place, "content_index", &json!(0)), item, &mut stream);
            }
        }
        stream.push("response.output_item.done", &json!({"output_index": output_index, "item": item}));
    }
    let last = if reply.finish == Finish::Stop { "response.completed" } else { "response.incomplete" };
    stream.push(last, &json!({"response": finished(reply)}));
    stream.events
}

fn text_events(reply: &Reply, place: &Value, item: &Value, stream: &mut Sequence) {
    let empty = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
    stream.push("response.content_part.added", &with(place, "part", &empty));
    for text in &reply.chunks {
        let delta = with(&with(place, "delta", &json!(text)), "logprobs", &json!([]));
        stream.push_content("response.output_text.delta", &delta);
    }
    let done = with(&with(place, "text", &json!(reply.text())), "logprobs", &json!([]));
    stream.push("response.output_text.done", &done);
    stream.push("response.content_part.done", &with(place, "part", &item["content"][0]));
}

fn reasoning_events(reply: &Reply, place: &Value, stream: &mut Sequence) {
    let place = with(place, "summary_index", &json!(0));
    let part = |text: &str| json!({"type": "summary_text", "text": text});
    stream.push("response.reasoning_summary_part.added", &with(&place, "part", &part("")));
    for text in reply.thoughts() {
        stream.push("response.reasoning_summary_text.delta", &with(&place, "delta", &json!(text)));
    }
    stream.push("response.reasoning_summary_text.done", &with(&place, "text", &json!(reply.thinking)));
    stream.push("response.reasoning_summary_part.done", &with(&place, "part", &part(&reply.thinking)));
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
    let mut response = object(reply, status, &json!(output(reply)), &details);
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

fn output(reply: &Reply) -> Vec<Value> {
    let mut items = Vec::new();
    if !reply.thinking.is_empty() {
        items.push(json!({
            "type": "reasoning",
            "id": format!("rs_{}", reply.id),
            "summary": [{"type": "summary_text", "text": reply.thinking}],
            "encrypted_content": reply.signature(),
        }));
    }
    items.extend(reply.calls.iter().map(|call| {
        json!({
            "type": "function_call",
            "id": format!("fc_{}", call.id),
            "call_id": format!("call_{}", call.id),
            "name": call.name,
            "arguments": call.arguments.to_string(),
            "status": "completed",
        })
    }));
    if reply.calls.is_empty() {
        items.push(json!({
            "type": "message",
            "id": format!("msg_{}", reply.id),
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": reply.text(), "annotations": [], "logprobs": []}],
        }));
    }
    items
}
