//! What the fake upstream was told to do wrong: rules per credential and model, matched in order.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One scripted answer. A call takes the first rule that matches it and is not used up; with no such rule the answer is healthy.
///
/// Everything unset is healthy: a rule with only `status: 429` answers the envelope of the called dialect. Chunk counts count
/// *content* chunks (text or tool arguments), so 0 means after the opening events (`message_start`, the role-only chunk) and
/// before any content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "a script's switches, each on its own")]
pub struct Rule {
    /// The credential it is for; `*` is any, a trailing `*` matches a prefix.
    pub credential: String,
    /// The model it is for, as the request names it; `*` as above.
    pub model: String,
    /// The path it is for; `*` as above. Any prefix before the dialect's own path is accepted, so one port can be several endpoints.
    pub path: String,
    /// How many calls take it before it is used up; absent: for ever.
    pub times: Option<u64>,
    /// Only each nth matching call takes it.
    pub every: Option<u64>,

    /// HTTP status; from 400 on the body is an error.
    pub status: Option<u16>,
    /// Headers added to (or replacing those of) the answer.
    pub headers: BTreeMap<String, String>,
    /// The body instead of the dialect's own: JSON, or a string sent as it is.
    pub body: Option<Value>,
    /// The content type instead of the right one.
    pub content_type: Option<String>,
    /// No body at all.
    pub empty_body: bool,
    /// The connection is aborted before the status line.
    pub reset_before_headers: bool,

    /// Wait before the status line, in ms.
    pub delay_headers_ms: u64,
    /// Wait before the first content chunk (unary: before the body), in ms.
    pub delay_first_ms: u64,
    /// Wait before each further content chunk, in ms.
    pub delay_between_ms: u64,

    /// The answer's text instead of `You said: …`.
    pub text: Option<String>,
    /// Into how many content chunks the text is split.
    pub chunks: Option<usize>,
    /// The text of every chunk; the answer is `chunks` times this.
    pub chunk_text: Option<String>,
    /// Answer with these tool calls, if the request has tools.
    pub tool_calls: Vec<ToolCall>,
    /// The fragments of several tool calls take turns in a stream.
    pub interleaved: bool,
    /// What the answer shows of its thinking, before its text or calls.
    pub thinking: Option<String>,
    /// The stop text that ended the answer; Anthropic says so.
    pub stop_text: Option<String>,
    /// Why the answer ends.
    pub finish: Finish,
    /// Token counts instead of the counted ones.
    pub tokens: TokenCounts,
    /// What becomes of the usage report.
    pub usage: UsageMode,
    /// OpenAI: the first chunk carries the role and no content (what the real service does).
    pub role_only_first: bool,

    /// The body ends cleanly after so many content chunks, without finish reason or terminator.
    pub cut_after_chunks: Option<usize>,
    /// The TCP connection is closed (FIN) after so many content chunks, inside the HTTP body.
    pub drop_after_chunks: Option<usize>,
    /// The TCP connection is aborted (RST) after so many content chunks.
    pub reset_after_chunks: Option<usize>,
    /// Nothing more comes after so many content chunks, until the client goes.
    pub stall_after_chunks: Option<usize>,
    /// An error event comes after so many content chunks; then the body ends.
    pub error_event_after_chunks: Option<usize>,
    /// The data of that event; absent: the dialect's own "overloaded".
    pub error_event: Option<Value>,
    /// The TCP connection is closed after so many bytes of the body (after compression).
    pub cut_after_bytes: Option<usize>,

    /// The body comes in pieces of so many bytes; 1 is byte by byte.
    pub split_at: Option<usize>,
    /// The line ending of event streams.
    pub eol: Eol,
    /// The body is gzip-compressed, asked or not.
    pub gzip: bool,
    /// A comment line with this text before every event.
    pub comment: Option<String>,
    /// The stream starts with a byte-order mark.
    pub bom: bool,
}

/// A tool call an answer asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// Its arguments, an object.
    pub arguments: Value,
}

/// Token counts by class; absent ones are counted from the text. `prompt` includes `cached`, `completion` includes `reasoning`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenCounts {
    /// All input.
    pub prompt: Option<u64>,
    /// All output.
    pub completion: Option<u64>,
    /// Input read from a cache.
    pub cached: Option<u64>,
    /// Input written to a cache.
    pub cache_write: Option<u64>,
    /// Output spent on thinking.
    pub reasoning: Option<u64>,
}

/// What becomes of the usage report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageMode {
    /// As the real service does.
    #[default]
    Normal,
    /// OpenAI streams: sent though nobody asked.
    Always,
    /// Left out.
    None,
    /// `usage: null`.
    Null,
    /// A text where an object belongs.
    String,
    /// Every number negative.
    Negative,
}

/// Why the answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It is done.
    #[default]
    Stop,
    /// The token limit was reached.
    Length,
    /// A filter stopped it.
    Filter,
}

