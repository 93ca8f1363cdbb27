//! Reads a chat completion request into the common tongue.

use serde_json::{Map, Value, json};

use super::super::tree::{At, Dropped, Object};
use crate::canonical::request::{
    Amount, Effort, Format, ParallelCalls, Reasoning, Request, Sampling, Strict, Tool, ToolChoice, Visible,
};
use crate::dialect::Answer;
use crate::error::BadRequest;

mod messages;
pub(in crate::dialect) mod parts;

pub(in crate::dialect) use messages::{arguments, signature_in};

/// Fields of a body that are left out on the way to another dialect, and why that does no harm.
pub const DROPPED: &[Dropped] = &[
    ("metadata", "labels for OpenAI's own dashboard"),
    ("prompt_cache_key", "a hint for OpenAI's own cache; the answer is the same without it"),
    ("prompt_cache_retention", "a hint for OpenAI's own cache; the answer is the same without it"),
    ("prompt_cache_options", "a hint for OpenAI's own cache; the answer is the same without it"),
    ("prediction", "makes an answer faster, not different"),
    ("moderation", "asks for OpenAI's own filters; others have theirs"),
];

/// Fields of messages and of their parts that are left out on the way to another dialect, and why that does no harm.
pub const DROPPED_IN_MESSAGES: &[Dropped] = &[
    ("name", "other dialects have no names of speakers"),
    ("cache_control", "a hint for a cache; the answer is the same without it"),
    ("prompt_cache_breakpoint", "a hint for a cache; the answer is the same without it"),
    ("annotations", "notes on an earlier answer, for people"),
    ("parsed", "an SDK's own reading of an earlier answer"),
    ("parsed_arguments", "an SDK's own reading of an earlier answer"),
    ("reasoning_details", "opaque reasoning means something only to the upstream that made it"),
    ("thinking_blocks", "opaque reasoning means something only to the upstream that made it"),
];

/// The request in the common tongue. What is wrong, or cannot be said in it, is named. The model's name is not part of it.
pub fn read(body: &[u8]) -> Result<Request, BadRequest> {
    let mut body = Object::body(body)?;
    body.take("model");
    let messages = body.need("messages")?;
    let conversation = messages::read(messages, &At::BODY.field("messages"))?;
    let max_completion = body.count("max_completion_tokens")?;
    let max_tokens = body.count("max_tokens")?;
    let user = body.text("user")?;
    let mut request = Request {
        system: conversation.system,
        turns: conversation.turns,
        tools: functions(&mut body)?,
        tool_choice: choice(&mut body)?,
        parallel_calls: parallel_calls(&mut body)?,
        max_output: max_completion.or(max_tokens),
        sampling: sampling(&mut body)?,
        format: match body.take("response_format") {
            Some(value) => format(value, &At::BODY.field("response_format"))?,
            None => None,
        },
        reasoning: match body.take("reasoning_effort") {
            // There is no field that asks to see thoughts; whoever has them think is shown them beside the answer.
            Some(value) => {
                let amount = Amount::Effort(effort(&value, &At::BODY.field("reasoning_effort"))?);
                Some(Reasoning { amount, visible: Visible::Yes })
            }
            None => None,
        },
        user: body.text("safety_identifier")?.or(user),
        answer: if body.flag("stream")? == Some(true) { Answer::Stream } else { Answer::Whole },
        rest: Map::new(),
    };
    if let Some(options) = body.take("stream_options") {
        let at = At::BODY.field("stream_options");
        let mut options = Object::new(options, &at)?;
        options.flag("include_usage")?;
        options.flag("include_obfuscation")?;
        options.close(&[])?;
    }
    defaults(&mut body);
    request.rest = body.rest(DROPPED);
    Ok(request)
}

/// Leaves out what only says what would happen anyway.
fn defaults(body: &mut Object<'_>) {
    body.ignore_if("store", |value| value == false);
    body.ignore_if("logprobs", |value| value == false);
    body.ignore_if("top_logprobs", |value| value == 0);
    body.ignore_if("logit_bias", |value| value.as_object().is_some_and(Map::is_empty));
    body.ignore_if("modalities", |value| *value == json!(["text"]));
    ignore_shared_defaults(body);
    body.ignore_if("verbosity", |value| value == "medium");
}

/// As above, for fields that the Responses API has too.
pub(in crate::dialect) fn ignore_shared_defaults(body: &mut Object<'_>) {
    body.ignore_if("service_tier", |value| value == "auto" || value == "default");
}

fn sampling(body: &mut Object<'_>) -> Result<Sampling, BadRequest> {
    let choices = body.count("n")?;
    if choices == Some(0) {
        return Err(At::BODY.field("n").invalid("expected at least 1"));
    }
    Ok(Sampling {
        temperature: body.number("temperature")?,
        top_p: body.number("top_p")?,
        top_k: None,
        stop: match body.take("stop") {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(list)) => {
                let at = At::BODY.field("stop");
                list.into_iter().enumerate().map(|(nth, text)| at.nth(nth).text(text)).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(At::BODY.field("stop").wrong("a string or an array of strings", &other)),
        },
        seed: body.number("seed")?,
        presence_penalty: body.number("presence_penalty")?,
        frequency_penalty: body.number("frequency_penalty")?,
        choices: choices.filter(|choices| *choices > 1),
    })
}

