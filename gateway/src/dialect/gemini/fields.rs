//! Takes a request apart field by field. Proto-JSON allows every field in camelCase and in snake_case, also mixed in one body.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use crate::error::BadRequest;

/// An object whose fields are taken out one by one, by their camelCase names. Null is the same as absent.
#[derive(Debug)]
pub(super) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The fields of a value that must be an object. A field under both of its names is an error.
    pub(super) fn of(value: Value, path: String) -> Result<Self, BadRequest> {
        let Value::Object(given) = value else { return Err(wrong_type(path, "an object", &value)) };
        let mut map = Map::with_capacity(given.len());
        for (name, value) in given {
            if value.is_null() {
                continue;
            }
            let name = camel(name);
            if map.contains_key(&name) {
                let field = join(&path, &name);
                let message = format!("Field given twice, in camelCase and in snake_case: '{field}'.");
                return Err(bad(field, "duplicate_parameter", message));
            }
            map.insert(name, value);
        }
        Ok(Self { path, map })
    }

    /// The body itself.
    pub(super) fn of_body(body: &[u8]) -> Result<Self, BadRequest> {
        Self::of(parse(body)?, String::new())
    }

    /// The path of a field of this object.
    pub(super) fn at(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// The path of this object.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the field is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// Takes a field of any type.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name)
    }

    /// Takes a text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(self.at(name), "a string", &other)),
        }
    }

    /// Takes a boolean.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, BadRequest> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(wrong_type(self.at(name), "a boolean", &other)),
        }
    }

    /// Takes a number. Proto-JSON allows it in quotes.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<Number>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(Value::String(text)) if serde_json::from_str::<Number>(&text).is_ok() => {
                Ok(serde_json::from_str(&text).ok())
            }
            Some(other) => Err(wrong_type(self.at(name), "a number", &other)),
        }
    }

    /// Takes a whole number that is not negative.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u64>, BadRequest> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        match number.as_u64() {
            Some(count) => Ok(Some(count)),
            None => Err(wrong_type(self.at(name), "an integer that is not negative", &Value::Number(number))),
        }
    }

    /// Takes an object.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, BadRequest> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => Self::of(value, self.at(name)).map(Some),
        }
    }

    /// Takes a list; an absent one is empty.
    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Value>, BadRequest> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(wrong_type(self.at(name), "an array", &other)),
        }
    }

    /// Takes a list of objects; an absent one is empty.
    pub(super) fn objects(&mut self, name: &str) -> Result<Vec<Self>, BadRequest> {
        let path = self.at(name);
        let list = self.list(name)?;
        list.into_iter().enumerate().map(|(nth, value)| Self::of(value, join(&path, &nth.to_string()))).collect()
    }

    /// Takes a list of texts; an absent one is empty.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, BadRequest> {
        let path = self.at(name);
        let one = |(nth, value): (usize, Value)| match value {
            Value::String(text) => Ok(text),
            other => Err(wrong_type(join(&path, &nth.to_string()), "a string", &other)),
        };
        self.list(name)?.into_iter().enumerate().map(one).collect()
    }

    /// An error for the first field that was not taken.
    pub(super) fn none_left(self) -> Result<(), BadRequest> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(cannot_cross(self.at(name))),
        }
    }

    /// What was not taken, each under its path.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, Value)> {
        let path = self.path;
        self.map.into_iter().map(move |(name, value)| (join(&path, &name), value))
    }
}

/// Reads a body as JSON.
pub(super) fn parse(body: &[u8]) -> Result<Value, BadRequest> {
    serde_json::from_slice(body).map_err(|error| malformed(&error.to_string()))
}

/// `foo_bar` is `fooBar`; other names stay.
fn camel(name: String) -> String {
    if !name.trim_start_matches('_').contains('_') {
        return name;
    }
    let mut camel = String::with_capacity(name.len());
    let mut raise = false;
    for c in name.chars() {
        if c == '_' && !camel.is_empty() {
            raise = true;
        } else if raise {
            camel.push(c.to_ascii_uppercase());
            raise = false;
        } else {
            camel.push(c);
        }
    }
    camel
}

/// A path and one more step.
pub(super) fn join(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") }
}

fn bad(field: String, code: &'static str, message: String) -> BadRequest {
    let field = (!field.is_empty()).then_some(Cow::Owned(field));
    BadRequest { field, code: Some(code), message }
}

pub(super) fn malformed(why: &str) -> BadRequest {
    bad(String::new(), "invalid_json", format!("The body of the request could not be parsed as JSON: {why}."))
}

pub(super) fn missing(field: String) -> BadRequest {
    let message = format!("Missing required field: '{field}'.");
    bad(field, "missing_required_parameter", message)
}

pub(super) fn duplicate(field: &str) -> BadRequest {
    bad(field.to_owned(), "duplicate_parameter", format!("Field given twice: '{field}'."))
}

pub(super) fn wrong_type(field: String, expected: &str, found: &Value) -> BadRequest {
    wrong_kind(field, expected, kind(found))
}

pub(super) fn wrong_kind(field: String, expected: &str, found: &str) -> BadRequest {
    let name = if field.is_empty() { "the body" } else { &field };
    let message = format!("Invalid type for '{name}': expected {expected}, but got {found} instead.");
    bad(field, "invalid_type", message)
}

/// A value of the right type that cannot be meant.
pub(super) fn invalid(field: String, why: &str) -> BadRequest {
    let message = format!("Invalid '{field}': {why}.");
    bad(field, "invalid_value", message)
}

/// Something the upstream that serves the model has no word for.
pub(super) fn unsupported(field: String, why: &str) -> BadRequest {
    let message = format!("'{field}' cannot be honoured by the upstream of this model: {why}.");
    bad(field, "unsupported_parameter", message)
}

/// A field that is not known, or known to have no counterpart in another dialect.
pub(super) fn cannot_cross(field: String) -> BadRequest {
    unsupported(field, "it has no counterpart in that upstream's dialect")
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_name_the_same_field() {
        for (given, camel_case) in [
            ("inline_data", "inlineData"),
            ("inlineData", "inlineData"),
            ("parameters_json_schema", "parametersJsonSchema"),
            ("_responseJsonSchema", "_responseJsonSchema"),
            ("text", "text"),
            ("a__b_", "aB"),
            ("", ""),
        ] {
            assert_eq!(camel(given.to_owned()), camel_case, "{given}");
        }
    }

    #[test]
    fn faults_name_the_field_by_its_path() {
        let mut fields =
            Fields::of(json!({"top_k": "40", "n": -1, "s": 7, "list": ["a", 1]}), "config".into()).unwrap();
        assert_eq!(fields.count("topK").unwrap(), Some(40));
        assert_eq!(fields.count("n").unwrap_err().field.as_deref(), Some("config.n"));
        assert_eq!(fields.text("s").unwrap_err().field.as_deref(), Some("config.s"));
        assert_eq!(fields.texts("list").unwrap_err().field.as_deref(), Some("config.list.1"));
        assert!(fields.none_left().is_ok());
        let twice = Fields::of(json!({"topK": 1, "top_k": 1}), String::new()).unwrap_err();
        assert_eq!(twice.field.as_deref(), Some("topK"));
        let left = Fields::of(json!({"x": null, "y": 1}), String::new()).unwrap();
        assert_eq!(left.none_left().unwrap_err().field.as_deref(), Some("y"));
    }
}
