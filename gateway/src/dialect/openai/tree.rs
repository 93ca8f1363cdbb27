//! Takes JSON objects apart field by field, and says exactly which field is wrong. What is not taken is not lost.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::request::check::{bad, malformed, missing, not_an_object, wrong_type};
use crate::error::BadRequest;

/// Where in a body something is. Costs nothing until it is said.
#[derive(Debug, Clone, Copy)]
pub(in crate::dialect) struct At<'a> {
    outer: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Body,
    Field(&'a str),
    Nth(usize),
}

/// A field that is left out on purpose, and why that does no harm.
pub type Dropped = (&'static str, &'static str);

/// An object being taken apart.
#[derive(Debug)]
pub(in crate::dialect) struct Object<'a> {
    at: &'a At<'a>,
    fields: Map<String, Value>,
}

impl At<'static> {
    /// The body itself.
    pub(in crate::dialect) const BODY: Self = Self { outer: None, step: Step::Body };
}

impl<'a> At<'a> {
    /// A field of the object here.
    pub(in crate::dialect) fn field(&'a self, name: &'a str) -> Self {
        Self { outer: Some(self), step: Step::Field(name) }
    }

    /// An element of the list here.
    pub(in crate::dialect) fn nth(&'a self, nth: usize) -> Self {
        Self { outer: Some(self), step: Step::Nth(nth) }
    }

    /// In words: `messages.2.content.0`.
    pub(in crate::dialect) fn path(&self) -> String {
        let mut path = self.outer.map(At::path).unwrap_or_default();
        if !path.is_empty() && !matches!(self.step, Step::Body) {
            path.push('.');
        }
        match self.step {
            Step::Body => {}
            Step::Field(name) => path.push_str(name),
            // Writing to a text cannot fail.
            Step::Nth(nth) => _ = write!(path, "{nth}"),
        }
        path
    }

    /// What stands here is of the wrong type.
    pub(in crate::dialect) fn wrong(&self, expected: &str, found: &Value) -> BadRequest {
        wrong_type(self.path(), expected, kind(found))
    }

    /// What stands here is of the right type but no good.
    pub(in crate::dialect) fn invalid(&self, why: &str) -> BadRequest {
        let path = self.path();
        let message = format!("Invalid '{path}': {why}.");
        bad(path, "invalid_value", message)
    }

    /// What stands here cannot be said to the upstream that serves the model.
    pub(in crate::dialect) fn unsupported(&self, why: &str) -> BadRequest {
        unsupported(self.path(), why)
    }

    /// Something must stand here and does not.
    pub(in crate::dialect) fn missing(&self) -> BadRequest {
        missing(self.path())
    }

    pub(in crate::dialect) fn text(&self, value: Value) -> Result<String, BadRequest> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(self.wrong("a string", &other)),
        }
    }

    pub(in crate::dialect) fn list(&self, value: Value) -> Result<Vec<Value>, BadRequest> {
        match value {
            Value::Array(list) => Ok(list),
            other => Err(self.wrong("an array", &other)),
        }
    }
}

/// A field that cannot be said to the upstream that serves the model.
pub(in crate::dialect) fn unsupported(field: impl Into<Cow<'static, str>>, why: &str) -> BadRequest {
    let field = field.into();
    let message = format!("Unsupported parameter: '{field}' cannot be passed on to the upstream of this model: {why}.");
    bad(field, "unsupported_parameter", message)
}

impl<'a> Object<'a> {
    /// The object that stands there.
    pub(in crate::dialect) fn new(value: Value, at: &'a At<'a>) -> Result<Self, BadRequest> {
        match value {
            Value::Object(fields) => Ok(Self { at, fields }),
            other => Err(at.wrong("an object", &other)),
        }
    }

    /// The object a body is.
    pub(in crate::dialect) fn body(body: &[u8]) -> Result<Self, BadRequest> {
        let value = serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))?;
        match value {
            Value::Object(fields) => Ok(Self { at: const { &At::BODY }, fields }),
            other => Err(not_an_object(kind(&other))),
        }
    }

    /// Takes a field; null is as good as absent.
    pub(in crate::dialect) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name).filter(|value| !value.is_null())
    }

    pub(in crate::dialect) fn need(&mut self, name: &str) -> Result<Value, BadRequest> {
        self.take(name).ok_or_else(|| self.at.field(name).missing())
    }

    pub(in crate::dialect) fn text(&mut self, name: &str) -> Result<Option<String>, BadRequest> {
        self.take(name).map(|value| self.at.field(name).text(value)).transpose()
    }

    pub(in crate::dialect) fn need_text(&mut self, name: &str) -> Result<String, BadRequest> {
        let value = self.need(name)?;
        self.at.field(name).text(value)
    }

    pub(in crate::dialect) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, BadRequest> {
        self.take(name).map(|value| self.at.field(name).list(value)).transpose()
    }

    pub(in crate::dialect) fn number(&mut self, name: &str) -> Result<Option<Number>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(self.at.field(name).wrong("a number", &other)),
        }
    }

    pub(in crate::dialect) fn count(&mut self, name: &str) -> Result<Option<u64>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) => Ok(Some(count)),
                None => Err(self.at.field(name).wrong("a whole number that is not negative", &value)),
            },
        }
    }

    pub(in crate::dialect) fn flag(&mut self, name: &str) -> Result<Option<bool>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.at.field(name).wrong("a boolean", &other)),
        }
    }

    /// Leaves out a field that says what holds anyway.
    pub(in crate::dialect) fn ignore_if(&mut self, name: &str, is_default: impl FnOnce(&Value) -> bool) {
        if self.fields.get(name).is_some_and(is_default) {
            self.fields.shift_remove(name);
        }
    }

    /// What was not taken, hints aside.
    pub(in crate::dialect) fn rest(mut self, hints: &[Dropped]) -> Map<String, Value> {
        self.fields.retain(|name, value| !value.is_null() && !hints.iter().any(|(hint, _)| hint == name));
        self.fields
    }

    /// Nothing but hints may be left.
    pub(in crate::dialect) fn close(self, hints: &[Dropped]) -> Result<(), BadRequest> {
        let at = self.at;
        match self.rest(hints).keys().next() {
            None => Ok(()),
            Some(name) => Err(at.field(name).unsupported("it has no counterpart there")),
        }
    }
}

/// The kind of a value, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
