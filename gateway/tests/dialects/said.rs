//! What a caller understands of an answer, read independently of the gateway: whole and streamed must say the same.

use serde_json::Value;

use super::callers::Caller;

/// What was said.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) thought: String,
    pub(crate) text: String,
    /// Names and arguments.
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) finish: String,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn at(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// Calls under construction: names and pieces of arguments.
#[derive(Default)]
struct Calls(Vec<(String, String)>);

impl Calls {
    fn begin(&mut self, name: &str) {
        self.0.push((name.to_owned(), String::new()));
    }

    fn parsed(self) -> Vec<(String, Value)> {
        let parse = |text: &str| {
            if text.is_empty() { serde_json::json!({}) } else { serde_json::from_str(text).unwrap() }
        };
        self.0.into_iter().map(|(name, arguments)| (name, parse(&arguments))).collect()
    }
}

/// A whole answer.
pub(crate) fn whole(caller: Caller, body: &[u8]) -> Said {
    let body: Value = serde_json::from_slice(body).unwrap();
    match caller {
        Caller::Chat => {
            let message = &body["choices"][0]["message"];
            let call = |call: &Value| {
                let function = &call["function"];
                (text(&function["name"]).to_owned(), serde_json::from_str(text(&function["arguments"])).unwrap())
            };
            Said {
                thought: text(&message["reasoning_content"]).to_owned(),
                text: text(&message["content"]).to_owned(),
                calls: list(&message["tool_calls"]).iter().map(call).collect(),
                finish: text(&body["choices"][0]["finish_reason"]).to_owned(),
            }
        }
        Caller::Responses => response(&body),
        Caller::Messages => {
            let mut said = Said { finish: anthropic_finish(&body["stop_reason"]), ..Said::default() };
            for block in list(&body["content"]) {
                match text(&block["type"]) {
                    "thinking" => said.thought.push_str(text(&block["thinking"])),
                    "text" => said.text.push_str(text(&block["text"])),
                    "tool_use" => said.calls.push((text(&block["name"]).to_owned(), block["input"].clone())),
                    other => panic!("{other}"),
                }
            }
            said
        }
        Caller::GeminiSse | Caller::GeminiArray => gemini(&[body]),
    }
}

/// A stream's events.
pub(crate) fn streamed(caller: Caller, events: &[Value]) -> Said {
    match caller {
        Caller::Chat => chat(events),
        Caller::Responses => responses(events),
        Caller::Messages => messages(events),
        Caller::GeminiSse | Caller::GeminiArray => gemini(events),
    }
}

fn chat(events: &[Value]) -> Said {
    let (mut said, mut calls) = (Said::default(), Calls::default());
    for choice in events.iter().flat_map(|event| list(&event["choices"])) {
        let delta = &choice["delta"];
        said.thought.push_str(text(&delta["reasoning_content"]));
        said.text.push_str(text(&delta["content"]));
        for call in list(&delta["tool_calls"]) {
            if let Some(name) = call["function"]["name"].as_str() {
                assert_eq!(at(&call["index"]), calls.0.len(), "calls are counted");
                calls.begin(name);
            }
            calls.0[at(&call["index"])].1.push_str(text(&call["function"]["arguments"]));
        }
        said.finish.push_str(text(&choice["finish_reason"]));
    }
    Said { calls: calls.parsed(), ..said }
}

fn response(body: &Value) -> Said {
    let mut said = Said::default();
    for item in list(&body["output"]) {
        match text(&item["type"]) {
            "reasoning" => said.thought.extend(list(&item["summary"]).iter().map(|part| text(&part["text"]))),
            "message" => said.text.extend(list(&item["content"]).iter().map(|part| text(&part["text"]))),
            "function_call" => {
                let arguments = serde_json::from_str(text(&item["arguments"])).unwrap();
                said.calls.push((text(&item["name"]).to_owned(), arguments));
            }
            other => panic!("{other}"),
        }
    }
    let finish = match text(&body["incomplete_details"]["reason"]) {
        "max_output_tokens" => "length",
        "" if said.calls.is_empty() => "stop",
        "" => "tool_calls",
        other => other,
    };
    Said { finish: finish.to_owned(), ..said }
}

fn responses(events: &[Value]) -> Said {
    let (mut said, mut calls) = (Said::default(), Calls::default());
    let mut places = Vec::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(at(&event["sequence_number"]), number);
        let delta = text(&event["delta"]);
        match text(&event["type"]) {
            "response.reasoning_summary_text.delta" => said.thought.push_str(delta),
            "response.output_text.delta" => said.text.push_str(delta),
            "response.output_item.added" if event["item"]["type"] == "function_call" => {
                places.push(at(&event["output_index"]));
                calls.begin(text(&event["item"]["name"]));
            }
            "response.function_call_arguments.delta" => {
                let place = places.iter().position(|place| *place == at(&event["output_index"])).unwrap();
                calls.0[place].1.push_str(delta);
            }
            "response.completed" | "response.incomplete" => {
                let last = response(&event["response"]);
                said.finish.clone_from(&last.finish);
                said.calls = std::mem::take(&mut calls).parsed();
                assert_eq!(said, last, "the last event repeats what was said");
            }
            _ => {}
        }
    }
    said
}

fn anthropic_finish(reason: &Value) -> String {
    match text(reason) {
        "end_turn" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        other => other,
    }
    .to_owned()
}

fn messages(events: &[Value]) -> Said {
    let (mut said, mut calls) = (Said::default(), Calls::default());
    let (mut begun, mut open) = (0, None);
    for event in events {
        match text(&event["type"]) {
            "content_block_start" => {
                assert_eq!((at(&event["index"]), open), (begun, None), "blocks are contiguous");
                open = Some(begun);
                begun += 1;
                if event["content_block"]["type"] == "tool_use" {
                    calls.begin(text(&event["content_block"]["name"]));
                }
            }
            "content_block_delta" => {
                assert_eq!(Some(at(&event["index"])), open);
                let delta = &event["delta"];
                said.thought.push_str(text(&delta["thinking"]));
                said.text.push_str(text(&delta["text"]));
                if delta["type"] == "input_json_delta" {
                    calls.0.last_mut().unwrap().1.push_str(text(&delta["partial_json"]));
                }
            }
            "content_block_stop" => assert_eq!(Some(at(&event["index"])), open.take()),
            "message_delta" => said.finish = anthropic_finish(&event["delta"]["stop_reason"]),
            "message_stop" => assert_eq!(open, None),
            _ => {}
        }
    }
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    Said { calls: calls.parsed(), ..said }
}

fn gemini(chunks: &[Value]) -> Said {
    let mut said = Said::default();
    for chunk in chunks {
        let candidate = &chunk["candidates"][0];
        for part in list(&candidate["content"]["parts"]) {
            let call = &part["functionCall"];
            if call.is_object() {
                said.calls.push((text(&call["name"]).to_owned(), call["args"].clone()));
            } else if part["thought"] == true {
                said.thought.push_str(text(&part["text"]));
            } else {
                said.text.push_str(text(&part["text"]));
            }
        }
        match text(&candidate["finishReason"]) {
            "" => {}
            "STOP" if said.calls.is_empty() => said.finish = "stop".into(),
            "STOP" => said.finish = "tool_calls".into(),
            "MAX_TOKENS" => said.finish = "length".into(),
            other => panic!("{other}"),
        }
    }
    said
}
