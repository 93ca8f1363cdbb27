mod damage;
mod peeking;
mod reading;
mod target;
mod writing;

/// A request with one of everything a translation can carry.
const FULL: &str = r#"{
  "model": "claude-mine", "max_tokens": 1024, "stream": true,
  "system": [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=abc;"},
    {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "Be kind."}
  ],
  "messages": [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "Hm", "signature": "sig=="},
      {"type": "redacted_thinking", "data": "opaque"},
      {"type": "text", "text": "Calling.", "citations": null},
      {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"b": 1.0, "a": [18446744073709551615]}, "caller": {"type": "direct"}},
      {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}
    ]},
    {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
        {"type": "text", "text": "seen"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "-_8"}}
      ]},
      {"type": "tool_result", "tool_use_id": "toolu_2", "content": "broken", "is_error": true, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
      {"type": "text", "text": "And?"},
      {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
      {"type": "document", "title": "Report", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
      {"type": "document", "title": "Note", "context": "Old.", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    ]},
    {"role": "system", "content": "From now on in verse."},
    {"role": "assistant", "content": "Roses"}
  ],
  "tools": [
    {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"a": {"type": "array"}}}, "eager_input_streaming": true},
    {"type": "custom", "name": "now", "input_schema": {"type": "object"}, "strict": true, "allowed_callers": ["direct"]}
  ],
  "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
  "temperature": 0.70, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"],
  "thinking": {"type": "adaptive", "display": "omitted"},
  "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
  "metadata": {"user_id": "u1"}, "service_tier": "auto", "mcp_servers": [], "container": null,
  "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
}"#;
