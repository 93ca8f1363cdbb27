//! The fake upstream itself: what a scenario scripts is what goes over the wire.

use std::time::Duration;

use cluster::fake::{Fake, Outcome, Rule, TokenCounts, ToolCall, UsageMode};
use cluster::harness::{Client, Event, Refused, Response, eventually};
use http::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn started(rules: impl Into<Vec<Rule>>) -> (Fake, Client) {
    let fake = Fake::start().await.unwrap();
    fake.script(rules);
    let client = Client::new(&fake.url());
    (fake, client)
}

pub(crate) async fn streamed(client: &Client) -> (Vec<Event>, Result<(), String>) {
    client.chat_stream("a", "m", "hi").await.rest().await
}

async fn post(client: &Client, path: &str, body: &Value) -> Response {
    client.send(Method::POST, path, &[("authorization", "Bearer a")], body.to_string()).await.unwrap()
}

pub(crate) fn said(events: &[Event]) -> String {
    events.iter().filter_map(Event::content).collect()
}

#[tokio::test]
async fn a_healthy_call_echoes_the_last_user_text_the_same_whole_and_streamed() {
    let (fake, client) = started([]).await;
    let whole = client.chat("a", "m", "good morning").await;
    let (events, end) = client.chat_stream("a", "m", "good morning").await.rest().await;
    assert_eq!((whole.status, whole.said().as_str()), (200, "You said: good morning"));
    assert_eq!(said(&events), whole.said());
    assert!(end.is_ok() && events.last().unwrap().is_done());
    let usage: Value = serde_json::from_str(&events[events.len() - 2].data).unwrap();
    assert_eq!(usage["usage"], whole.json()["usage"]);
    assert!(fake.calls().iter().all(|call| call.outcome == Outcome::Answered && call.model == "m"));
}

#[tokio::test]
async fn the_usage_chunk_comes_only_if_it_is_asked_for() {
    let (_fake, client) = started([]).await;
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let stream = client.stream("/v1/chat/completions", &[], body.to_string()).await.unwrap();
    let (events, _) = stream.rest().await;
    assert!(events.iter().all(|event| !event.data.contains("usage")), "{events:?}");
}

