//! What clients and upstreams speak: the one place that tells dialects apart. Pure.

pub mod anthropic;
pub mod code_assist;
pub mod gemini;
pub mod openai;
pub mod openai_responses;
pub mod translate;

use bytes::Bytes;
use shared::config;

use crate::error::{Fault, UpstreamError};

/// A dialect of clients, or of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI chat completions.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
    /// Gemini.
    Gemini,
    /// Gemini in the envelope of Cloud Code Assist; only of providers.
    CodeAssist,
}

/// What kind of answer a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Answer {
    /// One body.
    #[default]
    Whole,
    /// A stream of events.
    Stream,
}

/// What a client asked for in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UsageChunk {
    /// A last chunk with the usage.
    Wanted,
    /// None: the one we ask for ourselves is kept from the client.
    Hidden,
}

impl Dialect {
    /// A provider's, as the configuration names it.
    pub fn of(provider: config::Dialect) -> Self {
        match provider {
            config::Dialect::Openai => Self::OpenAi,
            config::Dialect::Anthropic => Self::Anthropic,
            config::Dialect::Gemini => Self::Gemini,
            config::Dialect::CodeAssist => Self::CodeAssist,
        }
    }

    /// True when Headgate can serve it.
    pub fn is_served(self) -> bool {
        match self {
            Self::OpenAi => true,
            Self::Anthropic | Self::Gemini | Self::CodeAssist => false,
        }
    }

    /// The word used in configuration, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::CodeAssist => "code_assist",
        }
    }

    /// A fault as a response body. A dialect that is not served gets OpenAI's envelope.
    pub fn envelope(self, fault: &Fault) -> Bytes {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini | Self::CodeAssist => openai::error::envelope(fault),
        }
    }

    /// A fault as the last event of a stream that had begun.
    pub fn error_event(self, fault: &Fault) -> Bytes {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini | Self::CodeAssist => openai::error::event(fault),
        }
    }

    /// An error answer of an upstream of this dialect. Any body will do: an envelope, a list of one, text, a page, nothing.
    pub fn read_error(self, status: u16, body: &[u8]) -> UpstreamError {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini | Self::CodeAssist => openai::error::read(Some(status), body),
        }
    }
}
