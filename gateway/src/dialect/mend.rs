//! What an upstream objected to in a call and can be left out: the same call without it, to be sent once. Pure.

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::value::RawValue;
use shared::failure::{Family, Signals};

use super::anthropic::request::{refuses_thoughts, without_thoughts};
use super::wanted::UpstreamCall;

/// The field by which we learn what a stream cost.
const STREAM_OPTIONS: &str = "stream_options";

/// The call without what was refused: thoughts that were signed elsewhere, or the wish to be told what a stream cost, which some
/// compatible upstreams do not know. `None` when the refusal is about something else.
pub fn mended(signals: &Signals, call: &UpstreamCall) -> Option<UpstreamCall> {
    let body = if refuses_thoughts(signals) {
        without_thoughts(&call.body)?
    } else if refuses_stream_options(signals) {
        without_field(&call.body, STREAM_OPTIONS)?
    } else {
        return None;
    };
    Some(UpstreamCall { path: call.path.clone(), headers: call.headers.clone(), body })
}

fn refuses_stream_options(signals: &Signals) -> bool {
    signals.family == Family::OpenAi
        && matches!(signals.status, Some(400 | 422))
        && (signals.message.contains(STREAM_OPTIONS) || signals.body.contains(STREAM_OPTIONS))
}

/// An object without one of its fields; all others byte for byte and in their order. `None` when it has no such field.
fn without_field(body: &Bytes, field: &str) -> Option<Bytes> {
    let mut fields: IndexMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    fields.shift_remove(field)?;
    serde_json::to_vec(&fields).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn call(body: &'static str) -> UpstreamCall {
        UpstreamCall { path: "/x".into(), headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) }
    }

    fn said(family: Family, status: u16, message: &str) -> Signals {
        Signals { status: Some(status), message: message.to_lowercase(), ..Signals::new(family) }
    }

    #[test]
    fn an_upstream_that_does_not_know_stream_options_is_asked_without_them_and_nothing_else_changes() {
        let call = call(r#"{"model":"m","temperature":1.0,"stream_options":{"include_usage":true},"x":{"n":1e2}}"#);
        for status in [400, 422] {
            let refused = said(Family::OpenAi, status, "Extra inputs are not permitted: stream_options");
            let mended = mended(&refused, &call).unwrap();
            assert_eq!(mended.body, r#"{"model":"m","temperature":1.0,"x":{"n":1e2}}"#);
            assert_eq!(mended.path, "/x");
            assert!(super::mended(&refused, &mended).is_none(), "there is nothing more to leave out");
        }
    }

    #[test]
    fn thoughts_that_were_signed_elsewhere_are_left_out() {
        let call = call(
            r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking",
            "thinking":"t","signature":"s"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}"#,
        );
        let refused = said(Family::Anthropic, 400, "messages.1.content.0: Invalid `signature` in `thinking` block");
        let body = mended(&refused, &call).unwrap().body;
        assert!(!String::from_utf8_lossy(&body).contains("signature"), "{body:?}");
    }

    #[test]
    fn any_other_refusal_is_left_as_it_is() {
        let call = call(r#"{"stream_options":{"include_usage":true}}"#);
        for signals in [
            said(Family::OpenAi, 400, "max_tokens is too large"),
            said(Family::OpenAi, 500, "stream_options"),
            said(Family::Google, 400, "stream_options"),
        ] {
            assert!(mended(&signals, &call).is_none(), "{signals:?}");
        }
    }
}
