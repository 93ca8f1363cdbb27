//! A caller of one replica: chat completions, whole and streamed, and anything else as raw HTTP.

use std::pin::Pin;
use std::time::Duration;

use eventsource_stream::{EventStreamError, Eventsource as _};
use futures_util::{Stream as EventSource, StreamExt as _};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

/// How long a call may take in all.
const CALL_WITHIN: Duration = Duration::from_mins(1);

/// A caller of one replica (or of anything that listens).
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as text.
    pub body: String,
}

/// An answer that is read event by event. Dropping it closes the connection.
pub struct Stream {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    events:
        Pin<Box<dyn EventSource<Item = Result<eventsource_stream::Event, EventStreamError<reqwest::Error>>> + Send>>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event:` line; empty if there was none.
    pub name: String,
    /// The data.
    pub data: String,
}

impl Client {
    /// For `http://HOST:PORT`, without a path.
    pub fn new(base: &str) -> Self {
        let http =
            reqwest::Client::builder().no_proxy().timeout(CALL_WITHIN).build().expect("a client without options");
        Self { http, base: base.to_owned() }
    }

    /// `HOST:PORT`, for a raw connection.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// One user message; panics if the replica cannot be reached.
    pub async fn chat(&self, secret: &str, model: &str, text: &str) -> Response {
        self.try_chat(secret, model, text).await.expect("the replica answers")
    }

    /// One user message.
    pub async fn try_chat(&self, secret: &str, model: &str, text: &str) -> reqwest::Result<Response> {
        let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
        self.send(Method::POST, "/v1/chat/completions", &[("authorization", &bearer(secret))], body.to_string()).await
    }

    /// One user message, streamed, usage included; panics if the replica cannot be reached.
    pub async fn chat_stream(&self, secret: &str, model: &str, text: &str) -> Stream {
        let body = json!({
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        self.stream("/v1/chat/completions", &[("authorization", &bearer(secret))], body.to_string())
            .await
            .expect("the replica answers")
    }

    /// Any request.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<Response> {
        let response = self.request(method, path, headers, body).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Response { status, headers, body: response.text().await? })
    }

    /// A POST whose answer is read event by event.
    pub async fn stream(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<Stream> {
        let response = self.request(Method::POST, path, headers, body).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let events = Box::pin(response.bytes_stream().eventsource());
        Ok(Stream { status, headers, events })
    }

    /// A GET without credentials; panics if nobody answers.
    pub async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, &[], "").await.expect("the replica answers")
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<reqwest::Response> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).body(body);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await
    }
}

fn bearer(secret: &str) -> String {
    format!("Bearer {secret}")
}

impl Response {
    /// The body as JSON; panics with the text if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    /// A header as text; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        text(&self.headers, name)
    }

    /// What the assistant said; empty for an error.
    pub fn said(&self) -> String {
        self.json().pointer("/choices/0/message/content").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// `error.code` of an OpenAI envelope; empty if there is none.
    pub fn error_code(&self) -> String {
        self.json().pointer("/error/code").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

impl Stream {
    /// The next event; absent at the end. An aborted connection is an error.
    pub async fn next(&mut self) -> Option<Result<Event, String>> {
        let event = self.events.next().await?;
        Some(match event {
            Ok(event) => {
                // An event without a name is a "message" by the standard.
                let name = if event.event == "message" { String::new() } else { event.event };
                Ok(Event { name, data: event.data })
            }
            Err(error) => Err(error.to_string()),
        })
    }

    /// Reads on until so many events with content were seen; panics if the stream ends before.
    pub async fn read_content(&mut self, count: usize) -> String {
        let (mut said, mut seen) = (String::new(), 0);
        while seen < count {
            let event = self.next().await.expect("the stream goes on").expect("the connection holds");
            if let Some(text) = event.content() {
                said.push_str(&text);
                seen += 1;
            }
        }
        said
    }

    /// The remaining events; an aborted connection is an error after those that came.
    pub async fn rest(mut self) -> (Vec<Event>, Result<(), String>) {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            match event {
                Ok(event) => events.push(event),
                Err(error) => return (events, Err(error)),
            }
        }
        (events, Ok(()))
    }

    /// A header as text; empty if absent.
    pub fn header(&self, name: &str) -> &str {
        text(&self.headers, name)
    }
}

impl Event {
    /// The text of an OpenAI chunk; absent if it carries none.
    pub fn content(&self) -> Option<String> {
        let chunk: Value = serde_json::from_str(&self.data).ok()?;
        let text = chunk.pointer("/choices/0/delta/content")?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// True for `[DONE]`.
    pub fn is_done(&self) -> bool {
        self.data == "[DONE]"
    }

    /// True for an error in any dialect.
    pub fn is_error(&self) -> bool {
        self.name == "error" || serde_json::from_str::<Value>(&self.data).is_ok_and(|data| data.get("error").is_some())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
