use super::Class::{
    Auth, Billing, Cancelled, Capacity, ClientError, ContextLength, ModelMissing, RateLimited, Refused, Unavailable,
};
use super::*;

mod wire;

fn openai(status: u16, code: &str, kind: &str, message: &str) -> Signals {
    let text = Signals::text;
    let body = text(&format!("{code} {kind} {message}"));
    let (code, kind, message) = (text(code), text(kind), text(message));
    Signals { status: Some(status), code, kind, message, body, ..Signals::new(Family::OpenAi) }
}

fn classed(signals: &Signals) -> Class {
    classify(signals, ErrorPolicy::Standard, &[]).class
}

#[test]
fn every_signal_of_the_failure_table_has_its_class() {
    for (status, code, kind, message, class) in [
        (400, "", "invalid_request_error", "Invalid value for 'temperature'.", ClientError),
        (400, "context_length_exceeded", "invalid_request_error", "", ContextLength),
        (400, "", "", "This model's maximum context length is 8192 tokens.", ContextLength),
        (400, "", "", "The prompt exceeds the context window of this model", ContextLength),
        (400, "", "", "current length is 9000 while limit is 8192", ContextLength),
        (400, "string_above_max_length", "", "Invalid 'user': string too long.", ClientError),
        (400, "model_not_found", "", "", ModelMissing),
        (400, "content_filter", "", "", Refused),
        (400, "", "", "The response was filtered due to Azure OpenAI's content management policy.", Refused),
        (400, "invalid_api_key", "", "", Auth),
        (400, "", "", "API key not valid. Please pass a valid API key.", Auth),
        (400, "", "insufficient_quota", "", Billing),
        (401, "", "", "", Auth),
        (401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided", Auth),
        (402, "", "", "", Billing),
        (402, "in_flight_budget_exhausted", "", "", Capacity),
        (403, "unsupported_country_region_territory", "", "", Auth),
        (403, "", "", "Project does not have access to model gpt-5.6", ModelMissing),
        (403, "", "permission_error", "", Auth),
        (403, "", "", "Your IP address is not authorised", Auth),
        (403, "", "", "This content requires moderation", Refused),
        (403, "", "", "", ClientError),
        (404, "model_not_found", "invalid_request_error", "The model `x` does not exist", ModelMissing),
        (404, "DeploymentNotFound", "", "", ModelMissing),
        (404, "", "", "model 'x' not found", ModelMissing),
        (404, "", "", "Unknown request URL", ClientError),
        (410, "", "", "The model x has been deprecated", ModelMissing),
        (408, "", "", "", Unavailable),
        (409, "", "", "", Unavailable),
        (413, "", "", "", ClientError),
        (413, "", "", "prompt is too long: 9 tokens", ContextLength),
        (418, "", "", "", ClientError),
        (422, "", "", "", ClientError),
        (425, "", "", "", Unavailable),
        (429, "", "", "", RateLimited),
        (429, "rate_limit_exceeded", "tokens", "Rate limit reached on tokens per min (TPM)", RateLimited),
        (429, "rate_limit_exceeded", "tokens", "Request too large for gpt-5.6 on tokens per min (TPM)", ContextLength),
        (429, "429", "", "Requests have exceeded token rate limit of your current pricing tier.", RateLimited),
        (429, "429", "", "The system is experiencing high demand", Capacity),
        (429, "slow_down", "rate_limit_error", "", Capacity),
        (429, "", "", "The engine is currently overloaded, please try again later", Capacity),
        (429, "", "", "All upstream capacity for this model is busy. Retry shortly.", Capacity),
        (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota", Billing),
        (429, "credit_balance_exhausted", "insufficient_quota", "", Billing),
        (429, "organization_spend_limit_exceeded", "", "", Billing),
        (429, "project_spend_limit_exceeded", "", "", Billing),
        (429, "rate_limit_exceeded", "", "Rate limit reached on requests per day (RPD)", Billing),
        (429, "", "usage_limit_reached", "The usage limit has been reached", RateLimited),
        (500, "", "", "", Unavailable),
        (500, "", "", "The server is overloaded", Capacity),
        (501, "", "", "", Unavailable),
        (502, "", "", "", Unavailable),
        (503, "", "", "", Unavailable),
        (503, "server_is_overloaded", "service_unavailable_error", "", Capacity),
        (503, "slow_down", "", "", Capacity),
        (504, "", "", "", Unavailable),
        (529, "", "", "", Capacity),
        (599, "", "", "", Unavailable),
        (302, "", "", "", Unavailable),
    ] {
        let found = classed(&openai(status, code, kind, message));
        assert_eq!(found, class, "{status} {code} {kind} {message}");
    }
}

#[test]
fn other_families_have_rows_of_their_own() {
    let of =
        |family, status, code: &str, message: &str| classed(&Signals { family, ..openai(status, code, "", message) });
    for (family, status, code, message, class) in [
        (Family::Anthropic, 400, "", "Your credit balance is too low to access the Anthropic API.", Billing),
        (Family::Anthropic, 400, "", "You have reached your specified workspace API usage limits.", Billing),
        (Family::Anthropic, 400, "organization_on_hold", "", Auth),
        (Family::Anthropic, 400, "", "This organization has been disabled.", Auth),
        (Family::Anthropic, 400, "workspace_policy_violation", "", Refused),
        (Family::Anthropic, 400, "", "Invalid `signature` in `thinking` block", ClientError),
        (Family::Anthropic, 400, "overloaded_error", "", Capacity),
        (Family::Anthropic, 402, "linked_organization_spend_limit_reached", "", Billing),
        (Family::Anthropic, 404, "", "Not found", ClientError),
        (Family::Anthropic, 413, "", "Request exceeds the maximum size", ClientError),
        (Family::Anthropic, 429, "contract_spend_limit_reached", "", Billing),
        (Family::Anthropic, 429, "ramp_limit_exceeded", "", Capacity),
        (Family::Anthropic, 429, "", "Extra usage is required for long context requests.", Billing),
        (Family::Anthropic, 404, "", "model: claude-x", ModelMissing),
        (Family::Anthropic, 429, "enforced_spend_limit_reached", "", Billing),
        (Family::Anthropic, 529, "", "Overloaded", Capacity),
        (Family::Google, 400, "API_KEY_INVALID", "", Auth),
        (Family::Google, 403, "BILLING_DISABLED", "", Billing),
        (Family::Google, 403, "SERVICE_DISABLED", "", Auth),
        (Family::Google, 429, "", "Quota exceeded, limit: 0, model: x", Billing),
        (Family::Google, 429, "", "Resource exhausted, please try again later.", Capacity),
        (Family::Google, 429, "QUOTA_EXHAUSTED", "", Billing),
        (Family::Google, 429, "RATE_LIMIT_EXCEEDED", "", RateLimited),
        (Family::Google, 503, "MODEL_CAPACITY_EXHAUSTED", "", Capacity),
        (Family::Google, 503, "", "The model is overloaded. Please try again later.", Capacity),
        (Family::Google, 499, "", "", Unavailable),
        (Family::Google, 429, "QUOTA_IS_ZERO", "", Billing),
        (Family::Google, 429, "QUOTA_PER_DAY", "You exceeded your current quota", Billing),
        (Family::Google, 429, "DAILYLIMITEXCEEDED", "", Billing),
        (Family::Google, 429, "QUOTA_PER_MINUTE", "Resource has been exhausted (e.g. check quota).", RateLimited),
        (Family::Google, 429, "RATE_LIMIT_EXCEEDED", "Resource has been exhausted (e.g. check quota).", RateLimited),
        (Family::Google, 429, "RETRY_INFO", "Resource has been exhausted (e.g. check quota).", Capacity),
        (Family::Google, 429, "RETRY_INFO", "", RateLimited),
        (Family::Google, 429, "", "Exceeded the Provisioned Throughput.", Capacity),
        (
            Family::Google,
            429,
            "",
            "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests",
            RateLimited,
        ),
        (Family::Google, 429, "INSUFFICIENT_G1_CREDITS_BALANCE", "", Billing),
        (Family::Google, 429, "", "Your prepayment credits are depleted.", Billing),
        (Family::Google, 403, "VALIDATION_REQUIRED", "Verify your account", Auth),
        (
            Family::Google,
            400,
            "",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            ContextLength,
        ),
        (Family::Google, 400, "", "User location is not supported for the API use.", Auth),
        (Family::Google, 400, "", "Project x is not allowed to use Publisher Model y", ModelMissing),
        (Family::Google, 404, "", "models/x is not found for API version v1beta", ModelMissing),
    ] {
        assert_eq!(of(family, status, code, message), class, "{status} {code} {message}");
    }
    assert_eq!(of(Family::OpenAi, 429, "", "limit: 0"), RateLimited, "a Google row is for Google only");
}

#[test]
fn money_for_long_contexts_alone_closes_no_more_than_the_bucket() {
    let scope = |message| {
        let signals = Signals { family: Family::Anthropic, ..openai(429, "", "rate_limit_error", message) };
        classify(&signals, ErrorPolicy::Standard, &[]).scope
    };
    assert_eq!(scope("Usage credits are required for long context requests."), Scope::Bucket);
    assert_eq!(scope("Your credit balance is too low"), Scope::Connection);
}

#[test]
fn transport_failures_are_the_upstreams_and_a_vanished_client_is_nobodys() {
    use Transport::{
        ClientGone, Connect, Empty, ErrorInSuccess, FirstTokenTimeout, IdleTimeout, NotTheFormat, Reset, TotalTimeout,
        Truncated,
    };
    let all =
        [Connect, Reset, FirstTokenTimeout, IdleTimeout, TotalTimeout, Empty, Truncated, NotTheFormat, ErrorInSuccess];
    for transport in all {
        assert_eq!(classed(&Signals::of_transport(Family::OpenAi, transport)), Unavailable, "{transport:?}");
    }
    assert_eq!(classed(&Signals::of_transport(Family::OpenAi, ClientGone)), Cancelled);
}

#[test]
fn an_error_inside_a_success_is_classed_by_its_own_words() {
    let inside = |code: &str, kind: &str, message: &str| {
        let mut signals = openai(0, code, kind, message);
        (signals.status, signals.transport) = (None, Some(Transport::ErrorInSuccess));
        classed(&signals)
    };
    for (code, kind, message, class) in [
        ("context_length_exceeded", "", "", ContextLength),
        ("rate_limit_exceeded", "", "", RateLimited),
        ("", "overloaded_error", "", Capacity),
        ("", "insufficient_quota", "", Billing),
        ("", "invalid_request_error", "", ClientError),
        ("", "server_error", "", Unavailable),
        ("", "permission_error", "", Auth),
        ("", "", "Streaming is disabled while we recover; permission to retry granted", Unavailable),
        ("", "", "", Unavailable),
    ] {
        assert_eq!(inside(code, kind, message), class, "{code} {kind} {message}");
    }
}

#[test]
fn own_rules_come_before_the_table_and_the_first_that_fits_wins() {
    let rule = |status, contains: Option<&str>, class| OwnRule { status, contains: contains.map(Into::into), class };
    let rules = [
        rule(Some(400), Some("Provider returned ERROR"), Unavailable),
        rule(Some(400), Some("provider"), Capacity),
        rule(None, Some("house rules"), Refused),
        rule(Some(418), None, Auth),
    ];
    let found = |signals: &Signals| classify(signals, ErrorPolicy::Standard, &rules);
    assert_eq!(found(&openai(400, "", "", "Provider returned error")).class, Unavailable);
    assert_eq!(found(&openai(400, "", "", "wrong provider")).class, Capacity);
    assert_eq!(found(&openai(500, "", "", "against our house rules")).class, Refused);
    assert_eq!(found(&openai(401, "", "", "provider returned error")).class, Auth);
    assert_eq!(found(&openai(418, "", "", "")).scope, Scope::Connection, "a credential is the whole connection");
    let mut inside = openai(0, "", "", "wrong provider");
    (inside.status, inside.transport) = (None, Some(Transport::ErrorInSuccess));
    let in_success = [rule(Some(200), Some("provider"), Refused)];
    assert_eq!(classify(&inside, ErrorPolicy::Standard, &in_success).class, Refused, "a success that holds an error");
    assert_eq!(classify(&openai(500, "", "", "provider"), ErrorPolicy::Standard, &in_success).class, Unavailable);
    let page = Signals {
        status: Some(400),
        body: Signals::text("<h1>Provider Returned Error"),
        ..Signals::new(Family::OpenAi)
    };
    assert_eq!(found(&page).class, Unavailable, "own rules look into any body");
}

#[test]
fn a_limit_is_named_by_words_or_by_headers_and_a_bare_429_names_none() {
    let named = |signals: &Signals| classify(signals, ErrorPolicy::Standard, &[]).named_limit;
    assert!(named(&openai(429, "", "requests", "")));
    assert!(named(&openai(429, "", "", "Limit 3 requests per minute")));
    assert!(named(&Signals { limit_at_zero: true, ..openai(429, "", "", "Too Many Requests") }));
    assert!(!named(&openai(429, "", "", "Too Many Requests")));
    assert!(!named(&Signals { limit_at_zero: true, ..openai(503, "", "", "") }));
}

#[test]
fn a_sandbox_endpoint_that_says_403_or_404_lacks_the_model_but_a_dead_credential_stays_one() {
    let found = |status, kind| classify(&openai(status, "", kind, ""), ErrorPolicy::Sandbox, &[]).class;
    assert_eq!(found(404, ""), ModelMissing);
    assert_eq!(found(403, ""), ModelMissing);
    assert_eq!(found(403, "permission_error"), ModelMissing, "what an endpoint says that does not know the model");
    assert_eq!(found(403, "permission_denied"), ModelMissing);
    assert_eq!(found(403, "consumer_suspended"), Auth);
    assert_eq!(found(403, "billing_disabled"), Billing);
    assert_eq!(found(401, ""), Auth);
    assert_eq!(found(400, ""), ClientError);
}

#[test]
fn in_a_chain_what_passes_by_rests_the_endpoint_and_goes_to_the_next() {
    let site = Site { owner: Owner::Byok, policy: ErrorPolicy::Standard, endpoints: Endpoints::Several };
    let follows = |class| effect(&Verdict::of(class, Scope::Bucket), None, site);
    for class in [Unavailable, Capacity] {
        let found = follows(class);
        assert_eq!((found.lock, found.cooldown, found.next), (None, Cooldown::Endpoint, Next::EndpointThenRetry));
        assert!(found.tries_next_endpoint() && found.retries_same_rung() && found.fails_over());
    }
    for class in [RateLimited, Billing, Auth, ModelMissing, ClientError, ContextLength, Refused, Cancelled] {
        assert!(!follows(class).tries_next_endpoint(), "{class} is the same at every endpoint");
    }
}

fn site(owner: Owner, policy: ErrorPolicy) -> Site {
    Site { owner, policy, endpoints: Endpoints::One }
}

fn follows(class: Class, owner: Owner, told: Option<Told>) -> Effect {
    let verdict = Verdict::of(class, Scope::Bucket);
    effect(&verdict, told, site(owner, ErrorPolicy::Standard))
}

#[test]
fn each_class_has_its_consequences() {
    let lock = |scope, length| Some(Lock { scope, length });
    let auth = lock(Scope::Connection, LockLength::Default(AUTH_LOCK));
    let bill = lock(Scope::Bucket, LockLength::Default(BILLING_LOCK));
    for (class, owner, set, cooldown, next) in [
        (RateLimited, Owner::Platform, lock(Scope::Bucket, LockLength::Doubling), Cooldown::None, Next::Rung),
        (Capacity, Owner::Platform, None, Cooldown::Model, Next::RetryThenRung),
        (Unavailable, Owner::Byok, None, Cooldown::Model, Next::RetryThenRung),
        (Billing, Owner::Byok, bill, Cooldown::None, Next::Rung),
        (Auth, Owner::Platform, auth, Cooldown::None, Next::Rung),
        (Auth, Owner::Byok, None, Cooldown::None, Next::Tell),
        (ModelMissing, Owner::Platform, None, Cooldown::None, Next::Tell),
        (ContextLength, Owner::Platform, None, Cooldown::None, Next::Larger),
        (ClientError, Owner::Platform, None, Cooldown::None, Next::Tell),
        (Refused, Owner::Platform, None, Cooldown::None, Next::Rung),
        (Cancelled, Owner::Platform, None, Cooldown::None, Next::Drop),
    ] {
        assert_eq!(follows(class, owner, None), Effect { lock: set, cooldown, next }, "{class} {owner:?}");
    }
}

#[test]
fn a_told_time_sets_the_length_and_can_widen_a_lock_but_never_makes_one() {
    let told = Some(Told { wait: Duration::from_secs(7), scope: Scope::Connection });
    for class in [RateLimited, Billing] {
        let lock = follows(class, Owner::Platform, told).lock;
        assert_eq!(lock, Some(Lock { scope: Scope::Connection, length: LockLength::Told(Duration::from_secs(7)) }));
    }
    for class in [Capacity, Unavailable, ClientError, ContextLength, Refused, ModelMissing, Cancelled] {
        assert_eq!(follows(class, Owner::Platform, told).lock, None, "{class}");
    }
    let named = Verdict { named_limit: true, ..Verdict::of(RateLimited, Scope::Bucket) };
    let length = effect(&named, None, site(Owner::Platform, ErrorPolicy::Standard)).lock.map(|lock| lock.length);
    assert_eq!(length, Some(LockLength::Default(NAMED_LIMIT_LOCK)));
}

#[test]
fn a_wait_told_for_the_minute_is_not_believed_of_a_daily_quota_and_none_of_a_quota_of_zero() {
    let told = |seconds| Some(Told { wait: Duration::from_secs(seconds), scope: Scope::Bucket });
    let length = |code: &str, told| {
        let signals = Signals { family: Family::Google, ..openai(429, code, "", "") };
        let verdict = classify(&signals, ErrorPolicy::Standard, &[]);
        effect(&verdict, told, site(Owner::Platform, ErrorPolicy::Standard)).lock.map(|lock| lock.length)
    };
    let default = Some(LockLength::Default(BILLING_LOCK));
    assert_eq!(length("quota_per_day", told(45)), default);
    assert_eq!(length("quota_per_day", told(51_820)), Some(LockLength::Told(Duration::from_secs(51_820))));
    assert_eq!(length("quota_is_zero", told(51_820)), default);
    assert_eq!(length("quota_exhausted", told(45)), Some(LockLength::Told(Duration::from_secs(45))));
    assert_eq!(length("quota_per_minute", told(45)), Some(LockLength::Told(Duration::from_secs(45))));
}

#[test]
fn a_missing_model_moves_to_the_next_endpoint_of_a_sandbox() {
    let verdict = Verdict::of(ModelMissing, Scope::Bucket);
    let found = effect(&verdict, None, site(Owner::Platform, ErrorPolicy::Sandbox));
    assert_eq!(found, Effect { lock: None, cooldown: Cooldown::Endpoint, next: Next::Endpoint });
    assert!(found.fails_over() && !found.tells_caller());
}

#[test]
fn long_texts_are_cut_between_characters() {
    let text = Signals::text(&"É".repeat(10_000));
    assert!(text.len() <= 8 * 1024 && text.chars().all(|c| c == 'é'));
}
