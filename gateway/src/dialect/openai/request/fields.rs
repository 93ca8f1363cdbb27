//! Finds the known fields of a request in one pass over its text.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::check::{duplicate, malformed, not_an_object};
use super::without_attachments;
use crate::dialect::openai::json::kind_of;
use crate::error::BadRequest;

/// The known fields, as they stand in the text.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) model: Option<&'a RawValue>,
    pub(super) messages: Option<Messages>,
    pub(super) tools: Option<&'a RawValue>,
    pub(super) stream: Option<&'a RawValue>,
    pub(super) stream_options: Option<&'a RawValue>,
    pub(super) max_tokens: Option<&'a RawValue>,
    pub(super) max_completion_tokens: Option<&'a RawValue>,
    pub(super) n: Option<&'a RawValue>,
    twice: Option<&'static str>,
}

/// The messages.
pub(super) enum Messages {
    /// A list.
    List {
        /// How many elements it has.
        count: usize,
        /// Their size, attachments counted at a fixed size.
        chars: u64,
        /// Place and kind of the first element that is not an object.
        odd: Option<(usize, &'static str)>,
    },
    /// Something else, of this kind.
    NotAList(&'static str),
}

/// Reads the known fields of a JSON object.
pub(super) fn read(text: &str) -> Result<Fields<'_>, BadRequest> {
    let body: Body<'_> = serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
    match body {
        Body::NotAnObject(kind) => Err(not_an_object(kind)),
        Body::Object(Fields { twice: Some(field), .. }) => Err(duplicate(field)),
        Body::Object(fields) => Ok(fields),
    }
}

enum Body<'a> {
    Object(Fields<'a>),
    NotAnObject(&'static str),
}

/// The visits of everything that is neither a list nor a map. `$made` makes the answer from the kind found.
macro_rules! scalars {
    ($made:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($made("a boolean"))
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($made("a number"))
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($made("a number"))
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($made("a number"))
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($made("a string"))
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($made("null"))
        }
    };
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body<'de>;

    scalars!(Body::NotAnObject);

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Body<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Body::NotAnObject("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = map.next_key::<Key>()? {
            let (place, name) = match key {
                Key::Model => (&mut fields.model, "model"),
                Key::Tools => (&mut fields.tools, "tools"),
                Key::Stream => (&mut fields.stream, "stream"),
                Key::StreamOptions => (&mut fields.stream_options, "stream_options"),
                Key::MaxTokens => (&mut fields.max_tokens, "max_tokens"),
                Key::MaxCompletionTokens => (&mut fields.max_completion_tokens, "max_completion_tokens"),
                Key::N => (&mut fields.n, "n"),
                Key::Messages => {
                    if fields.messages.replace(map.next_value()?).is_some() {
                        fields.twice = Some("messages");
                    }
                    continue;
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if place.replace(map.next_value()?).is_some() {
                fields.twice = Some(name);
            }
        }
        Ok(Body::Object(fields))
    }
}

impl<'de> Deserialize<'de> for Body<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Model,
    Messages,
    Tools,
    Stream,
    StreamOptions,
    MaxTokens,
    MaxCompletionTokens,
    N,
    #[serde(other)]
    Other,
}

struct MessagesVisitor;

impl<'de> Visitor<'de> for MessagesVisitor {
    type Value = Messages;

    scalars!(Messages::NotAList);

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Messages, A::Error> {
        let (mut count, mut chars, mut odd) = (0, 0, None);
        while let Some(element) = seq.next_element::<&RawValue>()? {
            if odd.is_none() && !element.get().starts_with('{') {
                odd = Some((count, kind_of(element.get())));
            }
            chars += without_attachments(element.get());
            count += 1;
        }
        Ok(Messages::List { count, chars, odd })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Messages, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Messages::NotAList("an object"))
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessagesVisitor)
    }
}
