//! Turns nodes into checked values. Notes every fault and goes on, so that one pass finds them all.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::Path;
use std::str::FromStr;

use indexmap::IndexMap;
use serde_json::{Value as Json, json};

use super::env::{self, Unfilled};
use super::fault::{Fault, Notice};
use super::names::{Kind, Names, ProviderNames};
use super::section::nearest;
use super::yaml::{Content, Key, Node, Position, is_null};

/// Something a file can hold: how to read it, and the schema that says the same. `read` has noted a fault whenever it answers
/// `None`; a list or map answers what could be read of it.
pub(super) trait Value: Sized {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;
    fn schema() -> Json;
    /// What an optional field is when the file does not have it.
    fn absent() -> Option<Self> {
        None
    }
}

/// A place in the file, with the path of the field that stands there.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) at: Position,
    pub(super) field: String,
}

/// A value that still knows its place, for checks that need more than the value.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
    node: Node,
}

/// A text of the file, variables put in.
pub(super) struct Text {
    pub(super) value: String,
    pub(super) plain: bool,
    pub(super) from_env: bool,
}

impl Text {
    /// What may be shown of it in a fault: nothing that came from the environment.
    pub(super) fn shown(&self) -> String {
        if self.from_env {
            return "the value from the environment does not fit".to_owned();
        }
        let short: String = self.value.chars().take(60).collect();
        format!("found {short:?}")
    }
}

/// The state of one pass over one file.
pub(super) struct Reader<'a> {
    file: &'a str,
    /// Where relative paths begin: the folder of the file.
    pub(super) folder: &'a Path,
    env: &'a dyn Fn(&str) -> Option<String>,
    /// Every name the file declares, gathered before the pass.
    pub(super) names: Names,
    path: String,
    /// Ids and secrets already taken, each with what it must be unique in.
    taken: HashSet<String>,
    /// Texts that came out of the environment: they are never shown.
    hidden: HashSet<String>,
    pub(super) faults: Vec<Fault>,
    pub(super) notices: Vec<Notice>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        file: &'a str,
        folder: &'a Path,
        env: &'a dyn Fn(&str) -> Option<String>,
        mut names: Names,
    ) -> Self {
        let hidden = std::mem::take(&mut names.from_env);
        Self {
            file,
            folder,
            env,
            names,
            path: String::new(),
            taken: HashSet::new(),
            hidden,
            faults: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Reads below a field of the current map.
    pub(super) fn within<T>(&mut self, field: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 && !field.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(field);
        let answer = read(self);
        self.path.truncate(length);
        answer
    }

    /// The place of what is being read.
    pub(super) fn place(&self, at: Position) -> Place {
        Place { at, field: self.path.clone() }
    }

    pub(super) fn fault(&mut self, place: &Place, message: impl Into<String>, expected: impl Into<String>) {
        self.faults.push(Fault {
            file: self.file.to_owned(),
            line: place.at.line,
            column: place.at.column,
            field: place.field.clone(),
            message: message.into(),
            expected: expected.into(),
        });
    }

    /// A fault of the value that is being read.
    pub(super) fn fault_here(&mut self, at: Position, message: impl Into<String>, expected: impl Into<String>) {
        let place = self.place(at);
        self.fault(&place, message, expected);
    }

    pub(super) fn notice(&mut self, place: &Place, message: impl Into<String>) {
        self.notices.push(Notice {
            file: self.file.to_owned(),
            line: place.at.line,
            column: place.at.column,
            field: place.field.clone(),
            message: message.into(),
        });
    }

    /// The text of a scalar; a list, a map, nothing, and an unset variable are faults.
    pub(super) fn text(&mut self, node: &Node, expected: &str) -> Option<Text> {
        let (raw, plain) = match &*node.content {
            Content::Scalar { text, plain } if !(*plain && is_null(text)) => (text, *plain),
            other => {
                self.fault_here(node.at, found(other), expected);
                return None;
            }
        };
        match env::fill(raw, self.env) {
            Ok(filled) => {
                if filled.from_env {
                    self.hidden.insert(filled.text.clone());
                }
                Some(Text { value: filled.text, plain, from_env: filled.from_env })
            }
            Err(Unfilled::Unset(name)) => {
                let message = format!("the environment variable {name} is not set");
                self.fault_here(node.at, message, format!("it to be set, or a default as in ${{{name}:-default}}"));
                None
            }
            Err(Unfilled::Malformed) => {
                self.fault_here(node.at, "a `${` that names no variable", "${NAME} or ${NAME:-default}");
                None
            }
        }
    }

    /// The names inside a provider.
    pub(super) fn provider_names(&self, provider: &Node) -> ProviderNames {
        ProviderNames::gather(provider, self.env)
    }

    /// A name as faults may show it.
    pub(super) fn shown(&self, name: &str) -> String {
        if self.hidden.contains(name) { "the value from the environment".to_owned() } else { format!("{name:?}") }
    }

    /// Notes a name that nothing in the file bears.
    pub(super) fn must_exist(&mut self, kind: Kind, name: &str, place: &Place) {
        if self.names.has(kind, name) {
            return;
        }
        let what = kind.as_str();
        let known = self.names.all(kind);
        let hint = match nearest(name, &known).filter(|hint| !self.hidden.contains(*hint)) {
            Some(hint) => format!(", did you mean {hint}?"),
            None => String::new(),
        };
        let message = if kind == Kind::Model && self.names.aliases.contains(name) {
            format!("{} is an alias", self.shown(name))
        } else {
            format!("no {what} is named {}{hint}", self.shown(name))
        };
        self.fault(place, message, format!("a {what} of this file"));
    }

    /// Notes a name or secret that was already given; `scope` says in what it must be unique.
    pub(super) fn must_be_new(&mut self, scope: &str, name: &str, place: &Place) {
        if !self.taken.insert(format!("{scope}:{name}")) {
            self.fault(place, "already given above", format!("a {scope} that no other has"));
        }
    }

    /// Notes names given twice in one map.
    pub(super) fn refuse_repeated(&mut self, repeated: &[Key]) {
        for key in repeated {
            self.within(&key.name, |reader| reader.fault_here(key.at, "given a second time", "one value"));
        }
    }
}

/// Says what kind of value stands where another was wanted.
pub(super) fn found(content: &Content) -> &'static str {
    match content {
        Content::Scalar { text, plain: true } if is_null(text) => "has no value",
        Content::Scalar { .. } => "found a single value",
        Content::List(_) => "found a list",
        Content::Map { .. } => "found a map",
    }
}

