//! `countTokens`: the prompt of a conversation, and how many tokens it has.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::failure::Transport;

use super::error::{broken, read as read_error};
use super::fields::{Fields, invalid};
use super::request::{body, conversation};
use super::response::not_the_format;
use super::url::resource;
use crate::canonical::request::Request;
use crate::canonical::usage::ABSURD;
use crate::dialect::Answer;
use crate::error::{BadRequest, UpstreamError};

/// Reads a body of `countTokens`: contents, or a whole `generateContentRequest`.
pub fn read(body: &[u8]) -> Result<Request, BadRequest> {
    let mut fields = Fields::of_body(body)?;
    let Some(inner) = fields.object("generateContentRequest")? else {
        return conversation(fields, Answer::Whole);
    };
    if fields.has("contents") {
        let why = "it cannot be given together with contents";
        return Err(invalid("generateContentRequest".to_owned(), why));
    }
    fields.take("model");
    fields.none_left()?;
    conversation(inner, Answer::Whole)
}

/// Writes a body of `countTokens`, so that instructions and tools count as well.
pub fn write(request: &Request, upstream_model: &str) -> Result<Bytes, BadRequest> {
    let mut inner = body(request, upstream_model)?;
    inner.insert("model".into(), resource(upstream_model).into());
    Ok(json!({"generateContentRequest": inner}).to_string().into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    #[serde(alias = "total_tokens")]
    total_tokens: u64,
}

/// Reads the answer of an upstream: the tokens. Anything but a believable count is a failure of the upstream.
pub fn read_answer(body: &[u8]) -> Result<u64, Box<UpstreamError>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Box::new(broken(Transport::Empty, "a success without a body")));
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(_)) => Err(Box::new(read_error(None, body))),
        Ok(Value::Object(map)) if map.get("error").is_some_and(|error| !error.is_null()) => {
            Err(Box::new(read_error(None, body)))
        }
        Ok(value) => match serde_json::from_value::<Counted>(value) {
            Ok(Counted { total_tokens }) if total_tokens <= ABSURD => Ok(total_tokens),
            _ => Err(not_the_format("a success whose body is not a count of tokens")),
        },
        Err(_) => Err(not_the_format("a success whose body is not JSON")),
    }
}

/// The answer for a caller.
pub fn write_answer(tokens: u64) -> Bytes {
    json!({"totalTokens": tokens}).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::request::{Part, Role, Turn};
    use shared::failure::{Class, ErrorPolicy, classify};

    fn said(text: &str) -> Vec<Turn> {
        vec![Turn { role: Role::User, parts: vec![Part::Text(text.to_owned())] }]
    }

    #[test]
    fn both_forms_of_the_request_are_read() {
        let plain = read(br#"{"contents":[{"parts":[{"text":"hi"}]}],"system_instruction":{"parts":[{"text":"s"}]}}"#);
        let whole = read(br#"{"model":"models/x","generateContentRequest":{"model":"models/x","contents":[{"parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"s"}]}}}"#);
        assert_eq!(plain, whole);
        assert_eq!(plain.unwrap().turns, said("hi"));
        let both = read(br#"{"contents":[],"generate_content_request":{"contents":[]}}"#).unwrap_err();
        assert_eq!(both.field.as_deref(), Some("generateContentRequest"));
        let inner = read(br#"{"generateContentRequest":{"contents":[{"role":"x"}]}}"#).unwrap_err();
        assert_eq!(inner.field.as_deref(), Some("generateContentRequest.contents.0.role"));
    }

    #[test]
    fn instructions_and_tools_are_sent_to_be_counted() {
        let request = Request { system: vec!["s".into()], turns: said("hi"), ..Request::default() };
        let written: Value = serde_json::from_slice(&write(&request, "gemini-3-pro").unwrap()).unwrap();
        assert_eq!(written["generateContentRequest"]["model"], "models/gemini-3-pro");
        assert_eq!(written["generateContentRequest"]["systemInstruction"]["parts"][0]["text"], "s");
    }

    #[test]
    fn only_a_believable_count_is_an_answer() {
        assert_eq!(read_answer(br#"{"totalTokens":31,"cachedContentTokenCount":2}"#).unwrap(), 31);
        assert_eq!(read_answer(&write_answer(7)).unwrap(), 7);
        for bad in ["", " ", "{}", "[]", "null", "7", "<html>", r#"{"totalTokens":-1}"#, r#"{"totalTokens":999999999}"#]
        {
            let error = read_answer(bad.as_bytes()).unwrap_err();
            assert_eq!(classify(&error.signals, ErrorPolicy::Standard, &[]).class, Class::Unavailable, "{bad}");
        }
        let limited =
            read_answer(br#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]"#).unwrap_err();
        assert_eq!(limited.signals.status, Some(429));
    }
}
