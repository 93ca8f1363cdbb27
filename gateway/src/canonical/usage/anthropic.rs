//! The usage of Anthropic messages: one report in a body, several in a stream.

use serde_json::{Map, Value};
use shared::money::Tokens;

use super::{ABSURD, figure};

/// Reads the `usage` object of an Anthropic message.
///
/// `input_tokens` excludes what came from or went to the cache, `output_tokens` includes thinking; the result holds each token once.
/// `None` when a figure is there that is not a whole number, negative or absurd, when input or output is missing, or when there is
/// more thinking than output.
pub fn anthropic(usage: &str) -> Option<Tokens> {
    let mut running = AnthropicUsage::default();
    running.report(usage);
    running.tokens()
}

/// What the reports of one stream come to. Their figures are cumulative, and each may leave some out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnthropicUsage {
    input: Option<u64>,
    cache_read: Option<u64>,
    /// Of whatever lifetime.
    cache_write: Option<u64>,
    /// Those of it that last an hour.
    cache_write_1h: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
    /// Counted beside the figures above: compaction and the like.
    beside: Tokens,
    unusable: bool,
}

impl AnthropicUsage {
    /// Takes the next `usage` object. One that cannot be true makes the whole unusable until a good one comes.
    pub fn report(&mut self, usage: &str) {
        let said = serde_json::from_str::<Value>(usage).ok().as_ref().and_then(Value::as_object).and_then(read);
        self.unusable = said.is_none();
        let Some(said) = said else { return };
        // Cumulative: the largest is the last. Some upstreams say zero where they mean nothing.
        self.input = self.input.max(said.input);
        self.cache_read = self.cache_read.max(said.cache_read);
        self.cache_write = self.cache_write.max(said.cache_write);
        self.cache_write_1h = self.cache_write_1h.max(said.cache_write_1h);
        self.output = self.output.max(said.output);
        self.thinking = self.thinking.max(said.thinking);
        if said.beside != Tokens::default() {
            self.beside = said.beside;
        }
    }

    /// All of it, each token once.
    pub fn tokens(&self) -> Option<Tokens> {
        if self.unusable {
            return None;
        }
        let reasoning = self.thinking.unwrap_or(0);
        let long = self.cache_write_1h.unwrap_or(0);
        Some(Tokens {
            input: self.input? + self.beside.input,
            cached_input: self.cache_read.unwrap_or(0) + self.beside.cached_input,
            cache_write: self.cache_write.unwrap_or(0).checked_sub(long)? + self.beside.cache_write,
            cache_write_1h: long + self.beside.cache_write_1h,
            output: self.output?.checked_sub(reasoning)? + self.beside.output,
            reasoning,
            ..Tokens::default()
        })
    }
}

/// One report. `None` when it holds a figure that cannot be true.
fn read(usage: &Map<String, Value>) -> Option<AnthropicUsage> {
    let (cache_write, cache_write_1h) = written(usage)?;
    Some(AnthropicUsage {
        input: optional(usage, "input_tokens")?,
        cache_read: optional(usage, "cache_read_input_tokens")?,
        cache_write,
        cache_write_1h,
        output: optional(usage, "output_tokens")?,
        thinking: nested(usage, "output_tokens_details", "thinking_tokens")?,
        beside: beside(usage.get("iterations"))?,
        unusable: false,
    })
}

/// What was written to caches, and how much of it for an hour. A sum that is smaller than its parts is believed less than they are.
fn written(usage: &Map<String, Value>) -> Option<(Option<u64>, Option<u64>)> {
    let sum = optional(usage, "cache_creation_input_tokens")?;
    let short = nested(usage, "cache_creation", "ephemeral_5m_input_tokens")?;
    let long = nested(usage, "cache_creation", "ephemeral_1h_input_tokens")?;
    let by_lifetime = match (short, long) {
        (None, None) => None,
        (short, long) => Some(short.unwrap_or(0) + long.unwrap_or(0)),
    };
    Some((sum.max(by_lifetime), long))
}

/// The iterations the totals leave out: everything but the model's own steps.
fn beside(iterations: Option<&Value>) -> Option<Tokens> {
    let mut sum = Tokens::default();
    let Some(Value::Array(iterations)) = iterations else { return Some(sum) };
    for iteration in iterations {
        let iteration = iteration.as_object()?;
        if !matches!(iteration.get("type").and_then(Value::as_str), Some("compaction" | "advisor_message")) {
            continue;
        }
        sum.input += optional(iteration, "input_tokens")?.unwrap_or(0);
        sum.cached_input += optional(iteration, "cache_read_input_tokens")?.unwrap_or(0);
        let (cache_write, long) = written(iteration)?;
        let long = long.unwrap_or(0);
        sum.cache_write += cache_write.unwrap_or(0).checked_sub(long)?;
        sum.cache_write_1h += long;
        sum.output += optional(iteration, "output_tokens")?.unwrap_or(0);
    }
    let believable = sum.by_name().iter().all(|(_, sum)| *sum <= ABSURD);
    believable.then_some(sum)
}

/// A figure inside an object that may be absent.
#[expect(clippy::option_option, reason = "absent and unbelievable are two things")]
fn nested(object: &Map<String, Value>, outer: &str, inner: &str) -> Option<Option<u64>> {
    match object.get(outer) {
        None | Some(Value::Null) => Some(None),
        Some(details) => optional(details.as_object()?, inner),
    }
}

/// A figure that may be absent; `None` when it is there and not believable.
#[expect(clippy::option_option, reason = "absent and unbelievable are two things")]
fn optional(object: &Map<String, Value>, name: &str) -> Option<Option<u64>> {
    match object.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => figure(value).map(Some),
    }
}

#[cfg(test)]
mod tests;
