//! One upstream call on one rung, up to commit: the first real content of a stream, or a whole body that is an answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Response, Url};
use shared::config::Timeouts;
use shared::failure::{self, Effect, Told, Transport, Verdict};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Wanted;
use super::plan::Rung;
use crate::catalog::Connection;
use crate::dialect::openai::stream::{CallerModel, Piece, StreamState};
use crate::dialect::openai::{error, request, response, stream};
use crate::dialect::{Answer, UsageChunk};
use crate::error::UpstreamError;
use crate::upstream::client::{Call, Client, TransportError};
use crate::upstream::sse::Scanner;
use crate::upstream::told_time;

/// An error body is read up to here.
const ERROR_BODY_MAX: usize = 256 * 1024;
/// A whole answer may be this large; a larger one is an upstream failure, so that memory stays bounded.
const ANSWER_MAX: usize = 128 * 1024 * 1024;
/// Lifecycle events held back before commit may take this much.
const HELD_MAX: usize = 4 * 1024 * 1024;
/// An error body that does not arrive within this is read as far as it came.
const ERROR_BODY_PATIENCE: Duration = Duration::from_secs(5);

/// How one attempt ended, as far as commit.
#[derive(Debug)]
pub enum Attempted {
    /// It answers.
    Answers(Box<Committed>),
    /// It failed; nothing has reached the caller.
    Failed(Box<Failure>),
    /// The caller hung up.
    Gone,
}

/// A failed attempt, classed.
#[derive(Debug)]
pub struct Failure {
    /// What the upstream said.
    pub error: Box<UpstreamError>,
    /// What it means.
    pub verdict: Verdict,
    /// What follows from it.
    pub effect: Effect,
}

/// An upstream that answers.
#[derive(Debug)]
pub struct Committed {
    /// From the call to the first content.
    pub first_token: Duration,
    /// What the upstream's headers say that the caller may know.
    pub headers: HeaderMap,
    /// The answer.
    pub body: Body,
}

/// The answer of an upstream.
#[derive(Debug)]
pub enum Body {
    /// All of it, as the caller gets it.
    Whole {
        /// The body.
        bytes: Bytes,
        /// What it was found to be.
        whole: response::Whole,
    },
    /// Its beginning, and the rest as it comes.
    Stream(Box<OpenStream>),
}

/// A stream that has begun to bring content.
#[derive(Debug)]
pub struct OpenStream {
    /// The upstream's response.
    pub response: Response,
    /// Cuts it into events.
    pub scanner: Scanner,
    /// Follows them.
    pub state: StreamState,
    /// Writes them for the caller.
    pub writer: Writer,
    /// What the caller gets at commit: the events held back, and the first content.
    pub first: Bytes,
}

/// How the caller gets the events.
#[derive(Debug, Clone)]
pub struct Writer {
    model: CallerModel,
    usage_chunk: UsageChunk,
}

impl Writer {
    /// For a caller who named the model like this and wants the usage chunk or not.
    pub fn new(model: CallerModel, usage_chunk: UsageChunk) -> Self {
        Self { model, usage_chunk }
    }

    /// One event as the caller gets it; `None` if it does not.
    pub fn write(&self, data: &[u8], chunk: &stream::Chunk) -> Option<Bytes> {
        stream::write(data, chunk, &self.model, self.usage_chunk)
    }
}

/// What all attempts of one request share.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// Calls upstreams.
    pub client: &'a Client,
    /// The request as the caller put it.
    pub wanted: &'a Wanted,
    /// The clocks of one call.
    pub timeouts: &'a Timeouts,
    /// When the whole request must be over.
    pub deadline: Instant,
    /// Cancelled when the caller hangs up.
    pub gone: &'a CancellationToken,
}

/// Calls one rung. The request is made afresh from the caller's own bytes, so every attempt sends what an only one would.
pub async fn attempt(exchange: Exchange<'_>, rung: &Rung) -> Attempted {
    let outcome = tokio::select! {
        outcome = exchange.commit(rung) => outcome,
        () = exchange.gone.cancelled() => return Attempted::Gone,
    };
    match outcome {
        Ok(committed) => Attempted::Answers(Box::new(committed)),
        Err(failed) => Attempted::Failed(Box::new(failed.class(&rung.serving.connection))),
    }
}

