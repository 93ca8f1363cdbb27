//! What an answer costs: the same tokens, whole or streamed, from whichever upstream, for whichever caller.

use gateway::canonical::usage;
use gateway::dialect::Dialect;
use proptest::prelude::*;
use serde_json::{Value, json};
use shared::money::{Price, Rate, Rates, Tokens};

use super::callers::{Caller, REQUEST};
use super::golden::cases;
use super::upstreams::{UPSTREAMS, enveloped, follow, form, framed, values};

fn any_tokens() -> impl Strategy<Value = Tokens> {
    let figure = || prop_oneof![2 => Just(0), 3 => 1u64..50, 3 => 1u64..2_000_000];
    prop::array::uniform8(figure()).prop_map(
        |[input, cached_input, cache_write, cache_write_1h, output, reasoning, input_audio, output_audio]| Tokens {
            input,
            cached_input,
            cache_write,
            cache_write_1h,
            output,
            reasoning,
            input_audio,
            output_audio,
        },
    )
}

/// What an upstream of this form can tell apart: Gemini has no word for writing to a cache, Anthropic none for audio.
fn tellable(form: &str, tokens: Tokens) -> Tokens {
    match form {
        "gemini" => Tokens { cache_write: 0, cache_write_1h: 0, ..tokens },
        "anthropic" => Tokens { input_audio: 0, output_audio: 0, ..tokens },
        _ => tokens,
    }
}

fn said(form: &str, tokens: Tokens) -> Value {
    let (input, output) = (tokens.all_input(), tokens.all_output());
    let input_details = json!({
        "cached_tokens": tokens.cached_input, "cache_write_tokens": tokens.all_cache_writes(),
        "cache_write_tokens_details": {"ttl_30m": tokens.cache_write, "ttl_12h": tokens.cache_write_1h},
        "audio_tokens": tokens.input_audio,
    });
    let output_details = json!({"reasoning_tokens": tokens.reasoning, "audio_tokens": tokens.output_audio});
    match form {
        "openai" => json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            "prompt_tokens_details": input_details, "completion_tokens_details": output_details,
        }),
        "responses" => json!({
            "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
            "input_tokens_details": input_details, "output_tokens_details": output_details,
        }),
        "anthropic" => json!({
            "input_tokens": tokens.input, "cache_read_input_tokens": tokens.cached_input,
            "cache_creation_input_tokens": tokens.all_cache_writes(), "output_tokens": output,
            "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write,
                "ephemeral_1h_input_tokens": tokens.cache_write_1h},
            "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        }),
        _ => {
            let mut usage = json!({
                "promptTokenCount": input, "cachedContentTokenCount": tokens.cached_input,
                "candidatesTokenCount": tokens.output + tokens.output_audio, "thoughtsTokenCount": tokens.reasoning,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input},
                    {"modality": "AUDIO", "tokenCount": tokens.input_audio}],
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": tokens.output_audio}],
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
    Some((tokens.all_input(), tokens.all_output()))
}

/// $1 input, $0.10 cached, $1.25 and $2 written to a cache, $10 output, $3 and $20 audio, per million tokens.
fn price() -> Price {
    let rate = |usd: &str| Rate::per_million(usd.parse().unwrap()).unwrap();
    Price::flat(Rates {
        input: rate("1"),
        cached_input: rate("0.10"),
        cache_write: rate("1.25"),
        cache_write_1h: rate("2"),
        output: rate("10"),
        reasoning: rate("10"),
        input_audio: rate("3"),
        output_audio: rate("20"),
    })
}

/// What upstreams said, and what that costs in nano-dollars by hand.
fn bills() -> Vec<(&'static str, Value, i64)> {
    let gemini = json!({"promptTokenCount": 55021, "candidatesTokenCount": 923, "thoughtsTokenCount": 785,
        "totalTokenCount": 56729});
    vec![
        (
            "anthropic",
            json!({"input_tokens": 3, "cache_creation_input_tokens": 12304, "cache_read_input_tokens": 0,
                "output_tokens": 550}),
            3 * 1_000 + 12_304 * 1_250 + 550 * 10_000,
        ),
        (
            "anthropic",
            json!({"input_tokens": 3, "cache_creation_input_tokens": 12304, "output_tokens": 550,
                "cache_creation": {"ephemeral_5m_input_tokens": 12000, "ephemeral_1h_input_tokens": 304}}),
            3 * 1_000 + 12_000 * 1_250 + 304 * 2_000 + 550 * 10_000,
        ),
        (
            "anthropic",
            json!({"input_tokens": 4, "cache_read_input_tokens": 2455, "output_tokens": 550}),
            4 * 1_000 + 2_455 * 100 + 550 * 10_000,
        ),
        (
            "openai",
            json!({"prompt_tokens": 2459, "completion_tokens": 550, "total_tokens": 3009,
                "prompt_tokens_details": {"cached_tokens": 2455}}),
            4 * 1_000 + 2_455 * 100 + 550 * 10_000,
        ),
        (
            "openai",
            json!({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10, "audio_tokens": 20},
                "completion_tokens_details": {"reasoning_tokens": 20, "audio_tokens": 5}}),
            30 * 1_000 + 40 * 100 + 10 * 1_250 + 20 * 3_000 + 45 * 10_000 + 5 * 20_000,
        ),
        (
            "responses",
            json!({"input_tokens": 2459, "output_tokens": 550, "total_tokens": 3009,
                "input_tokens_details": {"cached_tokens": 2455}, "output_tokens_details": {"reasoning_tokens": 500}}),
            4 * 1_000 + 2_455 * 100 + 550 * 10_000,
        ),
        ("gemini", gemini, 55_021 * 1_000 + 1_708 * 10_000),
        (
            "gemini",
            json!({"promptTokenCount": 100_000, "cachedContentTokenCount": 90000, "candidatesTokenCount": 1,
                "totalTokenCount": 100_001}),
            10_000 * 1_000 + 90_000 * 100 + 10_000,
        ),
    ]
}

