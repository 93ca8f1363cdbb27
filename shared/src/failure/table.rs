//! The table of signals: what providers send, and which class it is. Read from top to bottom, first hit wins.

use std::time::Duration;

use super::{Class, ErrorPolicy, Family, Scope, Signals, Verdict};
use Class::{Auth, Billing, Capacity, ClientError, ContextLength, ModelMissing, RateLimited, Refused, Unavailable};
use Scope::{Bucket, Connection};

/// One row. It fits when family and status fit and, if it has any needle, at least one needle is found.
struct Row {
    /// Only this family; `None` is any.
    family: Option<Family>,
    /// Only these statuses; empty is any. An error without a status (in a success) fits them all if the row has needles.
    status: &'static [u16],
    /// Whole codes or kinds.
    words: &'static [&'static str],
    /// Parts of the message; `*` stands for any text between two parts.
    said: &'static [&'static str],
    class: Class,
    scope: Scope,
    /// The row means that a limit of this credential was named.
    named: bool,
    /// A shorter told time is not about what this row names.
    told_from: Duration,
    /// The words are too common to fit an error that has no status.
    stated: bool,
    /// At a sandbox endpoint the row says no more than that the endpoint does not serve the model.
    vague: bool,
}

const fn row(status: &'static [u16], class: Class, scope: Scope) -> Row {
    Row {
        family: None,
        status,
        words: &[],
        said: &[],
        class,
        scope,
        named: false,
        told_from: Duration::ZERO,
        stated: false,
        vague: false,
    }
}

impl Row {
    const fn family(self, family: Family) -> Self {
        Self { family: Some(family), ..self }
    }

    const fn words(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

    const fn said(self, said: &'static [&'static str]) -> Self {
        Self { said, ..self }
    }

    const fn named(self) -> Self {
        Self { named: true, ..self }
    }

    const fn told_from(self, told_from: Duration) -> Self {
        Self { told_from, ..self }
    }

    const fn stated(self) -> Self {
        Self { stated: true, ..self }
    }

    const fn vague(self) -> Self {
        Self { vague: true, ..self }
    }

    fn fits(&self, signals: &Signals) -> bool {
        let needles = !self.words.is_empty() || !self.said.is_empty();
        let status = match signals.status {
            Some(status) => self.status.is_empty() || self.status.contains(&status),
            None => needles && !self.stated,
        };
        status
            && self.family.is_none_or(|family| family == signals.family)
            && (!needles
                || self.words.iter().any(|word| *word == signals.code || *word == signals.kind)
                || self.said.iter().any(|pattern| says(&signals.message, pattern)))
    }
}

