//! Failures of upstreams, as the caller is told them.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use shared::failure::{Class, Family, Owner, Signals, Transport};

use super::{Fault, whole_seconds};

/// What an upstream said went wrong, in no dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamError {
    /// What the failure table reads.
    pub signals: Signals,
    /// For people: at most 2 KB, without control characters and secrets.
    pub reason: String,
    /// OpenAI's `type` as sent, if it was.
    pub kind: Option<String>,
    /// OpenAI's `code` as sent, if it was.
    pub code: Option<String>,
    /// OpenAI's `param` as sent, if it was.
    pub param: Option<String>,
    /// The error body, where it was JSON: told times are read from it.
    pub json: Option<Value>,
}

impl UpstreamError {
    /// An answer that is no answer, without words of the upstream.
    pub fn of_transport(family: Family, transport: Transport, reason: &str) -> Self {
        Self {
            signals: Signals::of_transport(family, transport),
            reason: reason.to_owned(),
            kind: None,
            code: None,
            param: None,
            json: None,
        }
    }
}

/// How things stand after the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Every rung is closed by rate limits or billing; the soonest opens after this wait.
    AllLimited(Duration),
    /// Every credential that was tried is refused or out of money.
    AllDead,
    /// Anything else.
    Mixed,
}

/// The failure of the most preferred rung that was really tried.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// What it meant.
    pub class: Class,
    /// Whose credential the rung had.
    pub owner: Owner,
    /// What the upstream said.
    pub error: &'a UpstreamError,
    /// How things stand now.
    pub after: After,
}

impl Failed<'_> {
    /// What the caller is told: the request's own faults with the upstream's status, an own key's refusal as 401 or 403, 429 when
    /// waiting is what helps, else 502.
    pub fn fault(&self) -> Fault {
        match (self.class, self.owner) {
            (Class::ClientError | Class::ContextLength | Class::Refused, _) => self.clients_fault(400),
            (Class::ModelMissing, _) => self.clients_fault(404),
            (Class::Auth, Owner::Byok) => {
                let status = if self.error.signals.status == Some(403) { 403 } else { 401 };
                Fault { final_answer: true, ..self.as_said(status) }
            }
            _ => match self.after {
                After::AllLimited(wait) => self.limited(wait),
                After::AllDead => Fault { message: self.exhausted(), ..self.broken() },
                After::Mixed => self.broken(),
            },
        }
    }

    /// The status the upstream gave, if it blames the request; `default` where none did.
    fn clients_fault(&self, default: u16) -> Fault {
        let status = self.error.signals.status.filter(|status| (400..=499).contains(status));
        // 401 and 402 would tell the caller something about its own key, 429 that waiting helps.
        self.as_said(status.filter(|status| !matches!(status, 401 | 402 | 429)).unwrap_or(default))
    }

    /// The upstream's own words with a status of 4xx.
    fn as_said(&self, status: u16) -> Fault {
        let (openai_type, anthropic_type, gemini_status) = match status {
            401 => ("invalid_request_error", "authentication_error", "UNAUTHENTICATED"),
            403 => ("permission_error", "permission_error", "PERMISSION_DENIED"),
            404 | 410 => ("invalid_request_error", "not_found_error", "NOT_FOUND"),
            413 => ("invalid_request_error", "request_too_large", "INVALID_ARGUMENT"),
            _ => ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
        };
        let said = |text: &Option<String>| text.clone().map(Cow::Owned);
        Fault {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST),
            message: self.error.reason.clone(),
            openai_type: said(&self.error.kind).unwrap_or(Cow::Borrowed(openai_type)),
            openai_code: said(&self.error.code).or_else(|| self.default_code().map(Cow::Borrowed)),
            param: self.error.param.clone(),
            anthropic_type,
            gemini_status,
            refusal: None,
            retry_after: None,
            final_answer: false,
            allow: None,
        }
    }

    fn default_code(&self) -> Option<&'static str> {
        match self.class {
            Class::ContextLength => Some("context_length_exceeded"),
            Class::ModelMissing => Some("model_not_found"),
            Class::Auth => Some("invalid_api_key"),
            _ => None,
        }
    }

    fn limited(&self, wait: Duration) -> Fault {
        Fault {
            status: StatusCode::TOO_MANY_REQUESTS,
            message: self.status_and_reason(),
            openai_type: Cow::Borrowed("rate_limit_exceeded"),
            openai_code: Some(Cow::Borrowed("rate_limit_exceeded")),
            param: None,
            anthropic_type: "rate_limit_error",
            gemini_status: "RESOURCE_EXHAUSTED",
            refusal: None,
            retry_after: Some(whole_seconds(wait)),
            final_answer: false,
            allow: None,
        }
    }

    fn broken(&self) -> Fault {
        Fault {
            status: StatusCode::BAD_GATEWAY,
            message: self.status_and_reason(),
            openai_type: Cow::Borrowed("api_error"),
            openai_code: Some(Cow::Borrowed("upstream_error")),
            param: None,
            anthropic_type: "api_error",
            gemini_status: "UNAVAILABLE",
            refusal: None,
            retry_after: None,
            final_answer: matches!(self.class, Class::Auth | Class::Billing),
            allow: None,
        }
    }

    fn exhausted(&self) -> String {
        format!(
            "No upstream credential for this model is accepted (upstream_credentials_exhausted). {}",
            self.status_and_reason()
        )
    }

    fn status_and_reason(&self) -> String {
        match self.error.signals.status {
            Some(status) => format!("The upstream failed with status {status}: {}", self.error.reason),
            None => format!("The upstream failed: {}", self.error.reason),
        }
    }
}
