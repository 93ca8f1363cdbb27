//! Serves the fake upstream on a listener: one task per connection, each able to abort its own socket.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::control;
use super::dialect::{self, Answer, Api, Ask, GeminiAction};
use super::log::{Call, Outcome, State, Ticket};
use super::plan::{self, Ending, Step};
use super::rule::Rule;

/// Requests beyond this are refused, so that a broken test cannot fill the memory.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Accepts until it is dropped; its connections end with it.
pub(crate) async fn serve(listener: TcpListener, state: State) {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .nest("/__fake", control::routes(state.clone()))
        .fallback(move |request: Request| answer(state.clone(), request));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone()));
                }
                // Out of descriptors: let some close first.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    let abort = Abort::default();
    let socket = Socket { stream, abort: abort.clone() };
    let service = tower::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(abort.clone());
        let router = router.clone();
        async move {
            let response = match router.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            // An error instead of a response makes hyper close the connection without a status line.
            if response.extensions().get::<NoAnswer>().is_some() { Err(broken_off()) } else { Ok(response) }
        }
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // How a connection ends is told by the call log, not here.
    let _ = builder.serve_connection(TokioIo::new(socket), TowerToHyperService::new(service)).await;
}

/// Marks a response that is not to be sent.
#[derive(Debug, Clone, Copy)]
struct NoAnswer;

/// Asks that the connection's socket be aborted (RST) when it is closed.
#[derive(Debug, Clone, Default)]
struct Abort(Arc<AtomicBool>);

/// A socket that can be closed with RST instead of FIN.
struct Socket {
    stream: TcpStream,
    abort: Abort,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.abort.0.load(Ordering::Relaxed) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.abort.0.load(Ordering::Relaxed) {
            // A FIN first would let the peer see a clean end.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "broken off by a rule")
}

/// Answers one upstream call.
async fn answer(state: State, request: Request) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let abort = parts.extensions.get::<Abort>().cloned().unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let path = parts.uri.path().to_owned();
    let mut ticket = state.open(arrived(&parts, &query));
    let Ok(bytes) = http_body_util::Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
        return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response());
    };
    let bytes = bytes.to_bytes();
    if parts.method == Method::GET && path.ends_with("/models") {
        ticket.read("", &path, String::new());
        let list = control::models(&parts.headers, &query);
        return Ok(respond(ticket, abort, &Rule::any(), Api::Chat, &Answer::Unary(list)));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if parts.method == Method::POST
        && let Some(answer) = control::google(&path, &text)
    {
        // Token exchanges fail only for rules that name their path: other rules are about models.
        let rule = ticket.read("", &path, text).filter(|rule| rule.path != "*").unwrap_or_default();
        return Ok(respond(ticket, abort, &rule, Api::CodeAssist(GeminiAction::Generate), &Answer::Unary(answer)));
    }
    let routed = dialect::route(&path).filter(|_| parts.method == Method::POST);
    let api = routed.as_ref().map_or(Api::Chat, |(api, _)| *api);
    let ask = match routed {
        None => Err((404, format!("Invalid URL ({} {path})", parts.method))),
        Some((api, path_model)) => match serde_json::from_slice(&bytes) {
            Ok(body) => Ask::read(api, path_model, &query, body).map_err(|problem| (400, problem)),
            Err(_) => Err((400, "We could not parse the JSON body of your request.".to_owned())),
        },
    };
    let model = ask.as_ref().map_or_else(|_| model_of(&bytes), |ask| ask.model.clone());
    let mut rule = ticket.read(&model, &path, text).unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(rule.delay_headers_ms)).await;
    if rule.reset_before_headers {
        abort.0.store(true, Ordering::Relaxed);
        ticket.finish(Outcome::BrokenOff);
        let mut response = Response::default();
        response.extensions_mut().insert(NoAnswer);
        return Ok(response);
    }
    let answer = match ask {
        Ok(ask) => ask.answer(ticket.id(), &rule),
        Err((status, problem)) => {
            rule.status = rule.status.or(Some(status));
            Answer::Unary(api.error(status, &problem))
        }
    };
    Ok(respond(ticket, abort, &rule, api, &answer))
}

