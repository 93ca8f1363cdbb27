//! What each provider sends, row by row: class, what it closes, whether another rung may answer, whether a limit is named.

use super::*;

/// Family, status (0: none), code, kind, message; class, scope.
type Line = (Family, u16, &'static str, &'static str, &'static str, Class, Scope);

const BUCKET: Scope = Scope::Bucket;
const ACCOUNT: Scope = Scope::Connection;
const O: Family = Family::OpenAi;
const A: Family = Family::Anthropic;
const G: Family = Family::Google;

#[rustfmt::skip]
const OPENAI: &[Line] = &[
    (O, 429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.", Billing, ACCOUNT),
    (O, 402, "credit_balance_exhausted", "insufficient_quota", "", Billing, ACCOUNT),
    (O, 403, "billing_not_active", "billing_not_active", "Your account is not active.", Billing, ACCOUNT),
    (O, 400, "billing_hard_limit_reached", "", "Billing hard limit has been reached", Billing, ACCOUNT),
    (O, 429, "organization_spend_limit_exceeded", "insufficient_quota", "", Billing, ACCOUNT),
    (O, 429, "organization_usage_limit_exceeded", "insufficient_quota", "", Billing, ACCOUNT),
    (O, 429, "project_spend_limit_exceeded", "insufficient_quota", "", Billing, ACCOUNT),
    (O, 429, "rate_limit_exceeded", "requests", "Rate limit reached for gpt-5.6 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.", RateLimited, BUCKET),
    (O, 429, "rate_limit_exceeded", "tokens", "Request too large for gpt-5.6 on tokens per min (TPM): Limit 30000, Requested 44000.", ContextLength, BUCKET),
    (O, 429, "slow_down", "rate_limit_error", "Slow down.", Capacity, BUCKET),
    (O, 503, "slow_down", "", "Slow down.", Capacity, BUCKET),
    (O, 503, "server_is_overloaded", "service_unavailable_error", "", Capacity, BUCKET),
    (O, 500, "", "server_error", "The server had an error.", Unavailable, BUCKET),
    (O, 502, "", "", "Bad gateway", Unavailable, BUCKET),
    (O, 504, "", "timeout", "", Unavailable, BUCKET),
    (O, 401, "", "invalid_request_error", "You must be a member of an organization to use the API.", Auth, ACCOUNT),
    (O, 403, "unsupported_country_region_territory", "request_forbidden", "Country, region, or territory not supported", Auth, ACCOUNT),
    (O, 401, "ip_not_authorized", "", "Your IP address is not authorized.", Auth, ACCOUNT),
    (O, 404, "model_not_found", "invalid_request_error", "The model `x` does not exist or you do not have access to it.", ModelMissing, BUCKET),
    (O, 403, "model_not_found", "invalid_request_error", "Project `p` does not have access to model `x`", ModelMissing, BUCKET),
    (O, 400, "model_not_found", "invalid_request_error", "", ModelMissing, BUCKET),
    (O, 400, "context_length_exceeded", "invalid_request_error", "Your input exceeds the context window of this model.", ContextLength, BUCKET),
    (O, 400, "", "BadRequestError", "This model's maximum context length is 4096 tokens. However, you requested 5000.", ContextLength, BUCKET),
    (O, 400, "", "invalid_request_error", "the request exceeds the available context size, try increasing it", ContextLength, BUCKET),
    (O, 400, "", "", "The input (9000 tokens) is longer than the model's context length (4096 tokens).", ContextLength, BUCKET),
    (O, 400, "", "", "Input tokens exceed the configured limit of 272000 tokens.", ContextLength, BUCKET),
    (O, 400, "", "", "Current length is 9000 while limit is 8192", ContextLength, BUCKET),
    (O, 400, "", "", "maximum input length is 8192 tokens", ContextLength, BUCKET),
    (O, 400, "", "", "the input length exceeds the context length", ContextLength, BUCKET),
    (O, 400, "", "", "Input is too long for requested model.", ContextLength, BUCKET),
    (O, 400, "", "", "This model's maximum prompt length is 131072 but the request contains 200000 tokens.", ContextLength, BUCKET),
    (O, 400, "", "", "Please reduce the length of the messages or completion.", ContextLength, BUCKET),
    (O, 422, "", "", "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000", ContextLength, BUCKET),
    (O, 400, "string_above_max_length", "invalid_request_error", "Invalid 'user': string too long. Expected maximum length 64.", ClientError, BUCKET),
    (O, 400, "content_filter", "", "The response was filtered", Refused, BUCKET),
    (O, 400, "content_policy_violation", "invalid_request_error", "", Refused, BUCKET),
    (O, 400, "invalid_prompt", "invalid_request_error", "", Refused, BUCKET),
    (O, 429, "429", "", "The system is experiencing high demand. Please try again.", Capacity, BUCKET),
    (O, 429, "429", "", "We are temporarily unable to process your request.", Capacity, BUCKET),
    (O, 429, "429", "", "Requests have exceeded call rate limit of your current OpenAI S0 pricing tier.", RateLimited, BUCKET),
    (O, 429, "RateLimitReached", "", "Rate limit is exceeded.", RateLimited, BUCKET),
    (O, 404, "DeploymentNotFound", "", "The API deployment for this resource does not exist.", ModelMissing, BUCKET),
    (O, 404, "404", "", "Resource not found", ModelMissing, BUCKET),
    (O, 401, "401", "", "Access denied due to invalid subscription key or wrong API endpoint.", Auth, ACCOUNT),
    (O, 403, "403", "", "Access denied due to Virtual Network/Firewall rules.", Auth, ACCOUNT),
    (O, 403, "", "", "Your access has been temporarily blocked due to behavior that may violate our policy.", Auth, ACCOUNT),
    (O, 402, "402", "", "This request requires more credits, or fewer max_tokens.", Billing, ACCOUNT),
    (O, 402, "in_flight_budget_exhausted", "", "", Capacity, BUCKET),
    (O, 408, "", "", "", Unavailable, BUCKET),
    (O, 409, "", "", "", Unavailable, BUCKET),
    (O, 425, "", "", "", Unavailable, BUCKET),
    (O, 413, "", "", "Payload too large", ClientError, BUCKET),
    (O, 422, "", "", "Unprocessable", ClientError, BUCKET),
    (O, 451, "", "", "", ClientError, BUCKET),
    (O, 520, "", "", "", Unavailable, BUCKET),
];

#[rustfmt::skip]
const ANTHROPIC: &[Line] = &[
    (A, 400, "", "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.", Billing, ACCOUNT),
    (A, 400, "", "invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", Billing, ACCOUNT),
    (A, 400, "", "invalid_request_error", "You have reached your specified workspace API usage limits.", Billing, ACCOUNT),
    (A, 400, "organization_on_hold", "invalid_request_error", "", Auth, ACCOUNT),
    (A, 400, "", "invalid_request_error", "This organization has been disabled.", Auth, ACCOUNT),
    (A, 402, "", "billing_error", "", Billing, ACCOUNT),
    (A, 402, "linked_organization_billing_unavailable", "", "", Billing, ACCOUNT),
    (A, 429, "enforced_spend_limit_reached", "rate_limit_error", "", Billing, ACCOUNT),
    (A, 429, "contract_spend_limit_reached", "rate_limit_error", "", Billing, ACCOUNT),
    (A, 429, "ramp_limit_exceeded", "rate_limit_error", "", Capacity, BUCKET),
    (A, 429, "", "rate_limit_error", "Extra usage is required for long context requests.", Billing, BUCKET),
    (A, 429, "", "rate_limit_error", "Usage credits are required for long context requests.", Billing, BUCKET),
    (A, 429, "", "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute.", RateLimited, BUCKET),
    (A, 529, "", "overloaded_error", "Overloaded", Capacity, BUCKET),
    (A, 500, "", "overloaded_error", "Overloaded", Capacity, BUCKET),
    (A, 200, "", "overloaded_error", "Overloaded", Capacity, BUCKET),
    (A, 529, "compaction_unavailable", "", "", Capacity, BUCKET),
    (A, 500, "", "api_error", "Internal server error", Unavailable, BUCKET),
    (A, 502, "", "", "", Unavailable, BUCKET),
    (A, 503, "", "", "", Unavailable, BUCKET),
    (A, 504, "", "timeout_error", "", Unavailable, BUCKET),
    (A, 408, "", "timeout_error", "", Unavailable, BUCKET),
    (A, 401, "", "authentication_error", "invalid x-api-key", Auth, ACCOUNT),
    (A, 403, "", "permission_error", "Your API key does not have permission to use the specified resource.", Auth, ACCOUNT),
    (A, 404, "", "not_found_error", "model: claude-x", ModelMissing, BUCKET),
    (A, 400, "", "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextLength, BUCKET),
    (A, 400, "", "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", ContextLength, BUCKET),
    (A, 413, "request_body_too_large_after_decoding", "request_too_large", "Request exceeds the maximum size", ClientError, BUCKET),
    (A, 400, "", "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block", ClientError, BUCKET),
    (A, 400, "", "invalid_request_error", "`thinking` blocks in the latest assistant message cannot be modified", ClientError, BUCKET),
    (A, 400, "image_dimensions_too_large", "invalid_request_error", "", ClientError, BUCKET),
    (A, 400, "workspace_policy_violation", "invalid_request_error", "", Refused, BUCKET),
];

#[rustfmt::skip]
const GOOGLE: &[Line] = &[
    (G, 400, "API_KEY_INVALID", "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", Auth, ACCOUNT),
    (G, 400, "", "INVALID_ARGUMENT", "API key expired. Please renew the API key.", Auth, ACCOUNT),
    (G, 401, "", "UNAUTHENTICATED", "", Auth, ACCOUNT),
    (G, 403, "CONSUMER_SUSPENDED", "PERMISSION_DENIED", "", Auth, ACCOUNT),
    (G, 403, "CONSUMER_INVALID", "PERMISSION_DENIED", "", Auth, ACCOUNT),
    (G, 403, "", "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.predict' denied", Auth, ACCOUNT),
    (G, 403, "SERVICE_DISABLED", "PERMISSION_DENIED", "Vertex AI API has not been used in project 1 before or it is disabled.", Auth, ACCOUNT),
    (G, 403, "BILLING_DISABLED", "PERMISSION_DENIED", "This API method requires billing to be enabled.", Billing, ACCOUNT),
    (G, 403, "", "PERMISSION_DENIED", "Project 1 has billing disabled.", Billing, ACCOUNT),
    (G, 403, "", "PERMISSION_DENIED", "This API method requires billing to be enabled.", Billing, ACCOUNT),
    (G, 402, "", "RESOURCE_EXHAUSTED", "Prepay depleted", Billing, ACCOUNT),
    (G, 403, "VALIDATION_REQUIRED", "PERMISSION_DENIED", "Verify your account to continue.", Auth, ACCOUNT),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Quota exceeded for metric: x, limit: 0, model: gemini-x", Billing, BUCKET),
    (G, 499, "", "CANCELLED", "limit: 0", Billing, BUCKET),
    (G, 503, "", "UNAVAILABLE", "limit: 0", Billing, BUCKET),
    (G, 429, "QUOTA_PER_DAY", "RESOURCE_EXHAUSTED", "You exceeded your current quota", Billing, BUCKET),
    (G, 429, "QUOTA_PER_MINUTE", "RESOURCE_EXHAUSTED", "You exceeded your current quota", RateLimited, BUCKET),
    (G, 429, "RETRY_INFO", "RESOURCE_EXHAUSTED", "Please retry in 44.09s.", RateLimited, BUCKET),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Your project has exceeded its spending cap.", Billing, ACCOUNT),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", Billing, ACCOUNT),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Resource exhausted, please try again later.", Capacity, BUCKET),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", Capacity, BUCKET),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com/online_prediction_input_tokens_per_minute_per_base_model with base model: x.", RateLimited, BUCKET),
    (G, 429, "", "RESOURCE_EXHAUSTED", "Too many requests. Exceeded the Provisioned Throughput.", Capacity, BUCKET),
    (G, 429, "MODEL_CAPACITY_EXHAUSTED", "RESOURCE_EXHAUSTED", "No capacity available for model x", Capacity, BUCKET),
    (G, 503, "MODEL_CAPACITY_EXCEEDED", "UNAVAILABLE", "", Capacity, BUCKET),
    (G, 503, "", "UNAVAILABLE", "No capacity available for model x on the server", Capacity, BUCKET),
    (G, 429, "RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED", "You have exhausted your capacity on this model. Your quota will reset after 3s.", RateLimited, BUCKET),
    (G, 429, "QUOTA_EXHAUSTED", "RESOURCE_EXHAUSTED", "You have exhausted your capacity on this model. Your quota will reset after 2h3m.", Billing, BUCKET),
    (G, 429, "INSUFFICIENT_G1_CREDITS_BALANCE", "RESOURCE_EXHAUSTED", "", Billing, ACCOUNT),
    (G, 404, "", "NOT_FOUND", "models/x is not found for API version v1beta", ModelMissing, BUCKET),
    (G, 404, "", "NOT_FOUND", "Publisher Model `x` was not found or your project does not have access to it.", ModelMissing, BUCKET),
    (G, 400, "", "FAILED_PRECONDITION", "Project `1` is not allowed to use Publisher Model `x`", ModelMissing, BUCKET),
    (G, 400, "", "FAILED_PRECONDITION", "User location is not supported for the API use.", Auth, ACCOUNT),
    (G, 400, "", "FAILED_PRECONDITION", "Gemini API free tier is not available in your country.", Auth, ACCOUNT),
    (G, 400, "", "INVALID_ARGUMENT", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", ContextLength, BUCKET),
    (G, 400, "", "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts.", ClientError, BUCKET),
    (G, 400, "", "INVALID_ARGUMENT", "Corrupted thought signature.", ClientError, BUCKET),
    (G, 500, "", "INTERNAL", "", Unavailable, BUCKET),
    (G, 503, "", "UNAVAILABLE", "The service is currently unavailable.", Unavailable, BUCKET),
    (G, 503, "", "UNAVAILABLE", "The model is overloaded. Please try again later.", Capacity, BUCKET),
    (G, 504, "", "DEADLINE_EXCEEDED", "", Unavailable, BUCKET),
    (G, 499, "", "CANCELLED", "The operation was cancelled.", Unavailable, BUCKET),
];

fn signals(&(family, status, code, kind, message, ..): &Line) -> Signals {
    let said = openai(status, code, kind, message);
    Signals { family, status: (status > 0 && status != 200).then_some(status), ..said }
}

#[test]
fn each_row_of_what_providers_send_has_its_class_and_closes_no_more_than_it_is_about() {
    for line in [OPENAI, ANTHROPIC, GOOGLE].concat() {
        let verdict = classify(&signals(&line), ErrorPolicy::Standard, &[]);
        assert_eq!((verdict.class, verdict.scope), (line.5, line.6), "{line:?}");
    }
}

#[test]
fn an_endpoint_of_a_sandbox_is_left_for_the_next_on_any_403_or_404_but_one_that_names_a_dead_credential() {
    const DEAD: [&str; 4] = ["CONSUMER_SUSPENDED", "CONSUMER_INVALID", "SERVICE_DISABLED", "VALIDATION_REQUIRED"];
    for line in [OPENAI, ANTHROPIC, GOOGLE].concat().into_iter().filter(|line| matches!(line.1, 403 | 404)) {
        let class = classify(&signals(&line), ErrorPolicy::Sandbox, &[]).class;
        let stays = line.1 == 403 && (line.5 == Billing || DEAD.contains(&line.2));
        assert_eq!(class, if stays { line.5 } else { ModelMissing }, "{line:?}");
    }
}

#[test]
fn a_platforms_failures_move_on_unless_the_request_is_at_fault_and_an_own_keys_refusal_never_does() {
    for line in [OPENAI, ANTHROPIC, GOOGLE].concat() {
        let verdict = classify(&signals(&line), ErrorPolicy::Standard, &[]);
        let moves = |owner| effect(&verdict, None, site(owner, ErrorPolicy::Standard)).fails_over();
        let own_fault = matches!(line.5, ClientError | ContextLength | ModelMissing);
        assert_eq!(moves(Owner::Platform), !own_fault, "{line:?}");
        assert_eq!(moves(Owner::Byok), !own_fault && line.5 != Auth, "{line:?}");
    }
}
