use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn peeked(text: &str) -> Result<Peek, BadRequest> {
    peek(&bytes(text))
}

fn spliced(text: &str, model: &str) -> String {
    let body = bytes(text);
    let out = splice(&body, &peek(&body).unwrap(), model);
    String::from_utf8(out.to_vec()).unwrap()
}

const MESSAGES: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

#[test]
fn a_plain_request_is_understood() {
    let body = format!(
        r#"{{"model":"gpt-x",{MESSAGES},"stream":true,"stream_options":{{"include_usage":true}},"max_tokens":5,"max_completion_tokens":7,"n":2}}"#
    );
    let peek = peeked(&body).unwrap();
    assert_eq!(peek.model, "gpt-x");
    assert_eq!((peek.answer, peek.usage_chunk), (Answer::Stream, UsageChunk::Wanted));
    assert_eq!((peek.max_output_tokens, peek.choices), (Some(7), 2));
    assert_eq!(peek.prompt_chars, 30);
}

#[test]
fn absent_and_null_options_have_their_defaults() {
    for options in ["", r#","stream":null,"max_tokens":null,"stream_options":null,"n":null"#, r#","stream":false"#] {
        let peek = peeked(&format!(r#"{{"model":"m",{MESSAGES}{options}}}"#)).unwrap();
        assert_eq!((peek.answer, peek.usage_chunk), (Answer::Whole, UsageChunk::Hidden), "{options}");
        assert_eq!((peek.max_output_tokens, peek.choices), (None, 1), "{options}");
    }
}

#[test]
fn what_is_wrong_is_said_exactly() {
    for (body, field, message) in [
        ("{}", "model", "Missing required parameter: 'model'."),
        (r#"{"model":""}"#, "model", "Missing required parameter: 'model'."),
        (r#"{"model":"m"}"#, "messages", "Missing required parameter: 'messages'."),
        (r#"{"model":7}"#, "model", "Invalid type for 'model': expected a string, but got an integer instead."),
        (r#"{"model":null}"#, "model", "Invalid type for 'model': expected a string, but got null instead."),
        (r#"{"model":["m"]}"#, "model", "Invalid type for 'model': expected a string, but got an array instead."),
        (
            r#"{"model":"m","messages":"hi"}"#,
            "messages",
            "Invalid type for 'messages': expected an array of objects, but got a string instead.",
        ),
        (
            r#"{"model":"m","messages":{}}"#,
            "messages",
            "Invalid type for 'messages': expected an array of objects, but got an object instead.",
        ),
        (
            r#"{"model":"m","messages":null}"#,
            "messages",
            "Invalid type for 'messages': expected an array of objects, but got null instead.",
        ),
        (
            r#"{"model":"m","messages":[]}"#,
            "messages",
            "Invalid 'messages': expected at least one message, but got an empty array.",
        ),
        (
            r#"{"model":"m","messages":[{},"x"]}"#,
            "messages[1]",
            "Invalid type for 'messages[1]': expected an object, but got a string instead.",
        ),
        (
            r#"{"model":"m","messages":[{}],"stream":"yes"}"#,
            "stream",
            "Invalid type for 'stream': expected a boolean, but got a string instead.",
        ),
        (
            r#"{"model":"m","messages":[{}],"stream_options":true}"#,
            "stream_options",
            "Invalid type for 'stream_options': expected an object, but got a boolean instead.",
        ),
        (
            r#"{"model":"m","messages":[{}],"stream_options":{"include_usage":1}}"#,
            "stream_options.include_usage",
            "Invalid type for 'stream_options.include_usage': expected a boolean, but got an integer instead.",
        ),
        (
            r#"{"model":"m","messages":[{}],"max_tokens":"5"}"#,
            "max_tokens",
            "Invalid type for 'max_tokens': expected an integer, but got a string instead.",
        ),
        (
            r#"{"model":"m","messages":[{}],"max_completion_tokens":1.5}"#,
            "max_completion_tokens",
            "Invalid type for 'max_completion_tokens': expected an integer, but got a decimal number instead.",
        ),
        (
            r#"{"model":"m","messages":[{}],"max_tokens":-1}"#,
            "max_tokens",
            "Invalid 'max_tokens': it must not be negative.",
        ),
        (r#"{"model":"m","model":"n","messages":[{}]}"#, "model", "Parameter given twice: 'model'."),
        (r#"{"model":"m","mod\u0065l":"n","messages":[{}]}"#, "model", "Parameter given twice: 'model'."),
        (r#"{"model":"m","messages":[{}],"messages":[{}]}"#, "messages", "Parameter given twice: 'messages'."),
        (
            r#"{"model":"m","messages":[{}],"stream_options":{"include_usage":true,"include_usage":false}}"#,
            "stream_options.include_usage",
            "Parameter given twice: 'stream_options.include_usage'.",
        ),
    ] {
        let error = peeked(body).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{body}");
        assert_eq!(error.message, message, "{body}");
        assert!(error.code.is_some());
    }
}

#[test]
fn what_is_no_json_object_is_refused() {
    for body in
        ["", " ", "{", "{]", "[1,2]", "null", "7", "true", "\"text\"", "{\"model\":\"m\"} x", "{\"a\":1,}", "{'a':1}"]
    {
        let error = peeked(body).unwrap_err();
        assert_eq!(error.field, None, "{body}");
    }
    assert_eq!(peeked("[1]").unwrap_err().message, "The body of the request must be a JSON object, but is an array.");
    assert!(
        peeked("{\"model\":")
            .unwrap_err()
            .message
            .starts_with("The body of the request could not be parsed as JSON: EOF")
    );
    assert!(peek(&Bytes::from_static(b"{\"model\":\"\xff\"}")).unwrap_err().message.contains("not UTF-8"));
}

#[test]
fn nesting_bombs_neither_crash_nor_pass_when_broken() {
    let open = "[".repeat(1_000_000);
    assert!(peeked(&open).is_err());
    assert!(peeked(&format!(r#"{{"model":"m",{MESSAGES},"x":{open}}}"#)).is_err());
    assert!(peeked(&format!(r#"{{"model":{open}"#)).is_err());
    assert!(peeked(&format!(r#"{{"model":"m","messages":{}"#, "[{\"a\":".repeat(300_000))).is_err());
}

#[test]
fn only_the_model_changes_in_a_whole_answer() {
    let body = "{ \"zeta\" : 1.0e+2,\n \"model\":\"public\" , \"big\": 12345678901234567890123, \"messages\":[{\"content\":\"\\u00e9 \\/ é\"}] }";
    assert_eq!(spliced(body, "upstream/\"x\""), body.replace("\"public\"", r#""upstream/\"x\"""#));
}

#[test]
fn nothing_is_copied_when_nothing_changes() {
    for options in ["", r#","stream":true,"stream_options":{"include_usage":true}"#] {
        let body = bytes(&format!(r#"{{"model":"same",{MESSAGES}{options}}}"#));
        assert_eq!(splice(&body, &peek(&body).unwrap(), "same").as_ptr(), body.as_ptr());
    }
}

#[test]
fn a_stream_asks_for_the_usage_chunk_whatever_stands_there() {
    for (options, expected) in [
        ("", None),
        (r#","stream_options":null"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{}"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (r#","stream_options":{ }"#, Some(r#","stream_options":{"include_usage":true }"#)),
        (r#","stream_options":{"x":1}"#, Some(r#","stream_options":{"include_usage":true,"x":1}"#)),
        (r#","stream_options":{"include_usage":false}"#, Some(r#","stream_options":{"include_usage":true}"#)),
        (
            r#","stream_options":{"a":[], "include_usage" : null}"#,
            Some(r#","stream_options":{"a":[], "include_usage" : true}"#),
        ),
    ] {
        let body = format!(r#"{{"model":"m",{MESSAGES},"stream":true{options}}}"#);
        let expected = match expected {
            Some(changed) => body.replace(options, changed),
            None => body.replace(r#""m","#, r#""m","stream_options":{"include_usage":true},"#),
        };
        assert_eq!(spliced(&body, "m"), expected, "{options}");
        assert_eq!(peeked(&body).unwrap().usage_chunk, UsageChunk::Hidden);
    }
    let options_first = format!(r#"{{"stream_options":{{}},"stream":true,{MESSAGES},"model":"m"}}"#);
    let expected = options_first.replace("{}", r#"{"include_usage":true}"#).replace(r#""m""#, r#""up""#);
    assert_eq!(spliced(&options_first, "up"), expected);
}

#[test]
fn attachments_count_as_a_fixed_size() {
    let image = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "A".repeat(1_000_000));
    let body = format!(r#"{{"model":"m","messages":[{{"content":[{image},{image}]}}],"tools":[1]}}"#);
    let chars = peeked(&body).unwrap().prompt_chars;
    assert!((8_000..9_000).contains(&chars), "{chars}");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,6}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// A valid request with its fields in any order among unknown ones.
fn request() -> impl Strategy<Value = Value> {
    let options = prop_oneof![
        Just(None),
        Just(Some(json!(null))),
        Just(Some(json!({}))),
        Just(Some(json!({"a": 1, "include_usage": false, "b": []}))),
        Just(Some(json!({"include_usage": true}))),
    ];
    let unknown = prop::collection::vec(("x\\PC{0,6}", json_value()), 0..5);
    let messages =
        prop::collection::vec(json_value().prop_map(|value| json!({"role": "user", "content": value})), 1..4);
    ("\\PC{1,12}", messages, any::<Option<bool>>(), options, unknown).prop_flat_map(
        |(model, messages, stream, options, unknown)| {
            let mut pairs: Vec<(String, Value)> =
                vec![("model".into(), model.into()), ("messages".into(), messages.into())];
            pairs.extend(stream.map(|stream| ("stream".into(), stream.into())));
            pairs.extend(options.map(|options| ("stream_options".into(), options)));
            pairs.extend(unknown);
            Just(pairs).prop_shuffle().prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>()))
        },
    )
}

proptest! {
    #[test]
    fn a_spliced_body_means_the_same_but_for_the_two_edits(
        request in request(), upstream in "\\PC{0,12}", pretty in any::<bool>(),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&request) } else { serde_json::to_string(&request) }.unwrap();
        let body = Bytes::from(text.clone());
        let peek = peek(&body).unwrap();
        prop_assert_eq!(Some(peek.model.as_str()), request["model"].as_str());
        let out = splice(&body, &peek, &upstream);
        let found: Value = serde_json::from_slice(&out).unwrap();
        // Read back from the text: a float may differ in its last digit from the one that was written.
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        expected["model"] = upstream.clone().into();
        if request["stream"] == true {
            if !request["stream_options"].is_object() {
                expected["stream_options"] = json!({});
            }
            expected["stream_options"]["include_usage"] = true.into();
        }
        // `==` on maps does not look at the order.
        prop_assert_eq!(found, expected);
        // Byte for byte: the text with nothing but the two places rewritten.
        let mut edits = vec![(peek.model_at.clone(), Value::from(upstream.clone()).to_string())];
        if upstream == peek.model {
            edits.clear();
        }
        edits.extend(peek.usage_edit.iter().map(|edit| (edit.at.clone(), edit.text.to_string())));
        edits.sort_by_key(|(at, _)| std::cmp::Reverse((at.start, at.end)));
        let mut rewritten = text;
        for (at, new) in edits {
            rewritten.replace_range(at, &new);
        }
        prop_assert_eq!(out, rewritten);
    }

    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = peek(&body.into());
    }

    #[test]
    fn no_broken_request_makes_it_panic(request in request(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut body = serde_json::to_vec(&request).unwrap();
        let at = at.index(body.len());
        body[at] = byte;
        let body = Bytes::from(body);
        if let Ok(peek) = peek(&body) {
            prop_assert!(serde_json::from_slice::<&serde_json::value::RawValue>(&splice(&body, &peek, "up")).is_ok());
        }
    }
}