/// The usage read of a whole answer and of a streamed one.
fn read(caller: Caller, upstream: Dialect, usage: &Value) -> [Option<Tokens>; 2] {
    let (wanted, form) = (caller.wanted("tools"), form(caller, upstream));
    let body = enveloped(upstream, &whole(form, usage).to_string());
    let answer = wanted.whole(upstream, None, &body.into(), REQUEST).unwrap();
    let text = stream(upstream, form, usage);
    [answer.usage, follow(wanted.stream(upstream, REQUEST), [text.as_bytes()]).usage]
}

/// Every caller and upstream that speak of usage in this form.
fn pairs(of: &str) -> Vec<(Caller, Dialect)> {
    let all = Caller::ALL.into_iter().flat_map(|caller| UPSTREAMS.into_iter().map(move |upstream| (caller, upstream)));
    all.filter(|(caller, upstream)| form(*caller, *upstream) == of).collect()
}

#[test]
fn what_upstreams_report_costs_what_was_calculated_by_hand_whole_and_streamed_for_every_caller() {
    for (form, usage, nanos) in bills() {
        for (caller, upstream) in pairs(form) {
            for tokens in read(caller, upstream, &usage) {
                let cost = tokens.map(|tokens| price().cost(&tokens).nanos());
                assert_eq!(cost, Some(nanos), "{caller:?} from {upstream:?}: {usage}");
            }
        }
    }
}

#[test]
fn openai_callers_are_told_of_geminis_thoughts_as_reasoning_within_the_completion() {
    let usage = json!({"promptTokenCount": 55021, "candidatesTokenCount": 923, "thoughtsTokenCount": 785,
        "totalTokenCount": 56729});
    let body = whole("gemini", &usage).to_string();
    let answer = Caller::Chat.wanted("tools").whole(Dialect::Gemini, None, &body.into(), REQUEST).unwrap();
    let said: Value = serde_json::from_slice(&answer.body).unwrap();
    let told = |path: &str| said["usage"].pointer(path).and_then(Value::as_u64);
    assert_eq!((told("/prompt_tokens"), told("/completion_tokens")), (Some(55_021), Some(1_708)));
    let reasoning = told("/completion_tokens_details/reasoning_tokens");
    assert_eq!((reasoning, told("/total_tokens")), (Some(785), Some(56_729)));
}

#[test]
fn a_count_that_is_null_a_text_a_fraction_missing_negative_or_absurd_is_no_usage_in_any_dialect() {
    let bad = [Value::Null, json!("12"), json!(1.5), json!(-1), json!(1_000_000_000_u64), json!([]), json!({})];
    for (form, usage, _) in bills() {
        let input = usage.as_object().unwrap().keys().next().unwrap().clone();
        for (caller, upstream) in pairs(form) {
            for bad in &bad {
                let mut broken = usage.clone();
                broken[&input] = bad.clone();
                assert_eq!(read(caller, upstream, &broken), [None, None], "{caller:?} from {upstream:?}: {broken}");
            }
            let mut missing = usage.clone();
            missing.as_object_mut().unwrap().remove(&input);
            assert_eq!(read(caller, upstream, &missing), [None, None], "{caller:?} from {upstream:?}: {missing}");
        }
    }
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
                let sums = (expected.all_input(), expected.all_output());
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
