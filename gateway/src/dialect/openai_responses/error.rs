//! Errors of the Responses API. Bodies are as in chat completions; only in streams they differ.

use bytes::Bytes;
use serde_json::json;

pub use crate::dialect::openai::error::{envelope, keep_alive, read};
use crate::error::Fault;

/// A fault as the last event of a stream. It says everything twice: flat, as the specification has it, and nested, which is what
/// makes the SDKs raise.
pub fn event(fault: &Fault) -> Bytes {
    let said = json!({
        "type": "error",
        "sequence_number": 0,
        "code": fault.openai_code,
        "message": fault.message,
        "param": fault.param,
        "error": {
            "type": fault.openai_type,
            "code": fault.openai_code,
            "message": fault.message,
            "param": fault.param,
        },
    });
    format!("event: error\ndata: {said}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;

    #[test]
    fn an_error_event_is_flat_and_nested_at_once() {
        let fault = Refusal::Draining.fault();
        let event = event(&fault);
        let text = std::str::from_utf8(&event).unwrap();
        let data = text.strip_prefix("event: error\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], "error");
        for field in ["code", "message", "param"] {
            assert_eq!(data[field], data["error"][field], "{field}");
        }
        assert_eq!(data["error"]["type"], *fault.openai_type);
        assert_eq!(data["message"], fault.message.as_str());
    }
}
