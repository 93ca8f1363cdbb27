//! One request's own story: its id, how long it waited, and which rungs it tried.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use shared::ids::{ConnectionId, ModelName, RequestId};
use tokio::time::Instant;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-headgate-request-id");
const QUEUED_MS: HeaderName = HeaderName::from_static("x-headgate-queued-ms");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-headgate-attempts");

/// One upstream call and how it ended.
#[derive(Debug, Clone)]
pub struct Tried {
    /// Where.
    pub connection: ConnectionId,
    /// Which model.
    pub model: ModelName,
    /// `ok` or the class of the failure.
    pub outcome: &'static str,
}

/// The story so far.
#[derive(Debug)]
pub struct Journey {
    /// The request's id.
    pub request: RequestId,
    /// The model it asks for, once that is known to exist.
    pub model: Option<ModelName>,
    /// When it came in.
    pub started: Instant,
    /// Time stood in lines.
    pub waited: Duration,
    /// Time the upstreams took until commit.
    pub upstream: Duration,
    /// Whether it was admitted: then its answer says how long it waited.
    pub admitted: bool,
    /// The upstream calls, in order.
    pub trail: Vec<Tried>,
}

impl Journey {
    /// A request that comes in now.
    pub fn begin() -> Self {
        Self {
            request: RequestId::fresh(),
            model: None,
            started: Instant::now(),
            waited: Duration::ZERO,
            upstream: Duration::ZERO,
            admitted: false,
            trail: Vec::new(),
        }
    }

    /// `connection/model:outcome, …`
    pub fn trail_text(&self) -> String {
        let steps = self.trail.iter().map(|t| format!("{}/{}:{}", t.connection, t.model, t.outcome));
        steps.collect::<Vec<_>>().join(", ")
    }

    /// Puts the story on an answer.
    pub fn tell(&self, headers: &mut HeaderMap) {
        let mut put = |name, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        put(REQUEST_ID, self.request.as_str());
        if self.admitted {
            put(QUEUED_MS, &self.waited.as_millis().to_string());
        }
        if !self.trail.is_empty() {
            put(ATTEMPTS, &self.trail_text());
        }
    }
}
