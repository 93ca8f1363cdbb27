//! One upstream call on one rung, up to commit: the first real content of a stream, or a whole body that is an answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Response, Url};
use shared::config::Timeouts;
use shared::failure::Transport;
use shared::ids::RequestId;
use shared::state::capacity::ToldLimit;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

pub use failed::{Failed, Failure};
use failed::{error_answer, error_body};

use super::memory::Memory;
use super::pictures::Pictures;
use super::plan::Rung;
use crate::catalog::Serving;
use crate::dialect::mend::mended;
use crate::dialect::translate::{Fed, StreamTranslation, WholeAnswer};
use crate::dialect::wanted::{Found, UpstreamCall, Wanted};
use crate::dialect::{Answer, Dialect};
use crate::error::BadRequest;
use crate::upstream::client::{Call, Client};
use crate::upstream::google_token::TokenError;
use crate::upstream::sse::Scanner;
use crate::upstream::told_time;

mod failed;

/// A whole answer may be this large; a larger one is an upstream failure, so that memory stays bounded.
const ANSWER_MAX: usize = 128 * 1024 * 1024;
/// Lifecycle events held back before commit may take this much.
const HELD_MAX: usize = 4 * 1024 * 1024;
/// How one attempt ended, as far as commit.
#[derive(Debug)]
pub enum Attempted {
    /// It answers.
    Answers(Box<Committed>),
    /// It failed; nothing has reached the caller.
    Failed(Box<Failure>),
    /// The upstream's dialect cannot say what the caller wants: nothing was sent.
    Inexpressible(BadRequest),
    /// The caller hung up.
    Gone,
}

/// An upstream that answers.
#[derive(Debug)]
pub struct Committed {
    /// From the call to the first content.
    pub first_token: Duration,
    /// What the upstream's headers say that the caller may know.
    pub headers: HeaderMap,
    /// What the upstream told of its limits.
    pub told: Vec<ToldLimit>,
    /// Whose answer it is.
    pub origin: Origin,
    /// The answer.
    pub body: Body,
}

/// Whose an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The upstream's.
    Upstream,
    /// Our own, where the upstream has none to give: it says nothing about the upstream.
    Us,
}

/// The answer of an upstream.
#[derive(Debug)]
pub enum Body {
    /// All of it, as the caller gets it.
    Whole(WholeAnswer),
    /// Its beginning, and the rest as it comes.
    Stream(Box<OpenStream>),
}

/// A stream that has begun to bring content.
#[derive(Debug)]
pub struct OpenStream {
    /// The upstream's response; taken when nothing more of it is wanted, before its slot is given back.
    pub response: Option<Response>,
    /// Cuts it into events.
    pub scanner: Scanner,
    /// Makes the caller's events of them.
    pub translation: Box<dyn StreamTranslation>,
    /// What the caller gets at commit: the events held back, and the first content.
    pub first: Fed,
}

/// What all attempts of one request share.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// Calls upstreams.
    pub client: &'a Client,
    /// The request as the caller put it.
    pub wanted: &'a Wanted,
    /// What upstreams thought before.
    pub memory: &'a Memory,
    /// The images it names by URL.
    pub pictures: &'a Pictures<'a>,
    /// Its id.
    pub request: &'a RequestId,
    /// The clocks of one call.
    pub timeouts: &'a Timeouts,
    /// When the whole request must be over.
    pub deadline: Instant,
    /// Cancelled when the caller hangs up.
    pub gone: &'a CancellationToken,
}

