//! Schemas: Gemini's own subset of OpenAPI, and plain JSON Schema. Only ever applied where a schema stands, never to values.

use serde_json::{Map, Value, json};

mod clean;

pub(super) use clean::to_openapi;

/// Deeper schemas are not looked into.
const MAX_DEPTH: usize = 64;

/// Gemini's `Schema` as plain JSON Schema: types in lower case, `nullable` as a type, counts as numbers, either spelling of names.
pub(super) fn from_openapi(schema: Value) -> Value {
    of_depth(schema, 0)
}

fn of_depth(schema: Value, depth: usize) -> Value {
    let Value::Object(given) = schema else { return schema };
    if depth > MAX_DEPTH {
        return Value::Object(given);
    }
    let mut out = Map::with_capacity(given.len());
    let mut nullable = false;
    for (name, value) in given {
        let name = keyword(&name);
        match (name, value) {
            (_, Value::Null) | ("propertyOrdering", _) => {}
            ("nullable", value) => nullable = value == Value::Bool(true),
            ("type", Value::String(kind)) if kind.eq_ignore_ascii_case("type_unspecified") => {}
            ("type", Value::String(kind)) => _ = out.insert("type".into(), kind.to_ascii_lowercase().into()),
            // `enum` as a format says only that there is an enum.
            ("format", Value::String(format)) if format == "enum" => {}
            ("items" | "additionalProperties", inner) => _ = out.insert(name.into(), of_depth(inner, depth + 1)),
            ("anyOf", Value::Array(list)) => {
                let list: Vec<Value> = list.into_iter().map(|inner| of_depth(inner, depth + 1)).collect();
                out.insert(name.into(), list.into());
            }
            ("properties" | "$defs", Value::Object(inner)) => {
                let inner = inner.into_iter().map(|(name, value)| (name, of_depth(value, depth + 1))).collect();
                out.insert(name.into(), Value::Object(inner));
            }
            (
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties",
                Value::String(text),
            ) => {
                let count = text.parse::<u64>().map_or(Value::String(text), Value::from);
                out.insert(name.into(), count);
            }
            ("example", value) => _ = out.insert("examples".into(), json!([value])),
            (name, value) => _ = out.insert(name.into(), value),
        }
    }
    if nullable {
        allow_null(&mut out);
    }
    Value::Object(out)
}

fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(kind)) = schema.get("type") {
        let both = json!([kind, "null"]);
        schema.insert("type".into(), both);
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    } else if let Some(Value::Array(options)) = schema.get_mut("anyOf") {
        options.push(json!({"type": "null"}));
    }
}

/// A keyword of a schema under its camelCase name.
fn keyword(name: &str) -> &str {
    match name {
        "any_of" => "anyOf",
        "min_items" => "minItems",
        "max_items" => "maxItems",
        "min_length" => "minLength",
        "max_length" => "maxLength",
        "min_properties" => "minProperties",
        "max_properties" => "maxProperties",
        "property_ordering" => "propertyOrdering",
        "additional_properties" => "additionalProperties",
        "defs" => "$defs",
        "ref" => "$ref",
        other => other,
    }
}

/// True for a schema that asks for nothing: no schema, or an object without properties.
pub(super) fn asks_nothing(schema: &Value) -> bool {
    let Value::Object(schema) = schema else { return schema.is_null() };
    let empty = |name: &str| schema.get(name).is_none_or(|value| value.as_object().is_some_and(Map::is_empty));
    let only_known = schema.keys().all(|key| {
        matches!(
            key.as_str(),
            "type" | "properties" | "required" | "additionalProperties" | "$schema" | "title" | "description"
        )
    });
    let open = !matches!(schema.get("additionalProperties"), Some(Value::Object(_) | Value::Bool(true)));
    let kind = schema.get("type").is_none_or(|kind| kind == "object");
    only_known && open && kind && empty("properties")
}

#[cfg(test)]
mod tests;
