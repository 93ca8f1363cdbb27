use proptest::prelude::*;

use super::*;

#[test]
fn every_token_of_an_openai_usage_is_in_one_class() {
    let usage = r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,
        "prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":10,"audio_tokens":0},
        "completion_tokens_details":{"reasoning_tokens":20}}"#;
    let expected =
        Tokens { input: 50, cached_input: 40, cache_write: 10, output: 30, reasoning: 20, ..Tokens::default() };
    assert_eq!(openai(usage), Some(expected));
}

#[test]
fn audio_and_long_lived_writes_are_classes_of_their_own() {
    let usage = r#"{"input_tokens":100,"output_tokens":50,
        "input_tokens_details":{"cached_tokens":40,"cache_write_tokens":10,"cache_write_tokens_details":{"ttl_30m":7,"ttl_12h":3},
            "audio_tokens":20},
        "output_tokens_details":{"reasoning_tokens":20,"audio_tokens":5}}"#;
    let expected = Tokens {
        input: 30,
        cached_input: 40,
        cache_write: 7,
        cache_write_1h: 3,
        output: 25,
        reasoning: 20,
        input_audio: 20,
        output_audio: 5,
    };
    assert_eq!(openai_responses(usage), Some(expected));
    let gemini_says = r#"{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":30,
        "promptTokensDetails":[{"modality":"TEXT","tokenCount":50},{"modality":"AUDIO","tokenCount":50}],
        "cacheTokensDetails":[{"modality":"AUDIO","tokenCount":30}],
        "candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":25},{"modality":"TEXT"}]}"#;
    let expected =
        Tokens { input: 40, cached_input: 40, output: 5, input_audio: 20, output_audio: 25, ..Tokens::default() };
    assert_eq!(gemini(&serde_json::from_str(gemini_says).unwrap()), Some(expected));
}

#[test]
fn audio_that_came_from_the_cache_is_counted_there() {
    let usage = r#"{"prompt_tokens":100,"completion_tokens":1,
        "prompt_tokens_details":{"cached_tokens":90,"audio_tokens":30}}"#;
    let expected = Tokens { cached_input: 90, input_audio: 10, output: 1, ..Tokens::default() };
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
        r#"{"prompt_tokens":7,"completion_tokens":3,"completion_tokens_details":{"audio_tokens":4}}"#,
        r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"audio_tokens":8}}"#,
        r#"{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cache_write_tokens_details":{"ttl_12h":1}}}"#,
    ] {
        assert_eq!(openai(usage), None, "{usage}");
    }
}

#[test]
fn responses_and_embeddings_are_read_alike() {
    let usage = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":10},
        "output_tokens":50,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":150}"#;
    let expected =
        Tokens { input: 50, cached_input: 40, cache_write: 10, output: 30, reasoning: 20, ..Tokens::default() };
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
        Some(Tokens { input, cached_input, output, reasoning, ..Tokens::default() })
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
        (r#"{"prompt_token_count":5,"tool_use_prompt_token_count":3,"candidates_token_count":2}"#, tokens(8, 0, 2, 0)),
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
        (r#"{"promptTokenCount":9,"candidatesTokenCount":9,"promptTokensDetails":{}}"#, None),
        (
            r#"{"promptTokenCount":9,"candidatesTokenCount":9,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":-1}]}"#,
            None,
        ),
        (
            r#"{"promptTokenCount":9,"candidatesTokenCount":9,"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":10}]}"#,
            None,
        ),
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
