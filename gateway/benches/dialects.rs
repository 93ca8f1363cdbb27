//! What translation costs: CPU of a request and of a stream event, for every caller's API and every upstream's dialect.
//!
//! The figures are of one thread's CPU, the least of several rounds, so that other work on the machine does not count. Figures of one
//! run stand in `dialects.md`.

use std::hint::black_box;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use gateway::dialect::gemini::stream::Framing;
use gateway::dialect::gemini::url::Method;
use gateway::dialect::wanted::{Entry, Found, Wanted};
use gateway::dialect::{Answer, Api, Dialect};
use gateway::upstream::sse::Scanner;
use serde_json::{Value, json};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REQUEST: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
const UPSTREAMS: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::CodeAssist];
/// The size of a request, in bytes.
const SIZE: usize = 4096;
/// Pieces of text in a stream.
const PIECES: usize = 400;
const ROUNDS: usize = 12;
/// What a request across dialects may cost.
const REQUEST_LIMIT_US: f64 = 60.0;
/// What an event of a stream may cost.
const EVENT_LIMIT_US: f64 = 5.0;

/// A caller: its name, its entry, its requests, and where its conversation stands.
struct Caller {
    name: &'static str,
    entry: Entry,
    requests: &'static str,
    conversation: &'static str,
}

impl Caller {
    fn all() -> Vec<Self> {
        let gemini = |framing| Entry {
            path_model: "mine".into(),
            framing,
            ..Entry::at(Api::Gemini(Method::Generate(Answer::Stream)))
        };
        let caller = |name, entry, requests, conversation| Self { name, entry, requests, conversation };
        let gemini_requests = include_str!("../tests/fixtures/dialects/requests/gemini.json");
        vec![
            caller(
                "chat",
                Entry::at(Api::Chat),
                include_str!("../tests/fixtures/dialects/requests/chat.json"),
                "messages",
            ),
            caller(
                "responses",
                Entry::at(Api::Responses),
                include_str!("../tests/fixtures/dialects/requests/responses.json"),
                "input",
            ),
            caller(
                "messages",
                Entry::at(Api::Messages),
                include_str!("../tests/fixtures/dialects/requests/messages.json"),
                "messages",
            ),
            caller("gemini (SSE)", gemini(Framing::Sse), gemini_requests, "contents"),
            caller("gemini (array)", gemini(Framing::Array), gemini_requests, "contents"),
        ]
    }

    /// A conversation with tools, two calls and their results, begun by turns of text until it has its size.
    fn body(&self) -> anyhow::Result<Bytes> {
        let requests: Value = serde_json::from_str(self.requests)?;
        let mut body = requests["tools"].clone();
        for turn in 0.. {
            let missing = SIZE.saturating_sub(body.to_string().len());
            if missing < 80 {
                break;
            }
            let text = "Es war einmal \"ein\" Wort,\n".chars().cycle().take(missing.min(400) - 60).collect::<String>();
            let turn = self.turn(if turn % 2 == 0 { "assistant" } else { "user" }, &text);
            body[self.conversation].as_array_mut().context("a conversation is a list")?.insert(0, turn);
        }
        Ok(body.to_string().into())
    }

    fn turn(&self, role: &str, text: &str) -> Value {
        match self.conversation {
            "contents" if role == "assistant" => json!({"role": "model", "parts": [{"text": text}]}),
            "contents" => json!({"role": role, "parts": [{"text": text}]}),
            _ => json!({"role": role, "content": text}),
        }
    }
}

fn model(upstream: Dialect) -> &'static str {
    match upstream {
        Dialect::OpenAi => "gpt-5.1",
        Dialect::Anthropic => "claude-sonnet-4-5",
        Dialect::Gemini | Dialect::CodeAssist => "gemini-2.5-flash",
    }
}

