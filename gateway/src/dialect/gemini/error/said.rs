//! The parts of a Google error, and the one word in its details that says what it is.

use serde_json::Value;

/// The parts of an error object.
pub(super) struct Said<'a> {
    code: Option<u16>,
    /// A code that is a word, as other vendors have it.
    word: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) kind: Option<&'a str>,
    details: &'a [Value],
    /// The older form: `errors: [{domain, reason}]`.
    errors: &'a [Value],
}

impl<'a> Said<'a> {
    pub(super) fn find(body: &'a Value) -> Option<Self> {
        let body = match body {
            Value::Array(list) => list.first()?,
            other => other,
        };
        let outer = body.as_object()?;
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let bare =
            |message| Self { code: None, word: None, message: Some(message), kind: None, details: &[], errors: &[] };
        match outer.get("error") {
            Some(Value::Object(error)) => {
                let text = |name: &str| error.get(name).and_then(Value::as_str);
                Some(Self {
                    code: error.get("code").and_then(status_code),
                    word: text("code"),
                    message: text("message").or_else(|| text("detail")),
                    kind: text("status").or_else(|| text("type")),
                    details: list(error.get("details")),
                    errors: list(error.get("errors")),
                })
            }
            // OAuth's own form is a word with a description beside it.
            Some(Value::String(word)) => {
                let described = outer.get("error_description").and_then(Value::as_str);
                Some(Self { kind: Some(word), ..bare(described.unwrap_or(word)) })
            }
            _ => ["message", "detail"].iter().find_map(|name| outer.get(*name)?.as_str()).map(bare),
        }
    }

    /// The HTTP status an error inside a success gives itself.
    pub(super) fn status(&self) -> Option<u16> {
        self.code.filter(|code| (400..=599).contains(code)).or_else(|| {
            Some(match self.kind? {
                "RESOURCE_EXHAUSTED" => 429,
                "UNAVAILABLE" => 503,
                "INTERNAL" | "UNKNOWN" | "DATA_LOSS" => 500,
                "DEADLINE_EXCEEDED" => 504,
                "UNAUTHENTICATED" => 401,
                "PERMISSION_DENIED" => 403,
                "NOT_FOUND" => 404,
                "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => 400,
                "ABORTED" => 409,
                "CANCELLED" => 499,
                _ => return None,
            })
        })
    }

    fn of_type(&self, name: &'static str) -> impl Iterator<Item = &'a Value> {
        self.details
            .iter()
            .filter(move |detail| detail.get("@type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with(name)))
    }

    /// What the failure table reads as the error's code. A used-up daily quota outweighs the minute's, which may be listed beside it,
    /// and the general reason; without any of them a told wait shows that a limit was hit.
    pub(super) fn reason(&self, status: Option<u16>) -> String {
        let info = self.of_type("google.rpc.ErrorInfo").find_map(|detail| detail.get("reason")?.as_str());
        let old = self.errors.iter().find_map(|error| error.get("reason")?.as_str());
        let given = info.or(old).or(self.word).unwrap_or_default();
        let limited = status == Some(429) && (given.is_empty() || given.eq_ignore_ascii_case("RATE_LIMIT_EXCEEDED"));
        let quota = if limited { self.quota(given) } else { None };
        quota.map_or_else(|| given.to_owned(), str::to_owned)
    }

    /// The word for the quota that was hit.
    fn quota(&self, given: &str) -> Option<&'static str> {
        let violations = || {
            let listed =
                self.of_type("google.rpc.QuotaFailure").filter_map(|detail| detail.get("violations")?.as_array());
            listed.flatten()
        };
        let named = |words: &[&str]| {
            violations().any(|violation| {
                ["quotaId", "quotaMetric", "description"].iter().any(|field| {
                    let text = violation.get(*field).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
                    words.iter().any(|word| text.contains(word))
                })
            })
        };
        let is_zero = |violation: &Value| violation.get("quotaValue").is_some_and(|value| value == "0" || value == 0);
        if violations().any(is_zero) {
            Some("quota_is_zero")
        } else if named(&["perday", "per_day", "daily"]) {
            Some("quota_per_day")
        } else if !given.is_empty() {
            None
        } else if named(&["perminute", "per_minute"]) {
            Some("quota_per_minute")
        } else if violations().next().is_some() {
            Some("quota_failure")
        } else {
            self.of_type("google.rpc.RetryInfo").next().map(|_| "retry_info")
        }
    }

    /// The field of the request that is at fault.
    pub(super) fn field(&self) -> Option<&'a str> {
        let violations =
            self.of_type("google.rpc.BadRequest").find_map(|detail| detail.get("fieldViolations")?.as_array());
        violations?.iter().find_map(|violation| violation.get("field")?.as_str()).filter(|field| !field.is_empty())
    }
}

/// A status as a number, also in quotes.
fn status_code(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok()
}
