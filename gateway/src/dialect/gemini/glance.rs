//! Looks at an answer that passes as it is: what it brings and how it ends. Texts are counted, not kept.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use shared::money::Tokens;

use super::answer::{Ended, Feedback};
use super::error::read as read_error;
use super::response::{broke_off, is_block, not_the_format, said_nothing};
use crate::canonical::usage;
use crate::dialect::openai::json::range_in;
use crate::error::UpstreamError;

/// What an answer, or a chunk of one, was seen to be.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Glance<'a> {
    #[serde(default)]
    candidates: Option<Vec<Candidate>>,
    #[serde(default, alias = "prompt_feedback")]
    prompt_feedback: Option<Feedback>,
    #[serde(borrow, default, alias = "usage_metadata")]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "model_version")]
    model_version: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "continuation_token")]
    continuation_token: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default, alias = "finish_reason")]
    finish_reason: Option<String>,
    #[serde(default)]
    index: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    parts: Option<Vec<Seen>>,
}

/// What one part brings.
#[derive(Debug, Default)]
struct Seen {
    content: bool,
    chars: u64,
}

/// The characters of all texts in a value.
#[derive(Debug)]
struct Chars(u64);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    Text,
    #[serde(alias = "function_call", alias = "executableCode", alias = "executable_code")]
    #[serde(alias = "codeExecutionResult", alias = "code_execution_result")]
    FunctionCall,
    /// Content whose texts are encoded media.
    #[serde(alias = "inline_data", alias = "fileData", alias = "file_data")]
    InlineData,
    #[serde(other)]
    Other,
}

struct SeenVisitor;

impl<'de> Visitor<'de> for SeenVisitor {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        let mut seen = Seen::default();
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Text | Key::FunctionCall => {
                    let Chars(chars) = map.next_value()?;
                    seen.chars += chars;
                    seen.content |= chars > 0;
                }
                Key::InlineData => {
                    let Chars(chars) = map.next_value()?;
                    seen.content |= chars > 0;
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(seen)
    }
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SeenVisitor)
    }
}

struct CharsVisitor;

impl<'de> Visitor<'de> for CharsVisitor {
    type Value = Chars;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_unit<E>(self) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_str<E>(self, text: &str) -> Result<Chars, E> {
        Ok(Chars(text.chars().count() as u64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Chars, A::Error> {
        let mut sum = 0;
        while let Some(Chars(chars)) = seq.next_element()? {
            sum += chars;
        }
        Ok(Chars(sum))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Chars, A::Error> {
        let mut sum = 0;
        while let Some((IgnoredAny, Chars(chars))) = map.next_entry()? {
            sum += chars;
        }
        Ok(Chars(sum))
    }
}

impl<'de> Deserialize<'de> for Chars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CharsVisitor)
    }
}

impl<'a> Glance<'a> {
    /// With what a later request may go on from the answer.
    pub(super) fn continuation(&self) -> Option<String> {
        self.continuation_token.and_then(|token| serde_json::from_str(token.get()).ok())
    }

    /// Where the answer names the model that gave it.
    pub(super) fn model_at(&self, data: &[u8]) -> Option<Range<usize>> {
        self.model_version.map(|model| range_in(data, model))
    }

    /// Looks at a body or an event. An error in it, and what is no answer, is the upstream's failure.
    pub(super) fn at(json: &'a [u8]) -> Result<Self, Box<UpstreamError>> {
        // A derived struct would take a list for its fields in order; a list is how some of Google's front ends wrap an error.
        if json.trim_ascii_start().starts_with(b"[") {
            return Err(Box::new(read_error(None, json)));
        }
        let Ok(glance) = serde_json::from_slice::<Self>(json) else {
            return Err(not_the_format("the upstream sent what is not a Gemini answer"));
        };
        if glance.error.is_some() {
            return Err(Box::new(read_error(None, json)));
        }
        Ok(glance)
    }

    fn candidates(&self) -> &[Candidate] {
        self.candidates.as_deref().unwrap_or_default()
    }

    fn parts(&self) -> impl Iterator<Item = &Seen> {
        self.candidates().iter().filter_map(|candidate| candidate.content.as_ref()?.parts.as_ref()).flatten()
    }

    /// Whether it brings something of the answer.
    pub(super) fn has_content(&self) -> bool {
        self.parts().any(|part| part.content)
    }

    /// The characters it brings.
    pub(super) fn chars(&self) -> u64 {
        self.parts().map(|part| part.chars).sum()
    }

    /// What was used so far.
    pub(super) fn usage(&self) -> Option<Tokens> {
        usage::gemini(&serde_json::from_str(self.usage_metadata?.get()).ok()?)
    }

    /// Whether the prompt was refused.
    pub(super) fn is_blocked(&self) -> bool {
        let reason = self.prompt_feedback.as_ref().and_then(|feedback| feedback.block_reason.as_deref());
        reason.is_some_and(is_block)
    }

    /// Whether it has neither a candidate nor a reason for having none.
    pub(super) fn is_silent(&self) -> bool {
        self.candidates().is_empty() && !self.is_blocked()
    }

    /// The candidates in it, and whether each ends.
    pub(super) fn ends(&self) -> impl Iterator<Item = (u64, Option<Ended>)> {
        self.candidates()
            .iter()
            .map(|candidate| (candidate.index.unwrap_or(0), candidate.finish_reason.as_deref().and_then(Ended::of)))
    }

    /// Why it is a failure though it parses: it ends, and nothing was ever said. `said` tells of chunks before it.
    pub(super) fn fault(&self, said: bool) -> Option<Box<UpstreamError>> {
        if said || self.has_content() {
            return None;
        }
        self.ends().find_map(|(_, ended)| match ended? {
            Ended::Broken => Some(broke_off()),
            Ended::Done => Some(said_nothing()),
            Ended::Length | Ended::Filtered => None,
        })
    }
}