pub(in crate::dialect) fn parallel_calls(body: &mut Object<'_>) -> Result<Option<ParallelCalls>, BadRequest> {
    let allowed = body.flag("parallel_tool_calls")?;
    Ok(allowed.map(|allowed| if allowed { ParallelCalls::Allowed } else { ParallelCalls::Forbidden }))
}

/// `tools`, and the `functions` of old.
fn functions(body: &mut Object<'_>) -> Result<Vec<Tool>, BadRequest> {
    let mut tools = Vec::new();
    let at_tools = At::BODY.field("tools");
    for (nth, tool) in body.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        let at = at_tools.nth(nth);
        let mut tool = Object::new(tool, &at)?;
        let kind = tool.need_text("type")?;
        if kind != "function" {
            return Err(at.field("type").unsupported("only functions can be"));
        }
        let at_function = at.field("function");
        tools.push(function(Object::new(tool.need("function")?, &at_function)?, &at_function)?);
        tool.close(DROPPED_IN_MESSAGES)?;
    }
    let at_functions = At::BODY.field("functions");
    for (nth, value) in body.list("functions")?.unwrap_or_default().into_iter().enumerate() {
        let at = at_functions.nth(nth);
        tools.push(function(Object::new(value, &at)?, &at)?);
    }
    Ok(tools)
}

/// A function's name, description, schema and strictness.
pub(in crate::dialect) fn function(mut function: Object<'_>, at: &At<'_>) -> Result<Tool, BadRequest> {
    let parameters = match function.take("parameters") {
        None => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => return Err(at.field("parameters").wrong("an object", &other)),
    };
    let tool = Tool {
        name: function.need_text("name")?,
        description: function.text("description")?,
        parameters,
        strict: strict(function.flag("strict")?),
    };
    if tool.name.is_empty() {
        return Err(at.field("name").invalid("it must not be empty"));
    }
    function.close(DROPPED_IN_MESSAGES)?;
    Ok(tool)
}

fn strict(flag: Option<bool>) -> Option<Strict> {
    flag.map(|strict| if strict { Strict::Yes } else { Strict::No })
}

/// `tool_choice`, and the `function_call` of old.
fn choice(body: &mut Object<'_>) -> Result<Option<ToolChoice>, BadRequest> {
    let (value, name) = match body.take("tool_choice") {
        Some(value) => (value, "tool_choice"),
        None => match body.take("function_call") {
            Some(Value::Object(function)) => {
                let wrapped = json!({"type": "function", "function": function});
                (wrapped, "function_call")
            }
            Some(value) => (value, "function_call"),
            None => return Ok(None),
        },
    };
    let at = At::BODY.field(name);
    if let Value::String(word) = &value {
        return choice_word(word, &at).map(Some);
    }
    let mut object = Object::new(value, &at)?;
    if object.need_text("type")? != "function" {
        return Err(at.field("type").unsupported("only one function, or a word for all of them, can be"));
    }
    let at_function = at.field("function");
    let mut function = Object::new(object.need("function")?, &at_function)?;
    let choice = ToolChoice::Function(function.need_text("name")?);
    function.close(&[])?;
    object.close(&[])?;
    Ok(Some(choice))
}

pub(in crate::dialect) fn choice_word(word: &str, at: &At<'_>) -> Result<ToolChoice, BadRequest> {
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Any),
        _ => Err(at.invalid("expected 'auto', 'none', 'required' or a function")),
    }
}

fn format(value: Value, at: &At<'_>) -> Result<Option<Format>, BadRequest> {
    let mut format = Object::new(value, at)?;
    let kind = format.need_text("type")?;
    let found = match kind.as_str() {
        "text" => None,
        "json_object" => Some(Format::JsonObject),
        "json_schema" => {
            let inside = at.field("json_schema");
            Some(json_schema(Object::new(format.need("json_schema")?, &inside)?, &inside)?)
        }
        _ => return Err(at.field("type").unsupported("only text, json_object and json_schema can be")),
    };
    format.close(&[])?;
    Ok(found)
}

/// A named schema of an answer. A description beside it goes into it.
pub(in crate::dialect) fn json_schema(mut named: Object<'_>, at: &At<'_>) -> Result<Format, BadRequest> {
    let mut schema = match named.take("schema") {
        None => Map::new(),
        Some(Value::Object(schema)) => schema,
        Some(other) => return Err(at.field("schema").wrong("an object", &other)),
    };
    if let Some(description) = named.text("description")? {
        schema.entry("description").or_insert(Value::String(description));
    }
    let format = Format::JsonSchema {
        name: named.need_text("name")?,
        schema: Value::Object(schema),
        strict: strict(named.flag("strict")?),
    };
    named.close(&[])?;
    Ok(format)
}

pub(in crate::dialect) fn effort(value: &Value, at: &At<'_>) -> Result<Effort, BadRequest> {
    let Value::String(word) = value else { return Err(at.wrong("a string", value)) };
    match word.as_str() {
        "none" => Ok(Effort::None),
        "minimal" => Ok(Effort::Minimal),
        "low" => Ok(Effort::Low),
        "medium" => Ok(Effort::Medium),
        "high" => Ok(Effort::High),
        "xhigh" => Ok(Effort::XHigh),
        "max" => Ok(Effort::Max),
        _ => Err(at.invalid("expected 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'")),
    }
}

#[cfg(test)]
pub(in crate::dialect) use tests::any_json;

#[cfg(test)]
mod tests;
