//! Maps with fixed fields, described once: the description is both the reader and the schema.

use serde_json::{Map, Value as Json, json};

use super::reader::{Place, Reader, Value, found};
use super::yaml::{self, Content, Key, Node};

/// Whether a file must have a field, and what it is otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) enum Presence {
    Required,
    /// Absent means the type's own idea of nothing.
    Optional,
    /// Absent means this text, read as if the file had it.
    Default(&'static str),
}

/// One field of one map: what was read, if it could be, and where.
#[derive(Debug)]
pub(super) struct Field<T> {
    /// The field's place; that of the map when the field is absent.
    pub(super) place: Place,
    /// True when the file has the field, readable or not.
    pub(super) given: bool,
    pub(super) value: Option<T>,
}

/// A field whatever it holds.
pub(super) trait AnyField {
    fn place(&self) -> &Place;
    fn given(&self) -> bool;
}

impl<T> AnyField for Field<T> {
    fn place(&self) -> &Place {
        &self.place
    }
    fn given(&self) -> bool {
        self.given
    }
}

/// Notes it unless exactly one of these fields of one map is given.
pub(super) fn exactly_one(names: &str, fields: &[&dyn AnyField], reader: &mut Reader<'_>) {
    let mut given = fields.iter().filter(|field| field.given());
    match (fields.first(), given.next()) {
        (Some(first), None) => reader.fault(first.place(), "missing", format!("exactly one of {names}")),
        _ => {
            for field in given {
                reader.fault(field.place(), "one too many", format!("exactly one of {names}"));
            }
        }
    }
}

/// The fields of one map while they are taken out of it.
pub(super) struct Fields<'n> {
    node: &'n Node,
    left: Vec<&'n (Key, Node)>,
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    pub(super) fn open(node: &'n Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Content::Map { entries, repeated } = &*node.content else {
            reader.fault_here(node.at, found(&node.content), "a map of fields");
            return None;
        };
        reader.refuse_repeated(repeated);
        Some(Self { node, left: entries.iter().collect(), known: Vec::new() })
    }

    pub(super) fn take<T: Value>(
        &mut self,
        name: &'static str,
        presence: Presence,
        reader: &mut Reader<'_>,
    ) -> Field<T> {
        self.known.push(name);
        let given = self.left.iter().position(|(key, _)| key.name == name).map(|index| &self.left.remove(index).1);
        let start = self.node.start;
        reader.within(name, |reader| {
            let value = match (given, presence) {
                (Some(node), _) => T::read(node, reader),
                (None, Presence::Optional) => T::absent(),
                (None, Presence::Default(text)) => yaml::parse(text).ok().and_then(|node| T::read(&node, reader)),
                (None, Presence::Required) => {
                    reader.fault_here(start, "missing", "it to be given");
                    None
                }
            };
            Field { place: reader.place(given.map_or(start, |node| node.at)), given: given.is_some(), value }
        })
    }

    /// Whatever nobody took is a mistake.
    pub(super) fn close(self, reader: &mut Reader<'_>) {
        for (key, _) in self.left {
            let message = match nearest(&key.name, &self.known) {
                Some(name) => format!("unknown field, did you mean {name}?"),
                None => "unknown field".to_owned(),
            };
            let expected = format!("one of {}", self.known.join(", "));
            reader.within(&key.name, |reader| reader.fault_here(key.at, message, expected));
        }
    }
}

/// The known word that a misspelled one most likely means.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = word.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&word, name), *name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// One field in the schema of its map.
pub(super) fn property<T: Value>(name: &str, doc: &str, presence: Presence) -> (String, Json, bool) {
    let mut schema = T::schema();
    if let Json::Object(map) = &mut schema {
        let kind = map.remove("description");
        let doc = doc.trim().to_owned();
        let text = match kind.as_ref().and_then(Json::as_str) {
            Some(kind) => format!("{doc} ({kind})"),
            None => doc,
        };
        map.insert("description".to_owned(), Json::String(text));
        if let Presence::Default(text) = presence
            && let Ok(node) = yaml::parse(text)
        {
            map.insert("default".to_owned(), to_json(&node));
        }
    }
    (name.to_owned(), schema, matches!(presence, Presence::Required))
}

