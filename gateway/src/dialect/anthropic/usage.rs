//! Usage as this dialect reports it.

use serde_json::{Value, json};
use shared::money::Tokens;

/// A `usage` object. Clients cannot do without one: where nobody counted, it is all zeros.
pub(super) fn written(tokens: Option<Tokens>) -> Value {
    let tokens = tokens.unwrap_or_default();
    let mut usage = json!({
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached_input,
        "output_tokens": tokens.output + tokens.reasoning,
    });
    if tokens.reasoning > 0 {
        usage["output_tokens_details"] = json!({"thinking_tokens": tokens.reasoning});
    }
    usage
}
