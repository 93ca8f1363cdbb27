//! Plain JSON Schema as Gemini's subset of OpenAPI, for models that take nothing else.

use serde_json::{Map, Value, json};

use super::MAX_DEPTH;

/// Schemas that one `$ref` after the other may open: a schema that holds itself many times must not grow without end.
const MAX_REFS: usize = 256;

/// Rewrites a JSON Schema: local references are put in place, `const` becomes an `enum`, a type list with null becomes `nullable`,
/// `oneOf` becomes `anyOf`, `allOf` is merged, values of an `enum` become texts. A reference into itself becomes an open object, and
/// keywords the subset lacks (bounds it cannot say, `not`, `if`, `additionalProperties`) are left out: they only bind the model.
pub(in super::super) fn to_openapi(schema: &Value) -> Value {
    let mut cleaner = Cleaner { root: schema, open: Vec::new(), refs: 0 };
    cleaner.clean(schema, 0)
}

struct Cleaner<'a> {
    root: &'a Value,
    /// The references being put in place.
    open: Vec<&'a str>,
    refs: usize,
}

/// Keywords that mean the same in both.
const KEPT: &[&str] = &[
    "title",
    "description",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "pattern",
    "default",
    "required",
    "propertyOrdering",
];

/// Formats the subset knows.
const FORMATS: &[&str] = &["float", "double", "int32", "int64", "date-time", "date", "time", "duration", "enum"];

impl<'a> Cleaner<'a> {
    fn clean(&mut self, schema: &'a Value, depth: usize) -> Value {
        let Value::Object(given) = schema else { return json!({}) };
        if depth > MAX_DEPTH {
            return json!({"type": "OBJECT"});
        }
        if let Some(Value::String(reference)) = given.get("$ref") {
            return self.referenced(reference, given, depth);
        }
        let mut out = Map::new();
        for (name, value) in given {
            match (name.as_str(), value) {
                ("type", kind) => set_type(&mut out, kind),
                ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                    out.insert(name.clone(), value.clone());
                }
                ("enum", Value::Array(values)) => set_enum(&mut out, values),
                ("const", value) => set_enum(&mut out, std::slice::from_ref(value)),
                ("items", inner @ Value::Object(_)) => {
                    let inner = self.clean(inner, depth + 1);
                    out.insert(name.clone(), inner);
                }
                ("properties", Value::Object(properties)) => {
                    let inner = properties.iter().map(|(name, inner)| (name.clone(), self.clean(inner, depth + 1)));
                    let inner: Map<String, Value> = inner.collect();
                    out.insert(name.clone(), inner.into());
                }
                ("anyOf" | "oneOf", Value::Array(options)) => self.any_of(&mut out, options, depth),
                ("allOf", Value::Array(all)) => {
                    for inner in all {
                        merge(&mut out, self.clean(inner, depth + 1));
                    }
                }
                (name, value) if KEPT.contains(&name) => _ = out.insert(name.to_owned(), value.clone()),
                _ => {}
            }
        }
        finished(out)
    }

    /// What a local reference means, with the words that stand beside it.
    fn referenced(&mut self, reference: &'a str, beside: &'a Map<String, Value>, depth: usize) -> Value {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target.filter(|_| !self.open.contains(&reference) && self.refs < MAX_REFS) else {
            return json!({"type": "OBJECT"});
        };
        self.refs += 1;
        self.open.push(reference);
        let mut out = self.clean(target, depth + 1);
        self.open.pop();
        if let (Some(description), Value::Object(out)) = (beside.get("description"), &mut out) {
            out.insert("description".into(), description.clone());
        }
        out
    }

    /// Alternatives; one that is null makes the rest nullable, and one that is left alone stands for itself.
    fn any_of(&mut self, out: &mut Map<String, Value>, options: &'a [Value], depth: usize) {
        let is_null = |option: &Value| option.get("type").is_some_and(|kind| kind == "null");
        let mut kept: Vec<Value> =
            options.iter().filter(|option| !is_null(option)).map(|option| self.clean(option, depth + 1)).collect();
        if options.iter().any(is_null) {
            out.insert("nullable".into(), true.into());
        }
        match kept.len() {
            0 => {}
            1 => merge(out, kept.remove(0)),
            _ => _ = out.insert("anyOf".into(), kept.into()),
        }
    }
}

fn set_type(out: &mut Map<String, Value>, kind: &Value) {
    let upper = |kind: &str| Value::from(kind.to_ascii_uppercase());
    match kind {
        Value::String(kind) => _ = out.insert("type".into(), upper(kind)),
        Value::Array(kinds) => {
            let words = kinds.iter().filter_map(Value::as_str);
            let real: Vec<&str> = words.clone().filter(|kind| *kind != "null").collect();
            if words.count() > real.len() {
                out.insert("nullable".into(), true.into());
            }
            match real.as_slice() {
                [] => {}
                [only] => _ = out.insert("type".into(), upper(only)),
                several => {
                    let options: Vec<Value> = several.iter().map(|kind| json!({"type": upper(kind)})).collect();
                    out.insert("anyOf".into(), options.into());
                }
            }
        }
        _ => {}
    }
}

/// Values are texts in the subset.
fn set_enum(out: &mut Map<String, Value>, values: &[Value]) {
    let texts = values.iter().filter(|value| !value.is_null()).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let texts: Vec<String> = texts.collect();
    if values.iter().any(Value::is_null) {
        out.insert("nullable".into(), true.into());
    }
    if !texts.is_empty() {
        out.insert("enum".into(), texts.into());
    }
}

/// Adds what another schema asks for; properties and required fields are joined.
fn merge(out: &mut Map<String, Value>, other: Value) {
    let Value::Object(other) = other else { return };
    for (name, value) in other {
        match (out.get_mut(&name), value) {
            (Some(Value::Object(mine)), Value::Object(theirs)) => mine.extend(theirs),
            (Some(Value::Array(mine)), Value::Array(theirs)) if name == "required" => {
                for field in theirs {
                    if !mine.contains(&field) {
                        mine.push(field);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => _ = out.insert(name, value),
        }
    }
}

/// What has to agree once all keywords are seen.
fn finished(mut out: Map<String, Value>) -> Value {
    if out.contains_key("enum") {
        out.insert("type".into(), "STRING".into());
        out.insert("format".into(), "enum".into());
    } else if out.get("format").is_some_and(|format| format == "enum") {
        out.remove("format");
    }
    if out.contains_key("properties") && !out.contains_key("type") {
        out.insert("type".into(), "OBJECT".into());
    }
    if let Some(Value::Object(properties)) = out.get("properties") {
        let known: Vec<String> = properties.keys().cloned().collect();
        if let Some(Value::Array(required)) = out.get_mut("required") {
            required.retain(|field| field.as_str().is_some_and(|field| known.iter().any(|name| name == field)));
        }
    } else {
        out.remove("required");
    }
    if out.get("required").is_some_and(|required| required.as_array().is_none_or(Vec::is_empty)) {
        out.remove("required");
    }
    Value::Object(out)
}
