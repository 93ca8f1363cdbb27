//! Our own answers when a request is not served: the statuses, the texts and the machine-readable words. Pure.
//!
//! The only place that knows our own statuses. A [`Fault`] belongs to no dialect; each dialect puts it into its envelope.

mod failed;
mod readable;
mod refusal;

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

pub use failed::{After, Failed, UpstreamError};
pub use readable::{readable, unstructured};
pub use refusal::{BadRequest, Closed, KeyFault, KeyLimit, QuotaUse, Refusal};

/// Names the limit or rule of a refusal by Headgate itself. Never on an upstream's own error.
pub const REFUSAL: HeaderName = HeaderName::from_static("x-headgate-refusal");
/// Tells the vendors' SDKs not to retry, whatever the status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// An answer without a result, in no dialect yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// HTTP status.
    pub status: StatusCode,
    /// For people. Holds no secret.
    pub message: String,
    /// OpenAI's `type`.
    pub openai_type: Cow<'static, str>,
    /// OpenAI's `code`.
    pub openai_code: Option<Cow<'static, str>>,
    /// The request field at fault, OpenAI's `param`.
    pub param: Option<String>,
    /// Anthropic's `error.type`.
    pub anthropic_type: &'static str,
    /// Gemini's `error.status`.
    pub gemini_status: &'static str,
    /// The word of `x-headgate-refusal`; `None` for an upstream's own failure.
    pub refusal: Option<&'static str>,
    /// Whole seconds, at least one. On every 429 and 503.
    pub retry_after: Option<u64>,
    /// True when trying again as it is cannot help.
    pub final_answer: bool,
    /// The methods a route takes, on a 405.
    pub allow: Option<&'static str>,
}

impl Fault {
    /// The headers that belong to this answer, content type aside.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(word) = self.refusal {
            headers.insert(REFUSAL, HeaderValue::from_static(word));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        if self.final_answer {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        headers
    }
}

/// Whole seconds, rounded up, at least one: what `retry-after` may say.
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests;