/// Puts the answer, as the rule bends it, into a response whose body holds the ticket.
fn respond(mut ticket: Ticket, abort: Abort, rule: &Rule, api: Api, healthy: &Answer) -> Response {
    let status = StatusCode::from_u16(rule.status.unwrap_or(200)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers = HeaderMap::new();
    let steps = match body_text(rule, api, status, healthy) {
        Some(body) => {
            set(&mut headers, "content-type", "application/json");
            if rule.cut_after_chunks.is_none() {
                set(&mut headers, "content-length", &plan::whole_length(rule, &body).to_string());
            }
            plan::unary(rule, api, &body)
        }
        None => match healthy {
            Answer::Stream(framing, events) => {
                let sse = *framing == dialect::Framing::Sse;
                set(
                    &mut headers,
                    "content-type",
                    if sse { "text/event-stream; charset=utf-8" } else { "application/json" },
                );
                set(&mut headers, "cache-control", "no-cache");
                plan::stream(rule, api, *framing, events)
            }
            Answer::Unary(_) => VecDeque::new(),
        },
    };
    if let Some(name) = api.request_id_header() {
        set(&mut headers, name, &format!("req_{:024}", ticket.id()));
    }
    if rule.gzip {
        set(&mut headers, "content-encoding", "gzip");
    }
    if let Some(content_type) = &rule.content_type {
        set(&mut headers, "content-type", content_type);
    }
    rule.headers.iter().for_each(|(name, value)| set(&mut headers, name, value));
    ticket.answering(status.as_u16());
    if steps.is_empty() {
        // hyper never asks for the body of an empty answer.
        ticket.finish(Outcome::Answered);
    }
    let mut response = Response::new(Body::new(play(ticket, abort, steps)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The body of an answer that is not streamed; absent: stream it.
fn body_text(rule: &Rule, api: Api, status: StatusCode, healthy: &Answer) -> Option<String> {
    if rule.empty_body {
        return Some(String::new());
    }
    if let Some(body) = &rule.body {
        return Some(dialect::text_of(body));
    }
    match healthy {
        // A request that was refused already carries its own envelope.
        Answer::Unary(value) if is_error(value) => Some(value.to_string()),
        _ if status.as_u16() >= 400 => Some(api.error(status.as_u16(), reason(status)).to_string()),
        Answer::Unary(value) => Some(value.to_string()),
        Answer::Stream(..) => None,
    }
}

fn is_error(value: &Value) -> bool {
    value.get("error").is_some_and(Value::is_object)
}

fn reason(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "Incorrect API key provided.",
        402 => "Your credit balance is exhausted.",
        429 => "Rate limit reached for requests.",
        503 | 529 => "Overloaded",
        _ => status.canonical_reason().unwrap_or("Something went wrong."),
    }
}

/// Plays the steps of a body. The ticket is closed when the last byte is handed over, or when the client goes.
fn play(
    ticket: Ticket,
    abort: Abort,
    steps: VecDeque<Step>,
) -> impl http_body::Body<Data = bytes::Bytes, Error = io::Error> {
    StreamBody::new(futures_util::stream::unfold((ticket, abort, steps), async |(mut ticket, abort, mut steps)| {
        loop {
            match steps.pop_front() {
                None => {
                    ticket.finish(Outcome::Answered);
                    return None;
                }
                Some(Step::Wait(wait)) => tokio::time::sleep(wait).await,
                Some(Step::Send(bytes)) => {
                    ticket.sent_frame();
                    match steps.front() {
                        None => ticket.finish(Outcome::Answered),
                        Some(Step::End(Ending::Clean)) => ticket.finish(Outcome::BrokenOff),
                        Some(_) => {}
                    }
                    return Some((Ok(Frame::data(bytes)), (ticket, abort, steps)));
                }
                Some(Step::End(Ending::Clean)) => {
                    ticket.finish(Outcome::BrokenOff);
                    return None;
                }
                Some(Step::End(Ending::Stall)) => std::future::pending::<()>().await,
                Some(Step::End(ending)) => {
                    // Being pending once lets hyper flush what was sent before the socket goes.
                    tokio::task::yield_now().await;
                    abort.0.store(ending == Ending::Reset, Ordering::Relaxed);
                    ticket.finish(Outcome::BrokenOff);
                    return Some((Err(broken_off()), (ticket, abort, VecDeque::new())));
                }
            }
        }
    }))
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// The call as it stands when its head has arrived.
fn arrived(parts: &http::request::Parts, query: &str) -> Call {
    let mut headers = BTreeMap::new();
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let joined: &mut String = headers.entry(name.as_str().to_owned()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    Call {
        id: 0,
        at_ms: 0,
        method: parts.method.to_string(),
        path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        credential: credential(&parts.headers, query),
        model: String::new(),
        headers,
        body: String::new(),
        rule: None,
        status: None,
        frames: 0,
        outcome: Outcome::Open,
        duration_ms: None,
        client_gone_ms: None,
    }
}

/// The credential, from whichever place the dialects put it.
fn credential(headers: &HeaderMap, query: &str) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer =
        text(header::AUTHORIZATION.as_str()).and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    let in_query = || query.split('&').find_map(|pair| pair.strip_prefix("key="));
    bearer
        .or_else(|| text("x-api-key"))
        .or_else(|| text("x-goog-api-key"))
        .or_else(|| text("api-key"))
        .or_else(in_query)
        .unwrap_or_default()
        .to_owned()
}

/// The model of a request that could not be read further.
fn model_of(bytes: &[u8]) -> String {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned()
}
