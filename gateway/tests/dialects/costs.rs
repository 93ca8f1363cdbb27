//! What an answer costs: the same tokens, whole or streamed, from whichever upstream, for whichever caller.

use gateway::canonical::usage;
use gateway::dialect::Dialect;
use proptest::prelude::*;
use serde_json::{Value, json};
use shared::money::Tokens;

use super::callers::{Caller, REQUEST};
use super::golden::cases;
use super::upstreams::{UPSTREAMS, enveloped, follow, form, framed, values};

fn any_tokens() -> impl Strategy<Value = Tokens> {
    let figure = || prop_oneof![2 => Just(0), 3 => 1u64..50, 3 => 1u64..2_000_000];
    (figure(), figure(), figure(), figure(), figure()).prop_map(
        |(input, cached_input, cache_write, output, reasoning)| Tokens {
            input,
            cached_input,
            cache_write,
            output,
            reasoning,
        },
    )
}

/// What an upstream of this form can tell apart: Gemini has no word for writing to a cache.
fn tellable(form: &str, tokens: Tokens) -> Tokens {
    if form == "gemini" { Tokens { cache_write: 0, ..tokens } } else { tokens }
}

fn said(form: &str, tokens: Tokens) -> Value {
    let input = tokens.input + tokens.cached_input + tokens.cache_write;
    let output = tokens.output + tokens.reasoning;
    match form {
        "openai" => json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": tokens.cached_input, "cache_write_tokens": tokens.cache_write},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        }),
        "responses" => json!({
            "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
            "input_tokens_details": {"cached_tokens": tokens.cached_input, "cache_write_tokens": tokens.cache_write},
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        }),
        "anthropic" => json!({
            "input_tokens": tokens.input, "cache_read_input_tokens": tokens.cached_input,
            "cache_creation_input_tokens": tokens.cache_write, "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        }),
        _ => {
            let mut usage = json!({
                "promptTokenCount": input, "cachedContentTokenCount": tokens.cached_input,
                "candidatesTokenCount": tokens.output, "thoughtsTokenCount": tokens.reasoning,
                "totalTokenCount": input + output,
            });
            // Google leaves zeros out; no answer is without tokens in all.
            let always = ["promptTokenCount", "totalTokenCount"];
            usage.as_object_mut().unwrap().retain(|name, value| always.contains(&name.as_str()) || *value != 0);
            usage
        }
    }
}

fn whole(form: &str, usage: &Value) -> Value {
    match form {
        "openai" => json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"},
            "finish_reason": "stop"}], "usage": usage}),
        "responses" => json!({"id": "r", "object": "response", "status": "completed", "usage": usage, "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]}),
        "anthropic" => json!({"id": "m", "type": "message", "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "hi"}], "usage": usage}),
        _ => json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]},
            "finishReason": "STOP"}], "usageMetadata": usage}),
    }
}

fn chunks(form: &str, usage: &Value) -> Vec<Value> {
    match form {
        "openai" => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": null}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ],
        "responses" => vec![
            json!({"type": "response.output_text.delta", "sequence_number": 0, "delta": "hi"}),
            json!({"type": "response.completed", "sequence_number": 1, "response": whole(form, usage)}),
        ],
        "anthropic" => {
            let mut first = usage.clone();
            first["output_tokens"] = 0.into();
            first.as_object_mut().unwrap().remove("output_tokens_details");
            let last = json!({"output_tokens": usage["output_tokens"],
                "output_tokens_details": usage["output_tokens_details"]});
            vec![
                json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
                    "content": [], "usage": first}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}),
                json!({"type": "message_stop"}),
            ]
        }
        _ => vec![
            json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}}],
                "usageMetadata": {"promptTokenCount": usage["promptTokenCount"],
                    "totalTokenCount": usage["promptTokenCount"]}}),
            json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
                "usageMetadata": usage}),
        ],
    }
}

fn stream(upstream: Dialect, form: &str, usage: &Value) -> String {
    chunks(form, usage).iter().map(|chunk| framed(upstream, chunk)).collect()
}

/// What the caller is told it used, in all.
fn told(caller: Caller, events: &[Value]) -> Option<(u64, u64)> {
    let last =
        |path: &str| events.iter().filter_map(|event| event.pointer(path)).rfind(|usage| !usage.is_null()).cloned();
    let tokens = match caller {
        Caller::Chat => usage::openai(&last("/usage")?.to_string()),
        Caller::Responses => usage::openai_responses(&last("/response/usage").or_else(|| last("/usage"))?.to_string()),
        Caller::Messages => {
            let mut running = usage::AnthropicUsage::default();
            for report in events.iter().filter_map(|event| event.pointer("/message/usage").or(event.get("usage"))) {
                running.report(&report.to_string());
            }
            running.tokens()
        }
        Caller::GeminiSse | Caller::GeminiArray => usage::gemini(&last("/usageMetadata")?),
    }?;
    Some((tokens.input + tokens.cached_input + tokens.cache_write, tokens.output + tokens.reasoning))
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn the_cost_is_the_same_whole_or_streamed_from_any_upstream_for_any_caller(tokens in any_tokens()) {
        for caller in Caller::ALL {
            let wanted = caller.wanted("tools");
            for upstream in UPSTREAMS {
                let form = form(caller, upstream);
                let expected = tellable(form, tokens);
                let usage = said(form, expected);
                let sums =
                    (expected.input + expected.cached_input + expected.cache_write, expected.output + expected.reasoning);
                let body = enveloped(upstream, &whole(form, &usage).to_string());
                let answer = wanted.whole(upstream, None, &body.into(), REQUEST).unwrap();
                prop_assert_eq!(answer.usage, Some(expected), "{:?} from {:?}, whole", caller, upstream);
                let body: Value = serde_json::from_slice(&answer.body).unwrap();
                prop_assert_eq!(told(caller, &[body]), Some(sums), "{:?} is told by {:?}, whole", caller, upstream);
                let text = stream(upstream, form, &usage);
                let followed = follow(wanted.stream(upstream, REQUEST), [text.as_bytes()]);
                let events = values(caller, followed.text());
                prop_assert_eq!(followed.usage, Some(expected), "{:?} from {:?}, streamed", caller, upstream);
                prop_assert_eq!(told(caller, &events), Some(sums), "{:?} is told by {:?}, streamed", caller, upstream);
            }
        }
    }
}
