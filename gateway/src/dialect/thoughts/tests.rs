use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::dialect::wanted::{Entry, Found, Wanted};
use crate::dialect::{Answer, Api};

const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
const CLAUDE: Maker<'static> = Maker { dialect: Dialect::Anthropic, provider: "claude" };
const GOOGLE: Maker<'static> = Maker { dialect: Dialect::Gemini, provider: "google" };
const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","content":[
    {"type":"thinking","thinking":"two \"cities\"","signature":"s1"},{"type":"redacted_thinking","data":"r1"},
    {"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_a","name":"f","input":{}},
    {"type":"tool_use","id":"toolu_b","name":"f","input":{}},{"type":"thinking","thinking":"","signature":"s2"},
    {"type":"tool_use","id":"toolu_c","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}"#;
const SIGNED: &str = r#"{"candidates":[{"content":{"role":"model","parts":[
    {"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"b","name":"f","args":{}}}]},
    "finishReason":"STOP"}]}"#;

fn asked(api: Api, body: &Value) -> Wanted {
    Wanted::read(Entry::at(api), Bytes::from(body.to_string())).unwrap()
}

/// A chat whose model called and was answered.
fn chat(calls: &[&str]) -> Value {
    let called =
        calls.iter().map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}));
    let called: Vec<Value> = called.collect();
    let mut messages = vec![
        json!({"role": "user", "content": "hi"}),
        json!({"role": "assistant", "content": "Let me see.", "reasoning_content": "two", "tool_calls": called}),
    ];
    messages.extend(calls.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "ok"})));
    json!({"model": "m", "messages": messages, "reasoning_effort": "low"})
}

/// What is found again of what was kept.
fn found(kept: &[Kept], made_by: Maker<'_>, asks: Maker<'_>) -> Thoughts {
    let mut thoughts = Thoughts::default();
    for kept in kept {
        thoughts.add(&kept.call_id, &kept.at_rest(made_by).unwrap(), asks);
    }
    thoughts
}

fn sent(wanted: &Wanted, to: Dialect, model: &str, thoughts: &Thoughts) -> Value {
    let found = Found { thoughts: thoughts.clone(), ..Found::default() };
    serde_json::from_slice(&wanted.call(to, model, REQUEST, &found).unwrap().body).unwrap()
}

fn kinds(content: &Value) -> Vec<&str> {
    content.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

#[test]
fn signed_thoughts_come_back_before_the_calls_they_led_to() {
    let wanted = asked(Api::Chat, &chat(&["toolu_a", "toolu_b", "toolu_c"]));
    let whole = wanted.whole(Dialect::Anthropic, None, &Bytes::from_static(ANSWER.as_bytes()), REQUEST).unwrap();
    let ids: Vec<&str> = whole.kept.iter().map(|kept| kept.call_id.as_str()).collect();
    assert_eq!(ids, ["toolu_a", "toolu_c"]);
    assert_eq!(wanted.needs_thoughts(Dialect::Anthropic), ["toolu_a", "toolu_b", "toolu_c"]);

    let body = sent(&wanted, Dialect::Anthropic, "claude-sonnet-4-5", &found(&whole.kept, CLAUDE, CLAUDE));
    let content = &body["messages"][1]["content"];
    let expected = ["thinking", "redacted_thinking", "text", "tool_use", "tool_use", "thinking", "tool_use"];
    assert_eq!(kinds(content), expected);
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "two \"cities\"", "signature": "s1"}));
    assert_eq!(content[1], json!({"type": "redacted_thinking", "data": "r1"}));
    assert_eq!(content[5], json!({"type": "thinking", "thinking": "", "signature": "s2"}));
    assert_eq!(body["thinking"]["type"], "enabled", "the model goes on thinking");
}

#[test]
fn a_stream_gives_what_a_whole_answer_gives() {
    let wanted = asked(Api::Chat, &chat(&["toolu_a"]));
    let block = |block: Value, deltas: &[Value]| {
        let mut events = vec![json!({"type": "content_block_start", "index": 0, "content_block": block})];
        events.extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": 0}));
        events
    };
    let thought = |text: &str, signature: &str| {
        let mut deltas: Vec<Value> =
            text.split_inclusive(' ').map(|text| json!({"type": "thinking_delta", "thinking": text})).collect();
        deltas.push(json!({"type": "signature_delta", "signature": signature}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), &deltas)
    };
    let call = |id: &str| block(json!({"type": "tool_use", "id": id, "name": "f", "input": {}}), &[]);
    let events = [
        vec![json!({"type": "message_start", "message": {"id": "msg_1", "usage": {}}})],
        thought("two \"cities\"", "s1"),
        block(json!({"type": "redacted_thinking", "data": "r1"}), &[]),
        block(json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": "Let me see."})]),
        call("toolu_a"),
        call("toolu_b"),
        thought("", "s2"),
        call("toolu_c"),
    ];
    let mut stream = wanted.stream(Dialect::Anthropic, REQUEST);
    let mut kept = Vec::new();
    for event in events.concat() {
        let fed = stream.event(event["type"].as_str().map(str::as_bytes), event.to_string().as_bytes()).unwrap();
        assert!(
            fed.kept.is_empty() || event["content_block"]["id"] == fed.kept[0].call_id,
            "with the call, not after it"
        );
        kept.extend(fed.kept);
    }
    let whole = wanted.whole(Dialect::Anthropic, None, &Bytes::from_static(ANSWER.as_bytes()), REQUEST).unwrap();
    assert_eq!(kept, whole.kept);
}

#[test]
fn the_signature_on_a_call_comes_back_on_it() {
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": ""},
            {"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, {"type": "tool_result", "tool_use_id": "b"}]},
    ]);
    let wanted = asked(Api::Messages, &json!({"model": "m", "max_tokens": 9, "messages": messages}));
    let whole = wanted.whole(Dialect::Gemini, None, &Bytes::from_static(SIGNED.as_bytes()), REQUEST).unwrap();
    let streamed = wanted.stream(Dialect::Gemini, REQUEST).event(None, SIGNED.replace('\n', "").as_bytes()).unwrap();
    assert_eq!(whole.kept, streamed.kept);
    assert_eq!(whole.kept.len(), 1);

    let own = sent(&wanted, Dialect::Gemini, "gemini-3-pro", &found(&whole.kept, GOOGLE, GOOGLE));
    assert_eq!(own["contents"][1]["parts"][0]["thoughtSignature"], "c2ln");
    assert!(own["contents"][1]["parts"][1].get("thoughtSignature").is_none());
}

