//! An answer in the common tongue, whole or in events.

use shared::money::Tokens;

use super::request::Part;

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The upstream's id of it, if it gave one.
    pub id: Option<String>,
    /// The choices, at least one.
    pub choices: Vec<Choice>,
    /// What it used, if reported believably.
    pub usage: Option<Tokens>,
}

/// One choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What was said: text, thinking, calls, images, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub finish: Finish,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// A stop text came; which one, if said.
    StopText(Option<String>),
    /// It waits for the results of its calls.
    ToolCalls,
    /// The most tokens were reached.
    Length,
    /// A filter cut it.
    Filtered,
    /// The model or its maker declined.
    Refused,
}

/// One step of a streamed answer. A well-formed stream is `Start`, any number of deltas, `Finish`; `Usage` may come at any time and
/// the last one counts. Blocks need no explicit end: a delta of another kind or index ends the one before.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The upstream answers; its id, if it gave one.
    Start(Option<String>),
    /// More text.
    Text(String),
    /// More thought.
    Thinking(String),
    /// What proves the thought before.
    ThinkingSignature(String),
    /// A redacted thought, whole.
    RedactedThinking(String),
    /// More refusal.
    Refusal(String),
    /// A call begins. Fragments of several calls may interleave.
    CallStart {
        /// Counts the calls of this answer from 0.
        index: usize,
        /// Never empty.
        id: String,
        /// The function.
        name: String,
        /// A thought signature that rides on the call.
        signature: Option<String>,
    },
    /// More of a call's arguments, JSON text.
    CallArguments {
        /// Of which call.
        index: usize,
        /// A fragment.
        fragment: String,
    },
    /// What was used so far.
    Usage(Tokens),
    /// Why it ended. Events after it are only `Usage`.
    Finish(Finish),
}
