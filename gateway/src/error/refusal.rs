//! Refusals: what Headgate itself says no to, and how. One row for each.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use super::{Fault, whole_seconds};

/// What is wrong with the caller's credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// None was sent.
    Missing,
    /// It is not known, or no longer.
    Unknown,
}

/// The limit of a client key that is used up for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLimit {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests at the same time.
    Concurrency,
}

/// Why every rung is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// All of them by rate limits or billing.
    Limits,
    /// At least one for another reason.
    Failures,
}

/// A used-up quota, as told to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaUse {
    /// What is counted: `requests`, `tokens` or `cost`, or the quota's own name.
    pub quota: String,
    /// The period or window, `day` or `24h` for example; `None`: for ever.
    pub period: Option<String>,
    /// Used so far, with its unit if it is money.
    pub used: String,
    /// The most that may be used.
    pub limit: String,
    /// When there is room again; `None`: never.
    pub resets: Option<Timestamp>,
}

/// What is wrong with a request body or its parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// The field at fault, absent when it is the whole body.
    pub field: Option<Cow<'static, str>>,
    /// A stable word for the fault, OpenAI's `code`.
    pub code: Option<&'static str>,
    /// For people; never more than a few words of the body.
    pub message: String,
}

/// A no of our own. Costs the caller nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No, unknown or revoked client key.
    Key(KeyFault),
    /// The key may not use this model.
    ModelNotAllowed {
        /// As the caller wrote it.
        model: String,
    },
    /// No such model here.
    UnknownModel {
        /// As the caller wrote it.
        model: String,
    },
    /// What the request goes on from is kept by no connection that may serve it, as far as is known.
    NotKept {
        /// The caller's field that names it.
        field: &'static str,
    },
    /// No money left, or the hold does not fit.
    Balance,
    /// The model has no price and the account has a money limit.
    NoPrice {
        /// As the caller wrote it.
        model: String,
    },
    /// The key's spend limit is used up.
    SpendLimit,
    /// A quota is used up.
    Quota(QuotaUse),
    /// The key is over a limit and waiting did not help.
    OverRate {
        /// Which limit.
        limit: KeyLimit,
        /// Until a slot may be free.
        wait: Duration,
    },
    /// Every connection is full and waiting did not help.
    NoCapacity {
        /// Until a slot may be free.
        wait: Duration,
    },
    /// Every rung is locked or cooling.
    AllClosed {
        /// By what.
        by: Closed,
        /// Until the soonest recovery.
        wait: Duration,
    },
    /// The body is larger than allowed.
    BodyTooLarge {
        /// Bytes allowed.
        limit: u64,
    },
    /// The shared state does not answer, and the policy is to deny.
    StateUnavailable,
    /// This replica is about to stop.
    Draining,
    /// The body or a parameter is wrong.
    BadRequest(BadRequest),
    /// The body did not arrive in time.
    BodyTimeout,
    /// No such route.
    NoRoute,
    /// The route does not take this method.
    Method {
        /// The methods it takes, as `allow` wants them.
        allow: &'static str,
    },
    /// A fault of Headgate's own code.
    Internal,
}

