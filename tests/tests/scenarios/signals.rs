//! What each provider really sends, through real replicas: the class in the trail, the lock in Redis with the end that was told,
//! what the caller is told, and that another replica then asks nobody. Times are measured against the response's own `Date`.

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET};
use serde_json::{Value, json};

/// The upstreams' clock: 1796040000 s, far from that of the machine.
const DATE: &str = "Mon, 30 Nov 2026 12:00:00 GMT";
const NOW_S: u64 = 1_796_040_000;

/// One provider of each dialect with one connection, over two replicas. Connection, credential and model share a name.
async fn all() -> Cluster {
    let config = [("anthropic", ""), ("google", ""), ("assist", "")].iter().fold(
        Config::connections(0).provider("openai: {dialect: openai, base_url: \"{FAKE}/v1\"}"),
        |config, (name, _)| {
            let dialect = match *name {
                "google" => "gemini",
                "assist" => "code_assist",
                other => other,
            };
            config.provider(&format!("{name}: {{dialect: {dialect}, base_url: \"{{FAKE}}\"}}"))
        },
    );
    let config = ["openai", "anthropic", "google", "assist"].iter().fold(config, |config, name| {
        let config = config.model(&format!("{name}: {{provider: {name}}}"));
        config.also(&format!("id: {name}, provider: {name}, api_key: cred-{name}, models: [{name}]"))
    });
    Cluster::builder(&config.more("limits: {capacity_wait: 0s}")).replicas(2).start().await
}

/// What a provider sends, and what follows from it.
struct Signal {
    from: &'static str,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Value,
    class: &'static str,
    /// What is closed: `what cause` and the length; empty: nothing.
    closes: (&'static str, i64),
    /// The length may be off by so much either way, in percent: only where we chose it ourselves.
    jitter: i64,
}

impl Signal {
    fn rule(&self) -> Rule {
        let rule = Rule::on(&format!("cred-{}", self.from), "*").fails(self.status).body(self.body.clone());
        let rule = rule.header("date", DATE);
        self.headers.iter().fold(rule, |rule, (name, value)| rule.header(name, value))
    }

