//! The dialects callers speak: one question in each, and where each puts its answer and its errors.

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, Event, Response, Stream};

/// A way to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Speaks {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    fn path(self, model: &str, streamed: bool) -> String {
        match (self, streamed) {
            (Self::Chat, _) => "/v1/chat/completions".into(),
            (Self::Responses, _) => "/v1/responses".into(),
            (Self::Messages, _) => "/v1/messages".into(),
            (Self::Gemini, false) => format!("/v1beta/models/{model}:generateContent"),
            (Self::Gemini, true) => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
        }
    }

    /// One user text as a request body.
    pub fn body(self, model: &str, text: &str) -> Value {
        match self {
            Self::Chat => json!({"model": model, "messages": [{"role": "user", "content": text}]}),
            Self::Responses => json!({"model": model, "input": text}),
            Self::Messages => {
                json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
            }
            Self::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
        }
    }

    /// One user text, answered whole; panics if the replica cannot be reached.
    pub async fn ask(self, client: &Client, secret: &str, model: &str) -> Response {
        let body = self.body(model, "hi").to_string();
        let (path, bearer) = (self.path(model, false), format!("Bearer {secret}"));
        client.send(Method::POST, &path, &[("authorization", &bearer)], body).await.expect("the replica answers")
    }

    /// One user text, answered in events; panics if the replica cannot be reached.
    pub async fn stream(self, client: &Client, secret: &str, model: &str) -> Stream {
        let mut body = self.body(model, "hi");
        if self != Self::Gemini {
            body["stream"] = true.into();
        }
        let (path, bearer) = (self.path(model, true), format!("Bearer {secret}"));
        client.stream(&path, &[("authorization", &bearer)], body.to_string()).await.expect("the replica answers")
    }

    /// The word that tells an error's kind: OpenAI's and Anthropic's `type`, Gemini's `status`.
    pub fn error_kind(self, body: &Value) -> String {
        let pointer = if self == Self::Gemini { "/error/status" } else { "/error/type" };
        body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The text an event brings; absent if it brings none.
    pub fn content(self, event: &Event) -> Option<String> {
        let data: Value = serde_json::from_str(&event.data).ok()?;
        let text = match self {
            Self::Chat => data.pointer("/choices/0/delta/content"),
            Self::Responses if event.name == "response.output_text.delta" => data.get("delta"),
            Self::Responses => None,
            Self::Messages => data.pointer("/delta/text"),
            Self::Gemini => data.pointer("/candidates/0/content/parts/0/text"),
        };
        text?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// True for what only a whole answer ends with.
    pub fn completes(self, event: &Event) -> bool {
        match self {
            Self::Chat => event.is_done() || event.data.contains("\"finish_reason\":\""),
            Self::Responses => event.name == "response.completed",
            Self::Messages => event.name == "message_stop" || event.data.contains("\"stop_reason\":\""),
            Self::Gemini => event.data.contains("\"finishReason\":\""),
        }
    }
}
