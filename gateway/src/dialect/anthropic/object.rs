//! Takes JSON objects apart, field by field, and says where in the request a fault lies.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Number, Value};

use crate::error::BadRequest;

/// A place in a request. Written as a dotted path: `messages.2.content.0`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    /// The body.
    Root,
    /// A field of an object.
    Field(&'a Path<'a>, &'a str),
    /// An element of a list.
    Element(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dotted = |f: &mut fmt::Formatter<'_>, parent: &Path<'_>| match parent {
            Path::Root => Ok(()),
            parent => write!(f, "{parent}."),
        };
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => dotted(f, parent).and_then(|()| f.write_str(name)),
            Self::Element(parent, at) => dotted(f, parent).and_then(|()| write!(f, "{at}")),
        }
    }
}

/// A fault of a field, in the words of the dialect: the field, then what is wrong.
pub(super) fn bad(field: impl Into<Cow<'static, str>>, code: &'static str, why: &str) -> BadRequest {
    let field = field.into();
    let message = format!("{field}: {why}");
    BadRequest { field: Some(field), code: Some(code), message }
}

/// The body as a whole is no request.
pub(super) fn malformed(why: &str) -> BadRequest {
    let message = format!("The request body is not valid JSON: {why}.");
    BadRequest { field: None, code: Some("invalid_json"), message }
}

impl Path<'_> {
    /// The field is not there.
    pub(super) fn missing(self) -> BadRequest {
        bad(self.to_string(), "missing_required_parameter", "Field required")
    }

    /// The field is of another type.
    pub(super) fn wrong_type(self, expected: &str, found: &Value) -> BadRequest {
        bad(self.to_string(), "invalid_type", &format!("Input should be {expected}, but is {}", kind_of(found)))
    }

    /// The field's value is wrong.
    pub(super) fn invalid(self, why: &str) -> BadRequest {
        bad(self.to_string(), "invalid_value", why)
    }

    /// The field is right but means nothing to the upstream that has to answer.
    pub(super) fn unsupported(self, why: &str) -> BadRequest {
        bad(self.to_string(), "unsupported_parameter", why)
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An object whose fields are taken one after the other. `null` is absent everywhere.
#[derive(Debug)]
pub(super) struct Object<'p> {
    fields: Map<String, Value>,
    path: Path<'p>,
}

impl<'p> Object<'p> {
    /// The object at a place.
    pub(super) fn of(value: Value, path: Path<'p>) -> Result<Self, BadRequest> {
        match value {
            Value::Object(fields) => Ok(Self { fields, path }),
            other => Err(path.wrong_type("an object", &other)),
        }
    }

    /// The place of a field.
    pub(super) fn at<'n>(&'n self, name: &'n str) -> Path<'n> {
        Path::Field(&self.path, name)
    }

    /// A field of any type.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name).filter(|value| !value.is_null())
    }

    /// A field of any type that must be there.
    pub(super) fn need(&mut self, name: &str) -> Result<Value, BadRequest> {
        self.take(name).ok_or_else(|| self.at(name).missing())
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.at(name).wrong_type("a string", &other)),
        }
    }

    /// A text that must be there.
    pub(super) fn need_text(&mut self, name: &str) -> Result<String, BadRequest> {
        self.text(name)?.ok_or_else(|| self.at(name).missing())
    }

    /// A boolean.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.at(name).wrong_type("a boolean", &other)),
        }
    }

    /// A number, its text kept.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<Number>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(self.at(name).wrong_type("a number", &other)),
        }
    }

    /// A whole number that is not negative.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u64>, BadRequest> {
        let number = self.number(name)?;
        let wrong = || self.at(name).invalid("Input should be a whole number that is not negative");
        number.map(|number| number.as_u64().ok_or_else(wrong)).transpose()
    }

    /// A list.
    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.at(name).wrong_type("an array", &other)),
        }
    }

    /// Leaves out fields that are harmless hints.
    pub(super) fn leave_out(&mut self, names: &[&str]) {
        for name in names {
            self.fields.shift_remove(*name);
        }
    }

    /// What was not taken. Nulls are nothing.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Nothing may be left: what is not known cannot be translated.
    pub(super) fn end(self) -> Result<(), BadRequest> {
        let path = self.path;
        match self.rest().keys().next() {
            None => Ok(()),
            Some(name) => Err(Path::Field(&path, name).unsupported(UNTRANSLATED)),
        }
    }
}

/// Why a field or block that only Anthropic knows is refused.
pub(super) const UNTRANSLATED: &str = "not supported by the upstream that serves this model";
