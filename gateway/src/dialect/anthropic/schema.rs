//! JSON Schemas as this dialect takes them.

use serde_json::{Map, Value, json};

/// The formats of texts that can be enforced.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/// Keywords that stand as they are.
const PLAIN: &[&str] = &["$ref", "type", "title", "description", "enum", "const", "default", "required", "nullable"];
/// Keywords that hold schemas by name.
const BY_NAME: &[&str] = &["$defs", "definitions", "properties"];
/// Keywords that hold lists of schemas.
const LISTS: &[&str] = &["anyOf", "allOf", "prefixItems"];
/// Keywords about the schema itself.
const MUTE: &[&str] = &["$schema", "$id", "$comment", "additionalProperties"];

/// The schema of a function's arguments: always of an object.
pub(super) fn of_arguments(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return json!({"type": "object", "properties": {}}) };
    let mut schema = schema.clone();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        schema.insert("type".into(), "object".into());
    }
    Value::Object(schema)
}

/// The schema of an answer. Every object is closed, `oneOf` becomes `anyOf`, and what cannot be enforced is told in the description,
/// as the vendor's own clients do it. Only schemas are changed, never the values in them.
pub(super) fn of_answer(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut clean = Map::new();
    let mut told: Vec<String> = Vec::new();
    for (key, value) in schema {
        match (key.as_str(), value) {
            (name, Value::Object(named)) if BY_NAME.contains(&name) => {
                let named = named.iter().map(|(name, schema)| (name.clone(), of_answer(schema)));
                clean.insert(key.clone(), Value::Object(named.collect()));
            }
            ("oneOf", Value::Array(list)) if !schema.contains_key("anyOf") => {
                clean.insert("anyOf".into(), list.iter().map(of_answer).collect());
            }
            (name, Value::Array(list)) if LISTS.contains(&name) => {
                clean.insert(key.clone(), list.iter().map(of_answer).collect());
            }
            ("items", items) => {
                clean.insert(key.clone(), of_answer(items));
            }
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                clean.insert(key.clone(), value.clone());
            }
            ("minItems", Value::Number(least)) if least.as_u64().is_some_and(|least| least <= 1) => {
                clean.insert(key.clone(), value.clone());
            }
            (name, _) if PLAIN.contains(&name) => {
                clean.insert(key.clone(), value.clone());
            }
            (name, _) if MUTE.contains(&name) => {}
            (name, value) => told.push(format!("{name}: {value}")),
        }
    }
    if is_object(&clean) {
        clean.insert("additionalProperties".into(), false.into());
    }
    if !told.is_empty() {
        let told = format!("{{{}}}", told.join(", "));
        let description = match clean.get("description").and_then(Value::as_str) {
            Some(before) => format!("{before}\n\n{told}"),
            None => told,
        };
        clean.insert("description".into(), description.into());
    }
    Value::Object(clean)
}

/// Whether it describes an object, alone or among other types.
fn is_object(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => schema.contains_key("properties"),
    }
}

#[cfg(test)]
mod tests;
