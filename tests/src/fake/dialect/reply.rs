//! The answer of the fake upstream, before a dialect puts it into words.

use serde_json::{Value, json};

use super::{Ask, tokens_of};
use crate::fake::rule::{Finish, Rule, ToolCall, UsageMode};

/// The answer, before a dialect puts it into words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) chunks: Vec<String>,
    /// What was thought before; empty for nothing.
    pub(super) thinking: String,
    pub(super) calls: Vec<Call>,
    /// Fragments of several calls take turns in a stream.
    pub(super) interleaved: bool,
    /// The stop text that ended it.
    pub(super) stop_text: Option<String>,
    pub(super) finish: Finish,
    pub(super) tokens: Tokens,
    pub(super) usage: UsageMode,
    pub(super) include_usage: bool,
    pub(super) role_only_first: bool,
}

/// Token counts: `prompt` includes `cached` and `cache_write`, `completion` includes `reasoning`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) cache_write: u64,
    pub(super) completion: u64,
    pub(super) reasoning: u64,
}

/// A tool call of the answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// Unique; dialects put their prefix before it.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

impl Reply {
    pub(super) fn new(ask: &Ask, call: u64, rule: &Rule) -> Self {
        let chunks = chunks(rule, &ask.last_text);
        let calls: Vec<Call> = if ask.has_tools { calls(call, &rule.tool_calls) } else { Vec::new() };
        let called: usize = calls.iter().map(|call| call.name.len() + call.arguments.to_string().len()).sum();
        let spoken = if calls.is_empty() { chunks.iter().map(String::len).sum() } else { called };
        let set = rule.tokens;
        let tokens = Tokens {
            prompt: set.prompt.unwrap_or(ask.prompt_tokens),
            cached: set.cached.unwrap_or(0),
            cache_write: set.cache_write.unwrap_or(0),
            completion: set.completion.unwrap_or_else(|| tokens_of(spoken)),
            reasoning: set.reasoning.unwrap_or(0),
        };
        Self {
            id: format!("{call:024}"),
            created: 1_790_000_000 + call,
            model: ask.model.clone(),
            chunks: if calls.is_empty() { chunks } else { Vec::new() },
            thinking: rule.thinking.clone().unwrap_or_default(),
            calls,
            interleaved: rule.interleaved,
            stop_text: rule.stop_text.clone(),
            finish: rule.finish,
            tokens,
            usage: rule.usage,
            include_usage: ask.include_usage,
            role_only_first: rule.role_only_first,
        }
    }

    pub(super) fn text(&self) -> String {
        self.chunks.concat()
    }

    /// What was thought, in the pieces a stream sends.
    pub(super) fn thoughts(&self) -> Vec<String> {
        if self.thinking.is_empty() { Vec::new() } else { pieces(&self.thinking, 2) }
    }

    /// What proves the thoughts to the upstream that made them: valid base64, another for every answer.
    pub(super) fn signature(&self) -> String {
        format!("sign{}", self.id)
    }

    /// A usage report as the rule bends it; absent: leave it out.
    pub(super) fn bend_usage(&self, usage: Value) -> Option<Value> {
        match self.usage {
            UsageMode::Normal | UsageMode::Always => Some(usage),
            UsageMode::None => None,
            UsageMode::Null => Some(Value::Null),
            UsageMode::String => Some(json!("lots")),
            UsageMode::Negative => Some(negative(usage)),
        }
    }
}

impl Call {
    /// The arguments as JSON text, in fragments as a stream sends them: none inside a character, none empty.
    pub(super) fn fragments(&self) -> Vec<String> {
        pieces(&self.arguments.to_string(), 3)
    }
}

fn calls(call: u64, scripted: &[ToolCall]) -> Vec<Call> {
    let numbered = |(place, call_of): (usize, &ToolCall)| Call {
        id: format!("{call:020}{place:04}"),
        name: call_of.name.clone(),
        arguments: call_of.arguments.clone(),
    };
    scripted.iter().enumerate().map(numbered).collect()
}

/// The answer's text in content chunks: never inside a character, never an empty one.
fn chunks(rule: &Rule, last_text: &str) -> Vec<String> {
    if let Some(text) = &rule.chunk_text {
        return vec![text.clone(); rule.chunks.unwrap_or(1)];
    }
    let text = rule.text.clone().unwrap_or_else(|| format!("You said: {last_text}"));
    pieces(&text, rule.chunks.unwrap_or(4))
}

fn pieces(text: &str, wanted: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let wanted = wanted.clamp(1, characters.len().max(1));
    let size = characters.len().div_ceil(wanted).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

fn negative(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(-number.as_i64().unwrap_or(1)),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, negative(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_the_wanted_chunks_between_characters() {
        let rule = Rule::any().says("北é😀x", 3);
        let pieces = chunks(&rule, "");
        assert_eq!(pieces.concat(), "北é😀x");
        assert_eq!(pieces.len(), 2, "four characters in pieces of two");
        assert_eq!(chunks(&Rule { chunk_text: Some("a ".into()), chunks: Some(3), ..Rule::any() }, ""), ["a "; 3]);
    }

    #[test]
    fn the_fragments_of_arguments_are_the_arguments() {
        let call = &calls(7, &[ToolCall { name: "f".into(), arguments: json!({"city": "Malmö"}) }])[0];
        assert_eq!(call.fragments().len(), 3);
        assert_eq!(call.fragments().concat(), r#"{"city":"Malmö"}"#);
    }
}
