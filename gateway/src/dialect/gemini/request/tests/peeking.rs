use bytes::Bytes;
use proptest::prelude::*;

use super::super::*;

const WHOLE: Method = Method::Generate(Answer::Whole);

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn what_is_needed_is_found_in_either_spelling() {
    for text in [
        r#"{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":7,"candidateCount":2},"x":[null]}"#,
        r#"{"generation_config":{"max_output_tokens":"7","candidate_count":2},"contents":[{"parts":[{"text":"hi"}]}]}"#,
    ] {
        let peek = peek(&body(text), "g", Method::Generate(Answer::Stream)).unwrap();
        assert_eq!((peek.model.as_str(), peek.answer), ("g", Answer::Stream));
        assert_eq!((peek.max_output_tokens, peek.choices), (Some(7), 2));
        assert_eq!(peek.prompt_chars, r#"{"parts":[{"text":"hi"}]}"#.len() as u64);
        assert_eq!(splice(&body(text), &peek, "upstream"), text);
    }
}

#[test]
fn what_is_kept_upstream_is_found_in_either_spelling() {
    let bound = |field: &str| {
        let inner = format!(r#"{{"contents":[{{}}]{field}}}"#);
        let bound = peek(&body(&inner), "g", WHOLE).unwrap().bound_to;
        let counted = format!(r#"{{"generateContentRequest":{inner}}}"#);
        assert_eq!(peek(&body(&counted), "g", Method::CountTokens).unwrap().bound_to, bound, "{field}");
        bound.map(|bound| (bound.field, bound.id))
    };
    assert_eq!(bound(r#","cachedContent":"cachedContents/a""#), Some(("cachedContent", "cachedContents/a".into())));
    assert_eq!(bound(r#","cached_content":"cachedContents/a""#), Some(("cachedContent", "cachedContents/a".into())));
    assert_eq!(bound(r#","continuationToken":"t""#), Some(("continuationToken", "t".into())));
    assert_eq!(bound(r#","continuation_token":"t""#), Some(("continuationToken", "t".into())));
    for none in ["", r#","cachedContent":"""#, r#","cachedContent":null"#, r#","continuationToken":7"#] {
        assert_eq!(bound(none), None, "{none}");
    }
}

#[test]
fn instructions_and_tools_count_and_attachments_count_as_a_fixed_size() {
    let size = |text: &str| peek(&body(text), "g", WHOLE).unwrap().prompt_chars;
    let plain = size(r#"{"contents":[{}]}"#);
    assert_eq!(size(r#"{"contents":[{}],"tools":[1234],"system_instruction":"ab"}"#), plain + 6 + 4);
    let with =
        |bytes: usize| size(&format!(r#"{{"contents":[{{"inlineData":{{"data" : "{}"}}}}]}}"#, "A".repeat(bytes)));
    assert_eq!(with(10_000_000), with(5_000));
    assert!(with(5_000) < 4_100);
}

#[test]
fn a_body_that_cannot_be_meant_is_refused_by_name() {
    for (text, method, field, code) in [
        ("{", WHOLE, None, "invalid_json"),
        ("", WHOLE, None, "invalid_json"),
        ("[]", WHOLE, None, "invalid_type"),
        ("7", WHOLE, None, "invalid_type"),
        ("{}", WHOLE, Some("contents"), "missing_required_parameter"),
        (r#"{"contents":null}"#, WHOLE, Some("contents"), "missing_required_parameter"),
        (r#"{"contents":"hi"}"#, WHOLE, Some("contents"), "invalid_type"),
        (r#"{"contents":[]}"#, WHOLE, Some("contents"), "invalid_value"),
        (r#"{"contents":[{},"hi"]}"#, WHOLE, Some("contents.1"), "invalid_type"),
        (r#"{"contents":[{}],"contents":[{}]}"#, WHOLE, Some("contents"), "duplicate_parameter"),
        (
            r#"{"contents":[{}],"generationConfig":{},"generation_config":{}}"#,
            WHOLE,
            Some("generationConfig"),
            "duplicate_parameter",
        ),
        (r#"{"contents":[{}],"generationConfig":[]}"#, WHOLE, Some("generationConfig"), "invalid_type"),
        (
            r#"{"contents":[{}],"generationConfig":{"maxOutputTokens":-1}}"#,
            WHOLE,
            Some("generationConfig.maxOutputTokens"),
            "invalid_type",
        ),
        ("{}", Method::CountTokens, Some("contents"), "missing_required_parameter"),
        (
            r#"{"generateContentRequest":{}}"#,
            Method::CountTokens,
            Some("generateContentRequest.contents"),
            "missing_required_parameter",
        ),
        ("{}", Method::EmbedContent, Some("content"), "missing_required_parameter"),
        (r#"{"content":"x"}"#, Method::EmbedContent, Some("content"), "invalid_type"),
        ("{}", Method::BatchEmbedContents, Some("requests"), "missing_required_parameter"),
        (r#"{"requests":[]}"#, Method::BatchEmbedContents, Some("requests"), "invalid_value"),
        (r#"{"requests":[{}]}"#, Method::BatchEmbedContents, Some("requests.0.content"), "missing_required_parameter"),
    ] {
        let fault = peek(&body(text), "g", method).unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (field, Some(code)), "{text}: {fault}");
    }
    assert_eq!(peek(&body("{}"), "", WHOLE).unwrap_err().field.as_deref(), Some("model"));
}

#[test]
fn the_model_is_renamed_wherever_the_body_names_it_and_nothing_else_changes() {
    for (text, method, expected) in [
        (
            r#"{"requests":[{"content":{"x":1.0},"model" : "models/mine"},{"model":"models/mine","content":{}}]}"#,
            Method::BatchEmbedContents,
            r#"{"requests":[{"content":{"x":1.0},"model" : "models/up"},{"model":"models/up","content":{}}]}"#,
        ),
        (
            r#"{"generateContentRequest":{"contents":[{"model":"text"}],"model":"models/mine"},"model":"models/mine"}"#,
            Method::CountTokens,
            r#"{"generateContentRequest":{"contents":[{"model":"text"}],"model":"models/up"},"model":"models/up"}"#,
        ),
        (r#"{"model":null,"content":{}}"#, Method::EmbedContent, r#"{"model":"models/up","content":{}}"#),
    ] {
        let given = body(text);
        let peek = peek(&given, "mine", method).unwrap();
        assert_eq!(splice(&given, &peek, "up"), expected);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]{}:,\"a-z ]{0,60}") {
        for method in [WHOLE, Method::CountTokens, Method::EmbedContent, Method::BatchEmbedContents] {
            for data in [Bytes::from(data.clone()), body(&text), body(&format!(r#"{{"contents":{text},"requests":{text}}}"#))] {
                if let Ok(peek) = peek(&data, "m", method) {
                    splice(&data, &peek, "other");
                }
            }
        }
    }

    #[test]
    fn every_other_byte_survives(extra in "\\PC{0,20}", model in "\\PC{1,12}") {
        let text = serde_json::json!({"x": {"model": extra}, "model": "m", "contents": [{"model": 1}], extra: 2}).to_string();
        let given = body(&text);
        let seen = peek(&given, "m", WHOLE);
        prop_assume!(seen.is_ok());
        let out = splice(&given, &seen.unwrap(), &model);
        let mut expected: serde_json::Value = serde_json::from_str(&text).unwrap();
        expected["model"] = resource(&model).into();
        prop_assert_eq!(super::json(&out), expected);
    }
}
