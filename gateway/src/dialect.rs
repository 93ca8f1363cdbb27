//! What clients and upstreams speak: the one place that tells dialects apart. Pure.

pub mod anthropic;
pub mod bound;
pub mod code_assist;
pub mod conversation;
pub mod gemini;
pub mod images;
pub mod mend;
pub mod openai;
pub mod openai_responses;
pub mod thoughts;
pub mod translate;
pub mod wanted;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName};
use shared::config;
use shared::failure::Transport;

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

    /// The word used in configuration, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::CodeAssist => "code_assist",
        }
    }

    /// An error answer of an upstream of this dialect. Any body will do: an envelope, a list of one, text, a page, nothing.
    pub fn read_error(self, status: u16, body: &[u8]) -> UpstreamError {
        match self {
            Self::OpenAi => openai::error::read(Some(status), body),
            Self::Anthropic => anthropic::error::read(Some(status), body),
            Self::Gemini => gemini::error::read(Some(status), body),
            Self::CodeAssist => code_assist::error::read(Some(status), body),
        }
    }

    /// A fault as a response body.
    pub fn envelope(self, fault: &Fault) -> Bytes {
        match self {
            Self::OpenAi => openai::error::envelope(fault),
            Self::Anthropic => anthropic::error::envelope(fault),
            Self::Gemini | Self::CodeAssist => gemini::error::envelope(fault),
        }
    }

    /// A failure of the transport, as an error of this dialect's family.
    pub fn broken(self, transport: Transport, reason: &str) -> UpstreamError {
        match self {
            Self::OpenAi => openai::error::broken(transport, reason),
            Self::Anthropic => anthropic::error::broken(transport, reason),
            Self::Gemini | Self::CodeAssist => gemini::error::broken(transport, reason),
        }
    }

    /// The header that carries a credential: its name, and what stands before the secret.
    pub fn credential(self, secret: &str) -> (HeaderName, &'static str) {
        match self {
            // Tokens of Anthropic's OAuth are bearer tokens, its keys are not.
            Self::Anthropic if secret.starts_with("sk-ant-oat") => (AUTHORIZATION, "Bearer "),
            Self::Anthropic => (HeaderName::from_static("x-api-key"), ""),
            Self::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            Self::OpenAi | Self::CodeAssist => (AUTHORIZATION, "Bearer "),
        }
    }

    /// A provider's base URL with the version that its paths begin with, where the configuration leaves that out.
    pub fn versioned(self, base_url: &str) -> String {
        let base = base_url.trim_end_matches('/');
        let version = match self {
            Self::OpenAi | Self::CodeAssist => return base.to_owned(),
            Self::Anthropic => "/v1",
            Self::Gemini => "/v1beta",
        };
        let has_one = ["/v1", "/v1beta", "/v1alpha", "/v1beta1"].iter().any(|known| base.ends_with(known));
        if has_one { base.to_owned() } else { format!("{base}{version}") }
    }
}

/// What callers speak to: an API of a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// OpenAI embeddings.
    Embeddings,
    /// Anthropic messages.
    Messages,
    /// Anthropic's count of a message's tokens.
    CountTokens,
    /// A method of Gemini.
    Gemini(gemini::url::Method),
}

impl Api {
    /// Whose it is.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Chat | Self::Responses | Self::Embeddings => Dialect::OpenAi,
            Self::Messages | Self::CountTokens => Dialect::Anthropic,
            Self::Gemini(_) => Dialect::Gemini,
        }
    }

    /// The operation's name by the GenAI conventions.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Messages => "chat",
            Self::Gemini(gemini::url::Method::Generate(_)) => "generate_content",
            Self::CountTokens | Self::Gemini(gemini::url::Method::CountTokens) => "count_tokens",
            Self::Embeddings | Self::Gemini(_) => "embeddings",
        }
    }

    /// Whether it counts tokens and generates none.
    pub fn counts(self) -> bool {
        matches!(self, Self::CountTokens | Self::Gemini(gemini::url::Method::CountTokens))
    }

    /// What may stand between two events of a stream while there is nothing to say, and every official SDK of the dialect passes over.
    pub fn keep_alive(self) -> Bytes {
        match self {
            Self::Chat | Self::Responses | Self::Embeddings => openai::error::keep_alive(),
            Self::Messages | Self::CountTokens => anthropic::error::keep_alive(),
            // Blank lines may stand between the elements of an array, too.
            Self::Gemini(_) => gemini::error::keep_alive(),
        }
    }

    /// A fault as the only event of a stream that brought nothing else.
    pub fn only_error(self, fault: &Fault, framing: gemini::stream::Framing) -> Bytes {
        match (self, framing) {
            (Self::Gemini(_), gemini::stream::Framing::Array) => gemini::error::only_element(fault),
            _ => self.error_event(fault, framing),
        }
    }

    /// A fault as the last event of a stream that had begun.
    pub fn error_event(self, fault: &Fault, framing: gemini::stream::Framing) -> Bytes {
        match self {
            Self::Chat | Self::Embeddings => openai::error::event(fault),
            Self::Responses => openai_responses::error::event(fault),
            Self::Messages | Self::CountTokens => anthropic::error::event(fault),
            Self::Gemini(_) if framing == gemini::stream::Framing::Array => gemini::error::element(fault),
            Self::Gemini(_) => gemini::error::event(fault),
        }
    }
}
