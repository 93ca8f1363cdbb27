//! Every signal of every dialect, its rank among the others, and that all of them hold still over the turns.

use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;

const NONE: [(&str, &str); 0] = [];

fn shown(headers: &[(&str, &str)], body: &Value) -> Option<Shown> {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()));
    read(&headers.collect(), body.to_string().as_bytes())
}

fn mark(headers: &[(&str, &str)], body: &Value) -> [u8; 32] {
    shown(headers, body).unwrap().mark
}

/// A body of each API's first turn: of Chat, Responses, Messages and Gemini.
fn openings(system: &str, says: &str) -> [Value; 4] {
    [
        json!({"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": says}],
               "tools": [{"type": "function", "function": {"name": "find"}}]}),
        json!({"model": "m", "instructions": system, "input": [{"role": "user", "content": [{"type": "input_text", "text": says}]}],
               "tools": [{"type": "function", "name": "find"}]}),
        json!({"model": "m", "system": [{"type": "text", "text": system}], "messages": [{"role": "user", "content": says}],
               "tools": [{"name": "find", "input_schema": {}}], "max_tokens": 1}),
        json!({"systemInstruction": {"parts": [{"text": system}]}, "contents": [{"role": "user", "parts": [{"text": says}]}],
               "tools": [{"functionDeclarations": [{"name": "find"}]}]}),
    ]
}

/// The list of turns of a body.
fn turns(body: &mut Value) -> &mut Vec<Value> {
    let name = ["messages", "input", "contents"].into_iter().find(|name| body.get(name).is_some()).unwrap();
    body[name].as_array_mut().unwrap()
}

/// The next turn: an answer, and what the user says to it.
fn go_on(mut body: Value) -> Value {
    let gemini = body.get("contents").is_some();
    let turn = |role: &str, text: &str| {
        if gemini {
            json!({"role": if role == "user" { role } else { "model" }, "parts": [{"text": text}]})
        } else {
            json!({"role": role, "content": text})
        }
    };
    turns(&mut body).extend([turn("assistant", "Well."), turn("user", "And?")]);
    body
}

#[test]
fn every_header_that_names_a_conversation_does_so_in_every_dialect() {
    for name in HEADERS.into_iter().filter(|name| *name != CLAUDE_CODE_AGENT) {
        let marks = openings("be", "hi").map(|body| mark(&[(name, "s1")], &body));
        assert!(marks.iter().all(|mark| *mark == marks[0]), "{name}");
        for body in openings("other", "words") {
            assert_eq!(shown(&[(name, "s1")], &body), Some(Shown { mark: marks[0], stage: Stage::GoesOn }), "{name}");
            assert_ne!(mark(&[(name, "s2")], &body), marks[0], "{name}");
        }
    }
}

#[test]
fn every_field_that_names_a_conversation_does_so_in_every_dialect() {
    let device = json!({"device_id": "d", "account_uuid": "a", "session_id": "s1"}).to_string();
    let table = [
        json!({"metadata": {"user_id": device}}),
        json!({"metadata": {"user_id": "user_f00_account_1_session_s1"}}),
        json!({"previous_response_id": "resp_1"}),
        json!({"conversation": "conv_1"}),
        json!({"conversation": {"id": "conv_1"}}),
        json!({"prompt_cache_key": "k"}),
        json!({"cachedContent": "cachedContents/c"}),
        json!({"cached_content": "cachedContents/c"}),
        json!({"metadata": {"user_id": "u"}}),
        json!({"safety_identifier": "u"}),
        json!({"user": "u"}),
    ];
    for signal in table {
        let with = |mut body: Value| {
            body.as_object_mut().unwrap().extend(signal.as_object().unwrap().clone());
            body
        };
        let bodies = openings("be", "hi").into_iter().chain(openings("other", "words"));
        let marks: Vec<Shown> = bodies.map(|body| shown(&NONE, &with(body)).unwrap()).collect();
        assert!(marks.iter().all(|shown| *shown == marks[0] && shown.stage == Stage::GoesOn), "{signal}");
    }
}

