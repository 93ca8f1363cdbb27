//! Writes the common tongue as a chat completion request.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Number, Value, json};

use super::super::media::minted;
use super::super::names::Names;
use super::super::tree::{Dropped, unsupported};
use crate::canonical::request::{
    Amount, Effort, Format, ParallelCalls, Part, Request, Sampling, Strict, Tool, ToolChoice,
};
use crate::dialect::Answer;
use crate::error::BadRequest;

mod messages;
mod schema;

/// The longest `user`.
const USER_MAX: usize = 64;

/// What is left out when a request of another dialect goes to chat completions, and why that does no harm.
pub const DROPPED_INTO: &[Dropped] = &[
    ("reasoning text and signatures", "thoughts mean something only to the upstream that had them"),
    ("whether thoughts are shown", "chat completions have no switch for it"),
    ("reasoning without an amount", "the model's own default is what it asks for"),
    ("tool choice and parallel calls without tools", "refused upstream, and say nothing"),
    ("strict of a schema", "left out where OpenAI would refuse to bind itself to the schema, which goes along"),
    ("name of a document's text", "plain text goes along as text, which has no name"),
    ("empty texts", "say nothing"),
];

/// The request as a body for an upstream that speaks chat completions. Functions have the names of [`Names::of`] there. Thoughts and
/// signatures stay behind: they mean something only to the upstream that made them.
pub fn write(request: &Request, upstream_model: &str) -> Result<Bytes, BadRequest> {
    if let Some(field) = request.rest.keys().next() {
        return Err(unsupported(field.clone(), "it has no counterpart there"));
    }
    let names = Names::of(request);
    let mut body = Map::new();
    body.insert("model".into(), upstream_model.into());
    body.insert("messages".into(), messages::write(request, &names)?.into());
    tools(request, &names, &mut body);
    if let Some(max) = request.max_output {
        body.insert("max_completion_tokens".into(), max.into());
    }
    sampling(request, &mut body)?;
    if let Some(format) = &request.format {
        body.insert("response_format".into(), format_value(format));
    }
    if let Some(effort) = request.reasoning.and_then(|reasoning| effort(reasoning.amount)) {
        body.insert("reasoning_effort".into(), effort.into());
    }
    if let Some(user) = &request.user {
        body.insert("user".into(), short_user(user).into());
    }
    if request.answer == Answer::Stream {
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok(Value::Object(body).to_string().into())
}

fn tools(request: &Request, names: &Names, body: &mut Map<String, Value>) {
    // Without functions the fields about them are refused.
    if request.tools.is_empty() {
        return;
    }
    let tools: Vec<Value> = request.tools.iter().map(|tool| tool_value(tool, names)).collect();
    body.insert("tools".into(), tools.into());
    if let Some(choice) = &request.tool_choice {
        let choice = match choice {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Any => "required".into(),
            ToolChoice::Function(name) => {
                json!({"type": "function", "function": {"name": names.outgoing(name)}})
            }
        };
        body.insert("tool_choice".into(), choice);
    }
    if let Some(parallel) = request.parallel_calls {
        body.insert("parallel_tool_calls".into(), (parallel == ParallelCalls::Allowed).into());
    }
}

fn tool_value(tool: &Tool, names: &Names) -> Value {
    let mut function =
        json!({"name": names.outgoing(&tool.name), "parameters": schema::of_arguments(&tool.parameters)});
    if let Some(description) = &tool.description {
        function["description"] = description.as_str().into();
    }
    if tool.strict == Some(Strict::Yes) && schema::may_be_strict(&tool.parameters) {
        function["strict"] = true.into();
    }
    json!({"type": "function", "function": function})
}

fn sampling(request: &Request, body: &mut Map<String, Value>) -> Result<(), BadRequest> {
    let Sampling { temperature, top_p, top_k, stop, seed, presence_penalty, frequency_penalty, choices } =
        &request.sampling;
    if top_k.is_some() {
        return Err(unsupported("top_k", "OpenAI does not limit the number of candidates"));
    }
    let mut put = |name: &str, number: &Option<Number>| {
        if let Some(number) = number {
            body.insert(name.into(), Value::Number(number.clone()));
        }
    };
    put("temperature", temperature);
    put("top_p", top_p);
    put("seed", seed);
    put("presence_penalty", presence_penalty);
    put("frequency_penalty", frequency_penalty);
    if !stop.is_empty() {
        body.insert("stop".into(), stop.clone().into());
    }
    match choices {
        Some(choices) if *choices > 1 && request.answer == Answer::Stream => {
            Err(unsupported("n", "a stream of several answers cannot be told apart on the way back"))
        }
        Some(choices) if *choices > 1 => {
            body.insert("n".into(), (*choices).into());
            Ok(())
        }
        _ => Ok(()),
    }
}

fn format_value(format: &Format) -> Value {
    match format {
        Format::JsonObject => json!({"type": "json_object"}),
        Format::JsonSchema { name, schema, strict } => {
            let name: String = name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
                .take(64)
                .collect();
            let name = if name.is_empty() { "answer".to_owned() } else { name };
            let mut named = json!({"name": name, "schema": schema});
            // Where others bind by default, OpenAI binds on demand, and only to schemas that say everything.
            if *strict != Some(Strict::No) && schema::may_be_strict(schema) {
                named["strict"] = true.into();
            }
            json!({"type": "json_schema", "json_schema": named})
        }
    }
}

fn effort(amount: Amount) -> Option<&'static str> {
    let effort = match amount {
        Amount::Dynamic => return None,
        Amount::Effort(effort) => effort,
        Amount::Budget(budget) => Effort::of_budget(budget),
    };
    Some(effort_word(effort))
}

/// A level in OpenAI's words.
pub(in crate::dialect) fn effort_word(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max => "max",
    }
}

/// A user of any length as one that is taken; the same for the same.
fn short_user(user: &str) -> Cow<'_, str> {
    if user.chars().count() <= USER_MAX { Cow::Borrowed(user) } else { Cow::Owned(minted("user_", &[user])) }
}

/// Whether anything in the request mentions JSON: without that, OpenAI refuses to answer in it.
fn mentions_json(request: &Request) -> bool {
    let said = request.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    request.system.iter().chain(said).any(|text| {
        let bytes = text.as_bytes();
        bytes.windows(4).any(|window| window.eq_ignore_ascii_case(b"json"))
    })
}

#[cfg(test)]
mod tests;