/// Line endings an event stream may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Eol {
    /// `\n`
    #[default]
    Lf,
    /// `\r\n`
    Crlf,
    /// `\r`
    Cr,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            credential: "*".into(),
            model: "*".into(),
            path: "*".into(),
            times: None,
            every: None,
            status: None,
            headers: BTreeMap::new(),
            body: None,
            content_type: None,
            empty_body: false,
            reset_before_headers: false,
            delay_headers_ms: 0,
            delay_first_ms: 0,
            delay_between_ms: 0,
            text: None,
            chunks: None,
            chunk_text: None,
            tool_calls: Vec::new(),
            interleaved: false,
            thinking: None,
            stop_text: None,
            finish: Finish::Stop,
            tokens: TokenCounts::default(),
            usage: UsageMode::Normal,
            role_only_first: true,
            cut_after_chunks: None,
            drop_after_chunks: None,
            reset_after_chunks: None,
            stall_after_chunks: None,
            error_event_after_chunks: None,
            error_event: None,
            cut_after_bytes: None,
            split_at: None,
            eol: Eol::Lf,
            gzip: false,
            comment: None,
            bom: false,
        }
    }
}

/// Building a rule in a test: `Rule::on("cred-a", "*").fails(429).header("retry-after", "30").times(1)`; rarer fields by
/// struct update: `Rule { gzip: true, ..Rule::on("*", "*") }`.
impl Rule {
    /// For one credential and model; `*` is any.
    pub fn on(credential: &str, model: &str) -> Self {
        Self { credential: credential.into(), model: model.into(), ..Self::default() }
    }

    /// For every call.
    pub fn any() -> Self {
        Self::default()
    }

    /// At one of several endpoints that share the port: the one whose base URL ends in this prefix, e.g. `/daily`.
    #[must_use]
    pub fn at(mut self, prefix: &str) -> Self {
        self.path = format!("{prefix}/*");
        self
    }

    /// Used up after so many calls.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Answers this status; from 400 on with the dialect's error envelope.
    #[must_use]
    pub fn fails(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Answers this body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Value>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Answers with this text, in so many chunks.
    #[must_use]
    pub fn says(mut self, text: &str, chunks: usize) -> Self {
        self.text = Some(text.into());
        self.chunks = Some(chunks);
        self
    }

    /// Reports these token counts.
    #[must_use]
    pub fn tokens(mut self, prompt: u64, completion: u64) -> Self {
        self.tokens.prompt = Some(prompt);
        self.tokens.completion = Some(completion);
        self
    }

    /// Waits before the status line.
    #[must_use]
    pub fn delays_headers(mut self, wait: Duration) -> Self {
        self.delay_headers_ms = millis(wait);
        self
    }

    /// Waits before the first content chunk.
    #[must_use]
    pub fn delays_first(mut self, wait: Duration) -> Self {
        self.delay_first_ms = millis(wait);
        self
    }

    /// Waits before each further content chunk.
    #[must_use]
    pub fn delays_between(mut self, wait: Duration) -> Self {
        self.delay_between_ms = millis(wait);
        self
    }

    /// True when a call of this credential, model and path is meant.
    pub fn matches(&self, credential: &str, model: &str, path: &str) -> bool {
        let fits = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
            Some(prefix) => text.starts_with(prefix),
            None => text == pattern,
        };
        fits(&self.credential, credential) && fits(&self.model, model) && fits(&self.path, path)
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

/// The rules in order, and how often each was met and taken.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    rule: Rule,
    met: u64,
    taken: u64,
}

impl Rules {
    pub(crate) fn replace(&mut self, rules: Vec<Rule>) {
        self.entries.clear();
        self.add(rules);
    }

    pub(crate) fn add(&mut self, rules: Vec<Rule>) {
        self.entries.extend(rules.into_iter().map(|rule| Entry { rule, met: 0, taken: 0 }));
    }

    /// The rule this call takes, and its place in the list.
    pub(crate) fn take(&mut self, credential: &str, model: &str, path: &str) -> Option<(usize, Rule)> {
        for (place, entry) in self.entries.iter_mut().enumerate() {
            if !entry.rule.matches(credential, model, path)
                || entry.rule.times.is_some_and(|times| entry.taken >= times)
            {
                continue;
            }
            entry.met += 1;
            if entry.rule.every.is_some_and(|nth| nth > 1 && entry.met % nth != 0) {
                continue;
            }
            entry.taken += 1;
            return Some((place, entry.rule.clone()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_tried_in_order_and_are_used_up() {
        let mut rules = Rules::default();
        rules.add(vec![Rule::on("a", "m").fails(429).times(2), Rule::on("a", "*").fails(500).times(1)]);
        let mut status = |credential, model| rules.take(credential, model, "/").and_then(|(_, rule)| rule.status);
        assert_eq!(status("b", "m"), None);
        assert_eq!([status("a", "m"), status("a", "m")], [Some(429), Some(429)]);
        assert_eq!([status("a", "m"), status("a", "m")], [Some(500), None]);
    }

    #[test]
    fn a_rule_for_each_third_call_lets_two_through() {
        let mut rules = Rules::default();
        rules.add(vec![Rule { every: Some(3), ..Rule::any().fails(503) }]);
        let hit: Vec<bool> = (0..6).map(|_| rules.take("x", "m", "/").is_some()).collect();
        assert_eq!(hit, [false, false, true, false, false, true]);
    }

    #[test]
    fn a_misspelled_field_of_a_script_is_refused() {
        assert!(serde_json::from_str::<Rule>(r#"{"credential":"a","statsu":429}"#).is_err());
    }
}
