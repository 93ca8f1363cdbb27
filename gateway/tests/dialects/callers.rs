//! The callers: their APIs and what they ask.

use bytes::Bytes;
use gateway::dialect::gemini::stream::Framing;
use gateway::dialect::gemini::url::Method;
use gateway::dialect::wanted::{Entry, Wanted};
use gateway::dialect::{Answer, Api};
use serde_json::{Map, Value};

use super::golden::fixture;

/// An id of the kind that the gateway gives.
pub(crate) const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

/// An API, and the form of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Chat,
    Responses,
    Messages,
    GeminiSse,
    GeminiArray,
}

impl Caller {
    pub(crate) const ALL: [Self; 5] = [Self::Chat, Self::Responses, Self::Messages, Self::GeminiSse, Self::GeminiArray];
    /// One for each API.
    pub(crate) const APIS: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::GeminiSse];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::GeminiSse => "gemini",
            Self::GeminiArray => "gemini_array",
        }
    }

    pub(crate) fn entry(self, answer: Answer) -> Entry {
        match self {
            Self::Chat => Entry::at(Api::Chat),
            Self::Responses => Entry::at(Api::Responses),
            Self::Messages => Entry::at(Api::Messages),
            Self::GeminiSse | Self::GeminiArray => Entry {
                path_model: "mine".into(),
                framing: if self == Self::GeminiArray { Framing::Array } else { Framing::Sse },
                ..Entry::at(Api::Gemini(Method::Generate(answer)))
            },
        }
    }

    /// What it asks, by name.
    pub(crate) fn requests(self) -> Map<String, Value> {
        let api = if self == Self::GeminiArray { "gemini" } else { self.name() };
        serde_json::from_str(&fixture(&format!("requests/{api}.json"))).unwrap()
    }

    /// Its request of this name. The one with tools asks for a stream.
    pub(crate) fn wanted(self, name: &str) -> Wanted {
        let answer = if name == "tools" { Answer::Stream } else { Answer::Whole };
        Wanted::read(self.entry(answer), Bytes::from(self.requests()[name].to_string())).unwrap()
    }
}
