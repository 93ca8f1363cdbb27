//! What OpenAI asks of a schema.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// The schema of a function's arguments: always of an object.
pub(super) fn of_arguments(schema: &Value) -> Cow<'_, Value> {
    match schema {
        Value::Object(fields) if fields.get("type").is_some_and(|kind| kind == "object") => {
            if fields.contains_key("properties") {
                return Cow::Borrowed(schema);
            }
            let mut fields = fields.clone();
            fields.insert("properties".into(), json!({}));
            Cow::Owned(Value::Object(fields))
        }
        Value::Object(fields) if !fields.is_empty() => {
            let mut fields = fields.clone();
            fields.entry("type").or_insert("object".into());
            Cow::Owned(Value::Object(fields))
        }
        _ => Cow::Owned(json!({"type": "object", "properties": {}})),
    }
}

/// Words that a binding schema must not hold.
const NOT_STRICT: &[&str] = &[
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "minLength",
    "maxLength",
    "uniqueItems",
    "contains",
    "prefixItems",
    "default",
];

/// Whether OpenAI would take the schema as binding: every object says all its properties, requires them, and forbids others.
pub(super) fn may_be_strict(schema: &Value) -> bool {
    schema["type"] == "object" && is_complete(schema)
}

fn is_complete(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return false };
    if NOT_STRICT.iter().any(|word| fields.contains_key(*word)) {
        return false;
    }
    if fields.get("type").is_some_and(|kind| kind == "object") || fields.contains_key("properties") {
        let none = Map::new();
        let properties = fields.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required = fields.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let all_required = properties.keys().all(|name| required.iter().any(|required| required == name));
        let closed = fields.get("additionalProperties").is_some_and(|more| *more == false);
        if !all_required || !closed || !properties.values().all(is_complete) {
            return false;
        }
    }
    let children = |word: &str| match fields.get(word) {
        None => true,
        Some(Value::Object(map)) if matches!(word, "$defs" | "definitions") => map.values().all(is_complete),
        Some(Value::Array(list)) => list.iter().all(is_complete),
        Some(child) => is_complete(child),
    };
    ["items", "anyOf", "$defs", "definitions"].into_iter().all(children)
}
