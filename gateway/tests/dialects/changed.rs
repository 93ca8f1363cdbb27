//! JSON that is well formed and means something else: pieces of it replaced, moved and taken away.
//!
//! Whatever comes of it, nothing panics, what is written is JSON and bounded, and an answer that is understood whole and streamed is
//! understood alike.

use bytes::Bytes;
use gateway::dialect::Answer;
use gateway::dialect::wanted::{Found, Wanted};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::callers::{Caller, REQUEST};
use super::noise::{any_caller, any_upstream, ask, fixtures, followed};
use super::upstreams::{ANSWERS, model, stream, whole};

/// What is done to one place of a tree.
#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    Remove,
    /// Becomes what is at another place.
    Copy(Index),
    /// Becomes a list of it.
    Wrap,
}

fn any_change() -> impl Strategy<Value = Vec<(Index, Change)>> {
    let junk = select(vec![
        Value::Null,
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("\u{0}\u{feff}\u{2028}😀"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
        json!([null]),
        json!([{}]),
        json!({"type": "text", "text": "t"}),
        json!("none"),
        json!("auto"),
        json!("high"),
        json!("stop"),
        json!("data:image/png;base64,"),
        json!("{\"a\":1}"),
        json!("{"),
        json!({"type": "object"}),
        json!("function"),
    ]);
    let change = prop_oneof![
        4 => junk.prop_map(Change::Replace),
        2 => Just(Change::Remove),
        2 => any::<Index>().prop_map(Change::Copy),
        1 => Just(Change::Wrap),
    ];
    prop::collection::vec((any::<Index>(), change), 1..4)
}

/// The places of a tree, but for its root, as JSON pointers.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    let mut add = |name: &str, value: &Value| {
        let at = format!("{at}/{name}");
        places(value, &at, all);
        all.push(at);
    };
    match value {
        Value::Array(values) => values.iter().enumerate().for_each(|(at, value)| add(&at.to_string(), value)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| add(name, value)),
        _ => {}
    }
}

fn changed(value: &Value, changes: &[(Index, Change)]) -> Value {
    let mut value = value.clone();
    for (place, change) in changes {
        let mut all = Vec::new();
        places(&value, "", &mut all);
        if all.is_empty() {
            break;
        }
        let place = &all[place.index(all.len())];
        match change {
            Change::Replace(junk) => *value.pointer_mut(place).unwrap() = junk.clone(),
            Change::Copy(from) => {
                let copy = value.pointer(&all[from.index(all.len())]).unwrap().clone();
                *value.pointer_mut(place).unwrap() = copy;
            }
            Change::Wrap => {
                let slot = value.pointer_mut(place).unwrap();
                *slot = json!([slot.take()]);
            }
            Change::Remove => {
                let (parent, name) = place.rsplit_once('/').unwrap();
                match value.pointer_mut(parent).unwrap() {
                    Value::Array(values) => drop(values.remove(name.parse().unwrap())),
                    Value::Object(fields) => drop(fields.shift_remove(name)),
                    _ => {}
                }
            }
        }
    }
    value
}

/// What a caller gets must be of its dialect's making: JSON, to the last event.
fn assert_readable(caller: Caller, out: &[u8], complete: bool) {
    let text = std::str::from_utf8(out).unwrap();
    if caller == Caller::GeminiArray {
        let text = if complete || text.is_empty() { text.to_owned() } else { format!("{text}]") };
        assert!(text.is_empty() || serde_json::from_str::<Vec<Value>>(&text).is_ok(), "{text}");
        return;
    }
    assert!(text.is_empty() || text.ends_with("\n\n"), "{text}");
    super::upstreams::values(caller, text);
}

fn any_answer() -> impl Strategy<Value = &'static str> {
    select(ANSWERS.to_vec())
}

/// A body but for what is edited on the way to an upstream that speaks alike.
fn unedited(body: &[u8]) -> String {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    for name in ["model", "stream_options"] {
        body.as_object_mut().unwrap().shift_remove(name);
    }
    body.to_string()
}

proptest! {
    #[test]
    fn between_two_who_speak_alike_only_the_model_and_the_wish_for_usage_change(
        caller in select(Caller::APIS.to_vec()), which in any::<Index>(), changes in any_change(),
    ) {
        let requests = caller.requests();
        let request = requests.values().nth(which.index(requests.len())).unwrap();
        let body = Bytes::from(changed(request, &changes).to_string());
        let alike = caller.entry(Answer::Whole).api.dialect();
        let Ok(wanted) = Wanted::read(caller.entry(Answer::Whole), body.clone()) else { return Ok(()) };
        let call = wanted.call(alike, model(alike), REQUEST, &Found::default()).unwrap();
        prop_assert_eq!(unedited(&call.body), unedited(&body));
        if caller != Caller::GeminiSse {
            prop_assert_eq!(&serde_json::from_slice::<Value>(&call.body).unwrap()["model"], model(alike));
        }
    }

    #[test]
    fn no_change_makes_a_request_panic_or_its_call_no_json(fixture in select(fixtures()), changes in any_change()) {
        ask(changed(&serde_json::from_str(&fixture).unwrap(), &changes).to_string().as_bytes());
    }

    #[test]
    fn no_change_makes_a_whole_answer_panic_or_what_is_written_no_json(
        caller in any_caller(), upstream in any_upstream(), answer in any_answer(), changes in any_change(),
    ) {
        let body: Value = serde_json::from_slice(&whole(caller, upstream, answer)).unwrap();
        let wanted: Wanted = caller.wanted("tools");
        let body = changed(&body, &changes).to_string();
        if let Ok(answer) = wanted.whole(upstream, Some("application/json"), &body.into(), REQUEST) {
            prop_assert!(serde_json::from_slice::<Value>(&answer.body).is_ok());
        }
    }

    #[test]
    fn no_change_makes_a_stream_panic_or_what_is_written_unreadable(
        caller in any_caller(), upstream in any_upstream(), answer in any_answer(),
        which in any::<Index>(), changes in any_change(), twice in any::<bool>(),
    ) {
        let text = stream(caller, upstream, answer);
        let mut events: Vec<String> = text.split_inclusive("\n\n").map(str::to_owned).collect();
        let which = which.index(events.len());
        let (head, data) = events[which].split_once("data: ").unwrap();
        let Ok(data) = serde_json::from_str::<Value>(data) else { return Ok(()) };
        let event = format!("{head}data: {}\n\n", changed(&data, &changes));
        if twice {
            events.insert(which, event);
        } else {
            events[which] = event;
        }
        let found = followed(caller, upstream, events.concat().as_bytes(), &[usize::MAX]);
        assert_readable(caller, &found.out, found.error.is_none());
    }
}