/// One row of the table of refusals: status, word, OpenAI type and code, Anthropic type, Gemini status.
struct Row(u16, &'static str, &'static str, Option<&'static str>, &'static str, &'static str);

const INVALID: &str = "invalid_request_error";

fn unpaid(word: &'static str) -> Row {
    Row(402, word, "insufficient_quota", Some("insufficient_quota"), "billing_error", "RESOURCE_EXHAUSTED")
}

fn forbidden(word: &'static str, openai_type: &'static str, code: &'static str) -> Row {
    Row(403, word, openai_type, Some(code), "permission_error", "PERMISSION_DENIED")
}

fn limited(word: &'static str) -> Row {
    Row(429, word, "rate_limit_exceeded", Some("rate_limit_exceeded"), "rate_limit_error", "RESOURCE_EXHAUSTED")
}

fn ours(status: u16, word: &'static str, code: &'static str, gemini_status: &'static str) -> Row {
    Row(status, word, "api_error", Some(code), "api_error", gemini_status)
}

/// The wait told where the end of an outage is not known.
const UNKNOWN_WAIT: Duration = Duration::from_secs(1);

impl Refusal {
    /// The word of `x-headgate-refusal`.
    pub fn word(&self) -> &'static str {
        self.row().1
    }

    /// The refusal as an answer.
    pub fn fault(&self) -> Fault {
        let Row(status, word, openai_type, code, anthropic_type, gemini_status) = self.row();
        let (param, code) = match self {
            Self::BadRequest(bad) => (bad.field.as_deref().map(str::to_owned), bad.code),
            Self::UnknownModel { .. } | Self::ModelNotAllowed { .. } => (Some("model".to_owned()), code),
            Self::NotKept { field } => (Some((*field).to_owned()), code),
            _ => (None, code),
        };
        Fault {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            message: self.message(),
            openai_type: Cow::Borrowed(openai_type),
            openai_code: code.map(Cow::Borrowed),
            param,
            anthropic_type,
            gemini_status,
            refusal: Some(word),
            retry_after: self.wait().map(whole_seconds),
            final_answer: matches!(
                self,
                Self::Key(_)
                    | Self::Balance
                    | Self::NoPrice { .. }
                    | Self::SpendLimit
                    | Self::Quota(_)
                    | Self::ModelNotAllowed { .. }
                    | Self::UnknownModel { .. }
                    | Self::NotKept { .. }
            ),
            allow: if let Self::Method { allow } = self { Some(allow) } else { None },
        }
    }

    /// Until trying again may help; only for refusals that pass.
    fn wait(&self) -> Option<Duration> {
        match self {
            Self::OverRate { wait, .. } | Self::NoCapacity { wait } | Self::AllClosed { wait, .. } => Some(*wait),
            Self::StateUnavailable | Self::Draining => Some(UNKNOWN_WAIT),
            _ => None,
        }
    }

    /// The refusal's row of the table.
    fn row(&self) -> Row {
        match self {
            Self::Key(_) => {
                Row(401, "key", INVALID, Some("invalid_api_key"), "authentication_error", "UNAUTHENTICATED")
            }
            Self::Balance => unpaid("balance"),
            Self::NoPrice { .. } => forbidden("price", INVALID, "model_without_price"),
            Self::SpendLimit => unpaid("spend_limit"),
            Self::Quota(_) => forbidden("quota", "quota_exceeded_error", "quota_exceeded"),
            Self::ModelNotAllowed { .. } => forbidden("model", INVALID, "model_not_allowed"),
            Self::UnknownModel { .. } => {
                Row(404, "model_not_found", INVALID, Some("model_not_found"), "not_found_error", "NOT_FOUND")
            }
            Self::NotKept { field } => {
                // OpenAI's own code, which its clients know.
                let code = if *field == "previous_response_id" { "previous_response_not_found" } else { "not_found" };
                Row(404, "not_kept", INVALID, Some(code), "not_found_error", "NOT_FOUND")
            }
            Self::OverRate { limit, .. } => limited(limit.word()),
            Self::NoCapacity { .. } => limited("capacity"),
            Self::AllClosed { by: Closed::Limits, .. } => limited("locked"),
            Self::AllClosed { by: Closed::Failures, .. } => ours(502, "locked", "upstream_error", "UNAVAILABLE"),
            Self::BodyTooLarge { .. } => {
                Row(413, "body", INVALID, Some("request_too_large"), "request_too_large", "INVALID_ARGUMENT")
            }
            Self::StateUnavailable => ours(503, "state", "state_unavailable", "UNAVAILABLE"),
            Self::Draining => ours(503, "draining", "draining", "UNAVAILABLE"),
            Self::BadRequest(_) => Row(400, "request", INVALID, None, INVALID, "INVALID_ARGUMENT"),
            Self::BodyTimeout => {
                Row(408, "timeout", "timeout", Some("request_timeout"), "timeout_error", "DEADLINE_EXCEEDED")
            }
            Self::NoRoute => Row(404, "route", INVALID, Some("unknown_url"), "not_found_error", "NOT_FOUND"),
            Self::Method { .. } => {
                Row(405, "method", INVALID, Some("method_not_supported"), INVALID, "INVALID_ARGUMENT")
            }
            Self::Internal => ours(500, "internal", "internal_error", "INTERNAL"),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Key(KeyFault::Missing) => {
                "No API key was sent. Send one in the Authorization header: 'Authorization: Bearer YOUR_KEY'.".into()
            }
            Self::Key(KeyFault::Unknown) => "The API key is not valid.".into(),
            Self::ModelNotAllowed { model } => format!("This API key may not use the model '{}'.", shown(model)),
            Self::UnknownModel { model } => format!("The model '{}' does not exist here.", shown(model)),
            Self::NotKept { field } => format!(
                "'{field}': no upstream that may serve this request is known to keep what it names. It may have been made for another account, too long ago, or elsewhere."
            ),
            Self::Balance => "Insufficient balance. Top up at the dashboard.".into(),
            Self::NoPrice { model } => {
                format!(
                    "The model '{}' has no price and cannot be used by an account with a money limit.",
                    shown(model)
                )
            }
            Self::SpendLimit => "This API key has reached its spend limit.".into(),
            Self::Quota(quota) => quota.message(),
            Self::OverRate { .. } => "This API key has reached its rate or concurrency limit.".into(),
            Self::NoCapacity { .. } => "All upstream capacity for this model is busy. Retry shortly.".into(),
            Self::AllClosed { wait, .. } => format!(
                "No upstream for this model can answer now. The soonest recovery is in {} s.",
                whole_seconds(*wait)
            ),
            Self::BodyTooLarge { limit } => format!("The request body is larger than the {limit} bytes allowed."),
            Self::StateUnavailable => {
                "The shared state does not answer, so limits cannot be checked. Retry shortly.".into()
            }
            Self::Draining => "This replica is about to stop. Retry shortly.".into(),
            Self::BadRequest(bad) => bad.message.clone(),
            Self::BodyTimeout => "The request body did not arrive in time.".into(),
            Self::NoRoute => "There is nothing at this path.".into(),
            Self::Method { allow } => format!("This path takes {allow} only."),
            Self::Internal => "Headgate failed to handle the request.".into(),
        }
    }
}

impl QuotaUse {
    fn message(&self) -> String {
        let Self { quota, used, limit, .. } = self;
        let period = self.period.as_ref().map_or_else(|| "in all".to_owned(), |period| format!("per {period}"));
        let resets = self
            .resets
            .map_or_else(|| "It does not start afresh.".to_owned(), |resets| format!("It starts afresh at {resets}."));
        format!("This API key has used up its quota: {used} of {limit} {quota} {period}. {resets}")
    }
}

impl KeyLimit {
    fn word(self) -> &'static str {
        match self {
            Self::Requests => "rpm",
            Self::Tokens => "tpm",
            Self::Concurrency => "concurrency",
        }
    }
}

/// A caller's text as an answer may repeat it: short and printable.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
