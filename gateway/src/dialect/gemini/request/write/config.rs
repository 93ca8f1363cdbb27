//! `generationConfig`, from the common tongue.

use serde_json::{Map, Number, Value, json};

use super::super::super::fields::invalid;
use super::super::super::model::{self, Off, Thinks};
use super::super::super::schema::to_openapi;
use crate::canonical::request::{Amount, Effort, Format, Reasoning, Request, Visible};
use crate::error::BadRequest;

/// Gemini takes so many.
const STOPS_MAX: usize = 5;
/// Tokens left for the answer where the thoughts alone would fill it.
const ANSWER_MIN: u64 = 1_024;

pub(super) fn write(request: &Request, upstream_model: &str) -> Result<Map<String, Value>, BadRequest> {
    let sampling = &request.sampling;
    let mut config = Map::new();
    let numbers: [(&str, &Option<Number>); 6] = [
        ("temperature", &sampling.temperature),
        ("topP", &sampling.top_p),
        ("topK", &sampling.top_k),
        ("seed", &sampling.seed),
        ("presencePenalty", &sampling.presence_penalty),
        ("frequencyPenalty", &sampling.frequency_penalty),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            config.insert(name.into(), number.clone().into());
        }
    }
    if sampling.stop.len() > STOPS_MAX {
        return Err(invalid("stop".to_owned(), "the upstream of this model takes at most 5"));
    }
    if !sampling.stop.is_empty() {
        config.insert("stopSequences".into(), sampling.stop.clone().into());
    }
    if let Some(choices) = sampling.choices.filter(|choices| *choices != 1) {
        config.insert("candidateCount".into(), choices.into());
    }
    if let Some(format) = &request.format {
        config.insert("responseMimeType".into(), "application/json".into());
        if let Format::JsonSchema { schema, .. } = format {
            if model::is_claude(upstream_model) {
                config.insert("responseSchema".into(), to_openapi(schema));
            } else {
                config.insert("responseJsonSchema".into(), schema.clone());
            }
        }
    }
    let mut max_output = request.max_output;
    if let Some(thinking) = request.reasoning.and_then(|reasoning| written_thinking(reasoning, upstream_model)) {
        // Claude refuses a budget that is not below the whole.
        if let Some(budget) = thinking.get("thinkingBudget").and_then(Value::as_u64)
            && model::is_claude(upstream_model)
            && budget > 0
        {
            max_output = max_output.map(|max| max.max(budget + ANSWER_MIN));
        }
        config.insert("thinkingConfig".into(), thinking);
    }
    if let Some(max_output) = max_output {
        config.insert("maxOutputTokens".into(), max_output.into());
    }
    Ok(config)
}

/// How much to think, in the way the model is told; `None` where there is nothing to say.
fn written_thinking(reasoning: Reasoning, upstream_model: &str) -> Option<Value> {
    let mut thinking = Map::new();
    match model::thinks(upstream_model) {
        // Asked to think, the upstream itself says that it cannot.
        Thinks::Never => match reasoning.amount {
            Amount::Effort(Effort::None) | Amount::Dynamic => return None,
            Amount::Effort(effort) => _ = thinking.insert("thinkingBudget".into(), json!(effort.budget())),
            Amount::Budget(budget) => _ = thinking.insert("thinkingBudget".into(), budget.into()),
        },
        Thinks::Levels(highest) => {
            let effort = match reasoning.amount {
                Amount::Dynamic => None,
                Amount::Effort(effort) => Some(effort),
                Amount::Budget(budget) => Some(Effort::of_budget(budget)),
            };
            if let Some(effort) = effort {
                thinking.insert("thinkingLevel".into(), level(effort, highest).into());
            }
        }
        Thinks::Budget(range, off) => {
            let within = |budget: u64| budget.clamp(*range.start(), *range.end());
            let budget = match reasoning.amount {
                Amount::Dynamic => json!(-1),
                Amount::Effort(Effort::None) | Amount::Budget(0) if off == Off::Possible => json!(0),
                // Without a known maximum, the model itself decides.
                Amount::Effort(Effort::Max) if *range.end() == u64::MAX => json!(-1),
                Amount::Effort(effort) => json!(effort.budget().map_or(*range.end(), within)),
                Amount::Budget(budget) => json!(within(budget)),
            };
            thinking.insert("thinkingBudget".into(), budget);
        }
    }
    if reasoning.visible == Visible::Yes {
        thinking.insert("includeThoughts".into(), true.into());
    }
    (!thinking.is_empty()).then(|| thinking.into())
}

/// A model that is told levels cannot be told not to think; the lowest level comes nearest.
fn level(effort: Effort, highest: &'static str) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High => "HIGH",
        Effort::XHigh | Effort::Max => highest,
    }
}
