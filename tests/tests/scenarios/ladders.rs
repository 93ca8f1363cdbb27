//! Whole ladders: own keys, the platform's, peers behind them with translation, larger models, and regions that are never left.

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, Speaks};
use serde_json::{Value, json};

/// The five rungs of one request, in order.
const RUNGS: [&str; 5] = ["own-1", "own-2", "plat", "peer-own", "peer-plat"];

/// `m` on own and platform keys that speak OpenAI, its peer `p` on own and platform keys that speak Anthropic.
fn five() -> Config {
    let config = Config::connections(0)
        .provider("openai: {dialect: openai, base_url: \"{FAKE}/v1\"}")
        .provider("claude: {dialect: anthropic, base_url: \"{FAKE}\"}")
        .model("m: {provider: openai, tier: lite, price: {input: 1, output: 10}}")
        .model("p: {provider: claude, tier: lite, price: {input: 1, output: 10}}")
        .more("tiers: {lite: [m, p]}")
        .account("balance: 1.00")
        .ci("byok: [own-1], peers: true, platform_fallback: true");
    let lines = [
        "id: plat, provider: openai, api_key: cred-plat, models: [m]",
        "id: peer-plat, provider: claude, api_key: cred-peer-plat, models: [p]",
        "id: own-2, provider: openai, api_key: cred-own-2, owner: acme, group: mine, models: [m]",
        "id: own-1, provider: openai, api_key: cred-own-1, owner: acme, group: mine, models: [m]",
        "id: peer-own, provider: claude, api_key: cred-peer-own, owner: acme, group: mine-too, models: [p]",
    ];
    lines.iter().fold(config, |config, line| config.also(line))
}

fn asked(cluster: &Cluster) -> Vec<String> {
    cluster.fake.calls().into_iter().map(|call| call.credential.trim_start_matches("cred-").to_owned()).collect()
}

#[tokio::test]
async fn the_five_rungs_are_walked_in_order_whichever_prefix_of_them_is_closed_and_closed_ones_are_asked_nothing() {
    let cluster = Cluster::builder(&five()).replicas(2).start().await;
    for closed in 0..=RUNGS.len() {
        let limits = RUNGS[..closed]
            .iter()
            .map(|rung| Rule::on(&format!("cred-{rung}"), "*").fails(429).header("retry-after", "300"));
        cluster.fake.script(limits.collect::<Vec<_>>());
        for speaks in [Speaks::Chat, Speaks::Messages, Speaks::Gemini, Speaks::Responses] {
            let what = format!("{closed} closed, {speaks:?}");
            cluster.redis.unlock_all().await;
            cluster.fake.clear_calls();
            let first = speaks.ask(cluster.client(0), SECRET, "m").await;
            let expected: Vec<&str> = RUNGS.iter().copied().take(closed + 1).collect();
            assert_eq!(asked(&cluster), expected, "{what}");
            cluster.fake.clear_calls();
            let again = speaks.ask(cluster.client(1), SECRET, "m").await;
            assert_eq!(
                asked(&cluster),
                expected[closed.min(4)..(closed + 1).min(5)]
                    .iter()
                    .take(usize::from(closed < 5))
                    .copied()
                    .collect::<Vec<_>>(),
                "{what}"
            );
            for answer in [first, again] {
                let Some(rung) = RUNGS.get(closed) else {
                    assert_eq!(answer.status, 429, "{what}: {}", answer.body);
                    continue;
                };
                assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, *rung), "{what}");
                assert_eq!(answer.header("x-headgate-model"), if closed < 3 { "m" } else { "p" }, "{what}");
                assert!(answer.body.contains("You said: hi"), "{what}: {}", answer.body);
            }
        }
    }
    let rows = cluster.redis.ledger("acme").await;
    let own = rows.iter().filter(|row| row["connection"].starts_with("own") || row["connection"] == "peer-own");
    assert!(own.clone().count() > 0 && own.into_iter().all(|row| row["cost"] == "0"), "own keys cost nothing here");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_key_without_peers_or_platform_never_meets_them() {
    let ci = |flags: &str| five().ci(flags);
    for (key, flags, expected) in [
        ("nopeers", "peers: false, platform_fallback: true, byok: [own-1]", &RUNGS[..3]),
        ("ownonly", "peers: false, platform_fallback: false, byok: [own-1]", &RUNGS[..2]),
    ] {
        let cluster = Cluster::builder(&ci("").key(key, flags)).start().await;
        cluster.fake.script([Rule::any().fails(429).header("retry-after", "300")]);
        let secret = cluster::harness::secret_of(key);
        assert_eq!(cluster.client(0).chat(&secret, "m", "hi").await.status, 429, "{key}");
        assert_eq!(asked(&cluster), expected, "{key}");
    }
}

