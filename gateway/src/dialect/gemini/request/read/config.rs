//! `generationConfig`: sampling, length, format and thinking.

use serde_json::{Map, Value};

use super::super::super::fields::{Fields, cannot_cross, invalid, wrong_type};
use super::super::super::schema::from_openapi;
use super::is_empty;
use crate::canonical::request::{Amount, Effort, Format, Reasoning, Request, Visible};
use crate::error::BadRequest;

/// The name of a schema that has none here; OpenAI requires one.
const SCHEMA_NAME: &str = "response";

pub(super) fn read(mut config: Fields, request: &mut Request, rest: &mut Map<String, Value>) -> Result<(), BadRequest> {
    let sampling = &mut request.sampling;
    sampling.temperature = config.number("temperature")?;
    sampling.top_p = config.number("topP")?;
    sampling.top_k = config.number("topK")?;
    sampling.stop = config.texts("stopSequences")?;
    sampling.seed = config.number("seed")?;
    sampling.presence_penalty = config.number("presencePenalty")?;
    sampling.frequency_penalty = config.number("frequencyPenalty")?;
    sampling.choices = config.count("candidateCount")?.filter(|count| *count > 0);
    request.max_output = config.count("maxOutputTokens")?.filter(|count| *count > 0);
    request.format = read_format(&mut config)?;
    if let Some(thinking) = config.object("thinkingConfig")? {
        request.reasoning = Some(read_thinking(thinking)?);
    }
    config.take("mediaResolution");
    let modalities_at = config.at("responseModalities");
    let modalities = config.texts("responseModalities")?;
    if modalities
        .iter()
        .any(|modality| !matches!(modality.to_ascii_uppercase().as_str(), "TEXT" | "MODALITY_UNSPECIFIED"))
    {
        rest.insert(modalities_at, modalities.into());
    }
    rest.extend(config.rest().filter(|(_, value)| !is_empty(value)));
    Ok(())
}

fn read_format(config: &mut Fields) -> Result<Option<Format>, BadRequest> {
    let mime_at = config.at("responseMimeType");
    let mime = config.text("responseMimeType")?;
    // The underscore is how an older SDK writes it.
    let plain = config.take("responseJsonSchema").or_else(|| config.take("_responseJsonSchema"));
    let own_at = config.at("responseSchema");
    let own = config.take("responseSchema");
    if plain.is_some() && own.is_some() {
        return Err(invalid(own_at, "it cannot be given together with responseJsonSchema"));
    }
    let schema = plain.or_else(|| own.map(from_openapi));
    match (mime.as_deref(), schema) {
        (None | Some("" | "application/json"), Some(schema @ Value::Object(_))) => {
            Ok(Some(Format::JsonSchema { name: SCHEMA_NAME.to_owned(), schema, strict: None }))
        }
        (None | Some("" | "application/json"), Some(odd)) => Err(wrong_type(own_at, "an object", &odd)),
        (Some("application/json"), None) => Ok(Some(Format::JsonObject)),
        (None | Some("" | "text/plain"), None) => Ok(None),
        (Some("text/plain"), Some(_)) => Err(invalid(own_at, "a schema needs the MIME type application/json")),
        _ => Err(cannot_cross(mime_at)),
    }
}

fn read_thinking(mut thinking: Fields) -> Result<Reasoning, BadRequest> {
    let visible = if thinking.flag("includeThoughts")? { Visible::Yes } else { Visible::No };
    let level_at = thinking.at("thinkingLevel");
    let level = thinking.text("thinkingLevel")?.map(|level| level.to_ascii_uppercase());
    let budget_at = thinking.at("thinkingBudget");
    let budget = thinking.number("thinkingBudget")?;
    thinking.none_left()?;
    let level = match level.as_deref() {
        None | Some("" | "THINKING_LEVEL_UNSPECIFIED") => None,
        Some("MINIMAL") => Some(Effort::Minimal),
        Some("LOW") => Some(Effort::Low),
        Some("MEDIUM") => Some(Effort::Medium),
        Some("HIGH") => Some(Effort::High),
        Some("XHIGH") => Some(Effort::XHigh),
        Some(_) => return Err(invalid(level_at, "expected MINIMAL, LOW, MEDIUM, HIGH or XHIGH")),
    };
    let amount = match (level, budget) {
        (Some(_), Some(_)) => return Err(invalid(budget_at, "it cannot be given together with thinkingLevel")),
        (Some(level), None) => Amount::Effort(level),
        (None, None) => Amount::Dynamic,
        (None, Some(budget)) => match (budget.as_i64(), budget.as_u64()) {
            (Some(-1), _) => Amount::Dynamic,
            (_, Some(0)) => Amount::Effort(Effort::None),
            (_, Some(budget)) => Amount::Budget(budget),
            _ => return Err(invalid(budget_at, "expected -1, 0 or a number of tokens")),
        },
    };
    Ok(Reasoning { amount, visible })
}
