//! Small readers over borrowed JSON that never refuse a shape they do not know.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Where a borrowed value lies in the text it was read from.
pub(in crate::dialect) fn range_in(text: &[u8], raw: &RawValue) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

/// The characters of all texts in a value: what an estimate of tokens counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::dialect) struct Chars(pub(in crate::dialect) u64);

struct CharsVisitor;

impl<'de> Visitor<'de> for CharsVisitor {
    type Value = Chars;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_unit<E>(self) -> Result<Chars, E> {
        Ok(Chars(0))
    }

    fn visit_str<E>(self, text: &str) -> Result<Chars, E> {
        Ok(Chars(text.chars().count() as u64))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Chars, A::Error> {
        let mut sum = 0;
        while let Some(Chars(chars)) = seq.next_element()? {
            sum += chars;
        }
        Ok(Chars(sum))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Chars, A::Error> {
        let mut sum = 0;
        while let Some((IgnoredAny, Chars(chars))) = map.next_entry()? {
            sum += chars;
        }
        Ok(Chars(sum))
    }
}

impl<'de> Deserialize<'de> for Chars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CharsVisitor)
    }
}

/// A text as a JSON string.
pub(in crate::dialect) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The kind of a raw JSON value, for messages.
pub(in crate::dialect) fn kind_of(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ if raw.contains(['.', 'e', 'E']) => "a decimal number",
        _ => "an integer",
    }
}

/// A value that stands there, null included.
pub(in crate::dialect) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Bytes with one range replaced.
pub(in crate::dialect) fn replaced(bytes: &Bytes, at: &Range<usize>, text: &str) -> Bytes {
    if bytes[at.clone()] == *text.as_bytes() {
        return bytes.clone();
    }
    [&bytes[..at.start], text.as_bytes(), &bytes[at.end..]].concat().into()
}

/// Why a choice ended, as far as it matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::dialect) enum Finish {
    /// It has not; null, absent and empty are the same.
    #[default]
    None,
    /// It has.
    Ended,
    /// It broke: some upstreams give `error` as the reason.
    Error,
}

impl<'de> Deserialize<'de> for Finish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(match raw.get() {
            "null" | "\"\"" => Self::None,
            "\"error\"" => Self::Error,
            _ => Self::Ended,
        })
    }
}

/// The number of a choice; 0 where it is missing or no number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::dialect) struct Index(pub(in crate::dialect) u64);

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().parse().unwrap_or(0)))
    }
}

/// What a delta brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::dialect) struct Delta {
    /// Something of the answer.
    pub(in crate::dialect) content: bool,
    /// Its characters.
    pub(in crate::dialect) chars: u64,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Part {
    /// Parts that are answer, and whose texts are counted.
    #[serde(
        alias = "reasoning_content",
        alias = "reasoning",
        alias = "refusal",
        alias = "tool_calls",
        alias = "function_call"
    )]
    Content,
    /// Parts that are answer, but whose texts are encoded media or said twice.
    #[serde(alias = "images", alias = "reasoning_details")]
    Audio,
    #[serde(other)]
    Other,
}

struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = Delta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a delta")
    }

    fn visit_unit<E>(self) -> Result<Delta, E> {
        Ok(Delta::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Delta, A::Error> {
        let mut delta = Delta::default();
        while let Some(part) = map.next_key::<Part>()? {
            match part {
                Part::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
                Part::Content => {
                    let Chars(chars) = map.next_value()?;
                    delta.chars += chars;
                    delta.content |= chars > 0;
                }
                Part::Audio => {
                    let Chars(chars) = map.next_value()?;
                    delta.content |= chars > 0;
                }
            }
        }
        Ok(delta)
    }
}

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DeltaVisitor)
    }
}
