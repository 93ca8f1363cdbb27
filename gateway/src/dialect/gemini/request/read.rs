//! A Gemini body in the common tongue.

use serde_json::{Map, Value};

use super::super::fields::{Fields, missing};
use crate::canonical::request::Request;
use crate::dialect::Answer;
use crate::error::BadRequest;

mod config;
pub(super) mod contents;
mod tools;

/// Fields that are left out when a Gemini request goes to another dialect, and why that does no harm.
pub const DROPPED: &[(&str, &str)] = &[
    ("model", "the model is named in the URL"),
    ("safetySettings", "thresholds of Google's own filters; other upstreams filter by their own rules"),
    ("labels", "tags for the bill of the caller's own Google project"),
    ("serviceTier", "a tier of Google's own service"),
    ("generationConfig.mediaResolution", "a hint how closely to look at media"),
    ("generationConfig.responseModalities", "left out when it asks for text only, which is what is answered"),
    (
        "tools.functionDeclarations.response",
        "describes to the model what a function answers; a hint without counterpart",
    ),
    ("tools.functionDeclarations.responseJsonSchema", "as response"),
    ("contents.parts.partMetadata", "the caller's own notes on a part"),
    ("contents.parts.mediaResolution", "as generationConfig.mediaResolution"),
    ("contents.parts.thought", "thoughts and their signatures mean something only to the upstream that had them"),
];

/// Reads a `GenerateContentRequest`. Whether a stream is asked for is said by the URL. A wrong or unknown field is an error that names
/// it; top-level fields and options that other dialects lack are in `rest`, under their paths.
pub fn read(body: &[u8], answer: Answer) -> Result<Request, BadRequest> {
    conversation(Fields::of_body(body)?, answer)
}

/// Reads a `GenerateContentRequest` that may lie within another body.
pub(in super::super) fn conversation(mut fields: Fields, answer: Answer) -> Result<Request, BadRequest> {
    for (name, _) in DROPPED.iter().filter(|(name, _)| !name.contains('.')) {
        fields.take(name);
    }
    if !fields.has("contents") {
        return Err(missing(fields.at("contents")));
    }
    let mut request = Request { answer, ..Request::default() };
    let mut rest = Map::new();
    let system_at = fields.at("systemInstruction");
    if let Some(system) = fields.take("systemInstruction") {
        request.system = contents::system(system, system_at)?;
    }
    request.turns = contents::turns(fields.objects("contents")?)?;
    tools::read_tools(fields.objects("tools")?, &mut request, &mut rest)?;
    if let Some(choice) = fields.object("toolConfig")? {
        tools::read_choice(choice, &mut request, &mut rest)?;
    }
    if let Some(config) = fields.object("generationConfig")? {
        config::read(config, &mut request, &mut rest)?;
    }
    rest.extend(fields.rest().filter(|(_, value)| !is_empty(value)));
    request.rest = rest;
    Ok(request)
}

/// Proto-JSON's default: says the same as an absent field.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