    fn locks(&self) -> bool {
        self.closes.0.contains("lock ")
    }
}

fn signal(from: &'static str, status: u16, body: Value, class: &'static str, closes: (&'static str, i64)) -> Signal {
    Signal { from, status, headers: Vec::new(), body, class, closes, jitter: 0 }
}

/// Plays them one after another, forgetting between two.
async fn play(signals: Vec<Signal>) {
    let cluster = all().await;
    for signal in signals {
        let what = format!("{} {} {:?} {}", signal.from, signal.status, signal.headers, signal.body);
        cluster.fake.script([signal.rule()]);
        let answer = cluster.client(0).chat(SECRET, signal.from, "hi").await;
        let trail = answer.header("x-headgate-attempts").to_owned();
        assert!(trail.starts_with(&format!("{0}/{0}:{1}", signal.from, signal.class)), "{what}: {trail}");
        let expected = match signal.class {
            "rate_limited" | "billing" => 429,
            "capacity" | "unavailable" | "auth" => 502,
            _ => signal.status,
        };
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (expected, ""), "{what}: {}", answer.body);
        let found = cluster.redis.closures().await;
        let (names, length) = (found.iter().map(|one| format!("{} {}", one.what, one.cause)), signal.closes.1);
        let expected: Vec<&str> = if signal.closes.0.is_empty() { vec![] } else { vec![signal.closes.0] };
        assert_eq!(names.collect::<Vec<_>>(), expected, "{what}");
        if let [one] = &found[..] {
            assert!((one.length - length).abs() * 100 <= length * signal.jitter, "{what}: {one}");
        }
        if answer.status == 429 {
            let told: i64 = answer.header("retry-after").parse().unwrap();
            // Never past `max_lock`, and counted down by what the answer took.
            let honest = (length * (100 + signal.jitter) / 100_000 + 1).min(900);
            assert!(told >= 1 && told <= honest, "{what}: {told} of {length}");
            assert!(told >= (length * (100 - signal.jitter) / 100_000).min(900) - 3, "{what}: {told} of {length}");
        }
        if signal.locks() {
            let before = cluster.fake.calls().len();
            let next = cluster.client(1).chat(SECRET, signal.from, "hi").await;
            let refused = next.header("x-headgate-refusal") == "locked";
            assert!(refused || length < 3_000, "{what}: {} {}", next.status, next.body);
            assert!(!refused || cluster.fake.calls().len() == before, "{what}: a locked rung is asked nothing");
        }
        cluster.redis.assert_nothing_held().await;
        cluster.redis.unlock_all().await;
        cluster.fake.clear_calls();
    }
}

fn limited(headers: &[(&'static str, &str)], length: i64) -> Signal {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Signal {
        headers,
        ..signal("openai", 429, json!({}), "rate_limited", ("openai:bucket:openai:lock rate_limited", length))
    }
}

#[tokio::test]
async fn retry_headers_end_a_lock_when_they_say_seconds_fractions_or_dates_by_the_upstreams_own_clock() {
    play(vec![
        limited(&[("retry-after", "30")], 30_000),
        limited(&[("retry-after", "2.5")], 2_500),
        limited(&[("retry-after", "0")], 1_000),
        limited(&[("retry-after-ms", "7500"), ("retry-after", "99")], 7_500),
        limited(&[("x-ms-retry-after-ms", "20000"), ("retry-after", "99")], 20_000),
        limited(&[("retry-after-ms", "302539000")], 302_539_000),
        limited(&[("retry-after", "561635")], 561_635_000),
        limited(&[("retry-after", "Mon, 30 Nov 2026 12:00:07 GMT")], 7_000),
        limited(&[("retry-after", "Monday, 30-Nov-26 12:00:07 GMT")], 7_000),
        limited(&[("retry-after", "Mon Nov 30 12:00:07 2026")], 7_000),
        limited(&[("retry-after", "mon, 30 nov 2026 12:00:07 gmt")], 7_000),
        limited(&[("retry-after", "Mon, 30 Nov 2026 11:00:00 GMT")], 1_000),
        limited(&[("date", "Wed, 01 Jan 2020 01:00:00 GMT"), ("retry-after", "Wed, 01 Jan 2020 01:00:40 GMT")], 40_000),
    ])
    .await;
}

#[tokio::test]
async fn what_is_absurd_counts_as_absent_and_a_bare_429_locks_for_about_two_seconds() {
    let bare = |value| Signal { jitter: 20, ..limited(&[("retry-after", value)], 2_000) };
    let none = Signal { headers: Vec::new(), ..bare("") };
    let values = ["-5", "soon", "NaN", "2678401", "99999999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT"];
    let mut signals: Vec<Signal> = values.into_iter().map(bare).collect();
    signals.push(none);
    play(signals).await;
}

#[tokio::test]
async fn openai_and_azure_tell_by_the_exhausted_dimension_by_fields_and_by_words() {
    let bucket = "openai:bucket:openai:lock rate_limited";
    let said = |message: &str, code: &str| json!({"error": {"message": message, "type": "requests", "code": code}});
    let usage = |fields: Value| {
        let mut error = json!({"type": "usage_limit_reached", "message": "The usage limit has been reached"});
        error.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        signal("openai", 429, json!({"error": error}), "rate_limited", ("openai:lock rate_limited", 3_600_000))
    };
    let billing = |code| {
        let body = json!({"error": {"type": "insufficient_quota", "code": code, "message": "No."}});
        signal("openai", 429, body, "billing", ("openai:lock billing", 3_600_000))
    };
    play(vec![
        limited(
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-remaining-tokens", "149984"),
                ("x-ratelimit-reset-tokens", "20m0s"),
            ],
            360_000,
        ),
        signal("openai", 429, said("Rate limit reached. Please try again in 18.642s.", ""), "rate_limited", (bucket, 18_642)),
        signal("openai", 429, said("Your quota resets in 160h27m24s", ""), "rate_limited", (bucket, 577_644_000)),
        signal("openai", 429, said("Rate limit reached on requests per min (RPM).", ""), "rate_limited", (bucket, 120_000)),
        signal(
            "openai",
            429,
            json!({"error": {"code": "429", "message": "Requests have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 86400 seconds."}}),
            "rate_limited",
            (bucket, 86_400_000),
        ),
        signal("openai", 429, said("The system is experiencing high demand.", "429"), "capacity", ("openai:model:openai:cooldown counting", 2)),
        usage(json!({"resets_in_seconds": 3600})),
        usage(json!({"resets_at": NOW_S + 3600})),
        billing("insufficient_quota"),
        billing("credit_balance_exhausted"),
        billing("project_spend_limit_exceeded"),
    ])
    .await;
}

#[tokio::test]
async fn anthropic_closes_an_account_until_its_latest_window_and_a_model_family_alone_where_only_that_is_used_up() {
    let limit = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your account's rate limit."}});
    let unified = |windows: &[(&'static str, &str, u64)], closes| {
        let headers = windows.iter().flat_map(|(window, status, in_s)| {
            let name = |field| -> &'static str { format!("anthropic-ratelimit-unified-{window}-{field}").leak() };
            [(name("status"), (*status).to_owned()), (name("reset"), (NOW_S + in_s).to_string())]
        });
        Signal { headers: headers.collect(), ..signal("anthropic", 429, limit.clone(), "rate_limited", closes) }
    };
    let tokens = [
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:20Z"),
    ];
    let error = |kind: &str, code: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message, "details": {"error_code": code}}});
    let account = |status, kind: &str, code: &str, message: &str, length| {
        signal("anthropic", status, error(kind, code, message), "billing", ("anthropic:lock billing", length))
    };
    let bucket = "anthropic:bucket:anthropic:lock rate_limited";
    let counts = ("anthropic:model:anthropic:cooldown counting", 2);
    play(vec![
        unified(&[("5h", "rejected", 3_600), ("7d", "rejected", 259_200)], ("anthropic:lock rate_limited", 259_200_000)),
        unified(&[("5h", "allowed", 3_600), ("7d_oi", "rejected", 7_200)], (bucket, 7_200_000)),
        Signal {
            headers: tokens.map(|(name, value)| (name, value.to_owned())).into(),
            ..signal("anthropic", 429, limit.clone(), "rate_limited", (bucket, 20_000))
        },
        account(400, "invalid_request_error", "", "Your credit balance is too low to access the Anthropic API.", 3_600_000),
        account(
            400,
            "invalid_request_error",
            "",
            "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
            43_200_000,
        ),
        account(429, "rate_limit_error", "enforced_spend_limit_reached", "Spend limit.", 3_600_000),
        account(402, "billing_error", "", "Pay.", 3_600_000),
        signal("anthropic", 429, error("rate_limit_error", "ramp_limit_exceeded", "Slower."), "capacity", counts),
        signal("anthropic", 529, error("overloaded_error", "", "Overloaded"), "capacity", counts),
        signal("anthropic", 500, error("api_error", "", "Internal server error"), "unavailable", counts),
        signal("anthropic", 403, error("permission_error", "", "No."), "auth", ("anthropic:lock auth", 600_000)),
        signal("anthropic", 404, error("not_found_error", "", "model: claude-x"), "model_missing", ("", 0)),
        signal("anthropic", 413, error("request_too_large", "", "Request exceeds the maximum size"), "client_error", ("", 0)),
        signal("anthropic", 400, error("invalid_request_error", "", "prompt is too long: 9 tokens > 8"), "context_length", ("", 0)),
    ])
    .await;
}