#[test]
fn no_other_upstream_gets_them() {
    let wanted = asked(Api::Chat, &chat(&["a"]));
    let bare = |to, model| sent(&wanted, to, model, &Thoughts::default());
    let claude = wanted.whole(Dialect::Anthropic, None, &Bytes::from(ANSWER.replace("toolu_a", "a")), REQUEST).unwrap();
    let gemini = wanted.whole(Dialect::Gemini, None, &Bytes::from_static(SIGNED.as_bytes()), REQUEST).unwrap();
    let other = Maker { provider: "other", ..CLAUDE };
    let code_assist = Maker { dialect: Dialect::CodeAssist, ..GOOGLE };
    for (kept, made_by, asks, model) in [
        (&claude.kept, CLAUDE, GOOGLE, "gemini-3-pro"),
        (&claude.kept, CLAUDE, other, "claude-sonnet-4-5"),
        (&gemini.kept, GOOGLE, CLAUDE, "claude-sonnet-4-5"),
        (&gemini.kept, GOOGLE, code_assist, "gemini-3-pro"),
    ] {
        let thoughts = found(kept, made_by, asks);
        assert_eq!(thoughts, Thoughts::default());
        assert_eq!(sent(&wanted, asks.dialect, model, &thoughts), bare(asks.dialect, model));
    }
    assert!(wanted.needs_thoughts(Dialect::OpenAi).is_empty());
}

#[test]
fn who_speaks_alike_or_has_made_no_call_asks_for_nothing_and_keeps_nothing() {
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]});
    let wanted = asked(Api::Messages, &body);
    assert!(wanted.needs_thoughts(Dialect::Anthropic).is_empty());
    assert_eq!(wanted.needs_thoughts(Dialect::CodeAssist), ["a"]);
    let whole = wanted.whole(Dialect::Anthropic, None, &Bytes::from_static(ANSWER.as_bytes()), REQUEST).unwrap();
    assert!(whole.kept.is_empty());
    let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    assert!(asked(Api::Chat, &plain).needs_thoughts(Dialect::Anthropic).is_empty());
    assert!(asked(Api::CountTokens, &body).needs_thoughts(Dialect::Gemini).is_empty());
}

#[test]
fn a_call_is_kept_by_the_id_it_comes_back_with() {
    let odd = "an id/with signs";
    let answer = SIGNED.replace("\"id\":\"a\"", &format!("\"id\":{}", json!(odd)));
    let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let wanted = asked(Api::Messages, &body);
    let whole = wanted.whole(Dialect::Gemini, None, &Bytes::from(answer), REQUEST).unwrap();
    let written: Value = serde_json::from_slice(&whole.body).unwrap();
    assert_eq!(written["content"][0]["id"], whole.kept[0].call_id.as_str());

    let to_google = Gatherer::new(Dialect::Gemini).call(odd, Some(&"s".to_owned())).unwrap().call_id;
    let said = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"functionCall":
        {"id": odd, "name": "f", "args": {}}}]}, {"role": "user", "parts": [{"functionResponse": {"id": odd, "name": "f", "response": {}}}]}]});
    let method = gemini::url::Method::Generate(Answer::Whole);
    let entry = Entry { path_model: "m".into(), ..Entry::at(Api::Gemini(method)) };
    let wanted = Wanted::read(entry, Bytes::from(said.to_string())).unwrap();
    assert_eq!(wanted.needs_thoughts(Dialect::Anthropic), [to_google]);
}

#[test]
fn what_is_kept_is_bounded_and_damage_is_nothing() {
    let large =
        Kept { call_id: "a".into(), proof: Proof { signature: Some("x".repeat(KEPT_MAX)), ..Proof::default() } };
    assert_eq!(large.at_rest(GOOGLE), None);
    let mut thoughts = Thoughts::default();
    for damaged in [&b""[..], b"null", b"{}", b"\xff", br#"{"dialect":"gemini","provider":"google","signature":7}"#] {
        thoughts.add("a", damaged, GOOGLE);
    }
    assert_eq!(thoughts, Thoughts::default());

    let ids: Vec<String> = (0..CALLS_MAX + 2).map(|nth| format!("c{nth}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let needed = asked(Api::Chat, &chat(&ids)).needs_thoughts(Dialect::Anthropic);
    assert_eq!((needed.len(), needed[0].as_str()), (CALLS_MAX, "c2"));
}