/// A failure that is not classed yet.
#[derive(Debug)]
pub struct Failed {
    error: Box<UpstreamError>,
    told: Option<Told>,
}

impl From<Transport> for Failed {
    fn from(transport: Transport) -> Self {
        let reason = match transport {
            Transport::Connect => "no connection could be made",
            Transport::Reset => "the connection broke",
            Transport::FirstTokenTimeout => "no content came in time",
            Transport::IdleTimeout => "the answer stopped coming",
            Transport::TotalTimeout => "the answer took too long",
            Transport::Empty => "the answer was empty",
            Transport::Truncated => "the answer ended before it was complete",
            Transport::NotTheFormat | Transport::ErrorInSuccess => "the answer was not in the asked format",
            Transport::ClientGone => "the caller went away",
        };
        Self { error: Box::new(error::broken(transport, reason)), told: None }
    }
}

/// An error inside a success: its body may tell a wait, its headers belong to the success.
impl From<Box<UpstreamError>> for Failed {
    fn from(error: Box<UpstreamError>) -> Self {
        let now = jiff::Timestamp::now().as_second();
        let told = told_time::told(&HeaderMap::new(), error.json.as_ref(), &error.signals.body, now);
        Self { error, told }
    }
}

impl Failed {
    /// The one place where an outcome is classed.
    pub fn class(self, connection: &Connection) -> Failure {
        let owner = connection.owner_kind();
        let verdict = failure::classify(&self.error.signals, connection.error_policy, &connection.error_rules);
        let effect = failure::effect(&verdict, self.told, owner, connection.error_policy);
        Failure { error: self.error, verdict, effect }
    }
}

impl Exchange<'_> {
    async fn commit(&self, rung: &Rung) -> Result<Committed, Failed> {
        let began = Instant::now();
        let first_token = (began + self.timeouts.first_token).min(self.deadline);
        let sent = self.client.send(self.call(rung)?);
        let response = timeout_at(first_token, sent).await.map_err(|_| Transport::FirstTokenTimeout)?;
        let response = response.map_err(|error| match error {
            TransportError::Connect => Transport::Connect,
            TransportError::Reset => Transport::Reset,
        })?;
        if response.status() != StatusCode::OK {
            return Err(error_answer(response).await);
        }
        let headers = shown(response.headers());
        let body = match self.wanted.peek.answer {
            Answer::Whole => self.whole(response).await?,
            Answer::Stream => self.open(response, first_token).await?,
        };
        Ok(Committed { first_token: began.elapsed(), headers, body })
    }

    /// The upstream call of a rung: the connection's credential, the caller's body.
    fn call(&self, rung: &Rung) -> Result<Call, Failed> {
        let connection = &rung.serving.connection;
        let url = Url::parse(&format!("{}/chat/completions", connection.base_url)).map_err(|_| Transport::Connect)?;
        let mut headers = connection.credential.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("headgate/", env!("CARGO_PKG_VERSION"))));
        let accept = match self.wanted.peek.answer {
            Answer::Whole => "application/json",
            Answer::Stream => "text/event-stream",
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers.extend(self.wanted.forwarded.clone());
        let body = request::splice(&self.wanted.body, &self.wanted.peek, &rung.serving.upstream_model);
        Ok(Call { url, headers, body })
    }

    async fn whole(&self, mut response: Response) -> Result<Body, Failed> {
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(chunk) = self.next_chunk(&mut response).await? {
            if first.is_empty() {
                first = chunk;
                continue;
            }
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            if rest.len() + chunk.len() > ANSWER_MAX {
                return Err(Transport::NotTheFormat.into());
            }
            rest.extend_from_slice(&chunk);
        }
        let bytes = if rest.is_empty() { first } else { rest.freeze() };
        let whole = response::read(content_type(&response), &bytes)?;
        let bytes = response::splice_model(&bytes, &whole, &self.wanted.peek.model);
        Ok(Body::Whole { bytes, whole })
    }

    async fn next_chunk(&self, response: &mut Response) -> Result<Option<Bytes>, Transport> {
        let now = Instant::now();
        let patience = (now + self.timeouts.idle).min(self.deadline);
        match timeout_at(patience, response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(_)) => Err(Transport::Reset),
            Err(_) if Instant::now() >= self.deadline => Err(Transport::TotalTimeout),
            Err(_) => Err(Transport::IdleTimeout),
        }
    }

    /// Reads a stream up to its first content; what came before is held back, so that a failure until then can still move on.
    async fn open(&self, mut response: Response, first_token: Instant) -> Result<Body, Failed> {
        if content_type(&response).is_some_and(|kind| !kind.starts_with("text/event-stream")) {
            return Err(not_a_stream(response).await);
        }
        let mut scanner = Scanner::new();
        let mut state = StreamState::new();
        let writer = Writer::new(CallerModel::new(&self.wanted.peek.model), self.wanted.peek.usage_chunk);
        let mut held = BytesMut::new();
        loop {
            while let Some(event) = scanner.next().map_err(|_| Transport::NotTheFormat)? {
                match state.read(event.name.as_deref(), &event.data) {
                    Piece::Nothing => {}
                    // An answer may be empty and say so properly; one that says nothing at all is none.
                    Piece::Done if state.has_ended() => {
                        held.extend_from_slice(&stream::DONE);
                        return Ok(opened(response, scanner, state, writer, held));
                    }
                    Piece::Done => return Err(Transport::Empty.into()),
                    Piece::Error(error) => return Err(error.into()),
                    Piece::Chunk(chunk) => {
                        if let Some(event) = writer.write(&event.data, &chunk) {
                            held.extend_from_slice(&event);
                        }
                        if chunk.content {
                            return Ok(opened(response, scanner, state, writer, held));
                        }
                        if held.len() > HELD_MAX {
                            return Err(Transport::NotTheFormat.into());
                        }
                    }
                }
            }
            match timeout_at(first_token, response.chunk()).await {
                Ok(Ok(Some(chunk))) => scanner.push(chunk),
                Ok(Ok(None)) if state.has_ended() => return Ok(opened(response, scanner, state, writer, held)),
                Ok(Ok(None)) => return Err(Transport::Empty.into()),
                Ok(Err(_)) => return Err(Transport::Reset.into()),
                Err(_) => return Err(Transport::FirstTokenTimeout.into()),
            }
        }
    }
}