/// True when the parts of a pattern, separated by `*`, occur in the text in order.
fn says(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

const ANY: &[u16] = &[];
const OVERLOAD: &[u16] = &[429, 500, 502, 503, 504, 529];

static ROWS: &[Row] = &[
    // Money. Before 429 and 403 are read as anything else.
    row(&[402], Capacity, Bucket).words(&["in_flight_budget_exhausted"]),
    row(&[400, 402, 403, 429], Billing, Connection).words(&[
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "billing_not_active",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "billing_error",
        "billing_disabled",
        "insufficient_g1_credits_balance",
    ]),
    row(&[400, 402, 403, 429], Billing, Connection).said(&[
        "credit balance is too low",
        "reached your specified*api usage limits",
        "billing disabled",
        "requires billing to be enabled",
        "insufficient balance",
        "insufficient credits",
    ]),
    // Only long contexts cost extra there: the account has money for the others.
    row(&[400, 402, 403, 429], Billing, Bucket)
        .said(&["extra usage*required for long context", "usage credits*required for long context"]),
    row(&[429], Billing, Connection).family(Family::Google).said(&["spending cap", "prepay", "spend limit"]),
    // No quota at all: waiting never helps, whatever the upstream tells.
    row(&[429, 499, 503], Billing, Bucket)
        .family(Family::Google)
        .words(&["quota_is_zero"])
        .said(&["limit: 0"])
        .told_from(Duration::MAX),
    row(&[402], Billing, Connection),
    // Google tells the wait of the minute limit beside a used-up daily quota.
    row(&[429], Billing, Bucket)
        .family(Family::Google)
        .words(&["quota_per_day", "dailylimitexceeded"])
        .said(&["per day", "per-day", "perday", "daily limit", "daily quota"])
        .told_from(Duration::from_hours(1)),
    row(&[429], Billing, Bucket).words(&["quota_exhausted"]).said(&[
        "per day",
        "(rpd)",
        "(tpd)",
        "per-day",
        "daily limit",
        "daily quota",
        "monthly limit",
        "monthly quota",
    ]),
    // The credential.
    row(&[400, 403], Auth, Connection).words(&[
        "api_key_invalid",
        "invalid_api_key",
        "organization_on_hold",
        "service_disabled",
        "consumer_suspended",
        "consumer_invalid",
        "validation_required",
        "account_deactivated",
    ]),
    row(&[400], Auth, Connection).said(&[
        "api key not valid",
        "api key expired",
        "invalid api key",
        "incorrect api key",
        "organization has been disabled",
        "user location is not supported",
        "not available in your country",
    ]),
    row(&[401], Auth, Connection),
    // The model.
    row(&[400, 403, 404, 410], ModelMissing, Bucket)
        .words(&["model_not_found", "deploymentnotfound", "model_deprecated", "model_decommissioned"])
        .said(&[
            "does not have access to model",
            "model*does not exist",
            "model*not found",
            "model*is not supported for",
            "model*has been deprecated",
            "model*has been decommissioned",
            "model*has been retired",
            "is not a valid model",
            "no such model",
            "unknown model",
            "not_found_error*model:",
            "no endpoints found for",
            "not allowed to use publisher model",
            "is not found for api version",
        ]),
    row(&[404], ModelMissing, Bucket).family(Family::Anthropic).said(&["model:"]),
    row(&[404], ModelMissing, Bucket).family(Family::OpenAi).said(&["resource not found"]),
    // The length. Also inside a stream that began well.
    row(&[400, 413, 422, 429, 500], ContextLength, Bucket).words(&["context_length_exceeded"]).said(&[
        "context_length_exceeded",
        "maximum context length",
        "exceeds the context window",
        "prompt is too long",
        "exceed context limit",
        "exceeds the available context size",
        "is longer than the model's context length",
        "input tokens exceed the configured limit",
        "input token count*exceeds the maximum number of tokens",
        "current length is*while limit is",
        "maximum input length is*tokens",
        "exceeds the context length",
        "greater than the context length",
        "input is too long for requested model",
        "maximum prompt length is",
        "reduce the length of the messages",
        "inputs` must have less than*tokens",
    ]),
    row(&[429], ContextLength, Bucket).said(&["request too large"]),
    // The content.
    row(&[400, 403, 422], Refused, Bucket)
        .words(&["content_filter", "content_policy_violation", "invalid_prompt", "workspace_policy_violation"])
        .said(&["requires moderation", "content management policy", "flagged by moderation"]),
    // 403 that is about the credential; any other is the request's own fault.
    row(&[403], Auth, Connection).vague().words(&[
        "permission_error",
        "permission_denied",
        "unsupported_country_region_territory",
        "access_denied",
    ]),
    row(&[403], Auth, Connection).stated().vague().said(&[
        "api key",
        "api-key",
        "credential",
        "permission",
        "not authorized",
        "not authorised",
        "unauthorized",
        "forbidden",
        "access denied",
        "country, region, or territory",
        "ip address",
        "virtual network",
        "firewall",
        "temporarily blocked",
        "suspended",
        "deactivated",
        "disabled",
    ]),
    // Google says "resource has been exhausted" for its own shortage and for a limit of the credential; these words tell the limit.
    row(&[429], RateLimited, Bucket)
        .family(Family::Google)
        .words(&[
            "quota_per_minute",
            "quota_failure",
            "rate_limit_exceeded",
            "ratelimitexceeded",
            "userratelimitexceeded",
        ])
        .named(),
    // Shared capacity.
    row(OVERLOAD, Capacity, Bucket)
        .words(&[
            "slow_down",
            "server_is_overloaded",
            "engine_overloaded",
            "overloaded",
            "overloaded_error",
            "ramp_limit_exceeded",
            "model_capacity_exhausted",
            "model_capacity_exceeded",
        ])
        .said(&[
            "overloaded",
            "high demand",
            "temporarily unable",
            "no capacity",
            "at capacity",
            "upstream capacity",
            "server is busy",
            "engine is busy",
            "too busy",
            "provisioned throughput",
            "resource exhausted, please try again later",
            "resource has been exhausted",
        ]),
    row(&[529], Capacity, Bucket),
    row(ANY, Capacity, Bucket).words(&["overloaded_error"]),
    // What this credential may send.
    row(&[429], RateLimited, Connection).words(&["usage_limit_reached"]).named(),
    row(&[429], RateLimited, Bucket)
        .words(&[
            "rate_limit_exceeded",
            "requests",
            "tokens",
            "input_tokens",
            "output_tokens",
            "ratelimitreached",
            "retry_info",
        ])
        .said(&[
            "per minute",
            "per-minute",
            "perminute",
            "per min",
            "(rpm)",
            "(tpm)",
            "token rate limit",
            "call rate limit",
            "quota exceeded for",
        ])
        .named(),
    row(&[429], RateLimited, Bucket),
    row(ANY, RateLimited, Bucket).words(&["rate_limit_error", "resource_exhausted"]),
    // The rest, by status alone.
    row(&[408, 409, 425, 499], Unavailable, Bucket),
];

/// Errors inside a success carry no status; these words give the request's own faults away.
const CLIENT_WORDS: &[&str] = &["invalid_request_error", "invalid_argument", "unprocessable_entity"];

/// The first row that fits, else what the status says by itself.
pub(super) fn look_up(signals: &Signals, policy: ErrorPolicy) -> Verdict {
    let row = ROWS.iter().find(|row| row.fits(signals));
    let found = match row {
        Some(row) => Verdict {
            class: row.class,
            scope: row.scope,
            named_limit: row.class == RateLimited && (row.named || signals.limit_at_zero),
            told_from: row.told_from,
        },
        None => Verdict::of(by_status(signals), Bucket),
    };
    let endpoint_says_no = policy == ErrorPolicy::Sandbox
        && match signals.status {
            Some(404) => true,
            Some(403) => row.is_some_and(|row| row.vague) || !matches!(found.class, Auth | Billing),
            _ => false,
        };
    if endpoint_says_no { Verdict::of(ModelMissing, Bucket) } else { found }
}

fn by_status(signals: &Signals) -> Class {
    match signals.status {
        Some(400..=499) => ClientError,
        None if CLIENT_WORDS.contains(&signals.kind.as_str()) => ClientError,
        _ => Unavailable,
    }
}
