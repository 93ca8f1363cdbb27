//! Small readers over borrowed JSON that never refuse a shape they do not know, and edits of the text they were read from.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Where a borrowed value lies in the text it was read from.
pub(super) fn range_in(text: &[u8], raw: &RawValue) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value that stands there, null included.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A text, borrowed where it holds no escapes; anything else is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Ok(Self(match inner {
            Some(inner) if memchr::memchr(b'\\', inner.as_bytes()).is_none() => Some(Cow::Borrowed(inner)),
            Some(_) => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
            None => None,
        }))
    }
}

impl Text<'_> {
    /// The text, empty where there is none.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Its characters.
    pub(super) fn chars(&self) -> u64 {
        self.as_str().chars().count() as u64
    }
}

/// Bytes to put in the place of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) at: Range<usize>,
    pub(super) text: Cow<'static, str>,
}

/// A body with some ranges replaced; they must not overlap. Without an edit the same bytes, uncopied.
pub(super) fn edited(body: &Bytes, edits: &mut [&Edit]) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    edits.sort_by_key(|edit| edit.at.start);
    let grown: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut out = Vec::with_capacity(body.len() + grown);
    let mut from = 0;
    for edit in edits {
        out.extend_from_slice(&body[from..edit.at.start]);
        out.extend_from_slice(edit.text.as_bytes());
        from = edit.at.end;
    }
    out.extend_from_slice(&body[from..]);
    out.into()
}