#[tokio::test]
async fn an_account_of_one_region_is_served_there_or_not_at_all_also_by_peers() {
    let config = Config::connections(0)
        .provider("openai: {dialect: openai, base_url: \"{FAKE}/v1\"}")
        .provider("claude: {dialect: anthropic, base_url: \"{FAKE}\"}")
        .model("m: {provider: openai, tier: lite}")
        .model("p: {provider: claude, tier: lite}")
        .more("tiers: {lite: [m, p]}")
        .account("residency: eu")
        .ci("peers: true");
    let lines =
        [("m-us", "openai", "us"), ("m-eu", "openai", "eu"), ("p-us", "claude", "us"), ("p-eu", "claude", "eu")];
    let config = lines.iter().fold(config, |config, (id, provider, region)| {
        let model = &id[..1];
        config.also(&format!("id: {id}, provider: {provider}, api_key: cred-{id}, region: {region}, models: [{model}]"))
    });
    let cluster = Cluster::builder(&config).start().await;
    let limited = |id: &str| Rule::on(&format!("cred-{id}"), "*").fails(429).header("retry-after", "300");
    for (closed, status, expected) in [
        (&[][..], 200, &["m-eu"][..]),
        (&["m-eu"], 200, &["m-eu", "p-eu"]),
        (&["m-eu", "p-eu"], 429, &["m-eu", "p-eu"]),
    ] {
        cluster.fake.script(closed.iter().map(|id| limited(id)).collect::<Vec<_>>());
        cluster.fake.clear_calls();
        let answer = cluster.client(0).chat(SECRET, "m", "hi").await;
        assert_eq!((answer.status, asked(&cluster)), (status, expected.iter().map(ToString::to_string).collect()));
        cluster.redis.unlock_all().await;
    }
    cluster.assert_clean().await;
}

/// A too long prompt, as one provider says it: its dialect, status and body.
fn too_long() -> [(&'static str, u16, Value); 5] {
    let openai = |code: Value, message: &str| json!({"error": {"message": message, "type": "invalid_request_error", "code": code}});
    [
        ("openai", 400, openai("context_length_exceeded".into(), "This model's maximum context length is 8 tokens.")),
        (
            "openai",
            400,
            openai(Value::Null, "The input (9 tokens) is longer than the model's context length (8 tokens)."),
        ),
        ("openai", 413, openai(Value::Null, "prompt is too long")),
        (
            "anthropic",
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}}),
        ),
        (
            "gemini",
            400,
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}),
        ),
    ]
}

