//! Usage as this dialect reports it.

use serde_json::{Value, json};
use shared::money::Tokens;

/// A `usage` object. Clients cannot do without one: where nobody counted, it is all zeros.
pub(super) fn written(tokens: Option<Tokens>) -> Value {
    let tokens = tokens.unwrap_or_default();
    let mut usage = json!({
        "input_tokens": tokens.input + tokens.input_audio,
        "cache_creation_input_tokens": tokens.all_cache_writes(),
        "cache_read_input_tokens": tokens.cached_input,
        "output_tokens": tokens.all_output(),
    });
    if tokens.cache_write_1h > 0 {
        usage["cache_creation"] = json!({
            "ephemeral_5m_input_tokens": tokens.cache_write,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        });
    }
    if tokens.reasoning > 0 {
        usage["output_tokens_details"] = json!({"thinking_tokens": tokens.reasoning});
    }
    usage
}
