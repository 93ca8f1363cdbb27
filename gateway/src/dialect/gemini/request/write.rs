//! The common tongue as a Gemini body.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::super::fields::{cannot_cross, unsupported};
use super::super::model;
use super::super::names::outgoing;
use super::super::schema::{asks_nothing, to_openapi};
use crate::canonical::request::{ParallelCalls, Request, Tool, ToolChoice};
use crate::dialect::Answer;
use crate::error::BadRequest;

mod config;
mod contents;

pub(in crate::dialect) use contents::reads_itself;

/// What is left out when a request of another dialect goes to Gemini, and why that does no harm.
pub const DROPPED: &[(&str, &str)] = &[
    ("user", "names the caller's own user; Gemini has no place for it"),
    ("tools strict", "Gemini has no such switch for a function; the schema itself goes along"),
    ("response_format name and strict", "a schema of Gemini's has no name and always binds"),
    ("image detail", "a hint how closely to look"),
    ("reasoning text", "thoughts mean something only to the upstream that had them"),
    ("schema bounds", "only for models that take nothing but OpenAPI schemas: keywords that this subset lacks"),
];

/// Writes a `GenerateContentRequest`. The model is named in the URL; here its name tells how it must be asked. What Gemini cannot say
/// is an error that names the field.
pub fn write(request: &Request, upstream_model: &str) -> Result<Bytes, BadRequest> {
    Ok(Value::Object(body(request, upstream_model)?).to_string().into())
}

/// The fields of a `GenerateContentRequest`.
pub(in crate::dialect) fn body(request: &Request, upstream_model: &str) -> Result<Map<String, Value>, BadRequest> {
    if let Some(name) = request.rest.keys().next() {
        return Err(cannot_cross(name.clone()));
    }
    if request.answer == Answer::Stream && request.sampling.choices.is_some_and(|choices| choices > 1) {
        return Err(unsupported("n".to_owned(), "several answers cannot come in one stream"));
    }
    if request.parallel_calls == Some(ParallelCalls::Forbidden) && !request.tools.is_empty() {
        return Err(unsupported("parallel_tool_calls".to_owned(), "it may call several functions at once"));
    }
    let mut body = Map::new();
    let written = contents::write(request, upstream_model)?;
    if let Some(system) = written.system {
        body.insert("systemInstruction".into(), system);
    }
    body.insert("contents".into(), written.contents);
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request.tools.iter().map(|tool| declaration(tool, upstream_model)).collect();
        body.insert("tools".into(), json!([{"functionDeclarations": declarations}]));
    }
    if let Some(choice) = &request.tool_choice {
        // Without functions, `auto` and `none` say nothing, and Gemini refuses a choice of nothing.
        if !request.tools.is_empty() {
            body.insert("toolConfig".into(), json!({"functionCallingConfig": calling(choice)}));
        } else if matches!(choice, ToolChoice::Any | ToolChoice::Function(_)) {
            return Err(unsupported("tool_choice".to_owned(), "there is no function to call"));
        }
    }
    let config = config::write(request, upstream_model)?;
    if !config.is_empty() {
        body.insert("generationConfig".into(), config.into());
    }
    Ok(body)
}

fn declaration(tool: &Tool, upstream_model: &str) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), outgoing(&tool.name).into());
    if let Some(description) = &tool.description {
        out.insert("description".into(), description.clone().into());
    }
    if model::is_claude(upstream_model) {
        // Claude behind Google reads only this one, and cannot do without it.
        let schema = if asks_nothing(&tool.parameters) {
            json!({"type": "OBJECT", "properties": {}})
        } else {
            to_openapi(&tool.parameters)
        };
        out.insert("parameters".into(), schema);
    } else if !asks_nothing(&tool.parameters) {
        out.insert("parametersJsonSchema".into(), tool.parameters.clone());
    }
    out.into()
}

fn calling(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Any => json!({"mode": "ANY"}),
        ToolChoice::Function(name) => json!({"mode": "ANY", "allowedFunctionNames": [outgoing(name)]}),
    }
}
