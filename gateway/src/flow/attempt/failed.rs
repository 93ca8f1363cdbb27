//! An attempt that failed: what the upstream said, and the one place where that is classed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use reqwest::Response;
use shared::failure::{self, Class, Effect, Endpoints, Scope, Signals, Site, Told, Transport, Verdict};
use shared::money::Tokens;
use shared::state::capacity::ToldLimit;
use tokio::time::{Instant, timeout_at};

use crate::catalog::Serving;
use crate::dialect::Dialect;
use crate::error::UpstreamError;
use crate::upstream::told_time;

/// An error body is read up to here.
const ERROR_BODY_MAX: usize = 256 * 1024;
/// An error body that does not arrive within this is read as far as it came.
const ERROR_BODY_PATIENCE: Duration = Duration::from_secs(5);

/// A failed attempt, classed.
#[derive(Debug)]
pub struct Failure {
    /// What the upstream said.
    pub error: Box<UpstreamError>,
    /// What it means.
    pub verdict: Verdict,
    /// What follows from it.
    pub effect: Effect,
    /// What the upstream told of its limits.
    pub told: Vec<ToldLimit>,
    /// What the upstream said it used all the same.
    pub usage: Option<Tokens>,
}

impl Failure {
    /// Whether the credential is of no use until a person or a long time has mended it: then a call costs no attempt.
    pub fn credential_is_dead(&self) -> bool {
        let whole = self.effect.lock.is_some_and(|lock| lock.scope == Scope::Connection);
        whole && matches!(self.verdict.class, Class::Auth | Class::Billing)
    }
}

/// A failure that is not classed yet.
#[derive(Debug)]
pub struct Failed {
    pub(super) error: Box<UpstreamError>,
    told: Option<Told>,
    limits: Vec<ToldLimit>,
    usage: Option<Tokens>,
}

impl Failed {
    /// What an upstream says, without any headers.
    pub(super) fn said(error: UpstreamError) -> Self {
        Self { error: Box::new(error), told: None, limits: Vec::new(), usage: None }
    }

    /// The same, of an upstream that had told before what was used.
    pub(super) fn after(self, usage: Option<Tokens>) -> Self {
        Self { usage, ..self }
    }

    /// A failure of the transport to an upstream of this dialect.
    pub fn of(dialect: Dialect, transport: Transport) -> Self {
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
        Self::said(dialect.broken(transport, reason))
    }
}

/// An error inside a success: its body may tell a wait, its headers belong to the success.
impl From<Box<UpstreamError>> for Failed {
    fn from(error: Box<UpstreamError>) -> Self {
        let now = jiff::Timestamp::now().as_second();
        let told = told_time::told(&HeaderMap::new(), error.json.as_ref(), &error.signals.body, now);
        Self { error, told, limits: Vec::new(), usage: None }
    }
}

impl Failed {
    /// A success that is no answer: its provider's own rules look into the body, whatever it is.
    pub(super) fn in_success(mut error: Box<UpstreamError>, body: &[u8]) -> Self {
        if error.signals.body.is_empty() {
            error.signals.body = Signals::text(&String::from_utf8_lossy(&body[..body.len().min(ERROR_BODY_MAX)]));
        }
        error.into()
    }

    /// The one place where an outcome is classed.
    pub fn class(mut self, serving: &Serving) -> Failure {
        let connection = &serving.connection;
        connection.redact(&mut self.error);
        let endpoints = if serving.endpoints.len() > 1 { Endpoints::Several } else { Endpoints::One };
        let site = Site { owner: connection.owner_kind(), policy: connection.error_policy, endpoints };
        let verdict = failure::classify(&self.error.signals, connection.error_policy, &connection.error_rules);
        let effect = failure::effect(&verdict, self.told, site);
        Failure { error: self.error, verdict, effect, told: self.limits, usage: self.usage }
    }
}

/// What an upstream answered instead of a success.
pub(super) async fn error_answer(dialect: Dialect, response: Response, patience: Instant) -> Failed {
    let status = response.status();
    let headers = response.headers().clone();
    let body = error_body(response, patience).await;
    let mut error = dialect.read_error(status.as_u16(), &body);
    error.signals.limit_at_zero = told_time::limit_at_zero(&headers);
    let now = jiff::Timestamp::now().as_second();
    let told = told_time::told(&headers, error.json.as_ref(), &error.signals.body, now);
    Failed { error: Box::new(error), told, limits: told_time::limits(&headers, now), usage: None }
}

/// The body of an error as far as it comes in time.
pub(super) async fn error_body(mut response: Response, patience: Instant) -> Bytes {
    let patience = patience.min(Instant::now() + ERROR_BODY_PATIENCE);
    let mut body = BytesMut::new();
    while let Ok(Ok(Some(chunk))) = timeout_at(patience, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BODY_MAX {
            break;
        }
    }
    body.freeze()
}
