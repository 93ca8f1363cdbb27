//! One event of a stream, looked into.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use shared::failure::Transport;

use crate::dialect::anthropic::error::{broken, read as read_error};
use crate::dialect::anthropic::json::{Text, present, range_in};
use crate::error::UpstreamError;

/// The known fields of all events.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    /// Of `message_start`.
    #[serde(borrow, default)]
    pub(super) message: Option<Message<'a>>,
    /// Of a block's events.
    #[serde(default)]
    pub(super) index: Option<u64>,
    /// Of `content_block_start`.
    #[serde(borrow, default)]
    pub(super) content_block: Option<Block<'a>>,
    /// Of `content_block_delta` and `message_delta`.
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// Of `message_delta`.
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

/// The beginning of a block.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) data: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// More of a block, or of the message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) stop_sequence: Text<'a>,
}

/// Reads one event. `None` for one that says nothing: without data, or another dialect's end marker. An error event, whatever its
/// form, and what is no event of this dialect end the stream.
pub(super) fn parse<'a>(name: Option<&[u8]>, data: &'a [u8]) -> Result<Option<Event<'a>>, Box<UpstreamError>> {
    let trimmed = data.trim_ascii();
    if trimmed.is_empty() || trimmed == b"[DONE]" {
        return Ok(None);
    }
    // A derived struct would take a list for its fields in order; a list is how some upstreams wrap an error.
    if name == Some(b"error") || trimmed.starts_with(b"[") {
        return Err(Box::new(read_error(None, data)));
    }
    let Ok(mut event) = serde_json::from_slice::<Event<'a>>(data) else {
        let reason = "the stream holds an event that is no event of a message";
        return Err(Box::new(broken(Transport::NotTheFormat, reason)));
    };
    if event.error.is_some() || event.kind.as_str() == "error" {
        return Err(Box::new(read_error(None, data)));
    }
    if event.kind.0.is_none() {
        let name = name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
        event.kind = Text(Some(name.to_owned().into()));
    }
    Ok(Some(event))
}

impl Event<'_> {
    /// Its type.
    pub(super) fn kind(&self) -> &str {
        self.kind.as_str()
    }

    /// Where the model's name stands in the data the event was read from.
    pub(super) fn model_at(&self, data: &[u8]) -> Option<Range<usize>> {
        self.message.as_ref()?.model.map(|model| range_in(data, model))
    }

    /// Whether it brings something of the answer.
    pub(super) fn is_content(&self) -> bool {
        self.chars() > 0
            || self.content_block.as_ref().is_some_and(|block| !matches!(block.kind.as_str(), "text" | "thinking"))
            || self.delta.as_ref().is_some_and(|delta| !delta.signature.as_str().is_empty())
    }

    /// Characters of the answer in it.
    pub(super) fn chars(&self) -> u64 {
        let block = self.content_block.as_ref();
        let started = block.map_or(0, |block| block.text.chars() + block.thinking.chars() + block.name.chars());
        let delta = self.delta.as_ref();
        started + delta.map_or(0, |delta| delta.text.chars() + delta.thinking.chars() + delta.partial_json.chars())
    }
}

/// What is said of a stream that ended before its answer was whole.
pub(super) fn truncated() -> Box<UpstreamError> {
    Box::new(broken(Transport::Truncated, "the stream ended before the answer was whole"))
}
