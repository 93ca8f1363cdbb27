//! Writes everything of a request but the conversation.

use serde_json::{Map, Number, Value, json};

use super::unsupported;
use crate::canonical::request::{
    self as canonical, Amount, Effort, Format, ParallelCalls, Part, Reasoning, Request, Role, ToolChoice, Visible,
};
use crate::dialect::anthropic::names::Names;
use crate::dialect::anthropic::request::target::{Sampling, Target, ThinkingForm, Thoughts};
use crate::dialect::anthropic::schema;
use crate::error::BadRequest;

/// The most tokens of an answer where the caller does not say: this dialect wants a number.
const DEFAULT_MAX_TOKENS: u64 = 4_096;
/// The smallest thinking budget.
const MIN_BUDGET: u64 = 1_024;
/// The budget that stands for as much as the model can, and for a model that shall choose but cannot.
const MAX_BUDGET: u64 = 32_768;
const DYNAMIC_BUDGET: u64 = 8_192;

/// How the model thinks, and the room that leaves it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thinking {
    /// The `thinking` field.
    pub(super) config: Option<Value>,
    /// The level of effort.
    pub(super) effort: Option<&'static str>,
    /// The `max_tokens` field.
    pub(super) max_tokens: u64,
    /// Whether sampling is restricted: it is while the model thinks by budget.
    pub(super) by_budget: bool,
}

/// What becomes of the wish to think. A caller's own limit of the answer is never raised: money may be held by it.
pub(super) fn thinking(request: &Request, target: &Target) -> Thinking {
    let cap = |tokens: u64| target.max_output.map_or(tokens, |most| tokens.min(most));
    let max_tokens = request.max_output.unwrap_or_else(|| cap(DEFAULT_MAX_TOKENS));
    let off = |config| Thinking { config, effort: None, max_tokens, by_budget: false };
    let Some(reasoning) = request.reasoning else { return off(None) };
    let disabled = Some(json!({"type": "disabled"}));
    if matches!(reasoning.amount, Amount::Effort(Effort::None) | Amount::Budget(0)) || is_forced(request) {
        return off(disabled);
    }
    if target.thinking == ThinkingForm::Adaptive {
        return Thinking { effort: effort(reasoning.amount), ..off(Some(adaptive(reasoning))) };
    }
    if in_unsigned_loop(request, target) {
        return off(disabled);
    }
    let wanted = budget(reasoning.amount);
    let max_tokens = request.max_output.unwrap_or_else(|| cap(wanted + DEFAULT_MAX_TOKENS));
    let budget = if wanted < max_tokens { wanted } else { (max_tokens / 2).max(MIN_BUDGET) };
    if budget >= max_tokens {
        return off(disabled);
    }
    let config = json!({"type": "enabled", "budget_tokens": budget});
    Thinking { config: Some(config), effort: None, max_tokens, by_budget: true }
}

fn is_forced(request: &Request) -> bool {
    matches!(request.tool_choice, Some(ToolChoice::Any | ToolChoice::Function(_)))
}

fn adaptive(reasoning: Reasoning) -> Value {
    match reasoning.visible {
        Visible::Yes => json!({"type": "adaptive", "display": "summarized"}),
        Visible::No => json!({"type": "adaptive"}),
    }
}

fn effort(amount: Amount) -> Option<&'static str> {
    let effort = match amount {
        Amount::Dynamic => return None,
        Amount::Effort(effort) => effort,
        Amount::Budget(budget) => Effort::of_budget(budget),
    };
    Some(match effort {
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max => "max",
    })
}

fn budget(amount: Amount) -> u64 {
    let budget = match amount {
        Amount::Dynamic => DYNAMIC_BUDGET,
        Amount::Effort(effort) => effort.budget().unwrap_or(MAX_BUDGET),
        Amount::Budget(budget) => budget,
    };
    budget.max(MIN_BUDGET)
}

/// True when the model is asked to go on after its own calls, and the turn with these calls has no thought it would accept.
fn in_unsigned_loop(request: &Request, target: &Target) -> bool {
    let last = request.turns.iter().rposition(|turn| turn.role == Role::Assistant);
    let Some(last) = last.map(|at| &request.turns[at]) else { return false };
    let calls = last.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let signed = |part: &Part| match part {
        Part::Thinking(thought) => thought.signature.is_some() || thought.redacted.is_some(),
        _ => false,
    };
    calls && !(target.thoughts == Thoughts::Own && last.parts.iter().any(signed))
}