fn opened(response: Response, scanner: Scanner, state: StreamState, writer: Writer, held: BytesMut) -> Body {
    Body::Stream(Box::new(OpenStream { response, scanner, state, writer, first: held.freeze() }))
}

fn content_type(response: &Response) -> Option<&str> {
    response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
}

/// A stream was asked for and something else came: an error in a 200, or a page of a proxy.
async fn not_a_stream(response: Response) -> Failed {
    let kind = content_type(&response).map(str::to_owned);
    let body = error_body(response).await;
    match response::read(kind.as_deref(), &body) {
        Ok(_) => Transport::NotTheFormat.into(),
        Err(error) => error.into(),
    }
}

async fn error_answer(response: Response) -> Failed {
    let status = response.status();
    let headers = response.headers().clone();
    let body = error_body(response).await;
    let mut error = error::read(Some(status.as_u16()), &body);
    error.signals.limit_at_zero = told_time::limit_at_zero(&headers);
    let told = told_time::told(&headers, error.json.as_ref(), &error.signals.body, jiff::Timestamp::now().as_second());
    Failed { error: Box::new(error), told }
}

/// The body of an error as far as it comes in time.
async fn error_body(mut response: Response) -> Bytes {
    let patience = Instant::now() + ERROR_BODY_PATIENCE;
    let mut body = BytesMut::new();
    while let Ok(Ok(Some(chunk))) = timeout_at(patience, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BODY_MAX {
            break;
        }
    }
    body.freeze()
}

/// The headers of an upstream that a caller may see: nothing that names an account, a server or a cookie.
fn shown(headers: &HeaderMap) -> HeaderMap {
    const SHOWN: [&str; 3] = ["x-request-id", "openai-processing-ms", "openai-version"];
    let mut kept = HeaderMap::new();
    for name in SHOWN {
        if let Some(value) = headers.get(name) {
            kept.insert(name, value.clone());
        }
    }
    kept
}
