//! What an answer used, as disjoint token classes. Pure.
//!
//! Upstreams count in their own way and sometimes wrongly. A figure that cannot be true makes the whole usage unusable: the caller
//! then estimates, and the request is marked so.

mod anthropic;

use serde_json::{Map, Value};
use shared::money::Tokens;

pub use anthropic::{AnthropicUsage, anthropic};

/// More tokens than this in one figure are taken for an error of the upstream.
pub const ABSURD: u64 = 100_000_000;

/// Reads the `usage` object of OpenAI chat completions.
///
/// `prompt_tokens` includes cached, cache-writing and audio tokens, `completion_tokens` includes reasoning and audio; the result
/// holds each token once. Some upstreams count reasoning beside the completion and say so in `total_tokens`; that is honoured.
/// `None` when a needed figure is missing, not a whole number, negative, absurd, or smaller than what it should include.
pub fn openai(usage: &str) -> Option<Tokens> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    openai_value(&usage)
}

/// As [`openai`], of a parsed object.
pub fn openai_value(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let said = Inclusive {
        input: figure(usage.get("prompt_tokens")?)?,
        output: figure(usage.get("completion_tokens")?)?,
        input_details: details(usage.get("prompt_tokens_details"))?,
        output_details: details(usage.get("completion_tokens_details"))?,
        total: usage.get("total_tokens").and_then(figure),
    };
    said.tokens()
}

/// Reads the `usage` object of OpenAI responses, which says the same under other names.
pub fn openai_responses(usage: &str) -> Option<Tokens> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    let usage = usage.as_object()?;
    let said = Inclusive {
        input: figure(usage.get("input_tokens")?)?,
        output: figure(usage.get("output_tokens")?)?,
        input_details: details(usage.get("input_tokens_details"))?,
        output_details: details(usage.get("output_tokens_details"))?,
        total: None,
    };
    said.tokens()
}

/// The figures of OpenAI, each of which includes its details.
struct Inclusive<'a> {
    input: u64,
    output: u64,
    input_details: Option<&'a Map<String, Value>>,
    output_details: Option<&'a Map<String, Value>>,
    total: Option<u64>,
}

impl Inclusive<'_> {
    fn tokens(&self) -> Option<Tokens> {
        let cached_input = detail(self.input_details, "cached_tokens")?;
        let written = detail(self.input_details, "cache_write_tokens")?;
        let by_lifetime = self.input_details.and_then(|all| all.get("cache_write_tokens_details"));
        let cache_write_1h = detail(details(by_lifetime)?, "ttl_12h")?;
        let reasoning = detail(self.output_details, "reasoning_tokens")?;
        let output_audio = detail(self.output_details, "audio_tokens")?;
        let beside = reasoning > 0 && self.total == Some(self.input + self.output + reasoning);
        let among = if beside { 0 } else { reasoning };
        let audio = detail(self.input_details, "audio_tokens")?;
        let fresh = self.input.checked_sub(cached_input + written)?;
        if audio > self.input {
            return None;
        }
        // Audio may have come from the cache, too; then it is counted there.
        let input_audio = audio.min(fresh);
        Some(Tokens {
            input: fresh - input_audio,
            cached_input,
            cache_write: written.checked_sub(cache_write_1h)?,
            cache_write_1h,
            output: self.output.checked_sub(among + output_audio)?,
            reasoning,
            input_audio,
            output_audio,
        })
    }
}

/// Reads the `usageMetadata` of Gemini.
///
/// `promptTokenCount` includes cached tokens but not the results of Google's own tools; `candidatesTokenCount` excludes thoughts.
/// Servers that count thoughts among the candidates say so in `totalTokenCount`; that is honoured. Zeros are left out by Gemini, so
/// missing candidates are what the total leaves for them. `None` when a needed figure is missing, not a whole number, negative,
/// absurd, or smaller than what it should include.
pub fn gemini(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let get = |camel: &str, snake: &str| usage.get(camel).or_else(|| usage.get(snake));
    let prompt = figure(get("promptTokenCount", "prompt_token_count")?)?;
    let cached_input = or_zero(get("cachedContentTokenCount", "cached_content_token_count"))?;
    let tools = or_zero(get("toolUsePromptTokenCount", "tool_use_prompt_token_count"))?;
    let reasoning = or_zero(get("thoughtsTokenCount", "thoughts_token_count"))?;
    let total = get("totalTokenCount", "total_token_count").and_then(figure);
    let candidates = match get("candidatesTokenCount", "candidates_token_count") {
        Some(candidates) => figure(candidates)?,
        None => total?.checked_sub(prompt + tools + reasoning)?,
    };
    let audio_read = audio(get("promptTokensDetails", "prompt_tokens_details"))?;
    let audio_cached = audio(get("cacheTokensDetails", "cache_tokens_details"))?;
    let output_audio = audio(get("candidatesTokensDetails", "candidates_tokens_details"))?;
    let among = reasoning > 0 && total == Some(prompt + tools + candidates);
    let fresh = prompt.checked_sub(cached_input)?;
    let input_audio = audio_read.checked_sub(audio_cached)?.min(fresh);
    let output = if among { candidates.checked_sub(reasoning)? } else { candidates };
    Some(Tokens {
        input: fresh - input_audio + tools,
        cached_input,
        output: output.checked_sub(output_audio)?,
        reasoning,
        input_audio,
        output_audio,
        ..Tokens::default()
    })
}

/// The audio in a list of `{modality, tokenCount}`.
fn audio(details: Option<&Value>) -> Option<u64> {
    let list = match details {
        None | Some(Value::Null) => return Some(0),
        Some(list) => list.as_array()?,
    };
    let is_audio = |entry: &&Value| entry.get("modality").and_then(Value::as_str) == Some("AUDIO");
    let counts = list.iter().filter(is_audio).map(|entry| entry.get("tokenCount").or_else(|| entry.get("token_count")));
    counts.map(or_zero).sum::<Option<u64>>().filter(|sum| *sum <= ABSURD)
}

/// Reads the `usage` object of OpenAI embeddings: there is only input.
pub fn openai_embeddings(usage: &str) -> Option<Tokens> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    let input = figure(usage.as_object()?.get("prompt_tokens")?)?;
    Some(Tokens { input, ..Tokens::default() })
}

/// Reads the `usageMetadata` of Gemini's embeddings: there is only input.
pub fn gemini_embeddings(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let input = figure(usage.get("promptTokenCount").or_else(|| usage.get("prompt_token_count"))?)?;
    Some(Tokens { input, ..Tokens::default() })
}

/// A believable count of tokens.
fn figure(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count <= ABSURD)
}

/// A figure that is left out where it is zero.
fn or_zero(value: Option<&Value>) -> Option<u64> {
    match value {
        None | Some(Value::Null) => Some(0),
        Some(value) => figure(value),
    }
}

/// An optional details object; the outer `None` when something else stands there.
#[expect(clippy::option_option, reason = "absent and unbelievable are two things")]
fn details(value: Option<&Value>) -> Option<Option<&Map<String, Value>>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_object().map(Some),
    }
}

/// A figure of an optional details object: 0 when absent or null, `None` when it is there and not believable.
fn detail(details: Option<&Map<String, Value>>, name: &str) -> Option<u64> {
    or_zero(details.and_then(|all| all.get(name)))
}

#[cfg(test)]
mod tests;
