//! A `GenerateContentResponse`, whole or one chunk of a stream, taken apart for another dialect.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::mint::own_or_minted;
use crate::canonical::request::{Media, Part, Source, Thinking, ToolCall};
use crate::canonical::response::Finish;

/// An answer, or a chunk of one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) candidates: Vec<Candidate>,
    #[serde(default, alias = "prompt_feedback")]
    pub(super) prompt_feedback: Option<Feedback>,
    #[serde(default, alias = "usage_metadata")]
    pub(super) usage_metadata: Option<Value>,
    #[serde(default, alias = "response_id")]
    pub(super) response_id: Option<String>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// What became of the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback {
    #[serde(default, alias = "block_reason")]
    pub(super) block_reason: Option<String>,
}

/// One candidate.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate {
    #[serde(default)]
    pub(super) content: Option<Content>,
    #[serde(default, alias = "finish_reason")]
    pub(super) finish_reason: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) index: u64,
}

/// What a candidate says.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Content {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) parts: Vec<AnswerPart>,
}

/// A part of it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    thought: bool,
    #[serde(default, alias = "thought_signature")]
    thought_signature: Option<String>,
    #[serde(default, alias = "function_call")]
    function_call: Option<Call>,
    #[serde(default, alias = "inline_data")]
    inline_data: Option<Blob>,
    #[serde(default, alias = "file_data")]
    file_data: Option<FileData>,
}

#[derive(Debug, Default, Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    args: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    #[serde(default, alias = "mime_type", deserialize_with = "or_default")]
    mime_type: String,
    #[serde(default, deserialize_with = "or_default")]
    data: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileData {
    #[serde(default, alias = "mime_type", deserialize_with = "or_default")]
    mime_type: String,
    #[serde(default, alias = "file_uri", deserialize_with = "or_default")]
    file_uri: String,
}

/// Null is the same as absent.
fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl AnswerPart {
    /// The part in the common tongue; nothing for an empty text and for kinds that only Google's own tools make. `seed` tells this
    /// answer from others, `nth` this call from others of the answer: ids of calls that have none are made from them.
    pub(super) fn into_part(self, seed: &[u8], nth: usize) -> Option<Part> {
        if let Some(call) = self.function_call {
            let said = Value::Object(call.args.clone()).to_string();
            let parts: [&[u8]; 4] = [seed, &nth.to_le_bytes(), call.name.as_bytes(), said.as_bytes()];
            let id = own_or_minted(call.id.as_deref(), &parts);
            let signature = self.thought_signature;
            return Some(Part::ToolCall(ToolCall { id, name: call.name, arguments: call.args, signature }));
        }
        if let Some(text) = self.text {
            return match (self.thought, text.is_empty()) {
                (_, true) => None,
                (true, false) => Some(Part::Thinking(Thinking { text, ..Thinking::default() })),
                (false, false) => Some(Part::Text(text)),
            };
        }
        let (mime, source) = if let Some(blob) = self.inline_data {
            let data = super::base64::standard(&blob.data).unwrap_or(blob.data);
            (blob.mime_type.clone(), Source::Inline { mime: blob.mime_type, data })
        } else {
            let file = self.file_data?;
            (file.mime_type, Source::Url(file.file_uri))
        };
        let media = Media { source, name: None, detail: None };
        Some(if mime.starts_with("image/") { Part::Image(media) } else { Part::File(media) })
    }
}

/// Why a candidate ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was done, or for a reason that says nothing. Without content it is a failure.
    Done,
    /// The most tokens were reached.
    Length,
    /// A filter cut it, or its prompt.
    Filtered,
    /// The model broke: a call that is none, for example.
    Broken,
}

impl Ended {
    /// Reads a finish reason; one that says nothing yet is none.
    pub(super) fn of(reason: &str) -> Option<Self> {
        Some(match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => return None,
            "MAX_TOKENS" | "CONTINUATION" => Self::Length,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "MODEL_ARMOR" => {
                Self::Filtered
            }
            reason if reason.starts_with("IMAGE_") || reason == "NO_IMAGE" => Self::Filtered,
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "MISSING_THOUGHT_SIGNATURE"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => Self::Broken,
            _ => Self::Done,
        })
    }

    /// In the common tongue. Gemini says `STOP` for calls as well.
    pub(super) fn finish(self, calls: usize) -> Finish {
        match self {
            Self::Length => Finish::Length,
            Self::Filtered => Finish::Filtered,
            Self::Done | Self::Broken if calls > 0 => Finish::ToolCalls,
            Self::Done | Self::Broken => Finish::Stop,
        }
    }
}

/// The `finishReason` for a caller.
pub(super) fn reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopText(_) | Finish::ToolCalls => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filtered | Finish::Refused => "SAFETY",
    }
}
