use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use shared::failure::Transport;
use shared::money::Tokens;

use super::request::Encoding;
use super::{request, response};
use crate::canonical::embeddings::{Request, Vectors};
use crate::dialect::openai::request::read::any_json;

const ANSWER: &str = r#"{"object":"list","model":"up","data":[{"object":"embedding","index":1,"embedding":[0.5,-1e-3]},{"object":"embedding","index":0,"embedding":"AAAAPwAAgL8="}],"usage":{"prompt_tokens":8,"total_tokens":8}}"#;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn a_request_is_looked_into_and_only_its_model_changes() {
    let text = r#"{"input": ["a","bc"], "x": 1.0, "model": "mine", "encoding_format":"base64"}"#;
    let body = bytes(text);
    let peek = request::peek(&body).unwrap();
    assert_eq!((peek.model.as_str(), peek.encoding, peek.prompt_chars), ("mine", Encoding::Base64, 10));
    assert_eq!(request::splice(&body, &peek, "up"), text.replace("mine", "up"));
    assert_eq!(request::splice(&body, &peek, "mine").as_ptr(), body.as_ptr());
    for (text, field, code) in [
        ("[]", None, "invalid_type"),
        ("{", None, "invalid_json"),
        (r#"{"input":"x"}"#, Some("model"), "missing_required_parameter"),
        (r#"{"model":"m"}"#, Some("input"), "missing_required_parameter"),
        (r#"{"model":"m","input":null}"#, Some("input"), "missing_required_parameter"),
        (r#"{"model":"m","input":7}"#, Some("input"), "invalid_type"),
        (r#"{"model":"m","model":"n","input":"x"}"#, Some("model"), "duplicate_parameter"),
        (r#"{"model":"m","input":"x","encoding_format":"hex"}"#, Some("encoding_format"), "invalid_value"),
    ] {
        let fault = request::peek(&bytes(text)).unwrap_err();
        assert_eq!((fault.field.as_deref(), fault.code), (field, Some(code)), "{text}");
    }
}

#[test]
fn texts_are_read_and_tokens_are_named_as_what_cannot_be_passed_on() {
    let read = |body: Value| request::read(body.to_string().as_bytes());
    let expected = Request { texts: vec!["a".into()], dimensions: Some(3), ..Request::default() };
    let body = json!({"model": "m", "input": "a", "dimensions": 3, "user": "u", "encoding_format": "base64"});
    assert_eq!(read(body), Ok(expected));
    assert_eq!(read(json!({"input": ["a", "b"]})).unwrap().texts, ["a", "b"]);
    for (body, field) in [
        (json!({"input": [1, 2]}), "input.0"),
        (json!({"input": ["a", [1]]}), "input.1"),
        (json!({"input": ["a", {}]}), "input.1"),
        (json!({"input": []}), "input"),
        (json!({"input": "a", "dimensions": "x"}), "dimensions"),
    ] {
        assert_eq!(read(body).unwrap_err().field.as_deref(), Some(field));
    }
    let unknown = read(json!({"input": "a", "unheard_of": 1})).unwrap();
    assert_eq!(request::write(&unknown, "up").unwrap_err().field.as_deref(), Some("unheard_of"));
}

#[test]
fn a_request_is_written_for_an_upstream_of_openais() {
    let request = Request { texts: vec!["a".into(), "b".into()], dimensions: Some(3), ..Request::default() };
    let body: Value = serde_json::from_slice(&request::write(&request, "up").unwrap()).unwrap();
    assert_eq!(body, json!({"model": "up", "input": ["a", "b"], "encoding_format": "float", "dimensions": 3}));
}

#[test]
fn an_answer_is_passed_on_with_the_callers_name_of_the_model() {
    let answer = response::pass(Some("application/json"), &bytes(ANSWER), "mine").unwrap();
    assert_eq!(answer.body, ANSWER.replace("\"up\"", "\"mine\""));
    assert_eq!(answer.usage, Some(Tokens { input: 8, ..Tokens::default() }));
}

#[test]
fn vectors_are_read_in_the_order_of_their_texts() {
    let vectors = response::read(None, &bytes(ANSWER)).unwrap();
    assert_eq!(vectors.vectors, [vec![0.5, -1.0], vec![0.5, -0.001]]);
}

#[test]
fn vectors_are_written_as_the_caller_wants_them() {
    let usage = Some(Tokens { input: 8, ..Tokens::default() });
    let vectors = Vectors { vectors: vec![vec![0.5, -1.0], vec![0.013_168_523]], usage };
    let written = |encoding| String::from_utf8(response::write(&vectors, "mine", encoding).to_vec()).unwrap();
    assert_eq!(
        written(Encoding::Float),
        r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1.0]},{"object":"embedding","index":1,"embedding":[0.013168523]}],"model":"mine","usage":{"prompt_tokens":8,"total_tokens":8}}"#
    );
    let base64 = written(Encoding::Base64);
    assert!(base64.contains(r#""embedding":"AAAAPwAAgL8=""#), "{base64}");
}

#[test]
fn what_is_no_answer_is_a_failure() {
    for (body, transport) in [
        ("", Transport::Empty),
        ("<html>", Transport::NotTheFormat),
        ("{}", Transport::NotTheFormat),
        (r#"{"data":[]}"#, Transport::NotTheFormat),
        (r#"{"data":[{"index":0,"embedding":"AAA="}]}"#, Transport::NotTheFormat),
        (r#"{"data":[{"index":0,"embedding":{}}]}"#, Transport::NotTheFormat),
        (r#"{"error":{"message":"x"}}"#, Transport::ErrorInSuccess),
        (r#"{"error":{"message":"x"},"data":7}"#, Transport::NotTheFormat),
        (r#"[{"error":{"message":"x"}}]"#, Transport::ErrorInSuccess),
    ] {
        let error = response::read(None, &bytes(body)).unwrap_err();
        assert_eq!(error.signals.transport, Some(transport), "{body}");
    }
}

proptest! {
    #[test]
    fn vectors_survive_both_encodings_bit_for_bit(numbers in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO, 1..20)) {
        let vectors = Vectors { vectors: vec![numbers], usage: Some(Tokens::default()) };
        for encoding in [Encoding::Float, Encoding::Base64] {
            prop_assert_eq!(&response::read(None, &response::write(&vectors, "m", encoding)).unwrap(), &vectors);
        }
    }

    #[test]
    fn no_json_makes_it_panic(json in any_json(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let wrapped = json!({"model": "m", "input": json, "data": [{"embedding": json}, json]}).to_string();
        for body in [Bytes::from(bytes), Bytes::from(json.to_string()), Bytes::from(wrapped)] {
            if let Ok(peek) = request::peek(&body) {
                prop_assert!(serde_json::from_slice::<Value>(&request::splice(&body, &peek, "up")).is_ok());
            }
            let _ = request::read(&body);
            let _ = response::pass(None, &body, "mine");
            let _ = response::read(None, &body);
        }
    }
}
