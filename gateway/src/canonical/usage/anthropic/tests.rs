use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn every_token_of_an_anthropic_usage_is_in_one_class() {
    let usage = r#"{"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":7,"output_tokens":550,
        "cache_creation":{"ephemeral_5m_input_tokens":12000,"ephemeral_1h_input_tokens":304},
        "output_tokens_details":{"thinking_tokens":50},"service_tier":"standard"}"#;
    let expected = Tokens {
        input: 3,
        cached_input: 7,
        cache_write: 12_000,
        cache_write_1h: 304,
        output: 500,
        reasoning: 50,
        ..Tokens::default()
    };
    assert_eq!(anthropic(usage), Some(expected));
}

#[test]
fn cache_writes_are_summed_over_lifetimes_where_no_sum_is_given() {
    let usage = r#"{"input_tokens":1,"output_tokens":1,
        "cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":2}}"#;
    let written = anthropic(usage).map(|tokens| (tokens.cache_write, tokens.cache_write_1h));
    assert_eq!(written, Some((40, 2)));
}

#[test]
fn absent_and_null_figures_are_zero() {
    let expected = Some(Tokens { input: 7, output: 3, ..Tokens::default() });
    for usage in [
        r#"{"input_tokens":7,"output_tokens":3}"#,
        r#"{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":null,"cache_creation":null,"iterations":null}"#,
        r#"{"input_tokens":7,"output_tokens":3,"cache_creation":{},"output_tokens_details":{"thinking_tokens":null}}"#,
        r#"{"input_tokens":7,"output_tokens":3,"iterations":[{"type":"message","input_tokens":7,"output_tokens":3}]}"#,
    ] {
        assert_eq!(anthropic(usage), expected, "{usage}");
    }
}

#[test]
fn what_a_compaction_used_is_added_to_the_totals_which_leave_it_out() {
    let usage = r#"{"input_tokens":10,"output_tokens":5,"iterations":[
        {"type":"compaction","input_tokens":1000,"output_tokens":200,"cache_read_input_tokens":30,"cache_creation_input_tokens":4,
         "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":1}},
        {"type":"message","input_tokens":10,"output_tokens":5}]}"#;
    let written = Tokens { cache_write: 3, cache_write_1h: 1, ..Tokens::default() };
    let expected = Tokens { input: 1_010, cached_input: 30, output: 205, ..written };
    assert_eq!(anthropic(usage), Some(expected));
}

#[test]
fn a_usage_that_cannot_be_true_is_unusable() {
    for usage in [
        "",
        "null",
        "7",
        "[]",
        "{}",
        r#"{"input_tokens":7}"#,
        r#"{"output_tokens":7}"#,
        r#"{"input_tokens":null,"output_tokens":3}"#,
        r#"{"input_tokens":"7","output_tokens":3}"#,
        r#"{"input_tokens":7.5,"output_tokens":3}"#,
        r#"{"input_tokens":-7,"output_tokens":3}"#,
        r#"{"input_tokens":7,"output_tokens":100000001}"#,
        r#"{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":"1"}"#,
        r#"{"input_tokens":7,"output_tokens":3,"cache_creation":[]}"#,
        r#"{"input_tokens":7,"output_tokens":3,"output_tokens_details":{"thinking_tokens":4}}"#,
        r#"{"input_tokens":7,"output_tokens":3,"iterations":[7]}"#,
        r#"{"input_tokens":7,"output_tokens":3,"iterations":[{"type":"compaction","input_tokens":-1}]}"#,
    ] {
        assert_eq!(anthropic(usage), None, "{usage}");
    }
}

fn running(reports: &[&str]) -> Option<Tokens> {
    let mut usage = AnthropicUsage::default();
    for report in reports {
        usage.report(report);
    }
    usage.tokens()
}

#[test]
fn the_reports_of_a_stream_are_cumulative_and_each_may_leave_some_out() {
    let start = r#"{"input_tokens":25,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":1}"#;
    let expected =
        Some(Tokens { input: 25, cached_input: 4, cache_write: 2, output: 15, reasoning: 0, ..Tokens::default() });
    assert_eq!(running(&[start, r#"{"output_tokens":15}"#]), expected);
    assert_eq!(running(&[start, r#"{"input_tokens":0,"output_tokens":15,"cache_read_input_tokens":0}"#]), expected);
    assert_eq!(running(&[start, r#"{"output_tokens":7}"#, r#"{"output_tokens":15}"#]), expected);
    let late = r#"{"input_tokens":25,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":15}"#;
    assert_eq!(running(&[r#"{"input_tokens":0,"output_tokens":0}"#, late]), expected);
    assert_eq!(running(&["{}", late]), expected);
    assert_eq!(running(&[]), None);
}

#[test]
fn a_broken_last_report_spoils_the_whole_and_a_good_one_mends_it() {
    let start = r#"{"input_tokens":25,"output_tokens":1}"#;
    assert_eq!(running(&[start, r#"{"output_tokens":-1}"#]), None);
    assert_eq!(running(&[start, r#"{"output_tokens":"x"}"#, r#"{"output_tokens":3}"#]).map(|t| t.output), Some(3));
    assert_eq!(running(&[r#"{"input_tokens":"x"}"#, r#"{"output_tokens":3}"#]), None, "the input is not known");
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
        input in any_figure(), read in any_figure(), written in any_figure(), short in any_figure(),
        long in any_figure(), output in any_figure(), thinking in any_figure(),
    ) {
        let usage = json!({
            "input_tokens": input, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
            "output_tokens": output, "output_tokens_details": {"thinking_tokens": thinking},
        });
        if let Some(tokens) = anthropic(&usage.to_string()) {
            prop_assert_eq!(Some(tokens.input), input.as_u64());
            prop_assert_eq!(tokens.cached_input, read.as_u64().unwrap_or(0));
            let parts = short.as_u64().unwrap_or(0) + long.as_u64().unwrap_or(0);
            prop_assert_eq!(tokens.all_cache_writes(), written.as_u64().unwrap_or(0).max(parts));
            prop_assert_eq!(tokens.cache_write_1h, long.as_u64().unwrap_or(0));
            prop_assert_eq!(Some(tokens.output + tokens.reasoning), output.as_u64());
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _ = anthropic(&text);
    }
}
