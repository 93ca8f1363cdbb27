//! Counts what was said in output items of any kind.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::super::openai::json::Chars;

/// The characters of the texts, names and arguments in output items, wherever they stand. Ids, kinds and opaque texts do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Said(pub(super) u64);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    #[serde(alias = "refusal", alias = "arguments", alias = "name", alias = "input")]
    Text,
    #[serde(other)]
    Other,
}

struct SaidVisitor;

impl<'de> Visitor<'de> for SaidVisitor {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Said, E> {
        Ok(Said(0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Said, E> {
        Ok(Said(0))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Said, E> {
        Ok(Said(0))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Said, E> {
        Ok(Said(0))
    }

    fn visit_unit<E>(self) -> Result<Said, E> {
        Ok(Said(0))
    }

    fn visit_str<E>(self, _: &str) -> Result<Said, E> {
        Ok(Said(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Said, A::Error> {
        let mut sum = 0;
        while let Some(Said(chars)) = seq.next_element()? {
            sum += chars;
        }
        Ok(Said(sum))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Said, A::Error> {
        let mut sum = 0;
        while let Some(key) = map.next_key::<Key>()? {
            sum += match key {
                Key::Text => map.next_value::<Chars>()?.0,
                Key::Other => map.next_value::<Said>()?.0,
            };
        }
        Ok(Said(sum))
    }
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SaidVisitor)
    }
}