#[tokio::test]
async fn a_prompt_that_is_too_long_goes_to_the_larger_model_if_there_is_one_and_cools_nothing() {
    for (dialect, status, body) in too_long() {
        let path = if dialect == "openai" { "/v1" } else { "" };
        let config = Config::connections(0)
            .provider(&format!("up: {{dialect: {dialect}, base_url: \"{{FAKE}}{path}\"}}"))
            .model("small: {provider: up, larger: large}")
            .model("large: {provider: up, larger: largest}")
            .model("largest: {provider: up}")
            .model("alone: {provider: up}")
            .also("id: c, provider: up, api_key: cred-c, models: [small, large, largest, alone]");
        let cluster = Cluster::builder(&config).start().await;
        let event = Rule { error_event_after_chunks: Some(0), error_event: Some(body.clone()), ..Rule::any() };
        for (rule, streamed) in [(Rule::any().fails(status).body(body.clone()), false), (event, true)] {
            let what = format!("{dialect} {body} streamed: {streamed}");
            let ask = async |model: &str| {
                if streamed {
                    let stream = cluster.client(0).chat_stream(SECRET, model, "hi").await;
                    (stream.status, stream.header("x-headgate-model").to_owned())
                } else {
                    let answer = cluster.client(0).chat(SECRET, model, "hi").await;
                    (answer.status, answer.header("x-headgate-model").to_owned())
                }
            };
            let on = |model: &str| Rule { model: model.into(), ..rule.clone() };
            cluster.fake.script([on("small")]);
            assert_eq!(ask("small").await, (200, "large".into()), "{what}");
            cluster.fake.script([on("small"), on("large")]);
            assert_eq!(ask("small").await, (200, "largest".into()), "{what}");
            cluster.fake.clear_calls();
            cluster.fake.script([rule.clone()]);
            let told = if streamed { 400 } else { status };
            assert_eq!(ask("small").await.0, told, "{what}: the original refusal");
            assert_eq!(cluster.fake.calls().len(), 3, "{what}: each model once");
            cluster.fake.clear_calls();
            assert_eq!(ask("alone").await.0, told, "{what}");
            assert_eq!(cluster.fake.calls().len(), 1, "{what}");
            assert_eq!(cluster.redis.closures().await, [], "{what}");
        }
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn dead_credentials_are_walked_for_free_in_one_request_and_when_all_are_dead_it_is_said() {
    let config =
        (1..=10).fold(Config::connections(10), |config, nth| config.connection(nth, &format!("priority: {nth}")));
    let cluster = Cluster::of_three(&config).await;
    let dead = |nth: usize| Rule::on(&format!("cred-{nth}"), "*").fails([401, 402][nth % 2]);
    cluster.fake.script((1..=7).map(dead).collect::<Vec<_>>());
    let answer = cluster.next().chat(SECRET, "m1", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "conn-8"), "{}", answer.body);
    assert_eq!(cluster.fake.calls().len(), 8, "seven dead ones and the answer");
    for _ in 0..3 {
        assert_eq!(cluster.next().chat(SECRET, "m2", "hi").await.header("x-headgate-attempts"), "conn-8/m2:ok");
    }
    cluster.fake.script([Rule::any().fails(401)]);
    let none = cluster.next().chat(SECRET, "m1", "hi").await;
    assert_eq!((none.status, none.error_code().as_str()), (502, "upstream_error"));
    assert!(none.body.contains("upstream_credentials_exhausted") && !none.body.contains("cred-"), "{}", none.body);
    assert_eq!(none.header("x-headgate-refusal"), "", "it is the upstreams' word");
    let locks = cluster.redis.closures().await;
    assert!(locks.len() == 10 && locks.iter().all(|lock| lock.what.ends_with(":lock")), "{locks:?}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn what_only_one_provider_knows_does_not_reach_its_peer_and_each_attempt_begins_with_the_callers_own_request() {
    let config = Config::connections(0)
        .provider("claude: {dialect: anthropic, base_url: \"{FAKE}\"}")
        .provider("openai: {dialect: openai, base_url: \"{FAKE}/v1\"}")
        .model("p: {provider: claude, tier: lite}")
        .model("m: {provider: openai, tier: lite}")
        .more("tiers: {lite: [p, m]}")
        .ci("peers: true")
        .also("id: c-1, provider: claude, api_key: cred-c-1, models: [p]")
        .also("id: c-2, provider: claude, api_key: cred-c-2, models: [p], priority: 1")
        .also("id: o, provider: openai, api_key: cred-o, models: [m]");
    let cluster = Cluster::builder(&config).start().await;
    let limited = |id: &str| Rule::on(&format!("cred-{id}"), "*").fails(429).header("retry-after", "300");
    cluster.fake.script([limited("c-1"), limited("c-2")]);
    let body = json!({"model": "p", "max_tokens": 2000, "system": "Be brief.", "messages": [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I add them.", "signature": "canary-signature"},
            {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 2}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"}]},
    ], "tools": [{"name": "add", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}]});
    let headers = [("x-api-key", SECRET), ("anthropic-version", "2023-06-01")];
    let answer = cluster.client(0).send(http::Method::POST, "/v1/messages", &headers, body.to_string()).await.unwrap();
    assert_eq!((answer.status, answer.header("x-headgate-connection")), (200, "o"), "{}", answer.body);
    let calls = cluster.fake.calls();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[0].body, calls[1].body, "the same bytes to both of the own dialect");
    assert!(calls[0].body.contains("canary-signature"), "{}", calls[0].body);
    let crossed = &calls[2];
    assert_eq!((crossed.path.as_str(), crossed.model.as_str()), ("/v1/chat/completions", "m"));
    for foreign in ["canary-signature", "cache_control", "I add them"] {
        assert!(!crossed.body.contains(foreign), "{foreign}: {}", crossed.body);
    }
    assert!(crossed.body.contains("toolu_1") && crossed.body.contains("Be brief."), "{}", crossed.body);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_peer_that_is_too_small_or_cannot_say_what_is_asked_is_passed_over_without_a_call() {
    let config = Config::connections(0)
        .provider("openai: {dialect: openai, base_url: \"{FAKE}/v1\"}")
        .provider("google: {dialect: gemini, base_url: \"{FAKE}\"}")
        .provider("other: {dialect: openai, base_url: \"{FAKE}/v1\"}")
        .model("m: {provider: openai, tier: lite}")
        .model("tiny: {provider: other, tier: lite, context: 50}")
        .model("g: {provider: google, tier: lite}")
        .model("last: {provider: other, tier: lite}")
        .more("tiers: {lite: [m, tiny, g, last]}")
        .ci("peers: true")
        .also("id: c-m, provider: openai, api_key: cred-m, models: [m]")
        .also("id: c-tiny, provider: other, api_key: cred-tiny, models: [tiny]")
        .also("id: c-g, provider: google, api_key: cred-g, models: [g]")
        .also("id: c-last, provider: other, api_key: cred-last, models: [last]");
    let cluster = Cluster::builder(&config).start().await;
    let headers = [("x-api-key", SECRET)];
    let long = "word ".repeat(200);
    for (text, extra, expected) in [
        ("hi", json!({}), &["m", "tiny"][..]),
        (long.as_str(), json!({}), &["m", "g"]),
        (long.as_str(), json!({"logit_bias": {"50256": -100}}), &["m", "last"]),
        ("hi", json!({"logit_bias": {"50256": -100}}), &["m", "tiny"]),
    ] {
        cluster.fake.script([Rule::on("cred-m", "*").fails(429).header("retry-after", "300")]);
        cluster.fake.clear_calls();
        let mut body = Speaks::Chat.body("m", text);
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let path = "/v1/chat/completions";
        let answer = cluster.client(0).send(http::Method::POST, path, &headers, body.to_string()).await.unwrap();
        assert_eq!(answer.status, 200, "{extra}: {}", answer.body);
        assert_eq!(asked(&cluster), expected, "{extra}");
        cluster.redis.unlock_all().await;
    }
    cluster.assert_clean().await;
}
