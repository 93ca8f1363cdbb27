//! Takes thoughts out of a conversation that the upstream would refuse, and leaves every other block as it stands.

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::{Family, Signals};

use crate::dialect::anthropic::json::{Edit, Text, edited, range_in};

/// A thought of another upstream, shown to the client without a signature.
const UNSIGNED: fn(&Block<'_>) -> bool =
    |block| block.kind.as_str() == "thinking" && block.signature.as_str().is_empty();
const ANY: fn(&Block<'_>) -> bool = |block| matches!(block.kind.as_str(), "thinking" | "redacted_thinking");

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    signature: Text<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Text<'a>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

/// The edits that take out thoughts with an empty signature. They came from an upstream of another dialect, through the same client.
pub(super) fn unsigned(body: &[u8], messages: &RawValue, thinking: Option<&RawValue>) -> Vec<Edit> {
    if !has_empty_signature(messages.get()) {
        return Vec::new();
    }
    taken_out(body, messages, thinking, UNSIGNED)
}

/// A body without any thoughts: to be tried once on the same upstream after it refused them. `None` when it holds none.
pub fn without_thoughts(body: &Bytes) -> Option<Bytes> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let parsed: Body<'_> = serde_json::from_slice(body).ok()?;
    let edits = taken_out(body, parsed.messages?, parsed.thinking, ANY);
    if edits.is_empty() { None } else { Some(edited(body, &mut edits.iter().collect::<Vec<_>>())) }
}

/// True when an upstream refused a request for the thoughts in it: they were signed elsewhere, or changed on the way.
pub fn refuses_thoughts(signals: &Signals) -> bool {
    let message = &signals.message;
    signals.family == Family::Anthropic
        && signals.status == Some(400)
        && message.contains("thinking")
        && (message.contains("signature") || message.contains("cannot be modified"))
}

/// Whether a text holds `"signature": ""` with any space. Inside of strings quotes are escaped, so that this is never text.
fn has_empty_signature(text: &str) -> bool {
    memmem::find_iter(text.as_bytes(), b"\"signature\"").any(|at| {
        let rest = text[at + "\"signature\"".len()..].trim_start();
        rest.strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with("\"\""))
    })
}

/// Where the last assistant message loses a thought while thinking by budget is on, that is switched off: the upstream wants a turn
/// of the assistant to begin with a thought then.
fn taken_out(
    body: &[u8],
    messages: &RawValue,
    thinking: Option<&RawValue>,
    unwanted: fn(&Block<'_>) -> bool,
) -> Vec<Edit> {
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(messages.get()) else { return Vec::new() };
    let mut kept = Vec::with_capacity(list.len());
    let (mut changed, mut last_changed) = (false, false);
    for raw in list {
        let Some(message) = parsed::<Message<'_>>(raw) else {
            kept.push(raw.get().to_owned());
            continue;
        };
        let rebuilt = message.content.and_then(|content| rebuilt(content, unwanted));
        if message.role.as_str() == "assistant" {
            last_changed = rebuilt.is_some();
        }
        changed |= rebuilt.is_some();
        match (rebuilt, message.content) {
            (Some(content), Some(before)) if content != "[]" => {
                let at = range_in(raw.get().as_bytes(), before);
                kept.push(format!("{}{content}{}", &raw.get()[..at.start], &raw.get()[at.end..]));
            }
            // Nothing but thoughts: no message at all.
            (Some(_), _) => {}
            (None, _) => kept.push(raw.get().to_owned()),
        }
    }
    if !changed {
        return Vec::new();
    }
    let mut edits = vec![Edit { at: range_in(body, messages), text: format!("[{}]", kept.join(",")).into() }];
    if let Some(thinking) = thinking.filter(|thinking| last_changed && is_enabled(thinking)) {
        edits.push(Edit { at: range_in(body, thinking), text: r#"{"type":"disabled"}"#.into() });
    }
    edits
}

fn parsed<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    if raw.get().starts_with('{') { serde_json::from_str(raw.get()).ok() } else { None }
}

fn is_enabled(thinking: &RawValue) -> bool {
    parsed::<Block<'_>>(thinking).is_some_and(|thinking| thinking.kind.as_str() == "enabled")
}

/// A list of blocks without the unwanted ones; `None` when it has none.
fn rebuilt(content: &RawValue, unwanted: fn(&Block<'_>) -> bool) -> Option<String> {
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).ok()?;
    let kept: Vec<&str> = blocks
        .iter()
        .filter(|block| !parsed::<Block<'_>>(block).is_some_and(|block| unwanted(&block)))
        .map(|block| block.get())
        .collect();
    (kept.len() < blocks.len()).then(|| format!("[{}]", kept.join(",")))
}
