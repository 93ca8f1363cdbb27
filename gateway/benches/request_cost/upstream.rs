//! The upstream: canned chat completions, whole or streamed. The model of a request says which.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::{Stream, StreamExt as _, stream};
use http::{StatusCode, header};
use serde::Deserialize;
use tokio::time::MissedTickBehavior;

use crate::process;

/// Events with content in a stream.
pub(crate) const EVENTS: usize = 200;
/// Between two events of a paced stream: each travels alone.
const PACE: Duration = Duration::from_millis(20);
/// Events of a batched stream that are written at once.
const BATCH: usize = 10;

/// Whole answers.
pub(crate) const ANSWER: &str = "bench-answer";
/// Streams, one event a write.
pub(crate) const PACED: &str = "bench-paced";
/// Streams, ten events a write, as fast as they are taken.
pub(crate) const BATCHED: &str = "bench-batched";
/// Streams that fall silent after their first event.
pub(crate) const IDLE: &str = "bench-idle";

const WHOLE: &str = r#"{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion","created":1741570283,"model":"bench-answer","choices":[{"index":0,"message":{"role":"assistant","content":"A gateway stands between callers and the services they call. It knows who calls, what they may use, and which of the services can answer now.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":24,"completion_tokens":31,"total_tokens":55,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}"#;

#[derive(Deserialize)]
struct Ask {
    model: String,
}

/// Serves until the parent ends.
pub(crate) async fn serve() -> anyhow::Result<()> {
    process::play(Router::new().route("/v1/chat/completions", post(answer))).await
}

async fn answer(Json(ask): Json<Ask>) -> Response {
    match ask.model.as_str() {
        ANSWER => ([(header::CONTENT_TYPE, "application/json")], WHOLE).into_response(),
        PACED => sse(paced(ask.model)),
        BATCHED => sse(batched(ask.model)),
        IDLE => sse(stream::iter([chunk(&ask.model, 0)]).chain(stream::pending())),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn sse(events: impl Stream<Item = String> + Send + 'static) -> Response {
    let body = Body::from_stream(events.map(|event| Ok::<_, Infallible>(Bytes::from(event))));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn paced(model: String) -> impl Stream<Item = String> {
    let mut clock = tokio::time::interval(PACE);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let model: std::sync::Arc<str> = model.into();
    stream::unfold((clock, 0), move |(mut clock, nth)| {
        let model = std::sync::Arc::clone(&model);
        async move {
            clock.tick().await;
            match nth {
                ..EVENTS => Some((chunk(&model, nth), (clock, nth + 1))),
                EVENTS => Some((end(&model), (clock, nth + 1))),
                _ => None,
            }
        }
    })
}

fn batched(model: String) -> impl Stream<Item = String> {
    let batches = (0..EVENTS / BATCH).map(move |batch| {
        let mut text: String = (0..BATCH).map(|nth| chunk(&model, batch * BATCH + nth)).collect();
        if batch + 1 == EVENTS / BATCH {
            text.push_str(&end(&model));
        }
        text
    });
    // Pending once after each: the server writes it before it asks for the next.
    stream::iter(batches).then(|batch| async {
        tokio::task::yield_now().await;
        batch
    })
}

/// An event with content, about 250 bytes as vendors send them.
fn chunk(model: &str, nth: usize) -> String {
    let delta =
        if nth == 0 { r#"{"role":"assistant","content":"Go","refusal":null}"# } else { r#"{"content":" token"}"# };
    event(model, &format!(r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}],"usage":null"#))
}

/// The finish reason, usage and the completion marker.
fn end(model: &str) -> String {
    let finish = event(model, r#"[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null"#);
    let usage = event(model, r#"[],"usage":{"prompt_tokens":24,"completion_tokens":200,"total_tokens":224}"#);
    finish + &usage + "data: [DONE]\n\n"
}

fn event(model: &str, rest: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG\",\"object\":\"chat.completion.chunk\",\"created\":1741570283,\
         \"model\":\"{model}\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":{rest}}}\n\n"
    )
}
