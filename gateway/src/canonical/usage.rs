//! What an answer used, as disjoint token classes. Pure.
//!
//! Upstreams count in their own way and sometimes wrongly. A figure that cannot be true makes the whole usage unusable: the caller
//! then estimates, and the request is marked so.

mod anthropic;

use serde_json::Value;
use shared::money::Tokens;

pub use anthropic::{AnthropicUsage, anthropic};

/// More tokens than this in one figure are taken for an error of the upstream.
pub const ABSURD: u64 = 100_000_000;

/// Reads the `usage` object of OpenAI chat completions.
///
/// `prompt_tokens` includes cached and cache-writing tokens, `completion_tokens` includes reasoning; the result holds each token
/// once. Some upstreams count reasoning beside the completion and say so in `total_tokens`; that is honoured. `None` when a needed
/// figure is missing, not a whole number, negative, absurd, or smaller than what it should include.
pub fn openai(usage: &str) -> Option<Tokens> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    openai_value(&usage)
}

/// As [`openai`], of a parsed object.
pub fn openai_value(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let prompt = figure(usage.get("prompt_tokens")?)?;
    let completion = figure(usage.get("completion_tokens")?)?;
    let cached_input = detail(usage.get("prompt_tokens_details"), "cached_tokens")?;
    let cache_write = detail(usage.get("prompt_tokens_details"), "cache_write_tokens")?;
    let reasoning = detail(usage.get("completion_tokens_details"), "reasoning_tokens")?;
    let beside = usage.get("total_tokens").and_then(figure) == Some(prompt + completion + reasoning);
    Some(Tokens {
        input: prompt.checked_sub(cached_input + cache_write)?,
        cached_input,
        cache_write,
        output: if beside { completion } else { completion.checked_sub(reasoning)? },
        reasoning,
    })
}

/// Reads the `usage` object of OpenAI responses, which says the same under other names.
pub fn openai_responses(usage: &str) -> Option<Tokens> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    let usage = usage.as_object()?;
    let input = figure(usage.get("input_tokens")?)?;
    let output = figure(usage.get("output_tokens")?)?;
    let cached_input = detail(usage.get("input_tokens_details"), "cached_tokens")?;
    let cache_write = detail(usage.get("input_tokens_details"), "cache_write_tokens")?;
    let reasoning = detail(usage.get("output_tokens_details"), "reasoning_tokens")?;
    Some(Tokens {
        input: input.checked_sub(cached_input + cache_write)?,
        cached_input,
        cache_write,
        output: output.checked_sub(reasoning)?,
        reasoning,
    })
}

/// Reads the `usageMetadata` of Gemini.
///
/// `promptTokenCount` includes cached tokens but not the results of Google's own tools; `candidatesTokenCount` excludes thoughts.
/// Servers that count thoughts among the candidates say so in `totalTokenCount`; that is honoured. Zeros are left out by Gemini, so
/// missing candidates are what the total leaves for them. `None` when a needed figure is missing, not a whole number, negative,
/// absurd, or smaller than what it should include.
pub fn gemini(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let get = |camel: &str, snake: &str| usage.get(camel).or_else(|| usage.get(snake));
    let or_zero = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Some(0),
        Some(value) => figure(value),
    };
    let prompt = figure(get("promptTokenCount", "prompt_token_count")?)?;
    let cached_input = or_zero(get("cachedContentTokenCount", "cached_content_token_count"))?;
    let tools = or_zero(get("toolUsePromptTokenCount", "tool_use_prompt_token_count"))?;
    let reasoning = or_zero(get("thoughtsTokenCount", "thoughts_token_count"))?;
    let total = get("totalTokenCount", "total_token_count").and_then(figure);
    let candidates = match get("candidatesTokenCount", "candidates_token_count") {
        Some(candidates) => figure(candidates)?,
        None => total?.checked_sub(prompt + tools + reasoning)?,
    };
    let among = reasoning > 0 && total == Some(prompt + tools + candidates);
    Some(Tokens {
        input: prompt.checked_sub(cached_input)? + tools,
        cached_input,
        cache_write: 0,
        output: if among { candidates.checked_sub(reasoning)? } else { candidates },
        reasoning,
    })
}

/// Reads the `usage` object of OpenAI embeddings: there is only input.
pub fn openai_embeddings(usage: &str) -> Option<Tokens> {
    let usage: Value = serde_json::from_str(usage).ok()?;
    let input = figure(usage.as_object()?.get("prompt_tokens")?)?;
    Some(Tokens { input, ..Tokens::default() })
}

