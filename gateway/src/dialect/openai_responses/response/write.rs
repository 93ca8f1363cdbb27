//! Writes the common tongue as a whole response, and the objects that streams are made of.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use shared::money::Tokens;

use super::super::super::openai::response::{created, extra_content};
use super::super::request::Echo;
use crate::canonical::request::{Part, Source};
use crate::canonical::response::{Finish, Response};

/// What is the same in every response object of one answer.
#[derive(Debug, Clone)]
pub(in super::super) struct Head {
    id: String,
    created: u64,
    model: String,
    echo: Echo,
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Place<'a> {
    /// It is being made.
    InProgress,
    /// It ended, for this reason.
    Ended(&'a Finish),
}

impl Head {
    /// For a request of this id, the model named as it was asked for.
    pub(in super::super) fn new(model: &str, request_id: &str, echo: Echo) -> Self {
        let id = request_id.replace('-', "");
        Self { id, created: created(request_id), model: model.to_owned(), echo }
    }

    /// The id of an output item.
    pub(in super::super) fn item_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}_{index}", self.id)
    }

    /// The response object.
    pub(in super::super) fn object(&self, place: Place<'_>, output: Vec<Value>, usage: Option<Tokens>) -> Value {
        let (status, reason) = match place {
            Place::InProgress => ("in_progress", None),
            Place::Ended(Finish::Length) => ("incomplete", Some("max_output_tokens")),
            Place::Ended(Finish::Filtered) => ("incomplete", Some("content_filter")),
            Place::Ended(Finish::Refused) if !is_refusal_in_words(&output) => ("incomplete", Some("content_filter")),
            Place::Ended(_) => ("completed", None),
        };
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("id", format!("resp_{}", self.id).into());
        put("object", "response".into());
        put("created_at", self.created.into());
        put("status", status.into());
        put("background", false.into());
        put("error", Value::Null);
        put("incomplete_details", reason.map_or(Value::Null, |reason| json!({"reason": reason})));
        put("model", self.model.as_str().into());
        put("output", output.into());
        for (name, value) in self.echo.settings() {
            put(name, value);
        }
        put("truncation", "disabled".into());
        put("usage", usage.map_or(Value::Null, write_usage));
        put("user", self.echo.or("user", Value::Null));
        Value::Object(object)
    }
}

/// The answer as a caller of the Responses API gets it, the model named as it was asked for. Only the first choice: no request asks
/// for more.
pub fn write(answer: &Response, model: &str, request_id: &str, echo: &Echo) -> Bytes {
    let head = Head::new(model, request_id, echo.clone());
    let (parts, finish) = match answer.choices.first() {
        Some(choice) => (choice.parts.as_slice(), &choice.finish),
        None => (&[][..], &Finish::Stop),
    };
    head.object(Place::Ended(finish), output(&head, parts), answer.usage).to_string().into()
}

/// The items of an answer. Neighbouring texts are one, as they are in a stream.
fn output(head: &Head, parts: &[Part]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    let same_kind = |one: &Part, next: &Part| {
        let kind = |part: &Part| match part {
            Part::Text(_) | Part::Refusal(_) => 1,
            Part::Thinking(_) => 2,
            _ => 0,
        };
        kind(one) == kind(next) && kind(one) > 0
    };
    for run in parts.chunk_by(same_kind) {
        let index = items.len();
        items.extend(match run {
            [Part::Text(_) | Part::Refusal(_), ..] => message(head, run, index),
            [Part::Thinking(_), ..] => thoughts(head, run, index),
            [Part::ToolCall(call)] => {
                let arguments = Value::Object(call.arguments.clone()).to_string();
                let id = head.item_id("fc", index);
                Some(call_item(&id, (&call.id, &call.name), call.signature.as_deref(), Some(&arguments)))
            }
            [Part::Image(image)] => match &image.source {
                Source::Inline { data, .. } => Some(json!({
                    "id": head.item_id("ig", index),
                    "type": "image_generation_call",
                    "status": "completed",
                    "result": data,
                })),
                Source::Url(_) => None,
            },
            _ => None,
        });
    }
    items
}

fn message(head: &Head, run: &[Part], index: usize) -> Option<Value> {
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    let mut content = Vec::new();
    for same in run.chunk_by(|one, next| is_text(one) == is_text(next)) {
        let said: String = same
            .iter()
            .map(|part| match part {
                Part::Text(text) | Part::Refusal(text) => text.as_str(),
                _ => "",
            })
            .collect();
        if !said.is_empty() {
            content.push(if same.first().is_some_and(is_text) { text_part(&said) } else { refusal_part(&said) });
        }
    }
    if content.is_empty() {
        return None;
    }
    Some(message_item(&head.item_id("msg", index), Some(content)))
}

fn thoughts(head: &Head, run: &[Part], index: usize) -> Option<Value> {
    let texts = run.iter().map(|part| match part {
        Part::Thinking(thinking) => thinking.text.as_str(),
        _ => "",
    });
    let text: String = texts.collect();
    if text.is_empty() { None } else { Some(reasoning_item(&head.item_id("rs", index), Some(&text))) }
}

/// A message; `None` while it is being said.
pub(in super::super) fn message_item(id: &str, content: Option<Vec<Value>>) -> Value {
    let status = if content.is_some() { "completed" } else { "in_progress" };
    let content = content.unwrap_or_default();
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

/// What was thought; `None` while it is.
pub(in super::super) fn reasoning_item(id: &str, text: Option<&str>) -> Value {
    let summary: Vec<Value> = text.map(|text| json!({"type": "summary_text", "text": text})).into_iter().collect();
    json!({"id": id, "type": "reasoning", "summary": summary})
}

/// A call of a function (its call id and name); no arguments while they are being said.
pub(in super::super) fn call_item(
    id: &str,
    (call_id, name): (&str, &str),
    signature: Option<&str>,
    arguments: Option<&str>,
) -> Value {
    let status = if arguments.is_some() { "completed" } else { "in_progress" };
    let mut item = json!({
        "id": id,
        "type": "function_call",
        "status": status,
        "arguments": arguments.unwrap_or_default(),
        "call_id": call_id,
        "name": name,
    });
    if let Some(signature) = signature {
        item["extra_content"] = extra_content(signature);
    }
    item
}

pub(in super::super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

pub(in super::super) fn refusal_part(text: &str) -> Value {
    json!({"type": "refusal", "refusal": text})
}

/// A refusal in words is an answer that was completed.
fn is_refusal_in_words(output: &[Value]) -> bool {
    let contents = output.iter().filter_map(|item| item["content"].as_array()).flatten();
    contents.into_iter().any(|part| part["type"] == "refusal")
}

/// What was used, in OpenAI's inclusive figures.
fn write_usage(tokens: Tokens) -> Value {
    let (input, output) = (tokens.all_input(), tokens.all_output());
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": tokens.cached_input, "cache_write_tokens": tokens.all_cache_writes()},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": input + output,
    })
}