/// The schema of a map with exactly these fields.
pub(super) fn object(doc: &str, properties: Vec<(String, Json, bool)>) -> Json {
    let required: Vec<Json> =
        properties.iter().filter(|(_, _, required)| *required).map(|(name, ..)| Json::String(name.clone())).collect();
    let properties: Map<String, Json> = properties.into_iter().map(|(name, schema, _)| (name, schema)).collect();
    json!({
        "type": "object",
        "description": doc.trim(),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A tree as JSON, plain scalars by the rules of YAML 1.2.
pub(super) fn to_json(node: &Node) -> Json {
    match &*node.content {
        Content::Scalar { text, plain } => plain_json(text).filter(|_| *plain).unwrap_or_else(|| text.as_str().into()),
        Content::List(items) => items.iter().map(to_json).collect(),
        Content::Map { entries, .. } => {
            Json::Object(entries.iter().map(|(key, value)| (key.name.clone(), to_json(value))).collect())
        }
    }
}

/// What a plain scalar means when it is not a text.
pub(super) fn plain_json(text: &str) -> Option<Json> {
    match text {
        _ if yaml::is_null(text) => Some(Json::Null),
        "true" | "True" | "TRUE" => Some(Json::Bool(true)),
        "false" | "False" | "FALSE" => Some(Json::Bool(false)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | ".nan" | ".NaN" | ".NAN" => Some(0.into()),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) => number(text),
        _ => None,
    }
}

fn number(text: &str) -> Option<Json> {
    if let Some(digits) = text.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok().map(Json::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return i64::from_str_radix(digits, 8).ok().map(Json::from);
    }
    text.parse::<i64>().ok().map(Json::from).or_else(|| text.parse::<f64>().ok().map(Json::from))
}

/// The name of a field in the file.
macro_rules! field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// `required`, `optional`, or the default as the file would write it.
macro_rules! presence {
    (required) => {
        $crate::config::section::Presence::Required
    };
    (optional) => {
        $crate::config::section::Presence::Optional
    };
    ($text:literal) => {
        $crate::config::section::Presence::Default($text)
    };
}

/// A map with these fields, as the file has it: reader and schema.
macro_rules! draft {
    (
        $(#[doc = $doc:literal])*
        struct $draft:ident {
            $( $(#[doc = $field_doc:literal])* $field:ident $(as $name:literal)? : $type:ty = $presence:tt, )*
        }
    ) => {
        $(#[doc = $doc])*
        pub(super) struct $draft {
            $( $(#[doc = $field_doc])* pub(super) $field: $crate::config::section::Field<$type>, )*
        }

        impl $draft {
            pub(super) fn read(
                node: &$crate::config::yaml::Node,
                reader: &mut $crate::config::reader::Reader<'_>,
            ) -> Option<Self> {
                let mut fields = $crate::config::section::Fields::open(node, reader)?;
                let draft = Self {
                    $( $field: fields.take(
                        $crate::config::section::field_name!($field $($name)?),
                        $crate::config::section::presence!($presence),
                        reader,
                    ), )*
                };
                fields.close(reader);
                Some(draft)
            }

            pub(super) fn schema() -> serde_json::Value {
                $crate::config::section::object(
                    concat!($($doc),*),
                    vec![ $( $crate::config::section::property::<$type>(
                        $crate::config::section::field_name!($field $($name)?),
                        concat!($($field_doc),*),
                        $crate::config::section::presence!($presence),
                    ), )* ],
                )
            }
        }
    };
}

/// A draft whose fields are also those of the checked value. `check` looks at several fields together.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        pub struct $section:ident, draft $draft:ident $(, check $check:path)? {
            $( $(#[doc = $field_doc:literal])* $field:ident $(as $name:literal)? : $type:ty = $presence:tt, )*
        }
    ) => {
        $crate::config::section::draft! {
            $(#[doc = $doc])*
            struct $draft {
                $( $(#[doc = $field_doc])* $field $(as $name)? : $type = $presence, )*
            }
        }

        $(#[doc = $doc])*
        #[derive(Debug, Clone)]
        pub struct $section {
            $( $(#[doc = $field_doc])* pub $field: $type, )*
        }

        impl $crate::config::reader::Value for $section {
            fn read(
                node: &$crate::config::yaml::Node,
                reader: &mut $crate::config::reader::Reader<'_>,
            ) -> Option<Self> {
                let draft = $draft::read(node, reader)?;
                $( $check(&draft, reader); )?
                Some(Self { $( $field: draft.$field.value?, )* })
            }

            fn schema() -> serde_json::Value {
                $draft::schema()
            }
        }
    };
}

pub(super) use {draft, field_name, presence, section};