impl<T> At<T> {
    /// The place of a field in the map that stands here.
    pub(super) fn place_of(&self, field: &str) -> Place {
        let at = self.node.get(field).map_or(self.node.start, |node| node.at);
        Place { at, field: format!("{}.{field}", self.place.field) }
    }
}

impl<T: Value> Value for Option<T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Some)
    }
    fn schema() -> Json {
        T::schema()
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Value> Value for At<T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let place = reader.place(node.at);
        T::read(node, reader).map(|value| Self { value, place, node: node.clone() })
    }
    fn schema() -> Json {
        T::schema()
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Content::List(items) = &*node.content else {
            reader.fault_here(node.at, found(&node.content), "a list");
            return None;
        };
        let mut values = Self::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            values.extend(reader.within(&format!("[{index}]"), |reader| T::read(item, reader)));
        }
        Some(values)
    }
    fn schema() -> Json {
        json!({"type": "array", "items": T::schema()})
    }
    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl<K: FromStr + Hash + Eq + super::scalar::Scalar, T: Value> Value for IndexMap<K, T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Content::Map { entries, repeated } = &*node.content else {
            reader.fault_here(node.at, found(&node.content), "a map of names to values");
            return None;
        };
        reader.refuse_repeated(repeated);
        let mut values = Self::with_capacity(entries.len());
        for (key, value) in entries {
            reader.within(&key.name, |reader| {
                let name = K::from_str(&key.name).ok();
                if name.is_none() {
                    reader.fault_here(key.at, format!("{:?} is no usable name", key.name), K::expected());
                }
                if let (Some(value), Some(name)) = (T::read(value, reader), name) {
                    values.insert(name, value);
                }
            });
        }
        Some(values)
    }
    fn schema() -> Json {
        json!({"type": "object", "propertyNames": K::name_schema(), "additionalProperties": T::schema()})
    }
    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}
