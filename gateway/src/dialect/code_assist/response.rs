//! Takes a Gemini answer out of the envelope of Code Assist: `{"response":{…},"traceId":…}`.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::canonical::response::Response;
use crate::dialect::gemini::error::read as read_error;
use crate::dialect::gemini::response::{self as gemini, Whole};
use crate::error::UpstreamError;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The answer within an envelope. What has none is left as it is: an answer without an envelope, a page, a list around an error.
pub(super) fn unwrapped(body: &[u8]) -> Result<&[u8], Box<UpstreamError>> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return Ok(body);
    }
    match serde_json::from_slice::<Envelope<'_>>(body) {
        Ok(Envelope { error: Some(_), .. }) => Err(Box::new(read_error(None, body))),
        Ok(Envelope { response: Some(response), .. }) => Ok(response.get().as_bytes()),
        _ => Ok(body),
    }
}

/// Checks the body of a success for a Gemini caller: the answer, every byte as received, and what is known of it.
pub fn check(content_type: Option<&str>, body: &Bytes) -> Result<(Bytes, Whole), Box<UpstreamError>> {
    let inner = body.slice_ref(unwrapped(body)?);
    let whole = gemini::check(content_type, &inner)?;
    Ok((inner, whole))
}

/// Reads the body of a success into the common tongue.
pub fn read(content_type: Option<&str>, body: &Bytes) -> Result<Response, Box<UpstreamError>> {
    gemini::read(content_type, &body.slice_ref(unwrapped(body)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::request::Part;
    use proptest::prelude::*;
    use shared::money::Tokens;

    const ANSWER: &str = r#"{ "candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1},"x":1.0}"#;

    #[test]
    fn the_answer_comes_out_byte_for_byte() {
        let body = Bytes::from(format!(r#"{{"response":{ANSWER},"traceId":"t","consumedCredits":[]}}"#));
        let (inner, whole) = check(Some("application/json"), &body).unwrap();
        assert_eq!(inner, ANSWER);
        assert_eq!(whole.usage, Some(Tokens { input: 3, output: 1, ..Tokens::default() }));
        assert_eq!(read(None, &body).unwrap().choices[0].parts, [Part::Text("hi".into())]);
        let (bare, _) = check(None, &Bytes::from_static(ANSWER.as_bytes())).unwrap();
        assert_eq!(bare, ANSWER);
    }

    #[test]
    fn an_error_in_or_beside_the_envelope_is_read() {
        for body in [
            r#"{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}"#,
            r#"[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]"#,
            r#"{"response":{"error":{"code":429,"message":"no"}}}"#,
        ] {
            let body = Bytes::from_static(body.as_bytes());
            assert_eq!(check(None, &body).unwrap_err().signals.status, Some(429));
            assert_eq!(read(None, &body).unwrap_err().signals.status, Some(429));
        }
        for empty in ["", "{}", r#"{"response":{}}"#, r#"{"response":null}"#, "<html>", r#"{"response":[]}"#] {
            assert!(check(None, &Bytes::from_static(empty.as_bytes())).is_err(), "{empty}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = check(None, &Bytes::from(data.clone()));
            let _ = read(None, &Bytes::from(data));
        }
    }
}