#[tokio::test]
async fn a_request_without_model_or_messages_is_refused_in_the_dialects_envelope() {
    let (fake, client) = started([]).await;
    for body in [
        json!({"messages": [{"role": "user", "content": "x"}]}),
        json!({"model": "m"}),
        json!({"model": "m", "messages": []}),
    ] {
        let refused = post(&client, "/v1/chat/completions", &body).await;
        assert_eq!((refused.status, &refused.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    }
    let refused = post(&client, "/v1/messages", &json!({"model": "m"})).await;
    assert_eq!((refused.status, &refused.json()["type"]), (400, &json!("error")));
    let refused = post(&client, "/v1beta/models/g:generateContent", &json!({})).await;
    assert_eq!(refused.json()["error"]["status"], "INVALID_ARGUMENT");
    assert_eq!(post(&client, "/v1/unknown", &json!({})).await.status, 404);
    assert_eq!(fake.open(), 0);
}

#[tokio::test]
async fn every_dialect_answers_and_counts_the_same_tokens() {
    let tokens = TokenCounts {
        prompt: Some(100),
        completion: Some(50),
        cached: Some(30),
        reasoning: Some(20),
        ..TokenCounts::default()
    };
    let (_fake, client) = started([Rule { tokens, ..Rule::any() }]).await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    let contents = json!([{"role": "user", "parts": [{"text": "hi"}]}]);
    let chat = post(&client, "/v1/chat/completions", &json!({"model": "m", "messages": messages})).await.json();
    assert_eq!(chat["usage"]["prompt_tokens_details"]["cached_tokens"], 30);
    let responses = post(&client, "/v1/responses", &json!({"model": "m", "input": "hi"})).await.json();
    assert_eq!(responses["usage"]["output_tokens_details"]["reasoning_tokens"], 20);
    let message = post(&client, "/v1/messages", &json!({"model": "m", "messages": messages})).await.json();
    assert_eq!(
        (&message["usage"]["input_tokens"], &message["usage"]["cache_read_input_tokens"]),
        (&json!(70), &json!(30))
    );
    let gemini = post(&client, "/v1beta/models/g:generateContent", &json!({"contents": contents})).await.json();
    assert_eq!(gemini["usageMetadata"]["candidatesTokenCount"], 30);
    let wrapped = json!({"model": "g", "request": {"contents": contents}});
    let assist = post(&client, "/v1internal:generateContent", &wrapped).await.json();
    assert_eq!(assist["response"]["usageMetadata"], gemini["usageMetadata"]);
    let counted = post(&client, "/v1/messages/count_tokens", &json!({"model": "m", "messages": messages})).await.json();
    assert_eq!(counted, json!({"input_tokens": 100}));
    let counted = post(&client, "/v1alpha/models/g:countTokens", &json!({"contents": contents})).await.json();
    assert_eq!(counted, json!({"totalTokens": 100}));
}

#[tokio::test]
async fn every_dialect_streams_its_opening_its_content_and_its_end() {
    let (_fake, client) = started([Rule::any().says("abcd", 2)]).await;
    let open = |path: &'static str, body: Value| {
        let client = client.clone();
        async move { client.stream(path, &[], body.to_string()).await.unwrap().rest().await.0 }
    };
    let events =
        open("/v1/messages", json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]}))
            .await;
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let delta = "content_block_delta";
    assert_eq!(names[..5], ["message_start", "content_block_start", "ping", delta, delta]);
    assert_eq!(names[5..], ["content_block_stop", "message_delta", "message_stop"]);
    let events = open("/v1/responses", json!({"model": "m", "stream": true, "input": "x"})).await;
    assert_eq!(
        (events[0].name.as_str(), events.last().unwrap().name.as_str()),
        ("response.created", "response.completed")
    );
    let contents = json!({"contents": [{"parts": [{"text": "x"}]}]});
    let events = open("/v1beta/models/g:streamGenerateContent?alt=sse", contents.clone()).await;
    assert!(events.len() == 3 && events[2].data.contains(r#""finishReason":"STOP""#), "{events:?}");
    let array = post(&client, "/v1beta/models/g:streamGenerateContent", &contents).await.json();
    assert_eq!(array.as_array().map(Vec::len), Some(3));
    let events = open("/v1internal:streamGenerateContent?alt=sse", json!({"model": "g", "request": contents})).await;
    assert!(events.iter().all(|event| event.data.starts_with(r#"{"response":"#)));
}

#[tokio::test]
async fn embeddings_come_as_numbers_or_base64_one_per_input() {
    let (_fake, client) = started([]).await;
    let floats = post(&client, "/v1/embeddings", &json!({"model": "e", "input": ["a", "b"]})).await.json();
    assert_eq!(floats["data"][1]["embedding"].as_array().map(Vec::len), Some(8));
    let base64 =
        post(&client, "/v1/embeddings", &json!({"model": "e", "input": "a", "encoding_format": "base64"})).await.json();
    assert!(base64["data"][0]["embedding"].is_string());
    let batch = json!({"requests": [{"content": {"parts": [{"text": "a"}]}}]});
    let gemini = post(&client, "/v1beta/models/e:batchEmbedContents", &batch).await.json();
    assert_eq!(gemini["embeddings"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_tool_call_is_answered_only_if_the_request_has_tools() {
    let tool_calls = vec![ToolCall { name: "look_up".into(), arguments: json!({"q": 1}) }];
    let (_fake, client) = started([Rule { tool_calls, ..Rule::any() }]).await;
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
    assert!(post(&client, "/v1/chat/completions", &body).await.json()["choices"][0]["message"]["tool_calls"].is_null());
    body["tools"] = json!([{"type": "function", "function": {"name": "look_up"}}]);
    let choice = post(&client, "/v1/chat/completions", &body).await.json()["choices"][0].clone();
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], r#"{"q":1}"#);
    assert_eq!(choice["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn a_failure_is_scripted_per_credential_and_model_and_heals_after_its_times() {
    let (_fake, client) = started([Rule::on("a", "m1").fails(429).header("retry-after", "7").times(1)]).await;
    assert_eq!(client.chat("b", "m1", "x").await.status, 200);
    assert_eq!(client.chat("a", "m2", "x").await.status, 200);
    let refused = client.chat("a", "m1", "x").await;
    assert_eq!(
        (refused.status, refused.header("retry-after"), refused.error_code().as_str()),
        (429, "7", "rate_limit_exceeded")
    );
    assert_eq!(client.chat("a", "m1", "x").await.status, 200);
}

#[tokio::test]
async fn a_scripted_body_is_sent_as_it_is() {
    let (_fake, client) = started([
        Rule { content_type: Some("text/html".into()), ..Rule::any().fails(502).body("<h1>Bad</h1>").times(1) },
        Rule::any().body(json!({"error": {"message": "late"}})).times(1),
        Rule { empty_body: true, ..Rule::any().times(1) },
    ])
    .await;
    let html = client.chat("a", "m", "x").await;
    assert_eq!((html.status, html.header("content-type"), html.body.as_str()), (502, "text/html", "<h1>Bad</h1>"));
    let hidden = client.chat("a", "m", "x").await;
    assert_eq!((hidden.status, hidden.body.as_str()), (200, r#"{"error":{"message":"late"}}"#));
    assert_eq!(client.chat("a", "m", "x").await.body, "");
}

#[tokio::test]
async fn the_usage_report_can_be_missing_or_nonsense() {
    for (mode, expected) in [
        (UsageMode::None, None),
        (UsageMode::Null, Some(Value::Null)),
        (UsageMode::String, Some(json!("lots"))),
        (UsageMode::Negative, Some(json!(-10))),
    ] {
        let (_fake, client) = started([Rule { usage: mode, ..Rule::any().tokens(10, 5) }]).await;
        let usage = client.chat("a", "m", "x").await.json().get("usage").cloned();
        let seen = usage.map(|usage| usage.get("prompt_tokens").cloned().unwrap_or(usage));
        assert_eq!(seen, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn the_peak_is_the_most_calls_open_at_once_per_credential_and_model() {
    let (fake, client) = started([Rule::any().delays_headers(Duration::from_mins(1))]).await;
    let calls: Vec<_> = [("a", "m1"), ("a", "m1"), ("a", "m2"), ("b", "m1")]
        .map(|(secret, model)| {
            let client = client.clone();
            tokio::spawn(async move { client.try_chat(secret, model, "x").await })
        })
        .into();
    eventually(SOON, "all have been read", async || {
        fake.calls().iter().filter(|call| !call.model.is_empty()).count() == 4
    })
    .await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    eventually(SOON, "all are gone", async || fake.open() == 0).await;
    let peaks = fake.peaks();
    assert_eq!((peaks.all.peak, fake.peak("a").peak, fake.peak("b").peak), (4, 3, 1));
    assert_eq!((peaks.models["a"]["m1"].peak, peaks.models["a"]["m2"].peak), (2, 1));
}

#[tokio::test]
async fn one_caller_after_another_never_counts_as_two() {
    let (fake, client) = started([]).await;
    for _ in 0..50 {
        client.chat("a", "m", "x").await;
        streamed(&client).await.1.unwrap();
    }
    assert_eq!((fake.peak("a").peak, fake.peak("a").total), (1, 100));
}

#[tokio::test]
async fn the_log_shows_the_credential_wherever_it_stood_and_the_body_as_sent() {
    let (fake, client) = started([]).await;
    let body = r#"{"model": "m",  "messages": [{"role":"user","content":"1.0"}]}"#;
    for header in [("authorization", "Bearer k"), ("x-api-key", "k"), ("x-goog-api-key", "k"), ("api-key", "k")] {
        client.send(Method::POST, "/v1/chat/completions", &[header], body).await.unwrap();
    }
    client.send(Method::POST, "/v1/chat/completions?key=k", &[], body).await.unwrap();
    let calls = fake.calls_of("k");
    assert_eq!(calls.len(), 5);
    assert!(calls.iter().all(|call| call.body == body && call.headers.contains_key("host")));
}

#[tokio::test]
async fn the_control_api_scripts_and_tells_over_http() {
    let (_fake, client) = started([]).await;
    let control = async |method: Method, path: &str, body: &str| {
        client.send(method, &format!("/__fake{path}"), &[], body.to_owned()).await.unwrap()
    };
    assert_eq!(control(Method::POST, "/rules", r#"[{"credential":"a","status":500,"times":1}]"#).await.status, 204);
    assert_eq!(control(Method::POST, "/rules/add", r#"{"status":418}"#).await.status, 204);
    let unknown = control(Method::POST, "/rules", r#"[{"statsu":500}]"#).await;
    assert!(unknown.status == 400 && unknown.body.contains("statsu"), "{}", unknown.body);
    assert_eq!([client.chat("a", "m", "x").await.status, client.chat("a", "m", "x").await.status], [500, 418]);
    control(Method::DELETE, "/rules", "").await;
    assert_eq!(client.chat("a", "m", "x").await.status, 200);
    let calls = control(Method::GET, "/calls", "").await.json();
    let statuses: Vec<&Value> = calls.as_array().unwrap().iter().map(|call| &call["status"]).collect();
    assert_eq!(statuses, [500, 418, 200]);
    assert_eq!(control(Method::GET, "/peak", "").await.json()["credentials"]["a"]["total"], 3);
    control(Method::DELETE, "/calls", "").await;
    control(Method::DELETE, "/peak", "").await;
    assert_eq!(control(Method::GET, "/calls", "").await.json(), json!([]));
    assert_eq!(control(Method::GET, "/peak", "").await.json()["all"]["total"], 0);
}

const TALKS: [&str; 4] =
    ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/g:streamGenerateContent?alt=sse"];

/// A request with a function, which every dialect reads.
fn with_a_function() -> String {
    let contents = json!([{"role": "user", "parts": [{"text": "x"}]}]);
    let messages = json!([{"role": "user", "content": "x"}]);
    json!({"model": "m", "stream": true, "messages": messages, "input": "x", "contents": contents, "tools": [{}]})
        .to_string()
}

#[tokio::test]
async fn every_dialect_thinks_and_makes_two_calls_in_one_stream() {
    let call = |city: &str| ToolCall { name: "weather".into(), arguments: json!({"city": city}) };
    let tool_calls = vec![call("Oslo"), call("Rome")];
    let rule = Rule { tool_calls, interleaved: true, thinking: Some("Hm, two.".into()), ..Rule::any() };
    let (_fake, client) = started([rule]).await;
    for path in TALKS {
        let events = client.stream(path, &[], with_a_function()).await.unwrap().rest().await.0;
        let text: String = events.iter().map(|event| event.data.as_str()).collect();
        for thought in ["Hm, ", "two."] {
            assert!(text.contains(thought), "{path}: {text}");
        }
        assert!(text.matches(r#""name":"weather""#).count() >= 2, "{path}: {text}");
    }
}

#[tokio::test]
async fn fragments_of_interleaved_calls_take_turns_and_join_to_the_arguments() {
    let call = |city: &str| ToolCall { name: "weather".into(), arguments: json!({"city": city}) };
    let rule = Rule { tool_calls: vec![call("Oslo"), call("Rome")], interleaved: true, ..Rule::any() };
    let (_fake, client) = started([rule]).await;
    let events = client.stream(TALKS[0], &[], with_a_function()).await.unwrap().rest().await.0;
    let chunks = events.iter().filter_map(|event| serde_json::from_str::<Value>(&event.data).ok());
    let deltas: Vec<Value> =
        chunks.filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0").cloned()).collect();
    let order: Vec<u64> = deltas.iter().filter_map(|delta| delta["index"].as_u64()).collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1]);
    let second = deltas.iter().filter(|delta| delta["index"] == 1);
    let arguments: String = second.filter_map(|delta| delta.pointer("/function/arguments")?.as_str()).collect();
    assert_eq!(arguments, r#"{"city":"Rome"}"#);
}

#[tokio::test]
async fn a_refresh_token_is_exchanged_and_an_account_has_a_project() {
    let (fake, client) = started([]).await;
    let form = "grant_type=refresh_token&refresh_token=mine&client_id=x";
    let token = client.send(Method::POST, "/token", &[], form).await.unwrap().json();
    assert_eq!(token["access_token"], "ya29.mine");
    let account = post(&client, "/v1internal:loadCodeAssist", &json!({})).await.json();
    assert_eq!(account["cloudaicompanionProject"], "fake-project");
    fake.script([Rule { path: "/token".into(), ..Rule::any().fails(400) }]);
    assert_eq!(client.send(Method::POST, "/token", &[], form).await.unwrap().status, 400);
}

#[tokio::test]
async fn one_port_is_several_endpoints_each_with_its_own_script_and_log_and_a_held_port_refuses() {
    let (fake, client) = started([Rule::any().at("/daily").fails(404), Rule::any().at("/autopush").fails(503)]).await;
    let body =
        json!({"model": "g", "project": "p", "request": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}});
    for (endpoint, status) in [("/daily", 404), ("/autopush", 503), ("/prod", 200)] {
        let answer = post(&client, &format!("{endpoint}/v1internal:generateContent"), &body).await;
        assert_eq!(answer.status, status, "{endpoint}");
        assert_eq!(answer.json().get("response").is_some(), status == 200, "{endpoint}: {}", answer.body);
        let calls = fake.calls_at(endpoint);
        assert_eq!((calls.len(), calls[0].model.as_str(), calls[0].status), (1, "g", Some(status)));
    }
    assert!(fake.calls_at("/dail").is_empty());
    let refused = Refused::hold();
    let error = Client::new(&refused.url()).try_chat("a", "m", "x").await.unwrap_err();
    assert!(error.is_connect(), "{error}");
}
