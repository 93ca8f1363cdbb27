//! Any answer, said by any upstream whole and streamed, is understood alike by any caller.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::callers::{Caller, REQUEST};
use super::golden::cases;
use super::said::{self, Said};
use super::upstreams::{UPSTREAMS, enveloped, follow, form, framed, values};

/// A piece of an answer; texts in the pieces they are streamed in.
#[derive(Debug, Clone)]
enum Piece {
    Thought(Vec<String>),
    Text(Vec<String>),
    Call(&'static str, Value),
}

#[derive(Debug, Clone)]
struct Answer {
    pieces: Vec<Piece>,
    cut_off: bool,
}

impl Answer {
    fn has_calls(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Call(..)))
    }

    /// The word for why it ended, of these for: done, calls, the most tokens reached.
    fn finish<'a>(&self, [stop, calls, length]: [&'a str; 3]) -> &'a str {
        match (self.cut_off, self.has_calls()) {
            (true, _) => length,
            (false, true) => calls,
            (false, false) => stop,
        }
    }

    fn meant(&self) -> Said {
        let finish = self.finish(["stop", "tool_calls", "length"]).to_owned();
        let mut said = Said { finish, ..Said::default() };
        for piece in &self.pieces {
            match piece {
                Piece::Thought(texts) => said.thought.push_str(&texts.concat()),
                Piece::Text(texts) => said.text.push_str(&texts.concat()),
                Piece::Call(name, arguments) => said.calls.push(((*name).to_owned(), arguments.clone())),
            }
        }
        said
    }

    /// As this form of upstream says it: whole, and the events of a stream.
    fn said_by(&self, form: &str) -> (Value, Vec<Value>) {
        match form {
            "openai" => self.by_openai(),
            "anthropic" => self.by_anthropic(),
            _ => self.by_gemini(),
        }
    }

    fn by_openai(&self) -> (Value, Vec<Value>) {
        let said = self.meant();
        let call = |(at, (name, arguments)): (usize, &(String, Value))| {
            json!({"id": format!("call_{at}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}})
        };
        let calls: Vec<Value> = said.calls.iter().enumerate().map(call).collect();
        let mut message = json!({"role": "assistant", "content": said.text, "reasoning_content": said.thought});
        let chunk =
            |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
        let mut calls_begun = 0;
        for piece in &self.pieces {
            let mut text = |field: &str, texts: &[String]| {
                events.extend(texts.iter().map(|text| chunk(json!({field: text}), Value::Null)));
            };
            match piece {
                Piece::Thought(texts) => text("reasoning_content", texts),
                Piece::Text(texts) => text("content", texts),
                Piece::Call(..) => {
                    let mut call = calls[calls_begun].clone();
                    call["index"] = calls_begun.into();
                    calls_begun += 1;
                    events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
                }
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let finish = self.finish(["stop", "tool_calls", "length"]);
        events.push(chunk(json!({}), finish.into()));
        (json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}), events)
    }

    fn by_anthropic(&self) -> (Value, Vec<Value>) {
        let (mut content, mut events) = (Vec::new(), Vec::new());
        for (at, piece) in self.pieces.iter().enumerate() {
            let (whole, empty, deltas): (Value, Value, Vec<Value>) = match piece {
                Piece::Thought(texts) => (
                    json!({"type": "thinking", "thinking": texts.concat(), "signature": "c2ln"}),
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    texts.iter().map(|text| json!({"type": "thinking_delta", "thinking": text})).collect(),
                ),
                Piece::Text(texts) => (
                    json!({"type": "text", "text": texts.concat()}),
                    json!({"type": "text", "text": ""}),
                    texts.iter().map(|text| json!({"type": "text_delta", "text": text})).collect(),
                ),
                Piece::Call(name, arguments) => {
                    let call = |input: &Value| json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": name, "input": input});
                    let fragment = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
                    (call(arguments), call(&json!({})), vec![fragment])
                }
            };
            content.push(whole);
            events.push(json!({"type": "content_block_start", "index": at, "content_block": empty}));
            let delta = |delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
            events.extend(deltas.into_iter().map(delta));
            events.push(json!({"type": "content_block_stop", "index": at}));
        }
        let reason = self.finish(["end_turn", "tool_use", "max_tokens"]);
        let message = |content: Vec<Value>, reason: Value| {
            json!({"id": "m", "type": "message", "role": "assistant", "content": content, "stop_reason": reason,
                "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
        };
        events.insert(0, json!({"type": "message_start", "message": message(vec![], Value::Null)}));
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}));
        events.push(json!({"type": "message_stop"}));
        (message(content, reason.into()), events)
    }

    fn by_gemini(&self) -> (Value, Vec<Value>) {
        let candidate = |parts: Value, finish: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}]});
        let (mut parts, mut events) = (Vec::new(), Vec::new());
        for piece in &self.pieces {
            let (whole, streamed): (Value, Vec<Value>) = match piece {
                Piece::Thought(texts) => {
                    let part = |text: &str| json!({"text": text, "thought": true});
                    (part(&texts.concat()), texts.iter().map(|text| part(text)).collect())
                }
                Piece::Text(texts) => {
                    let part = |text: &str| json!({"text": text});
                    (part(&texts.concat()), texts.iter().map(|text| part(text)).collect())
                }
                Piece::Call(name, arguments) => {
                    let part = json!({"functionCall": {"name": name, "args": arguments}});
                    (part.clone(), vec![part])
                }
            };
            parts.push(whole);
            events.extend(streamed.into_iter().map(|part| candidate(json!([part]), Value::Null)));
        }
        let finish = self.finish(["STOP", "STOP", "MAX_TOKENS"]);
        events.push(candidate(json!([{"text": ""}]), finish.into()));
        (candidate(parts.into(), finish.into()), events)
    }
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let texts = || prop::collection::vec(prop_oneof![3 => "[ -~äß😀\n\r\t]{1,8}", 1 => any::<String>()], 1..4);
    let arguments =
        prop::collection::btree_map("[a-zß\"\\\\]{1,4}", any::<(i64, bool)>(), 0..3).prop_map(|map| json!(map));
    let piece = prop_oneof![
        texts().prop_map(Piece::Thought),
        texts().prop_map(Piece::Text),
        (select(vec!["weather", "now"]), arguments).prop_map(|(name, arguments)| Piece::Call(name, arguments)),
    ];
    (prop::collection::vec(piece, 1..6), any::<bool>()).prop_map(|(pieces, cut_off)| Answer { pieces, cut_off })
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn any_answer_is_understood_alike_whole_and_streamed(answer in any_answer()) {
        let meant = answer.meant();
        prop_assume!(!meant.text.is_empty() || !meant.calls.is_empty());
        for caller in Caller::ALL {
            let wanted = caller.wanted("tools");
            for upstream in UPSTREAMS {
                let form = form(caller, upstream);
                // Two who speak alike: the bytes pass.
                if form == "responses" {
                    continue;
                }
                let (whole, events) = answer.said_by(form);
                let body = enveloped(upstream, &whole.to_string());
                let body = wanted.whole(upstream, None, &body.into(), REQUEST).unwrap().body;
                prop_assert_eq!(&said::whole(caller, &body), &meant, "{:?} from {:?}, whole", caller, upstream);
                let text: String = events.iter().map(|event| framed(upstream, event)).collect();
                let followed = follow(wanted.stream(upstream, REQUEST), [text.as_bytes()]);
                let found = said::streamed(caller, &values(caller, followed.text()));
                prop_assert_eq!(&found, &meant, "{:?} from {:?}, streamed", caller, upstream);
            }
        }
    }
}