/// Temperature, nucleus, candidates and stop texts.
pub(super) fn sampling(
    sampling: &canonical::Sampling,
    thinking: &Thinking,
    target: &Target,
    body: &mut Map<String, Value>,
) -> Result<(), BadRequest> {
    if sampling.choices.is_some_and(|choices| choices > 1) {
        return Err(unsupported("n", "the upstream that serves this model gives one choice only"));
    }
    let zero = |number: &Option<Number>| number.as_ref().and_then(Number::as_f64).is_none_or(|number| number == 0.0);
    for (field, neutral) in [
        ("seed", sampling.seed.is_none()),
        ("presence_penalty", zero(&sampling.presence_penalty)),
        ("frequency_penalty", zero(&sampling.frequency_penalty)),
    ] {
        if !neutral {
            return Err(unsupported(field, "not supported by the upstream that serves this model"));
        }
    }
    let temperature = sampling.temperature.as_ref().and_then(temperature);
    let top_p = sampling.top_p.clone().filter(|top_p| top_p.as_f64() != Some(1.0));
    let drawn = [("temperature", temperature), ("top_p", top_p), ("top_k", sampling.top_k.clone())];
    for (field, number) in drawn {
        let Some(number) = number else { continue };
        if target.sampling == Sampling::Refused {
            return Err(unsupported(field, "not supported by this model"));
        }
        if thinking.by_budget {
            return Err(unsupported(field, "not supported by this model while it thinks"));
        }
        body.insert(field.into(), number.into());
    }
    if sampling.stop.iter().any(|text| text.trim().is_empty()) {
        return Err(unsupported("stop", "a stop text of nothing but space is not supported by this model"));
    }
    if !sampling.stop.is_empty() {
        body.insert("stop_sequences".into(), sampling.stop.clone().into());
    }
    Ok(())
}

/// Between 0 and 1; 1 is how answers are drawn anyway.
fn temperature(number: &Number) -> Option<Number> {
    match number.as_f64() {
        Some(value) if value >= 1.0 => None,
        Some(value) if value < 0.0 => Some(0.into()),
        _ => Some(number.clone()),
    }
}

/// The functions, and whether and what to call. A conversation with calls needs the functions it called even if none is offered.
pub(super) fn tools(request: &Request, names: &Names, body: &mut Map<String, Value>) -> Result<(), BadRequest> {
    let mut tools: Vec<Value> = request.tools.iter().map(|tool| declared(tool, names)).collect();
    let mut choice = choice(request, names);
    if tools.is_empty() {
        if is_forced(request) {
            return Err(unsupported("tool_choice", "a call is demanded, but no function is offered"));
        }
        tools = called(request, names);
        choice = Some(json!({"type": "none"}));
    }
    if tools.is_empty() {
        return Ok(());
    }
    body.insert("tools".into(), tools.into());
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    Ok(())
}

fn declared(tool: &canonical::Tool, names: &Names) -> Value {
    let mut out = json!({"name": names.sent(&tool.name)});
    if let Some(description) = &tool.description {
        out["description"] = description.as_str().into();
    }
    out["input_schema"] = schema::of_arguments(&tool.parameters);
    out
}

/// The functions called in the conversation, without their arguments.
fn called(request: &Request, names: &Names) -> Vec<Value> {
    let mut seen: Vec<&str> = Vec::new();
    for part in request.turns.iter().flat_map(|turn| &turn.parts) {
        if let Part::ToolCall(call) = part {
            let name = names.sent(&call.name);
            if !seen.contains(&name) {
                seen.push(name);
            }
        }
    }
    seen.into_iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})).collect()
}

fn choice(request: &Request, names: &Names) -> Option<Value> {
    let single = request.parallel_calls == Some(ParallelCalls::Forbidden);
    let mut choice = match &request.tool_choice {
        None if single => json!({"type": "auto"}),
        None => return None,
        Some(ToolChoice::None) => return Some(json!({"type": "none"})),
        Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::Any) => json!({"type": "any"}),
        Some(ToolChoice::Function(name)) => json!({"type": "tool", "name": names.sent(name)}),
    };
    if single {
        choice["disable_parallel_tool_use"] = true.into();
    }
    Some(choice)
}

/// The form of the answer.
pub(super) fn format(format: Option<&Format>) -> Result<Option<Value>, BadRequest> {
    match format {
        None => Ok(None),
        Some(Format::JsonSchema { schema, .. }) => {
            Ok(Some(json!({"type": "json_schema", "schema": schema::of_answer(schema)})))
        }
        Some(Format::JsonObject) => {
            let why = "the upstream that serves this model gives JSON by a schema only: send a json_schema";
            Err(unsupported("response_format", why))
        }
    }
}
