//! Reads everything of a request but the conversation.

use serde_json::{Value, json};

use crate::canonical::request::{Amount, Effort, Format, ParallelCalls, Reasoning, Strict, Tool, ToolChoice, Visible};
use crate::dialect::anthropic::object::{Object, Path, UNTRANSLATED};
use crate::error::BadRequest;

/// The name of a schema, which Anthropic does not give and OpenAI needs.
const SCHEMA_NAME: &str = "output";

/// The functions. Tools that run at Anthropic are refused.
pub(super) fn tools(body: &mut Object<'_>) -> Result<Vec<Tool>, BadRequest> {
    let tools = body.list("tools")?.unwrap_or_default();
    let list = body.at("tools");
    tools.into_iter().enumerate().map(|(at, value)| tool(value, Path::Element(&list, at))).collect()
}

fn tool(value: Value, path: Path<'_>) -> Result<Tool, BadRequest> {
    let mut tool = Object::of(value, path)?;
    if tool.text("type")?.is_some_and(|kind| kind != "custom") {
        return Err(tool.at("type").unsupported(UNTRANSLATED));
    }
    let direct = |callers: &Value| callers.as_array().is_some_and(|list| list.iter().all(|caller| caller == "direct"));
    if tool.take("allowed_callers").is_some_and(|callers| !direct(&callers)) {
        return Err(tool.at("allowed_callers").unsupported(UNTRANSLATED));
    }
    tool.leave_out(&["cache_control", "eager_input_streaming", "defer_loading", "input_examples"]);
    let parameters = tool.take("input_schema").unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    if !parameters.is_object() {
        return Err(tool.at("input_schema").wrong_type("an object", &parameters));
    }
    let strict = tool.flag("strict")?.map(|strict| if strict { Strict::Yes } else { Strict::No });
    let found = Tool { name: tool.need_text("name")?, description: tool.text("description")?, parameters, strict };
    tool.end()?;
    Ok(found)
}

type Choice = (Option<ToolChoice>, Option<ParallelCalls>);

/// Whether and what to call, and whether at once.
pub(super) fn tool_choice(body: &mut Object<'_>) -> Result<Choice, BadRequest> {
    let Some(choice) = body.take("tool_choice") else { return Ok((None, None)) };
    let at = body.at("tool_choice");
    let mut choice = Object::of(choice, at)?;
    let parallel = choice
        .flag("disable_parallel_tool_use")?
        .map(|disabled| if disabled { ParallelCalls::Forbidden } else { ParallelCalls::Allowed });
    let what = match choice.need_text("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Any,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Function(choice.need_text("name")?),
        _ => return Err(choice.at("type").invalid("Input should be 'auto', 'any', 'tool' or 'none'")),
    };
    choice.end()?;
    Ok((Some(what), parallel))
}

/// The texts that end an answer.
pub(super) fn stop_sequences(body: &mut Object<'_>) -> Result<Vec<String>, BadRequest> {
    let texts = body.list("stop_sequences")?.unwrap_or_default();
    let list = body.at("stop_sequences");
    let text = |(at, value)| match value {
        Value::String(text) => Ok(text),
        other => Err(Path::Element(&list, at).wrong_type("a string", &other)),
    };
    texts.into_iter().enumerate().map(text).collect()
}

/// The caller's own user.
pub(super) fn user(body: &mut Object<'_>) -> Result<Option<String>, BadRequest> {
    let Some(metadata) = body.take("metadata") else { return Ok(None) };
    let at = body.at("metadata");
    let mut metadata = Object::of(metadata, at)?;
    let user = metadata.text("user_id")?;
    metadata.end()?;
    Ok(user)
}

/// The form of the answer and the level of effort. `output_format` is the older place of the form.
pub(super) fn output_config(body: &mut Object<'_>) -> Result<(Option<Format>, Option<Effort>), BadRequest> {
    let older = body.take("output_format").map(|older| format(older, body.at("output_format"))).transpose()?;
    let Some(config) = body.take("output_config") else { return Ok((older, None)) };
    let at = body.at("output_config");
    let mut config = Object::of(config, at)?;
    let newer = config.take("format").map(|newer| format(newer, config.at("format"))).transpose()?;
    let effort = match config.text("effort")?.as_deref() {
        None => None,
        Some("low") => Some(Effort::Low),
        Some("medium") => Some(Effort::Medium),
        Some("high") => Some(Effort::High),
        Some("xhigh") => Some(Effort::XHigh),
        Some("max") => Some(Effort::Max),
        Some(_) => {
            let why = "Input should be 'low', 'medium', 'high', 'xhigh' or 'max'";
            return Err(config.at("effort").invalid(why));
        }
    };
    config.end()?;
    Ok((newer.or(older), effort))
}

fn format(value: Value, path: Path<'_>) -> Result<Format, BadRequest> {
    let mut format = Object::of(value, path)?;
    if format.need_text("type")? != "json_schema" {
        return Err(format.at("type").invalid("Input should be 'json_schema'"));
    }
    let schema = format.need("schema")?;
    if !schema.is_object() {
        return Err(format.at("schema").wrong_type("an object", &schema));
    }
    // Newer clients of other dialects may add one.
    let name = format.text("name")?.unwrap_or_else(|| SCHEMA_NAME.to_owned());
    format.end()?;
    Ok(Format::JsonSchema { name, schema, strict: None })
}

/// How much to think. A budget says more than a level of effort; a level without `thinking` stands for itself.
pub(super) fn reasoning(body: &mut Object<'_>, effort: Option<Effort>) -> Result<Option<Reasoning>, BadRequest> {
    let by_effort = effort.map_or(Amount::Dynamic, Amount::Effort);
    let Some(thinking) = body.take("thinking") else {
        return Ok(effort.map(|_| Reasoning { amount: by_effort, visible: Visible::No }));
    };
    let at = body.at("thinking");
    let mut thinking = Object::of(thinking, at)?;
    let visible = match thinking.text("display")?.as_deref() {
        None | Some("summarized") => Visible::Yes,
        Some("omitted") => Visible::No,
        Some(_) => return Err(thinking.at("display").invalid("Input should be 'summarized' or 'omitted'")),
    };
    let found = match thinking.need_text("type")?.as_str() {
        "enabled" => {
            let budget = thinking.count("budget_tokens")?.ok_or_else(|| thinking.at("budget_tokens").missing())?;
            Reasoning { amount: Amount::Budget(budget), visible }
        }
        "adaptive" | "between_tools" => Reasoning { amount: by_effort, visible },
        "disabled" => Reasoning { amount: Amount::Effort(Effort::None), visible: Visible::No },
        _ => {
            let why = "Input should be 'enabled', 'adaptive', 'between_tools' or 'disabled'";
            return Err(thinking.at("type").invalid(why));
        }
    };
    thinking.end()?;
    Ok(Some(found))
}