/// Calls one rung. The request is made afresh from the caller's own bytes, so every attempt sends what an only one would.
/// `endpoint`: which of the rung's.
pub async fn attempt(exchange: Exchange<'_>, rung: &Rung, endpoint: usize) -> Attempted {
    let connection = &rung.serving.connection;
    if let Some(body) = exchange.wanted.local_answer(connection.dialect) {
        let answer = WholeAnswer { body, ..WholeAnswer::default() };
        let (first_token, headers, body) = (Duration::ZERO, HeaderMap::new(), Body::Whole(answer));
        return Attempted::Answers(Box::new(Committed {
            first_token,
            headers,
            told: Vec::new(),
            origin: Origin::Us,
            body,
        }));
    }
    let images = tokio::select! {
        images = exchange.pictures.inline(exchange.wanted, connection.dialect) => images,
        () = exchange.gone.cancelled() => return Attempted::Gone,
    };
    let images = match images {
        Ok(images) => images,
        Err(bad) => return Attempted::Inexpressible(bad),
    };
    let found = Found { thoughts: exchange.memory.recall(exchange.wanted, connection).await, images };
    let (model, id) = (&rung.serving.upstream_model, exchange.request.as_str());
    let made = match exchange.wanted.call(connection.dialect, model, id, &found) {
        Ok(made) => made,
        Err(bad) => return Attempted::Inexpressible(bad),
    };
    let outcome = tokio::select! {
        outcome = exchange.send(&rung.serving, endpoint, made) => outcome,
        () = exchange.gone.cancelled() => return Attempted::Gone,
    };
    match outcome {
        Ok(committed) => Attempted::Answers(Box::new(committed)),
        Err(failed) => Attempted::Failed(Box::new(failed.class(&rung.serving))),
    }
}

