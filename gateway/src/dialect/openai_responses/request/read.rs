//! Reads a request of the Responses API into the common tongue.

use serde_json::{Map, Value, json};

use super::super::super::openai::Dropped;
use super::super::super::openai::request::read::{
    choice_word, effort, function, ignore_shared_defaults, json_schema, parallel_calls,
};
use super::super::super::openai::tree::{At, Object};
use super::items;
use crate::canonical::request::{Amount, Format, Reasoning, Request, Sampling, Tool, ToolChoice, Visible};
use crate::dialect::Answer;
use crate::error::BadRequest;

/// Fields of a body that are left out on the way to another dialect, and why that does no harm.
pub const DROPPED: &[Dropped] = &[
    ("metadata", "labels for OpenAI's own dashboard; the answer repeats them"),
    ("client_metadata", "labels for OpenAI's own dashboard"),
    ("prompt_cache_key", "a hint for OpenAI's own cache; the answer is the same without it"),
    ("prompt_cache_retention", "a hint for OpenAI's own cache; the answer is the same without it"),
    ("prompt_cache_options", "a hint for OpenAI's own cache; the answer is the same without it"),
    ("max_tool_calls", "limits OpenAI's own tools, none of which can be passed on"),
    ("moderation", "asks for OpenAI's own filters; others have theirs"),
];

/// What of a request its answer repeats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Echo(pub(in super::super) Map<String, Value>);

/// The fields that an answer repeats.
const ECHOED: [&str; 13] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "user",
];

/// What the answer to this body will repeat.
pub fn echo(body: &[u8]) -> Echo {
    let mut fields: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    fields.retain(|name, value| !value.is_null() && ECHOED.contains(&name.as_str()));
    Echo(fields)
}

/// The request in the common tongue. What is wrong, or cannot be said in it, is named. The model's name is not part of it. What was
/// kept at OpenAI (earlier answers, conversations, prompts) is out of reach for other upstreams.
pub fn read(body: &[u8]) -> Result<Request, BadRequest> {
    let mut body = Object::body(body)?;
    body.take("model");
    kept_elsewhere(&mut body)?;
    let conversation = items::read(body.need("input")?, &At::BODY.field("input"))?;
    let instructions = body.text("instructions")?.filter(|text| !text.is_empty());
    let user = body.text("user")?;
    let mut request = Request {
        system: instructions.into_iter().chain(conversation.system).collect(),
        turns: conversation.turns,
        tools: tools(&mut body)?,
        tool_choice: choice(&mut body)?,
        parallel_calls: parallel_calls(&mut body)?,
        max_output: body.count("max_output_tokens")?,
        sampling: Sampling {
            temperature: body.number("temperature")?,
            top_p: body.number("top_p")?,
            ..Sampling::default()
        },
        format: format(&mut body)?,
        reasoning: reasoning(&mut body)?,
        user: body.text("safety_identifier")?.or(user),
        answer: if body.flag("stream")? == Some(true) { Answer::Stream } else { Answer::Whole },
        rest: Map::new(),
    };
    if let Some(options) = body.take("stream_options") {
        let at = At::BODY.field("stream_options");
        let mut options = Object::new(options, &at)?;
        options.flag("include_obfuscation")?;
        options.close(&[])?;
    }
    body.ignore_if("background", |value| value == false);
    body.ignore_if("top_logprobs", |value| value == 0);
    body.ignore_if("truncation", |value| value == "disabled");
    // Elsewhere there is no encrypted reasoning to be included.
    body.ignore_if("include", |value| match value {
        Value::Array(list) => list.iter().all(|wish| wish == "reasoning.encrypted_content"),
        _ => false,
    });
    ignore_shared_defaults(&mut body);
    request.rest = body.rest(DROPPED);
    Ok(request)
}

fn kept_elsewhere(body: &mut Object<'_>) -> Result<(), BadRequest> {
    for name in ["previous_response_id", "conversation", "prompt"] {
        if body.take(name).is_some() {
            return Err(At::BODY.field(name).unsupported("what it names is kept at OpenAI"));
        }
    }
    if body.flag("store")? == Some(true) {
        return Err(At::BODY.field("store").unsupported("it keeps no answers"));
    }
    Ok(())
}

