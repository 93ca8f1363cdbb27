//! Puts a Gemini request into the envelope of Code Assist.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::canonical::request::Request;
use crate::dialect::Answer;
use crate::dialect::gemini::request::body;
use crate::dialect::gemini::url::resource;
use crate::error::BadRequest;

/// What the envelope says besides the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The Google Cloud project of the credential, if it has one.
    pub project: Option<&'a str>,
    /// Names the prompt: Headgate's request id.
    pub user_prompt_id: Option<&'a str>,
    /// Names the conversation, where it is known.
    pub session_id: Option<&'a str>,
}

/// What is asked of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// An answer, whole or in events.
    Generate(Answer),
    /// The tokens of a prompt.
    CountTokens,
}

/// What follows the host, query included. The model is named in the body.
pub fn path(method: Method) -> &'static str {
    match method {
        Method::Generate(Answer::Whole) => "/v1internal:generateContent",
        Method::Generate(Answer::Stream) => "/v1internal:streamGenerateContent?alt=sse",
        Method::CountTokens => "/v1internal:countTokens",
    }
}

/// Wraps the body of a Gemini caller; every byte of it stays. It must be a JSON object, as [`crate::dialect::gemini::request::peek`]
/// has checked.
pub fn wrap(body: &Bytes, upstream_model: &str, envelope: &Envelope<'_>) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + 256);
    out.extend_from_slice(b"{\"model\":");
    out.extend_from_slice(quoted(upstream_model).as_bytes());
    for (name, value) in [("project", envelope.project), ("user_prompt_id", envelope.user_prompt_id)] {
        if let Some(value) = value {
            out.extend_from_slice(format!(",\"{name}\":{}", quoted(value)).as_bytes());
        }
    }
    out.extend_from_slice(b",\"request\":");
    let inner = body.trim_ascii();
    match envelope.session_id {
        Some(session) if inner.len() > 1 && !names_session(inner) => {
            let empty = inner[1..].trim_ascii_start() == b"}";
            out.extend_from_slice(format!("{{\"session_id\":{}", quoted(session)).as_bytes());
            out.extend_from_slice(if empty { b"" } else { b"," });
            out.extend_from_slice(&inner[1..]);
        }
        _ => out.extend_from_slice(inner),
    }
    out.push(b'}');
    out.into()
}

/// A field that is given already is not given twice.
fn names_session(body: &[u8]) -> bool {
    [&b"\"session_id\""[..], b"\"sessionId\""].iter().any(|name| memchr::memmem::find(body, name).is_some())
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes a request of another dialect.
pub fn write(request: &Request, upstream_model: &str, envelope: &Envelope<'_>) -> Result<Bytes, BadRequest> {
    let inner = Bytes::from(Value::Object(body(request, upstream_model)?).to_string());
    Ok(wrap(&inner, upstream_model, envelope))
}

/// Writes a request to count tokens. This upstream counts nothing but contents, so instructions go along as what a user says.
pub fn write_count(request: &Request, upstream_model: &str) -> Result<Bytes, BadRequest> {
    let mut inner = body(request, upstream_model)?;
    let mut contents = match inner.remove("contents") {
        Some(Value::Array(contents)) => contents,
        _ => Vec::new(),
    };
    if let Some(parts) = inner.get("systemInstruction").and_then(|system| system.get("parts")) {
        contents.insert(0, json!({"role": "user", "parts": parts}));
    }
    if let Some(tools) = inner.get("tools") {
        contents.insert(0, json!({"role": "user", "parts": [{"text": tools.to_string()}]}));
    }
    let mut counted = Map::new();
    counted.insert("model".into(), resource(upstream_model).into());
    counted.insert("contents".into(), contents.into());
    Ok(json!({"request": counted}).to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::request::{Part, Role, Turn};
    use proptest::prelude::*;

    const FULL: Envelope<'_> =
        Envelope { project: Some("p"), user_prompt_id: Some("r-1"), session_id: Some("s \"1\"") };

    #[test]
    fn the_body_lies_in_the_envelope_byte_for_byte() {
        let body = Bytes::from_static(b" {\"contents\" : [1.0],\n\"x\":12345678901234567890123}\n");
        let bare = wrap(&body, "gemini-3-pro", &Envelope::default());
        assert_eq!(
            bare,
            "{\"model\":\"gemini-3-pro\",\"request\":{\"contents\" : [1.0],\n\"x\":12345678901234567890123}}"
        );
        let full = wrap(&body, "g", &FULL);
        assert_eq!(
            full,
            "{\"model\":\"g\",\"project\":\"p\",\"user_prompt_id\":\"r-1\",\"request\":{\"session_id\":\"s \\\"1\\\"\",\"contents\" : [1.0],\n\"x\":12345678901234567890123}}"
        );
        assert_eq!(
            wrap(&Bytes::from_static(b"{ }"), "g", &Envelope { session_id: Some("s"), ..Envelope::default() }),
            "{\"model\":\"g\",\"request\":{\"session_id\":\"s\" }}"
        );
    }

    #[test]
    fn a_session_of_the_callers_own_stays_the_only_one() {
        let body = Bytes::from_static(br#"{"contents":[],"session_id":"mine"}"#);
        let wrapped: Value = serde_json::from_slice(&wrap(&body, "g", &FULL)).unwrap();
        assert_eq!(wrapped["request"], json!({"contents": [], "session_id": "mine"}));
    }

    #[test]
    fn a_count_holds_all_that_is_read() {
        let turns = vec![Turn { role: Role::User, parts: vec![Part::Text("hi".into())] }];
        let request = Request { system: vec!["s".into()], turns, ..Request::default() };
        let body: Value = serde_json::from_slice(&write_count(&request, "g").unwrap()).unwrap();
        let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
        assert_eq!(body, json!({"request": {"model": "models/g", "contents": [user("s"), user("hi")]}}));
        let body: Value = serde_json::from_slice(&write(&request, "g", &FULL).unwrap()).unwrap();
        assert_eq!(body["request"]["contents"], json!([user("hi")]));
        assert_eq!(path(Method::Generate(Answer::Stream)), "/v1internal:streamGenerateContent?alt=sse");
    }

    proptest! {
        #[test]
        fn any_names_make_a_json_envelope(model in "\\PC{0,20}", project in "\\PC{0,20}", session in "\\PC{0,20}") {
            let envelope = Envelope { project: Some(&project), user_prompt_id: None, session_id: Some(&session) };
            let wrapped: Value = serde_json::from_slice(&wrap(&Bytes::from_static(b"{\"a\":1}"), &model, &envelope)).unwrap();
            prop_assert_eq!(wrapped, json!({"model": model, "project": project, "request": {"session_id": session, "a": 1}}));
        }
    }
}