/// Google's error with these details.
fn google(status: u16, word: &str, message: &str, details: &Value) -> Value {
    json!({"error": {"code": status, "status": word, "message": message, "details": details}})
}

fn retry_info(delay: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
}

fn quota_failure(id: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id, "quotaMetric": "x"}]})
}

fn info(reason: &str, metadata: &Value) -> Value {
    let domain = "cloudcode-pa.googleapis.com";
    json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain, "metadata": metadata})
}

#[tokio::test]
async fn gemini_and_vertex_tell_in_the_body_and_a_daily_quota_is_no_blip_of_seconds() {
    let exhausted = |message: &str, details: &Value| google(429, "RESOURCE_EXHAUSTED", message, details);
    let (limit, day) = ("google:bucket:google:lock rate_limited", "google:bucket:google:lock billing");
    let counts = ("google:model:google:cooldown counting", 2);
    let minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
    let daily = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
    play(vec![
        signal("google", 429, exhausted("", &json!([retry_info("45.837906927s")])), "rate_limited", (limit, 45_838)),
        signal("google", 429, json!([exhausted("", &json!([retry_info("8s")]))]), "rate_limited", (limit, 8_000)),
        signal("google", 429, exhausted("", &json!([quota_failure(minute)])), "rate_limited", (limit, 120_000)),
        signal(
            "google",
            429,
            exhausted("Please retry in 44.09s.", &json!([quota_failure(minute)])),
            "rate_limited",
            (limit, 44_090),
        ),
        signal(
            "google",
            429,
            exhausted("", &json!([quota_failure(minute), quota_failure(daily), retry_info("45s")])),
            "billing",
            (day, 3_600_000),
        ),
        signal(
            "google",
            429,
            exhausted("", &json!([quota_failure(daily), retry_info("51820.638305887s")])),
            "billing",
            (day, 51_820_639),
        ),
        signal(
            "google",
            429,
            exhausted("Quota exceeded, limit: 0, model: x", &json!([retry_info("9s")])),
            "billing",
            (day, 3_600_000),
        ),
        signal("google", 429, exhausted("Resource exhausted, please try again later.", &json!([])), "capacity", counts),
        signal(
            "google",
            429,
            exhausted(
                "Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model",
                &json!([]),
            ),
            "rate_limited",
            (limit, 120_000),
        ),
        signal(
            "google",
            429,
            exhausted("Your prepayment credits are depleted.", &json!([])),
            "billing",
            ("google:lock billing", 3_600_000),
        ),
        signal("google", 503, google(503, "UNAVAILABLE", "The model is overloaded.", &json!([])), "capacity", counts),
        signal("google", 503, google(503, "UNAVAILABLE", "Service unavailable.", &json!([])), "unavailable", counts),
        signal(
            "google",
            400,
            google(400, "INVALID_ARGUMENT", "API key not valid.", &json!([info("API_KEY_INVALID", &json!({}))])),
            "auth",
            ("google:lock auth", 600_000),
        ),
        signal(
            "google",
            403,
            google(403, "PERMISSION_DENIED", "Denied.", &json!([])),
            "auth",
            ("google:lock auth", 600_000),
        ),
        signal(
            "google",
            404,
            google(404, "NOT_FOUND", "models/x is not found for API version v1beta", &json!([])),
            "model_missing",
            ("", 0),
        ),
        signal("google", 400, google(400, "INVALID_ARGUMENT", "Bad schema.", &json!([])), "client_error", ("", 0)),
    ])
    .await;
}

