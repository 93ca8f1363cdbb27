use proptest::prelude::*;

use super::*;
use crate::dialect::openai::stream::any_answer;
use crate::dialect::openai_responses::request::echo;

const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

fn written(events: &[Event]) -> Vec<Value> {
    let mut writer = Writer::new("mine", REQUEST, &echo(br#"{"instructions":"be"}"#));
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    writer.finish(&mut out);
    let out = String::from_utf8(out).unwrap();
    let frames = out.split_terminator("\n\n").map(|frame| {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    frames.collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap()).collect()
}

fn call(index: usize, id: &str) -> Event {
    Event::CallStart { index, id: id.into(), name: "f".into(), signature: None }
}

fn arguments(index: usize, fragment: &str) -> Event {
    Event::CallArguments { index, fragment: fragment.into() }
}

#[test]
fn a_text_is_written_in_the_order_the_helpers_insist_on() {
    let tokens = Tokens { input: 5, output: 2, ..Tokens::default() };
    let events = written(&[
        Event::Start(None),
        Event::Thinking("hm".into()),
        Event::Text("Grü".into()),
        Event::Text("ße".into()),
        Event::Finish(Finish::Stop),
        Event::Usage(tokens),
    ]);
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), expected);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..expected.len() as u64).collect::<Vec<_>>());
    let id = "msg_0190163d8694739baea5966c26f8ad91_1";
    assert_eq!(
        events[10],
        json!({"type": "response.output_text.delta", "sequence_number": 10, "item_id": id, "output_index": 1, "content_index": 0,
            "delta": "Grü", "logprobs": []})
    );
    let part = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": "Grüße"});
    assert_eq!(events[13]["part"], part);
    let item = json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": [part]});
    assert_eq!(events[14]["item"], item);
    let response = &events[15]["response"];
    assert_eq!(response["output"][1], item);
    assert_eq!((&response["status"], &response["instructions"]), (&json!("completed"), &json!("be")));
    assert_eq!(response["usage"]["total_tokens"], 7);
    assert_eq!(events[0]["response"]["status"], "in_progress");
    assert_eq!(events[0]["response"]["output"], json!([]));
}

#[test]
fn calls_are_open_side_by_side_and_done_in_their_order() {
    let events = written(&[
        call(0, "a"),
        call(1, "b"),
        arguments(1, "{\"x\""),
        arguments(0, "{}"),
        arguments(1, ":1}"),
        call(2, "c"),
        Event::Finish(Finish::ToolCalls),
    ]);
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "output_item.added",
        "function_call_arguments.done",
        "output_item.done",
        "function_call_arguments.done",
        "output_item.done",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), expected);
    let output = events[15]["response"]["output"].as_array().unwrap().clone();
    let said: Vec<(&str, &str)> =
        output.iter().map(|item| (item["call_id"].as_str().unwrap(), item["arguments"].as_str().unwrap())).collect();
    assert_eq!(said, [("a", "{}"), ("b", "{\"x\":1}"), ("c", "{}")]);
}

#[test]
fn every_reason_has_its_last_event() {
    for (finish, kind) in [
        (Finish::Stop, "completed"),
        (Finish::Length, "incomplete"),
        (Finish::Filtered, "incomplete"),
        (Finish::Refused, "incomplete"),
    ] {
        let events = written(&[Event::Start(None), Event::Finish(finish)]);
        assert_eq!(kinds(&events), ["created", "in_progress", kind]);
    }
    let refused = written(&[Event::Refusal("no".into()), Event::Finish(Finish::Refused)]);
    assert_eq!(*kinds(&refused).last().unwrap(), "completed");
    assert!(kinds(&refused).contains(&"refusal.done"));
}

/// Follows a stream as strictly as the strictest helper: everything is added before it is filled and filled before it is done; gives
/// the items it came to.
fn followed(events: &[Value]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    let mut open: Vec<bool> = Vec::new();
    for event in &events[2..events.len() - 1] {
        let place = usize::try_from(event["output_index"].as_u64().unwrap()).unwrap();
        let kind = event["type"].as_str().unwrap();
        if kind == "response.output_item.added" {
            assert_eq!(place, items.len());
            items.push(event["item"].clone());
            open.push(true);
            continue;
        }
        assert!(open[place], "{event}");
        let part = ["content_index", "summary_index"].iter().find_map(|name| event[*name].as_u64());
        let part = usize::try_from(part.unwrap_or(0)).unwrap();
        let list = if items[place]["type"] == "reasoning" { "summary" } else { "content" };
        let push = |value: &mut Value, more: &Value| {
            *value = format!("{}{}", value.as_str().unwrap(), more.as_str().unwrap()).into();
        };
        match kind {
            "response.content_part.added" | "response.reasoning_summary_part.added" => {
                let parts = items[place][list].as_array_mut().unwrap();
                assert_eq!(parts.len(), part);
                parts.push(event["part"].clone());
            }
            "response.output_text.delta" | "response.reasoning_summary_text.delta" => {
                push(&mut items[place][list][part]["text"], &event["delta"]);
            }
            "response.refusal.delta" => push(&mut items[place][list][part]["refusal"], &event["delta"]),
            "response.function_call_arguments.delta" => push(&mut items[place]["arguments"], &event["delta"]),
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                assert_eq!(items[place][list][part], event["part"]);
            }
            "response.function_call_arguments.done" => assert_eq!(items[place]["arguments"], event["arguments"]),
            "response.output_item.done" => {
                if items[place]["type"] != "reasoning" {
                    items[place]["status"] = "completed".into();
                }
                assert_eq!(items[place], event["item"]);
                open[place] = false;
            }
            "response.output_text.done" | "response.reasoning_summary_text.done" | "response.refusal.done" => {}
            other => panic!("{other}"),
        }
    }
    assert!(open.iter().all(|open| !open), "an item is not done");
    items
}

proptest! {
    #[test]
    fn any_answer_is_followed_by_the_strictest_helper(events in any_answer()) {
        let written = written(&events);
        let items = followed(&written);
        let last = written.last().unwrap();
        prop_assert_eq!(&last["response"]["output"], &Value::Array(items.clone()));
        for id in 0..3 {
            let expected: String = {
                let index = events.iter().find_map(|event| match event {
                    Event::CallStart { index, id: found, .. } if *found == format!("id{id}") => Some(*index),
                    _ => None,
                });
                let fragments = events.iter().filter_map(|event| match event {
                    Event::CallArguments { index: of, fragment } if Some(*of) == index => Some(fragment.as_str()),
                    _ => None,
                });
                fragments.collect()
            };
            let found = items.iter().find(|item| item["call_id"] == format!("id{id}"));
            prop_assert_eq!(found.map_or("", |item| item["arguments"].as_str().unwrap()), expected);
        }
    }
}
