//! A request in the common tongue. Every dialect is read into it and written from it; what one cannot say is an error that names
//! the field, never a silent loss.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialect::Answer;

/// A conversation and what is wanted next.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// What is said to the model before and beside the conversation, in order. Mid-conversation instructions are turns.
    pub system: Vec<String>,
    /// The conversation, oldest first. Neighbours may have the same role.
    pub turns: Vec<Turn>,
    /// The functions it may call.
    pub tools: Vec<Tool>,
    /// Whether and what it must call; `None`: the dialect's default.
    pub tool_choice: Option<ToolChoice>,
    /// Whether several calls may come in one answer; `None`: the dialect's default.
    pub parallel_calls: Option<ParallelCalls>,
    /// The most tokens of an answer.
    pub max_output: Option<u64>,
    /// How the next token is drawn, and when to stop.
    pub sampling: Sampling,
    /// What the answer must look like; `None`: text.
    pub format: Option<Format>,
    /// How much to think; `None`: the model's default.
    pub reasoning: Option<Reasoning>,
    /// The caller's own user, opaque.
    pub user: Option<String>,
    /// Whole or in events.
    pub answer: Answer,
    /// Top-level fields that have no place here, as the caller sent them. They survive only into the same dialect; into another one
    /// they are an error unless the dialect's reader knows them to be harmless hints and left them out.
    pub rest: Map<String, Value>,
}

/// One turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// Who speaks. Tool results are said by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions in the middle of the conversation.
    System,
    /// The caller, and its tools.
    User,
    /// The model.
    Assistant,
}

/// A piece of a turn or of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image.
    Image(Media),
    /// Audio or a document (PDF and others).
    File(Media),
    /// What the model thought.
    Thinking(Thinking),
    /// The model calls a function.
    ToolCall(ToolCall),
    /// What a function answered.
    ToolResult(ToolResult),
    /// The model declined to answer, in words.
    Refusal(String),
}

/// Bytes of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Where they are.
    pub source: Source,
    /// A name for people, if there is one.
    pub name: Option<String>,
    /// How closely to look (`low`, `high`, `auto`), for images, if said.
    pub detail: Option<String>,
}

/// Where media are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Here, in standard base64 (never the URL-safe alphabet).
    Inline {
        /// `image/png` and the like.
        mime: String,
        /// Base64.
        data: String,
    },
    /// Elsewhere.
    Url(String),
}

/// What the model thought. Signatures and redacted thoughts mean something only to the upstream that made them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thinking {
    /// In words; empty when redacted.
    #[serde(default)]
    pub text: String,
    /// What proves it to its upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The whole of a redacted thought, opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
}

/// A function call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Pairs it with its result. Never empty: readers of dialects without ids mint one, the same for the same history.
    pub id: String,
    /// The function.
    pub name: String,
    /// A JSON object.
    pub arguments: Map<String, Value>,
    /// A thought signature that rides on the call (Gemini).
    pub signature: Option<String>,
}

/// A function's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Of which call.
    pub id: String,
    /// The function's name: looked up from the call with this id by the reader where the dialect does not say it.
    pub name: String,
    /// Text, images or files.
    pub content: Vec<Part>,
    /// Whether the function failed.
    pub outcome: ToolOutcome,
}

/// Whether a function failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolOutcome {
    /// It worked.
    #[default]
    Ok,
    /// It failed; the content says how.
    Failed,
}

/// A function the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments; an empty object schema if there are none.
    pub parameters: Value,
    /// Whether the schema is binding (OpenAI's strict mode), if said.
    pub strict: Option<Strict>,
}

/// Whether a schema is binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    /// Best effort.
    No,
    /// Binding.
    Yes,
}

/// Whether and what to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    Auto,
    /// No call.
    None,
    /// Some call.
    Any,
    /// This function.
    Function(String),
}

/// Whether several calls may come in one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParallelCalls {
    /// One at most.
    Forbidden,
    /// Any number.
    Allowed,
}

/// How the next token is drawn. Numbers keep their text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// Temperature.
    pub temperature: Option<serde_json::Number>,
    /// Nucleus.
    pub top_p: Option<serde_json::Number>,
    /// Candidates.
    pub top_k: Option<serde_json::Number>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// For repeatable draws.
    pub seed: Option<serde_json::Number>,
    /// Penalty.
    pub presence_penalty: Option<serde_json::Number>,
    /// Penalty.
    pub frequency_penalty: Option<serde_json::Number>,
    /// How many answers; `None` is one.
    pub choices: Option<u64>,
}

/// What the answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// A name, required by OpenAI.
        name: String,
        /// JSON Schema.
        schema: Value,
        /// Whether it is binding, if said.
        strict: Option<Strict>,
    },
}

/// How much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reasoning {
    /// How much.
    pub amount: Amount,
    /// Whether the caller wants to see thoughts or their summary.
    pub visible: Visible,
}

/// Whether thoughts are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visible {
    /// Not asked for.
    No,
    /// Asked for.
    Yes,
}

/// How much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Not said (adaptive, dynamic).
    Dynamic,
    /// A level.
    Effort(Effort),
    /// Tokens.
    Budget(u64),
}

/// Levels of effort, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// Not at all.
    None,
    /// 512 tokens or so.
    Minimal,
    /// 1,024.
    Low,
    /// 8,192.
    Medium,
    /// 24,576.
    High,
    /// 32,768.
    XHigh,
    /// As much as the model can.
    Max,
}

impl Effort {
    /// The budget that stands for a level in dialects that count tokens; `None` for the model's maximum.
    pub fn budget(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Minimal => Some(512),
            Self::Low => Some(1_024),
            Self::Medium => Some(8_192),
            Self::High => Some(24_576),
            Self::XHigh => Some(32_768),
            Self::Max => None,
        }
    }

    /// The level nearest to a budget.
    pub fn of_budget(budget: u64) -> Self {
        match budget {
            0 => Self::None,
            1..=767 => Self::Minimal,
            768..=4_096 => Self::Low,
            4_097..=16_384 => Self::Medium,
            16_385..=28_672 => Self::High,
            _ => Self::XHigh,
        }
    }
}
