//! No request makes a translator panic.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::FULL;
use crate::dialect::anthropic::request::{Purpose, Target, peek, read, splice, without_thoughts, write, write_count};

fn survive(body: &[u8]) {
    let bytes = Bytes::copy_from_slice(body);
    if let Ok(found) = peek(&bytes, Purpose::Count) {
        let _ = splice(&bytes, &found, "up");
    }
    let _ = without_thoughts(&bytes);
    if let Ok(request) = read(body) {
        for model in ["claude-opus-4-1", "claude-sonnet-5"] {
            let target = Target::of_model(model);
            let _ = (write(&request, model, &target), write_count(&request, model, &target));
        }
    }
}

/// Words of the dialect, in the wrong places.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type"),
        Just("text"),
        Just("role"),
        Just("user"),
        Just("assistant"),
        Just("content"),
        Just("tool_use"),
        Just("tool_result"),
        Just("tool_use_id"),
        Just("id"),
        Just("name"),
        Just("input"),
        Just("thinking"),
        Just("signature"),
        Just("image"),
        Just("source"),
        Just("base64"),
        Just("data"),
        Just("messages"),
        Just(""),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        survive(&body);
    }

    #[test]
    fn a_damaged_byte(at in 0..FULL.len(), byte in any::<u8>()) {
        let mut body = FULL.as_bytes().to_vec();
        body[at] = byte;
        survive(&body);
    }

    #[test]
    fn any_json_in_any_place(place in 0..14_usize, value in any_json()) {
        let mut body: Value = serde_json::from_str(FULL).unwrap();
        match place {
            0 => body["messages"] = value,
            1 => body["messages"][1] = value,
            2 => body["messages"][1]["content"] = value,
            3 => body["messages"][1]["content"][3] = value,
            4 => body["messages"][2]["content"][0] = value,
            5 => body["messages"][2]["content"][0]["content"] = value,
            6 => body["tools"] = value,
            7 => body["tools"][0]["input_schema"] = value,
            8 => body["tool_choice"] = value,
            9 => body["system"] = value,
            10 => body["thinking"] = value,
            11 => body["output_config"]["format"]["schema"] = value,
            12 => body["metadata"] = value,
            _ => body = json!({"model": "m", "messages": value}),
        }
        survive(body.to_string().as_bytes());
    }
}

#[test]
fn a_deep_body_is_refused() {
    let deep = format!("{{\"model\":\"m\",\"max_tokens\":1,\"messages\":{}", "[".repeat(100_000));
    survive(deep.as_bytes());
    let closed =
        format!("{{\"model\":\"m\",\"max_tokens\":1,\"messages\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    survive(closed.as_bytes());
    assert!(read(closed.as_bytes()).is_err());
}