#[tokio::test]
async fn code_assist_tells_in_its_own_metadata_and_in_words() {
    let error = |status: u16, reason: &str, metadata: Value, message: &str| {
        google(status, "RESOURCE_EXHAUSTED", message, &json!([info(reason, &metadata)]))
    };
    let (limit, quota) = ("assist:bucket:assist:lock rate_limited", "assist:bucket:assist:lock billing");
    let counts = ("assist:model:assist:cooldown counting", 2);
    let delay = |text: &str| json!({"quotaResetDelay": text});
    play(vec![
        signal("assist", 429, error(429, "RATE_LIMIT_EXCEEDED", delay("479.4ms"), ""), "rate_limited", (limit, 1_000)),
        signal(
            "assist",
            429,
            error(429, "RATE_LIMIT_EXCEEDED", delay("3.957525076s"), ""),
            "rate_limited",
            (limit, 3_958),
        ),
        signal("assist", 429, error(429, "QUOTA_EXHAUSTED", delay("1h16m0.667s"), ""), "billing", (quota, 4_560_667)),
        signal(
            "assist",
            429,
            error(429, "QUOTA_EXHAUSTED", json!({"quotaResetTimeStamp": "2026-11-30T12:10:00Z"}), ""),
            "billing",
            (quota, 600_000),
        ),
        signal(
            "assist",
            429,
            error(429, "QUOTA_EXHAUSTED", json!({}), "Your quota will reset after 25h20m26s."),
            "billing",
            (quota, 91_226_000),
        ),
        signal(
            "assist",
            429,
            error(429, "MODEL_CAPACITY_EXHAUSTED", json!({}), "No capacity available"),
            "capacity",
            counts,
        ),
        signal(
            "assist",
            503,
            error(503, "MODEL_CAPACITY_EXHAUSTED", json!({}), "No capacity available"),
            "capacity",
            counts,
        ),
        signal(
            "assist",
            429,
            error(429, "INSUFFICIENT_G1_CREDITS_BALANCE", json!({}), ""),
            "billing",
            ("assist:lock billing", 3_600_000),
        ),
        signal(
            "assist",
            403,
            error(403, "VALIDATION_REQUIRED", json!({}), "Verify."),
            "auth",
            ("assist:lock auth", 600_000),
        ),
    ])
    .await;
}
