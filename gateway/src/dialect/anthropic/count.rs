//! Counts of tokens: what an upstream says, what a client gets.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use shared::failure::Transport;

use super::error::{broken, in_success};
use crate::canonical::usage::ABSURD;
use crate::error::UpstreamError;

/// How many tokens a prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// An upstream counted.
    Counted(u64),
    /// Nobody counted: a guess from the length of the prompt.
    Estimated(u64),
}

#[derive(Deserialize)]
struct Body {
    input_tokens: u64,
}

/// Reads the answer of an upstream. Anything but a believable count is a failure of the upstream.
pub fn read(body: &Bytes) -> Result<Count, Box<UpstreamError>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Box::new(broken(Transport::Empty, "a success without a body")));
    }
    // A derived struct would take a list for its fields in order.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let count = if is_object { serde_json::from_slice::<Body>(body).ok() } else { None };
    if let Some(Body { input_tokens }) = count.filter(|count| count.input_tokens <= ABSURD) {
        return Ok(Count::Counted(input_tokens));
    }
    let foreign = || broken(Transport::NotTheFormat, "a success whose body is not a count of tokens");
    Err(Box::new(in_success(body).unwrap_or_else(foreign)))
}

/// The answer for a client. An estimate says that it is one.
pub fn write(count: Count) -> Bytes {
    let body = match count {
        Count::Counted(tokens) => json!({"input_tokens": tokens}),
        Count::Estimated(tokens) => json!({"input_tokens": tokens, "estimated": true}),
    };
    Bytes::from(body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_count_is_read_and_written() {
        let body =
            Bytes::from_static(br#"{"input_tokens": 2095, "context_management": {"original_input_tokens": 3000}}"#);
        assert_eq!(read(&body).unwrap(), Count::Counted(2095));
        assert_eq!(write(Count::Counted(2095)), r#"{"input_tokens":2095}"#);
        assert_eq!(write(Count::Estimated(7)), r#"{"input_tokens":7,"estimated":true}"#);
        assert_eq!(read(&write(Count::Estimated(7))).unwrap(), Count::Counted(7), "what Headgate says it can read");
    }

    #[test]
    fn what_is_no_count_is_a_failure_of_the_upstream() {
        for (body, transport) in [
            ("", Transport::Empty),
            (" \n", Transport::Empty),
            ("[7]", Transport::NotTheFormat),
            ("7", Transport::NotTheFormat),
            ("<html></html>", Transport::NotTheFormat),
            (r#"{"input_tokens":-1}"#, Transport::NotTheFormat),
            (r#"{"input_tokens":1.5}"#, Transport::NotTheFormat),
            (r#"{"input_tokens":"7"}"#, Transport::NotTheFormat),
            (r#"{"input_tokens":100000001}"#, Transport::NotTheFormat),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Transport::ErrorInSuccess,
            ),
        ] {
            let error = read(&Bytes::from_static(body.as_bytes())).unwrap_err();
            assert_eq!(error.signals.transport, Some(transport), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&Bytes::from(body));
        }
    }
}