/// A stream of many pieces of text, then the end: and how many events it has.
fn stream(caller: &Caller, upstream: Dialect) -> (Bytes, usize) {
    let pieces = (0..PIECES).map(|at| format!("Wört{at} "));
    let framed = |kind: Option<&str>, data: Value| match kind {
        Some(kind) => format!("event: {kind}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    let typed = |data: Value| framed(data["type"].as_str().map(str::to_owned).as_deref(), data);
    let (events, end): (Vec<String>, String) = match upstream {
        Dialect::OpenAi if caller.conversation == "input" => (
            pieces
                .map(|text| {
                    typed(
                        json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": text}),
                    )
                })
                .collect(),
            typed(json!({"type": "response.completed", "response": {"id": "r", "model": "up", "output": []}})),
        ),
        Dialect::OpenAi => {
            let chunk = |delta: Value, finish: Value| {
                framed(
                    None,
                    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices":
                    [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}], "usage": null}),
                )
            };
            (pieces.map(|text| chunk(json!({"content": text}), Value::Null)).collect(), chunk(json!({}), "stop".into()))
        }
        Dialect::Anthropic => {
            let start = json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
                "model": "up", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}});
            let block =
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
            let text = |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
            let stop = json!({"type": "content_block_stop", "index": 0});
            let delta =
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}});
            let events = [start, block].into_iter().chain(pieces.map(text)).chain([stop, delta]).map(typed).collect();
            (events, typed(json!({"type": "message_stop"})))
        }
        Dialect::Gemini | Dialect::CodeAssist => {
            let chunk = |text: &str, finish: Value| {
                let chunk = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0,
                    "finishReason": finish}], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3,
                    "totalTokenCount": 12}, "modelVersion": "up", "responseId": "r"});
                framed(None, if upstream == Dialect::CodeAssist { json!({"response": chunk}) } else { chunk })
            };
            (pieces.map(|text| chunk(&text, Value::Null)).collect(), chunk("", "STOP".into()))
        }
    };
    (format!("{}{end}", events.concat()).into(), events.len() + 1)
}

/// CPU that this thread has used, in nanoseconds.
fn cpu_ns() -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").context("needs Linux with schedstat")?;
    Ok(stat.split(' ').next().context("an empty schedstat")?.parse()?)
}

/// The least CPU of some rounds of it, each of so many times, in microseconds for each time.
fn least_us(times: u32, mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let before = cpu_ns()?;
        for _ in 0..times {
            work()?;
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let used = (cpu_ns()? - before) as f64;
        least = least.min(used / 1000.0 / f64::from(times));
    }
    Ok(least)
}

fn request_us(caller: &Caller, body: &Bytes, upstream: Dialect) -> anyhow::Result<f64> {
    least_us(2_000, || {
        let wanted = Wanted::read(caller.entry.clone(), body.clone()).map_err(|bad| anyhow::anyhow!(bad.message))?;
        let call = wanted
            .call(upstream, model(upstream), REQUEST, &Found::default())
            .map_err(|bad| anyhow::anyhow!(bad.message))?;
        black_box(call);
        Ok(())
    })
}

fn event_us(caller: &Caller, body: &Bytes, upstream: Dialect) -> anyhow::Result<f64> {
    let wanted = Wanted::read(caller.entry.clone(), body.clone()).map_err(|bad| anyhow::anyhow!(bad.message))?;
    let (text, events) = stream(caller, upstream);
    let us = least_us(40, || {
        let (mut scanner, mut translation) = (Scanner::new(), wanted.stream(upstream, REQUEST));
        scanner.push(text.clone());
        while let Some(event) = scanner.next()? {
            let fed = translation.event(event.name.as_deref(), &event.data);
            black_box(fed.map_err(|error| anyhow::anyhow!("{error:?}"))?);
        }
        black_box(translation.end().map_err(|error| anyhow::anyhow!("{error:?}"))?);
        Ok(())
    })?;
    Ok(us / f64::from(u32::try_from(events)?))
}

fn is_cross(caller: &Caller, upstream: Dialect) -> bool {
    let own = caller.entry.api.dialect();
    own != upstream && !(own == Dialect::Gemini && upstream == Dialect::CodeAssist)
}

fn main() -> anyhow::Result<()> {
    let mut over = Vec::new();
    println!("| caller | upstream | | request, µs | event, µs |\n| --- | --- | --- | ---: | ---: |");
    for caller in Caller::all() {
        let body = caller.body()?;
        for upstream in UPSTREAMS {
            let (request, event) = (request_us(&caller, &body, upstream)?, event_us(&caller, &body, upstream)?);
            let (name, upstream_name) = (caller.name, upstream.as_str());
            let kind = if is_cross(&caller, upstream) { "cross" } else { "same" };
            println!("| {name} | {upstream_name} | {kind} | {request:.1} | {event:.2} |");
            if request > REQUEST_LIMIT_US || event > EVENT_LIMIT_US {
                over.push(format!("{name} to {upstream_name}"));
            }
        }
    }
    if !over.is_empty() {
        bail!("over {REQUEST_LIMIT_US} µs a request or {EVENT_LIMIT_US} µs an event: {}", over.join(", "));
    }
    Ok(())
}