/// A believable count of tokens.
fn figure(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count <= ABSURD)
}

/// A figure of an optional details object: 0 when absent or null, `None` when it is there and not believable.
fn detail(details: Option<&Value>, name: &str) -> Option<u64> {
    match details {
        None | Some(Value::Null) => Some(0),
        Some(details) => match details.as_object()?.get(name) {
            None | Some(Value::Null) => Some(0),
            Some(value) => figure(value),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_token_of_an_openai_usage_is_in_one_class() {
        let usage = r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,
            "prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":10,"audio_tokens":0},
            "completion_tokens_details":{"reasoning_tokens":20}}"#;
        let expected = Tokens { input: 50, cached_input: 40, cache_write: 10, output: 30, reasoning: 20 };
        assert_eq!(openai(usage), Some(expected));
    }

    #[test]
    fn absent_and_null_details_are_zero() {
        let expected = Some(Tokens { input: 7, output: 3, ..Tokens::default() });
        for usage in [
            r#"{"prompt_tokens":7,"completion_tokens":3}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":{}}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":null}}"#,
        ] {
            assert_eq!(openai(usage), expected, "{usage}");
        }
    }

    #[test]
    fn reasoning_counted_beside_the_completion_is_recognised_by_the_total() {
        let beside = r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,
            "completion_tokens_details":{"reasoning_tokens":20}}"#;
        let expected = Tokens { input: 10, output: 5, reasoning: 20, ..Tokens::default() };
        assert_eq!(openai(beside), Some(expected));
    }

    #[test]
    fn a_usage_that_cannot_be_true_is_unusable() {
        for usage in [
            "",
            "null",
            "7",
            "[]",
            "\"usage\"",
            "{}",
            r#"{"prompt_tokens":7}"#,
            r#"{"completion_tokens":7}"#,
            r#"{"prompt_tokens":null,"completion_tokens":3}"#,
            r#"{"prompt_tokens":"7","completion_tokens":3}"#,
            r#"{"prompt_tokens":7.5,"completion_tokens":3}"#,
            r#"{"prompt_tokens":-7,"completion_tokens":3}"#,
            r#"{"prompt_tokens":7,"completion_tokens":100000001}"#,
            r#"{"prompt_tokens":99999999999999999999999,"completion_tokens":3}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":4}}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":"1"}}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":[]}"#,
            r#"{"prompt_tokens":7,"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":4}}"#,
        ] {
            assert_eq!(openai(usage), None, "{usage}");
        }
    }

    #[test]
    fn responses_and_embeddings_are_read_alike() {
        let usage = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":10},
            "output_tokens":50,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":150}"#;
        let expected = Tokens { input: 50, cached_input: 40, cache_write: 10, output: 30, reasoning: 20 };
        assert_eq!(openai_responses(usage), Some(expected));
        let plain = Some(Tokens { input: 7, output: 3, ..Tokens::default() });
        assert_eq!(openai_responses(r#"{"input_tokens":7,"input_tokens_details":null,"output_tokens":3}"#), plain);
        let input = Some(Tokens { input: 7, ..Tokens::default() });
        assert_eq!(openai_embeddings(r#"{"prompt_tokens":7,"total_tokens":7}"#), input);
        for usage in [
            "null",
            "{}",
            r#"{"input_tokens":"7","output_tokens":3,"prompt_tokens":"7"}"#,
            r#"{"input_tokens":-7,"output_tokens":3,"prompt_tokens":-7}"#,
            r#"{"input_tokens":7,"output_tokens":3.5,"prompt_tokens":3.5}"#,
            r#"{"input_tokens":7,"output_tokens":3,"input_tokens_details":{"cached_tokens":8}}"#,
            r#"{"input_tokens":7,"output_tokens":3,"output_tokens_details":{"reasoning_tokens":4}}"#,
            r#"{"input_tokens":100000001,"output_tokens":3,"prompt_tokens":100000001}"#,
        ] {
            assert_eq!((openai_responses(usage), openai_embeddings(usage)), (None, None), "{usage}");
        }
    }

    #[test]
    fn every_token_of_a_gemini_usage_is_in_one_class() {
        let tokens = |input, cached_input, output, reasoning| {
            Some(Tokens { input, cached_input, cache_write: 0, output, reasoning })
        };
        for (usage, expected) in [
            (
                r#"{"promptTokenCount":55021,"candidatesTokenCount":923,"thoughtsTokenCount":785,"totalTokenCount":56729}"#,
                tokens(55_021, 0, 923, 785),
            ),
            (
                r#"{"promptTokenCount":100000,"cachedContentTokenCount":90000,"candidatesTokenCount":1,"totalTokenCount":100001}"#,
                tokens(10_000, 90_000, 1, 0),
            ),
            (
                r#"{"prompt_token_count":5,"tool_use_prompt_token_count":3,"candidates_token_count":2}"#,
                tokens(8, 0, 2, 0),
            ),
            // Thoughts used up the whole answer: Gemini leaves out the zero.
            (r#"{"promptTokenCount":9,"thoughtsTokenCount":100,"totalTokenCount":109}"#, tokens(9, 0, 0, 100)),
            (r#"{"promptTokenCount":9,"totalTokenCount":9}"#, tokens(9, 0, 0, 0)),
            // Thoughts counted among the candidates.
            (
                r#"{"promptTokenCount":10,"candidatesTokenCount":30,"thoughtsTokenCount":20,"totalTokenCount":40}"#,
                tokens(10, 0, 10, 20),
            ),
            (r#"{"promptTokenCount":9}"#, None),
            (r#"{"candidatesTokenCount":9}"#, None),
            (r#"{"promptTokenCount":null,"candidatesTokenCount":9}"#, None),
            (r#"{"promptTokenCount":9,"candidatesTokenCount":null}"#, None),
            (r#"{"promptTokenCount":"9","candidatesTokenCount":9}"#, None),
            (r#"{"promptTokenCount":9.5,"candidatesTokenCount":9}"#, None),
            (r#"{"promptTokenCount":-9,"candidatesTokenCount":9}"#, None),
            (r#"{"promptTokenCount":9,"candidatesTokenCount":100000001}"#, None),
            (r#"{"promptTokenCount":9,"candidatesTokenCount":9,"cachedContentTokenCount":10}"#, None),
            (r#"{"promptTokenCount":9,"totalTokenCount":8}"#, None),
            ("[]", None),
            ("null", None),
        ] {
            assert_eq!(gemini(&serde_json::from_str(usage).unwrap()), expected, "{usage}");
        }
    }

    fn any_figure() -> impl Strategy<Value = Value> {
        prop_oneof![
            4 => (0u64..200).prop_map(Value::from),
            1 => any::<u64>().prop_map(Value::from),
            1 => any::<i64>().prop_map(Value::from),
            1 => any::<f64>().prop_map(Value::from),
            1 => Just(Value::Null),
            1 => Just(Value::from("12")),
        ]
    }

    proptest! {
        #[test]
        fn the_classes_always_sum_to_what_the_upstream_counted(
            prompt in any_figure(), completion in any_figure(), total in any_figure(),
            cached in any_figure(), write in any_figure(), reasoning in any_figure(),
        ) {
            let usage = serde_json::json!({
                "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total,
                "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": write},
                "completion_tokens_details": {"reasoning_tokens": reasoning},
            });
            if let Some(tokens) = openai(&usage.to_string()) {
                prop_assert_eq!(Some(tokens.input + tokens.cached_input + tokens.cache_write), prompt.as_u64());
                let output = tokens.output + tokens.reasoning;
                let counted = completion.as_u64().unwrap();
                let beside = total.as_u64().is_some_and(|total| total == prompt.as_u64().unwrap() + output);
                prop_assert!(output == counted || beside && output == counted + tokens.reasoning);
            }
        }

        #[test]
        fn geminis_classes_sum_to_what_it_counted(
            prompt in any_figure(), candidates in any_figure(), total in any_figure(),
            cached in any_figure(), tools in any_figure(), thoughts in any_figure(),
        ) {
            let usage = serde_json::json!({
                "promptTokenCount": prompt, "candidatesTokenCount": candidates, "totalTokenCount": total,
                "cachedContentTokenCount": cached, "toolUsePromptTokenCount": tools, "thoughtsTokenCount": thoughts,
            });
            if let Some(tokens) = gemini(&usage) {
                let read = prompt.as_u64().unwrap() + tools.as_u64().unwrap_or(0);
                prop_assert_eq!(tokens.input + tokens.cached_input, read);
                let said = candidates.as_u64().unwrap();
                prop_assert!(tokens.output == said || tokens.output + tokens.reasoning == said);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _ = (openai(&text), openai_responses(&text), openai_embeddings(&text));
        }
    }
}
