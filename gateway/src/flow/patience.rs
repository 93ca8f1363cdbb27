//! Keeps a caller that asked for a stream company while its rungs are still tried: proxies and clients cut silent connections.

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::commit;
use super::journey::Journey;
use super::relay::KEEP_ALIVE;
use crate::dialect::Api;
use crate::dialect::gemini::stream::Framing;
use crate::error::{Fault, Refusal};

/// A stream that was admitted: how to speak to its caller before it has an answer.
#[derive(Debug)]
pub struct Admitted {
    /// What the caller speaks to.
    pub api: Api,
    /// How a Gemini caller wants its stream.
    pub framing: Framing,
    /// The headers that are known already.
    pub headers: http::HeaderMap,
}

impl Admitted {
    /// By an API, as far as this request has come.
    pub fn new(api: Api, framing: Framing, journey: &Journey) -> Self {
        let mut headers = http::HeaderMap::new();
        journey.tell(&mut headers);
        Self { api, framing, headers }
    }
}

/// Waits for the answer of a request. One that was admitted as a stream and has none after 15 s gets status 200 and keep-alives; what
/// becomes of it after that, a failure included, is told inside the stream. `hang_up` is dropped with the caller.
pub async fn answer(
    mut line: JoinHandle<Response>,
    admitted: oneshot::Receiver<Admitted>,
    hang_up: DropGuard,
) -> Result<Response, JoinError> {
    let admitted = tokio::select! {
        biased;
        response = &mut line => return response,
        admitted = admitted => admitted,
    };
    // Nothing is said of a request that is no stream or not admitted.
    let Ok(admitted) = admitted else { return line.await };
    match timeout(KEEP_ALIVE, &mut line).await {
        Ok(response) => response,
        Err(_) => Ok(opened(line, admitted, hang_up)),
    }
}

/// A stream without an answer yet.
struct Waiting {
    line: JoinHandle<Response>,
    api: Api,
    framing: Framing,
    _hang_up: DropGuard,
}

enum Held {
    /// Just opened.
    Opened(Box<Waiting>),
    /// The caller has heard from us.
    Waiting(Box<Waiting>),
    /// It has an answer.
    Answered(BodyDataStream),
    /// The caller was told why there is none.
    Told,
}

fn opened(line: JoinHandle<Response>, admitted: Admitted, hang_up: DropGuard) -> Response {
    let Admitted { api, framing, headers } = admitted;
    let held = Held::Opened(Box::new(Waiting { line, api, framing, _hang_up: hang_up }));
    let mut response = Response::new(Body::from_stream(stream::unfold(held, Held::next)));
    *response.headers_mut() = headers;
    commit::announce_stream(response.headers_mut(), framing);
    response
}

impl Held {
    async fn next(self) -> Option<(Result<Bytes, axum::Error>, Self)> {
        match self {
            Self::Opened(waiting) => Some((Ok(waiting.api.keep_alive()), Self::Waiting(waiting))),
            Self::Waiting(mut waiting) => match timeout(KEEP_ALIVE, &mut waiting.line).await {
                Err(_) => Some((Ok(waiting.api.keep_alive()), Self::Waiting(waiting))),
                Ok(Ok(response)) => match response.extensions().get::<Fault>() {
                    Some(fault) => Some((Ok(waiting.told(fault)), Self::Told)),
                    None => Self::relayed(response.into_body().into_data_stream()).await,
                },
                Ok(Err(_)) => Some((Ok(waiting.told(&Refusal::Internal.fault())), Self::Told)),
            },
            Self::Answered(body) => Self::relayed(body).await,
            Self::Told => None,
        }
    }

    async fn relayed(mut body: BodyDataStream) -> Option<(Result<Bytes, axum::Error>, Self)> {
        body.next().await.map(|bytes| (bytes, Self::Answered(body)))
    }
}

impl Waiting {
    /// The only event of a stream that got no answer.
    fn told(&self, fault: &Fault) -> Bytes {
        self.api.only_error(fault, self.framing)
    }
}

/// Puts the fault of an answer beside it, for a stream that is open already.
pub fn leave_word(response: &mut Response, fault: Fault) {
    response.extensions_mut().insert(fault);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::dialect::Answer;
    use crate::dialect::gemini::url::Method;

    fn admitted(api: Api, framing: Framing) -> Admitted {
        Admitted::new(api, framing, &Journey::begin())
    }

    /// The answer to a request whose line takes so long, and what a caller that stays has read.
    async fn read(api: Api, framing: Framing, takes: u64, response: Response) -> (u16, String) {
        let line = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(takes)).await;
            response
        });
        let (say, admits) = oneshot::channel();
        say.send(admitted(api, framing)).unwrap();
        let answer = answer(line, admits, CancellationToken::new().drop_guard()).await.unwrap();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn failed() -> Response {
        let fault = Refusal::StateUnavailable.fault();
        let mut response = Response::new(Body::from("the envelope"));
        *response.status_mut() = fault.status;
        leave_word(&mut response, fault);
        response
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_time_is_passed_on_as_it_is() {
        assert_eq!(read(Api::Chat, Framing::Sse, 14, failed()).await, (503, "the envelope".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_waits_longer_hears_keep_alives_and_then_the_answer() {
        let answer = Response::new(Body::from("data: {}\n\n"));
        let (status, text) = read(Api::Chat, Framing::Sse, 31, answer).await;
        assert_eq!(status, 200);
        let alive = String::from_utf8(Api::Chat.keep_alive().to_vec()).unwrap();
        assert_eq!(text, format!("{alive}{alive}data: {{}}\n\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_after_that_is_told_inside_the_stream_in_the_callers_dialect() {
        for (api, starts) in [(Api::Chat, "data: {\"error\""), (Api::Messages, "event: error\n")] {
            let (status, text) = read(api, Framing::Sse, 20, failed()).await;
            let alive = String::from_utf8(api.keep_alive().to_vec()).unwrap();
            assert_eq!(status, 200);
            assert!(text.strip_prefix(&alive).unwrap().starts_with(starts), "{text}");
        }
        let gemini = Api::Gemini(Method::Generate(Answer::Stream));
        let (_, text) = read(gemini, Framing::Array, 20, failed()).await;
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told[0]["error"]["code"], 503);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_hangs_up_meanwhile_is_noticed() {
        let line = tokio::spawn(std::future::pending::<Response>());
        let (say, admits) = oneshot::channel();
        say.send(admitted(Api::Chat, Framing::Sse)).unwrap();
        let gone = CancellationToken::new();
        let answer = answer(line, admits, gone.clone().drop_guard()).await.unwrap();
        assert!(!gone.is_cancelled());
        drop(answer);
        assert!(gone.is_cancelled());
    }
}
