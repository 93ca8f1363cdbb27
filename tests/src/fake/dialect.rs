//! The dialects the fake upstream speaks: which path is which, what a request asks for, what an answer looks like.

use serde_json::{Value, json};

use reply::Reply;

use super::rule::Rule;

mod anthropic;
mod gemini;
mod openai;
mod reply;
mod responses;

/// What a path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Responses,
    CountResponses,
    Embeddings,
    Messages,
    CountMessages,
    Gemini(GeminiAction),
    CodeAssist(GeminiAction),
}

/// What is done with a Gemini model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GeminiAction {
    Generate,
    Stream,
    Count,
    Embed,
    BatchEmbed,
}

/// How a stream's events are put into bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON array that grows (Gemini without `alt=sse`).
    JsonArray,
}

/// What a request asks for, as far as an echo needs to know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    pub(crate) api: Api,
    pub(crate) model: String,
    /// Absent: a unary answer.
    pub(crate) stream: Option<Framing>,
    include_usage: bool,
    has_tools: bool,
    last_text: String,
    /// Tokens of the whole request.
    prompt_tokens: u64,
    body: Value,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` line, where the dialect has one.
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
    /// True for text and tool arguments; false for what opens and closes.
    pub(crate) content: bool,
}

/// A healthy answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Unary(Value),
    Stream(Framing, Vec<Event>),
}

/// Which API a POST path is for, and the model if the path names it. Any prefix before the dialect's own path is accepted.
pub(crate) fn route(path: &str) -> Option<(Api, Option<String>)> {
    for (suffix, api) in [
        ("/chat/completions", Api::Chat),
        ("/responses/input_tokens", Api::CountResponses),
        ("/responses", Api::Responses),
        ("/embeddings", Api::Embeddings),
        ("/messages/count_tokens", Api::CountMessages),
        ("/messages", Api::Messages),
    ] {
        if path.ends_with(suffix) {
            return Some((api, None));
        }
    }
    let (rest, action) = path.rsplit_once(':')?;
    let action = match action {
        "generateContent" => GeminiAction::Generate,
        "streamGenerateContent" => GeminiAction::Stream,
        "countTokens" => GeminiAction::Count,
        "embedContent" => GeminiAction::Embed,
        "batchEmbedContents" => GeminiAction::BatchEmbed,
        _ => return None,
    };
    if rest.ends_with("/v1internal") {
        return Some((Api::CodeAssist(action), None));
    }
    let (version, model) = rest.split_once("/models/")?;
    let known = ["/v1", "/v1beta", "/v1alpha"].iter().any(|known| version.ends_with(known));
    (known && !model.is_empty()).then(|| (Api::Gemini(action), Some(model.to_owned())))
}

impl Ask {
    /// Reads a request; the error is what the upstream would say with a 400.
    pub(crate) fn read(api: Api, path_model: Option<String>, query: &str, body: Value) -> Result<Self, String> {
        let named = |body: &Value| body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
        let model = path_model.unwrap_or_else(|| named(&body)).trim_start_matches("models/").to_owned();
        let (content, tools) = match api {
            Api::Chat | Api::Messages | Api::CountMessages => (required_list(&body, "messages")?, body.get("tools")),
            Api::Responses | Api::CountResponses | Api::Embeddings => {
                (body.get("input").filter(|input| !input.is_null()).ok_or_else(|| missing("input"))?, body.get("tools"))
            }
            Api::CodeAssist(_) => {
                let inner = body.get("request").filter(|inner| inner.is_object()).ok_or_else(|| missing("request"))?;
                (required_list(inner, "contents")?, inner.get("tools"))
            }
            Api::Gemini(GeminiAction::Embed) => (body.get("content").ok_or_else(|| missing("content"))?, None),
            Api::Gemini(GeminiAction::BatchEmbed) => (required_list(&body, "requests")?, None),
            // A count may be asked of a whole request as well as of its contents.
            Api::Gemini(GeminiAction::Count) => {
                let counted = body.get("generateContentRequest").unwrap_or(&body);
                (required_list(counted, "contents")?, counted.get("tools"))
            }
            Api::Gemini(_) => (required_list(&body, "contents")?, body.get("tools")),
        };
        if model.is_empty() && !matches!(api, Api::CodeAssist(GeminiAction::Count)) {
            return Err("you must provide a model parameter".into());
        }
        let last_text = last_user_text(content);
        let prompt_tokens = tokens_in_all_text(&body);
        let has_tools = tools.and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
        let flag = |pointer: &str| body.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
        let stream = match api {
            Api::Chat | Api::Responses | Api::Messages => flag("/stream").then_some(Framing::Sse),
            Api::Gemini(GeminiAction::Stream) | Api::CodeAssist(GeminiAction::Stream) => {
                Some(if query.split('&').any(|pair| pair == "alt=sse") { Framing::Sse } else { Framing::JsonArray })
            }
            _ => None,
        };
        let include_usage = flag("/stream_options/include_usage");
        Ok(Self { api, model, stream, include_usage, has_tools, last_text, prompt_tokens, body })
    }

    /// The healthy answer to this, as far as the rule leaves it so.
    pub(crate) fn answer(&self, call: u64, rule: &Rule) -> Answer {
        let reply = Reply::new(self, call, rule);
        let value = match (self.api, self.stream) {
            (Api::Chat, None) => openai::unary(&reply),
            (Api::Chat, Some(framing)) => return Answer::Stream(framing, openai::events(&reply)),
            (Api::Responses, None) => responses::unary(&reply),
            (Api::Responses, Some(framing)) => return Answer::Stream(framing, responses::events(&reply)),
            (Api::CountResponses, _) => {
                json!({"object": "response.input_tokens", "input_tokens": reply.tokens.prompt})
            }
            (Api::Embeddings, _) => openai::embeddings(&reply, &self.body),
            (Api::Messages, None) => anthropic::unary(&reply),
            (Api::Messages, Some(framing)) => return Answer::Stream(framing, anthropic::events(&reply)),
            (Api::CountMessages, _) => json!({"input_tokens": reply.tokens.prompt}),
            (Api::Gemini(GeminiAction::Embed), _) => gemini::embedding(&self.last_text),
            (Api::Gemini(GeminiAction::BatchEmbed), _) => gemini::embeddings(&self.body),
            (Api::Gemini(GeminiAction::Count) | Api::CodeAssist(GeminiAction::Count), _) => {
                json!({"totalTokens": reply.tokens.prompt})
            }
            (Api::Gemini(_), None) => gemini::unary(&reply),
            (Api::Gemini(_), Some(framing)) => return Answer::Stream(framing, gemini::events(&reply)),
            (Api::CodeAssist(_), None) => gemini::wrapped(gemini::unary(&reply), call),
            (Api::CodeAssist(_), Some(framing)) => {
                return Answer::Stream(framing, gemini::wrapped_events(gemini::events(&reply), call));
            }
        };
        Answer::Unary(value)
    }
}

impl Api {
    /// The dialect's error envelope for a status.
    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::Chat | Self::Responses | Self::CountResponses | Self::Embeddings => openai::error(status, message),
            Self::Messages | Self::CountMessages => anthropic::error(status, message),
            Self::Gemini(_) | Self::CodeAssist(_) => gemini::error(status, message),
        }
    }

    /// The event that ends a stream in an error, with this data or the dialect's "overloaded".
    pub(crate) fn error_event(self, data: Option<&Value>) -> Event {
        let name = match self {
            Self::Responses | Self::Messages => Some("error"),
            _ => None,
        };
        let usual = match self {
            // Flat, unlike its unary errors.
            Self::Responses => {
                json!({"type": "error", "code": "server_is_overloaded", "message": "Overloaded", "param": null, "sequence_number": 0})
            }
            Self::Messages => self.error(529, "Overloaded"),
            _ => self.error(503, "Overloaded"),
        };
        let data = text_of(data.unwrap_or(&usual));
        Event { name, data, content: false }
    }

    /// The header that carries the upstream's own request id.
    pub(crate) fn request_id_header(self) -> Option<&'static str> {
        match self {
            Self::Chat | Self::Responses | Self::CountResponses | Self::Embeddings => Some("x-request-id"),
            Self::Messages | Self::CountMessages => Some("request-id"),
            Self::Gemini(_) | Self::CodeAssist(_) => None,
        }
    }
}

impl Event {
    fn data(data: &Value) -> Self {
        Self { name: None, data: data.to_string(), content: false }
    }

    fn named(name: &'static str, data: &Value) -> Self {
        Self { name: Some(name), data: data.to_string(), content: false }
    }

    fn content(mut self) -> Self {
        self.content = true;
        self
    }
}

/// A scripted body as text: strings as they are, anything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// How many tokens a text of so many bytes has: a quarter, at least one. Not a tokenizer; only the same every time.
pub(crate) fn tokens_of(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4).max(1)).unwrap_or(u64::MAX)
}

fn missing(field: &str) -> String {
    format!("Missing required parameter: '{field}'.")
}

fn required_list<'a>(body: &'a Value, field: &str) -> Result<&'a Value, String> {
    let list = body.get(field).ok_or_else(|| missing(field))?;
    match list.as_array() {
        Some(entries) if entries.is_empty() => Err(format!("Invalid '{field}': empty array.")),
        Some(_) => Ok(list),
        None => Err(format!("Invalid type for '{field}': expected an array.")),
    }
}

/// The text of the last entry that is a user's (or of the last entry, or of the value itself).
fn last_user_text(content: &Value) -> String {
    let Some(entries) = content.as_array() else { return all_text(content) };
    let is_user = |entry: &&Value| entry.get("role").and_then(Value::as_str).is_none_or(|role| role == "user");
    entries.iter().rev().find(is_user).or(entries.last()).map(all_text).unwrap_or_default()
}

/// All text below a value: strings themselves, and the fields that hold text or more of it.
fn all_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(entries) => entries.iter().map(all_text).collect(),
        Value::Object(fields) => {
            let holds_text = |field: &&str| matches!(*field, "content" | "text" | "parts" | "input" | "output");
            fields.iter().filter(|(field, _)| holds_text(&field.as_str())).map(|(_, value)| all_text(value)).collect()
        }
        _ => String::new(),
    }
}

/// Tokens of everything a request says to the model.
fn tokens_in_all_text(body: &Value) -> u64 {
    let request = body.get("request").unwrap_or(body);
    let said = ["system", "systemInstruction", "instructions", "messages", "contents", "input", "content", "requests"];
    let bytes = said.iter().filter_map(|field| request.get(field)).map(|value| all_text(value).len()).sum();
    tokens_of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart_whatever_stands_before_them() {
        assert_eq!(route("/v1/chat/completions"), Some((Api::Chat, None)));
        assert_eq!(route("/daily/chat/completions"), Some((Api::Chat, None)));
        assert_eq!(route("/v1/messages/count_tokens"), Some((Api::CountMessages, None)));
        let model = Some("gemini-x".to_owned());
        assert_eq!(route("/v1beta/models/gemini-x:countTokens"), Some((Api::Gemini(GeminiAction::Count), model)));
        assert_eq!(route("/a/v1internal:generateContent"), Some((Api::CodeAssist(GeminiAction::Generate), None)));
        for unknown in ["/v2/models/x:generateContent", "/v1beta/models/x:tune", "/v1/nothing", "/"] {
            assert_eq!(route(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_last_user_text_is_found_in_every_dialect() {
        let chat = json!([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]);
        assert_eq!(last_user_text(&chat), "one");
        let blocks = json!([{"role": "user", "content": [{"type": "text", "text": "hi"}]}]);
        assert_eq!(last_user_text(&blocks), "hi");
        assert_eq!(last_user_text(&json!([{"parts": [{"text": "gem"}]}])), "gem");
        assert_eq!(last_user_text(&json!("plain")), "plain");
    }
}