fn tools(body: &mut Object<'_>) -> Result<Vec<Tool>, BadRequest> {
    let at_tools = At::BODY.field("tools");
    let mut tools = Vec::new();
    for (nth, tool) in body.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        let at = at_tools.nth(nth);
        let mut tool = Object::new(tool, &at)?;
        if tool.need_text("type")? != "function" {
            return Err(at.field("type").unsupported("only functions can be"));
        }
        tools.push(function(tool, &at)?);
    }
    Ok(tools)
}

fn choice(body: &mut Object<'_>) -> Result<Option<ToolChoice>, BadRequest> {
    let at = At::BODY.field("tool_choice");
    match body.take("tool_choice") {
        None => Ok(None),
        Some(Value::String(word)) => choice_word(&word, &at).map(Some),
        Some(value) => {
            let mut choice = Object::new(value, &at)?;
            if choice.need_text("type")? != "function" {
                return Err(at.field("type").unsupported("only one function, or a word for all of them, can be"));
            }
            let name = choice.need_text("name")?;
            choice.close(&[])?;
            Ok(Some(ToolChoice::Function(name)))
        }
    }
}

fn format(body: &mut Object<'_>) -> Result<Option<Format>, BadRequest> {
    let Some(text) = body.take("text") else { return Ok(None) };
    let at_text = At::BODY.field("text");
    let mut text = Object::new(text, &at_text)?;
    text.ignore_if("verbosity", |value| value == "medium");
    let format = text.take("format");
    text.close(&[])?;
    let Some(format) = format else { return Ok(None) };
    let at = at_text.field("format");
    let mut format = Object::new(format, &at)?;
    let kind = format.need_text("type")?;
    match kind.as_str() {
        "text" => format.close(&[]).map(|()| None),
        "json_object" => format.close(&[]).map(|()| Some(Format::JsonObject)),
        "json_schema" => json_schema(format, &at).map(Some),
        _ => Err(at.field("type").unsupported("only text, json_object and json_schema can be")),
    }
}

fn reasoning(body: &mut Object<'_>) -> Result<Option<Reasoning>, BadRequest> {
    let Some(value) = body.take("reasoning") else { return Ok(None) };
    let at = At::BODY.field("reasoning");
    let mut reasoning = Object::new(value, &at)?;
    let amount = match reasoning.take("effort") {
        None => Amount::Dynamic,
        Some(value) => Amount::Effort(effort(&value, &at.field("effort"))?),
    };
    let summary = [reasoning.take("summary"), reasoning.take("generate_summary")];
    let asked = summary.iter().flatten().any(|value| value != "none");
    reasoning.close(&[])?;
    if amount == Amount::Dynamic && !asked {
        return Ok(None);
    }
    Ok(Some(Reasoning { amount, visible: if asked { Visible::Yes } else { Visible::No } }))
}

impl Echo {
    /// The field as the caller sent it, or what it would have been.
    pub(in super::super) fn or(&self, name: &str, default: Value) -> Value {
        self.0.get(name).cloned().unwrap_or(default)
    }

    /// The settings an answer repeats, each with its default.
    pub(in super::super) fn settings(&self) -> [(&'static str, Value); 12] {
        let text = match self.or("text", json!({})) {
            Value::Object(mut text) => {
                text.entry("format").or_insert_with(|| json!({"type": "text"}));
                Value::Object(text)
            }
            other => other,
        };
        [
            ("instructions", self.or("instructions", Value::Null)),
            ("max_output_tokens", self.or("max_output_tokens", Value::Null)),
            ("metadata", self.or("metadata", json!({}))),
            ("parallel_tool_calls", self.or("parallel_tool_calls", true.into())),
            ("previous_response_id", Value::Null),
            ("reasoning", self.or("reasoning", json!({"effort": null, "summary": null}))),
            ("store", false.into()),
            ("temperature", self.or("temperature", Value::Null)),
            ("text", text),
            ("tool_choice", self.or("tool_choice", "auto".into())),
            ("tools", self.or("tools", json!([]))),
            ("top_p", self.or("top_p", Value::Null)),
        ]
    }
}