#[test]
fn the_signals_count_in_their_order() {
    let headers = [
        ("x-claude-code-session-id", "1"),
        ("session_id", "3"),
        ("conversation_id", "4"),
        ("x-session-id", "5"),
        ("x-session-affinity", "6"),
        ("x-headgate-session", "7"),
    ];
    let metadata = |text: &str| json!({"user_id": text});
    let mut body = openings("be", "hi")[0].clone();
    for (name, value) in [
        ("metadata", metadata("user_a_account_b_session_2")),
        ("previous_response_id", json!("8")),
        ("conversation", json!("9")),
        ("prompt_cache_key", json!("10")),
        ("cachedContent", json!("11")),
        ("safety_identifier", json!("13")),
        ("user", json!("14")),
    ] {
        body[name] = value;
    }
    let expected = |name: &str, value: &str| named(name, &[value]).mark;
    let session = |value: &str| named(CLAUDE_CODE_SESSION, &[value, ""]).mark;
    assert_eq!(mark(&headers, &body), session("1"));
    assert_eq!(mark(&headers[1..], &body), session("2"));
    body["metadata"] = metadata("12");
    for (place, (name, value)) in headers.iter().enumerate().skip(1) {
        assert_eq!(mark(&headers[place..], &body), expected(name, value));
    }
    for (field, signal, value) in [
        ("previous_response_id", "previous_response_id", "8"),
        ("conversation", "conversation", "9"),
        ("prompt_cache_key", "prompt_cache_key", "10"),
        ("cachedContent", "cached_content", "11"),
        ("metadata", "user_id", "12"),
        ("safety_identifier", "safety_identifier", "13"),
        ("user", "user", "14"),
    ] {
        assert_eq!(mark(&NONE, &body), expected(signal, value));
        body.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(shown(&NONE, &body), shown(&NONE, &openings("be", "hi")[0]));
}

#[test]
fn agents_of_one_session_have_conversations_of_their_own() {
    let body = &openings("be", "hi")[2];
    let of = |agent: &str| mark(&[(CLAUDE_CODE_SESSION, "s"), (CLAUDE_CODE_AGENT, agent)], body);
    assert_ne!(of("a"), of("b"));
    assert_ne!(of("a"), mark(&[(CLAUDE_CODE_SESSION, "s")], body));
}

#[test]
fn a_conversation_that_nobody_names_is_known_by_its_opening_over_all_its_turns() {
    for (place, opening) in openings("be kind", "hello").into_iter().enumerate() {
        let first = shown(&NONE, &opening).unwrap();
        assert_eq!(first.stage, Stage::Opens, "{place}");
        let mut body = opening;
        for _ in 0..9 {
            body = go_on(body);
            assert_eq!(shown(&NONE, &body), Some(Shown { stage: Stage::GoesOn, ..first }), "{place}");
        }
        for (other, what) in
            [(&openings("be rude", "hello")[place], "system"), (&openings("be kind", "bye")[place], "user")]
        {
            assert_ne!(mark(&NONE, other), first.mark, "{place}: {what}");
        }
        let mut tools = openings("be kind", "hello")[place].clone();
        tools["tools"] = json!([]);
        assert_ne!(mark(&NONE, &tools), first.mark, "{place}: tools");
    }
}

#[test]
fn every_shape_of_the_same_opening_is_read() {
    let text = json!({"input": "hi"});
    let list = json!({"input": [{"type": "message", "role": "user", "content": "hi"}]});
    assert_eq!(mark(&NONE, &text), mark(&NONE, &list));
    let plain = json!({"contents": [{"parts": [{"text": "hi"}]}], "system_instruction": {"parts": {"text": "be"}}});
    let usual = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "systemInstruction": {"parts": [{"text": "be"}]}});
    assert_eq!(mark(&NONE, &plain), mark(&NONE, &usual));
    let item = json!({"input": [{"role": "user", "content": "hi"}, {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}]});
    assert_eq!(shown(&NONE, &item).unwrap().stage, Stage::GoesOn);
    let two = json!({"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "there"}]});
    assert_eq!(shown(&NONE, &two).unwrap().stage, Stage::Opens, "nobody has answered");
}

#[test]
fn what_changes_from_turn_to_turn_does_not_count() {
    let with = |billing: &str, time: &str, mark: Value| {
        json!({"system": [{"type": "text", "text": format!("x-anthropic-billing-header: cch={billing};")},
                          {"type": "text", "text": format!("Be kind. It is {time}.")}],
               "messages": [{"role": "user", "content": [{"type": "text", "text": "Add 1 and 2", "cache_control": mark}]}]})
    };
    let first = mark(&NONE, &with("a", "2026-11-30 09:59", Value::Null));
    assert_eq!(mark(&NONE, &with("b", "2026-12-01 10:07", json!({"type": "ephemeral"}))), first);
    let mut other = with("a", "2026-11-30 09:59", Value::Null);
    other["messages"][0]["content"][0]["text"] = json!("Add 1 and 3");
    assert_ne!(mark(&NONE, &other), first, "the user's own numbers count");
}

#[test]
fn images_tell_openings_apart() {
    let of = |url: &str| {
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        mark(&NONE, &json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, image]}]}))
    };
    assert_ne!(of("https://x/a.png"), of("https://x/b.png"));
}

#[test]
fn names_that_are_empty_too_long_or_no_text_are_none() {
    let plain = &openings("be", "hi")[0];
    let by_opening = shown(&NONE, plain);
    for value in [json!(""), json!("x".repeat(256)), json!(7), json!(null), json!({"a": 1}), json!("a\nb")] {
        for field in ["prompt_cache_key", "user", "previous_response_id", "cachedContent", "conversation", "metadata"] {
            let mut body = plain.clone();
            body[field] = value.clone();
            assert_eq!(shown(&NONE, &body), by_opening, "{field}: {value}");
        }
    }
    assert_eq!(shown(&[("session-id", " ")], plain), by_opening);
}

#[test]
fn a_body_that_opens_nothing_shows_no_conversation() {
    for body in [
        json!({}),
        json!([]),
        json!({"messages": []}),
        json!({"messages": null}),
        json!({"messages": 7}),
        json!({"input": ["a"]}),
        json!({"contents": [{"role": "model", "parts": []}]}),
    ] {
        assert_eq!(shown(&NONE, &body), None, "{body}");
    }
}