impl Exchange<'_> {
    /// The call; once more without what the upstream refused in it, where that can be left out.
    async fn send(&self, serving: &Serving, endpoint: usize, made: UpstreamCall) -> Result<Committed, Failed> {
        let failed = match self.commit(serving, endpoint, &made).await {
            Ok(committed) => return Ok(committed),
            Err(failed) => failed,
        };
        match mended(&failed.error.signals, &made) {
            Some(mended) => self.commit(serving, endpoint, &mended).await,
            None => Err(failed),
        }
    }

    async fn commit(&self, serving: &Serving, endpoint: usize, made: &UpstreamCall) -> Result<Committed, Failed> {
        let connection = &serving.connection;
        let dialect = connection.dialect;
        let began = Instant::now();
        let failed = |transport| Failed::of(dialect, transport);
        let first_token = (began + self.timeouts.first_token).min(self.deadline);
        let sent = async {
            let call = self.call(serving, endpoint, made).await?;
            self.client.send(call).await.map_err(failed)
        };
        let response = timeout_at(first_token, sent).await.map_err(|_| failed(self.out_of_time()))??;
        if !response.status().is_success() {
            if response.status() == StatusCode::UNAUTHORIZED {
                connection.refused().await;
            }
            return Err(error_answer(dialect, response, first_token).await);
        }
        let headers = shown(response.headers());
        let told = told_time::limits(response.headers(), jiff::Timestamp::now().as_second());
        let body = match self.wanted.look().answer {
            Answer::Whole => Body::Whole(self.whole(dialect, response).await?),
            Answer::Stream => Body::Stream(Box::new(self.open(dialect, response, first_token).await?)),
        };
        Ok(Committed { first_token: began.elapsed(), headers, told, origin: Origin::Upstream, body })
    }

    /// The call with the connection's credential and its pool's headers.
    async fn call(&self, serving: &Serving, endpoint: usize, made: &UpstreamCall) -> Result<Call, Failed> {
        let connection = &serving.connection;
        let endpoint = serving.endpoints.get(endpoint).or(serving.endpoints.first());
        let base_url = endpoint.map_or("", |endpoint| &*endpoint.base_url);
        // Only Google's paths have a query of their own, and only others want a version in theirs.
        let query = if made.path.contains('?') { "" } else { &*connection.query };
        let url = Url::parse(&format!("{}{}{query}", base_url, made.path))
            .map_err(|_| Failed::of(connection.dialect, Transport::Connect))?;
        let mut headers = made.headers.clone();
        if let Some(pool) = &serving.pool {
            headers.extend(pool.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        let (name, value) = connection.proof(self.client).await.map_err(|error| {
            tracing::warn!(connection = %connection.id, %error, "no access token");
            match error {
                // As the upstream would say it of the token we cannot get.
                TokenError::Refused(_) => Failed::said(connection.dialect.read_error(401, b"")),
                TokenError::Away => Failed::of(connection.dialect, Transport::Connect),
            }
        })?;
        headers.insert(name, value);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("headgate/", env!("CARGO_PKG_VERSION"))));
        let accept = match self.wanted.look().answer {
            Answer::Whole => "application/json",
            Answer::Stream => "text/event-stream",
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        Ok(Call { url, headers, body: made.body.clone() })
    }

    async fn whole(&self, dialect: Dialect, mut response: Response) -> Result<WholeAnswer, Failed> {
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(chunk) = self.next_chunk(&mut response).await.map_err(|error| Failed::of(dialect, error))? {
            if first.is_empty() {
                first = chunk;
                continue;
            }
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            if rest.len() + chunk.len() > ANSWER_MAX {
                return Err(Failed::of(dialect, Transport::NotTheFormat));
            }
            rest.extend_from_slice(&chunk);
        }
        let bytes = if rest.is_empty() { first } else { rest.freeze() };
        let answer = self.wanted.whole(dialect, content_type(&response), &bytes, self.request.as_str());
        answer.map_err(|error| Failed::in_success(error, &bytes))
    }

    /// Which clock ran out before the first content came.
    fn out_of_time(&self) -> Transport {
        if Instant::now() >= self.deadline { Transport::TotalTimeout } else { Transport::FirstTokenTimeout }
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
    async fn open(&self, dialect: Dialect, mut response: Response, first_token: Instant) -> Result<OpenStream, Failed> {
        if content_type(&response).is_some_and(|kind| !is_event_stream(kind)) {
            return Err(self.not_a_stream(dialect, response, first_token).await);
        }
        let failed = |transport| Failed::of(dialect, transport);
        let mut scanner = Scanner::new();
        let mut translation = self.wanted.stream(dialect, self.request.as_str());
        let mut held = Held::default();
        let until_content = async {
            loop {
                while let Some(event) = scanner.next().map_err(|_| failed(Transport::NotTheFormat))? {
                    let fed = translation.event(event.name.as_deref(), &event.data)?;
                    let commits = fed.content || fed.done;
                    held.add(fed);
                    if commits {
                        return Ok(());
                    }
                    if held.fed.out.len() > HELD_MAX {
                        return Err(failed(Transport::NotTheFormat));
                    }
                }
                match timeout_at(first_token, response.chunk()).await {
                    Ok(Ok(Some(chunk))) => scanner.push(chunk),
                    Ok(Ok(None)) => {
                        held.add(translation.end()?);
                        return Ok(());
                    }
                    Ok(Err(_)) => return Err(failed(Transport::Reset)),
                    Err(_) => return Err(failed(self.out_of_time())),
                }
            }
        };
        match until_content.await {
            Ok(()) => Ok(OpenStream { response: Some(response), scanner, translation, first: held.fed }),
            Err(failed) => Err(failed.after(held.fed.usage)),
        }
    }

    /// A stream was asked for and something else came: an error in a 200, or a page of a proxy.
    async fn not_a_stream(&self, dialect: Dialect, response: Response, patience: Instant) -> Failed {
        let kind = content_type(&response).map(str::to_owned);
        let body = error_body(response, patience).await;
        match self.wanted.whole(dialect, kind.as_deref(), &body, self.request.as_str()) {
            Ok(_) => Failed::of(dialect, Transport::NotTheFormat),
            Err(error) => Failed::in_success(error, &body),
        }
    }
}

/// What is held back until commit.
#[derive(Debug, Default)]
struct Held {
    fed: Fed,
}

impl Held {
    fn add(&mut self, next: Fed) {
        self.fed.out = if self.fed.out.is_empty() {
            next.out
        } else {
            let mut out = BytesMut::from(self.fed.out.as_ref());
            out.extend_from_slice(&next.out);
            out.freeze()
        };
        self.fed.content |= next.content;
        self.fed.chars += next.chars;
        self.fed.usage = next.usage.or(self.fed.usage);
        self.fed.done |= next.done;
        self.fed.kept.extend(next.kept);
        self.fed.made = next.made.or(self.fed.made.take());
    }
}

/// Whether a content type is that of server-sent events; types have no case.
fn is_event_stream(kind: &str) -> bool {
    const TYPE: &str = "text/event-stream";
    kind.get(..TYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
}

fn content_type(response: &Response) -> Option<&str> {
    response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
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
