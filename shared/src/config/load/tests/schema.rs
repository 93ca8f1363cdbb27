//! The schema against the reader and the examples.

use super::fault_table::TABLE;
use super::*;
use crate::config::section::to_json;

#[test]
fn the_schema_is_a_schema_and_the_examples_keep_to_it() {
    let schema = schema();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for text in [FULL, SMALL, BASE] {
        let json = to_json(&yaml::parse(text).unwrap());
        let errors: Vec<String> =
            validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
    for (old, new, ..) in TABLE.iter().filter(|(_, new, ..)| new.contains("provder") || new.contains("rpm: many")) {
        let json = to_json(&yaml::parse(&BASE.replacen(old, new, 1)).unwrap());
        assert!(!validator.is_valid(&json), "{new}");
    }
}

/// A step from a schema down to one of its parts.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Entry,
    Item,
}

/// Every map with fixed fields in the schema, with the way to it.
fn sections<'s>(schema: &'s Json, way: &[Step], found: &mut Vec<(Vec<Step>, &'s Json)>) {
    let mut below = |step: Option<Step>, part: &'s Json| {
        let way: Vec<Step> = way.iter().cloned().chain(step).collect();
        sections(part, &way, found);
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        below(Some(Step::Field(name.clone())), property);
    }
    for (step, part) in [(Step::Entry, &schema["additionalProperties"]), (Step::Item, &schema["items"])] {
        if part.is_object() {
            below(Some(step), part);
        }
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        below(None, choice);
    }
    if schema["properties"].is_object() {
        found.push((way.to_vec(), schema));
    }
}

#[test]
fn the_reader_knows_the_fields_of_the_schema_and_no_others() {
    let schema = schema();
    let mut found = Vec::new();
    sections(&schema, &[], &mut found);
    assert_eq!(found.len(), 24, "a section came or went");
    for (way, section) in found {
        assert_eq!(section["additionalProperties"], false, "{way:?}");
        let properties = section["properties"].as_object().unwrap();
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{way:?} {name}");
        }
        // JSON is YAML: a file that has nothing but an unknown field in this very section.
        let file = way.iter().rev().fold(json!({"zzz": 1}), |value, step| match step {
            Step::Field(name) => json!({name: value}),
            Step::Entry => json!({"x": value}),
            Step::Item => json!([value]),
        });
        let faults = read(&file.to_string()).expect_err("a field is unknown");
        let fault = faults.iter().find(|fault| fault.field.ends_with("zzz")).unwrap();
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(fault.expected, format!("one of {}", names.join(", ")), "{way:?}");
    }
}

#[test]
fn the_full_example_uses_every_field_but_those_that_exclude_others() {
    fn walk(value: &Json, path: &str, used: &mut Vec<String>) {
        match value {
            Json::Object(map) => map.iter().for_each(|(name, below)| {
                let path = format!("{path}/{name}");
                walk(below, &path, used);
                used.push(path);
            }),
            Json::Array(items) => items.iter().for_each(|item| walk(item, path, used)),
            _ => {}
        }
    }
    let mut used = Vec::new();
    walk(&to_json(&yaml::parse(FULL).unwrap()), "", &mut used);
    let (schema, mut found, mut unused) = (schema(), Vec::new(), Vec::new());
    sections(&schema, &[], &mut found);
    for (way, section) in found {
        let first = way.iter().find_map(|step| if let Step::Field(name) = step { Some(name.as_str()) } else { None });
        for name in section["properties"].as_object().unwrap().keys() {
            let prefix = format!("/{}", first.unwrap_or(name));
            if !used.iter().any(|path| path.starts_with(&prefix) && path.ends_with(&format!("/{name}"))) {
                unused.push(format!("{way:?} {name}"));
            }
        }
    }
    let unused: Vec<&str> = unused.iter().filter_map(|field| field.rsplit(' ').next()).collect();
    assert_eq!(unused, ["match", "pool", "usd", "api_key_file"]);
}

#[test]
fn every_default_of_the_schema_is_what_an_absent_field_becomes() {
    // Defaults are read by the reader itself: a default that it refuses would be a fault of the smallest file.
    let config = good(SMALL);
    let schema = schema();
    let default = |path: &str| schema.pointer(path).and_then(|field| field.get("default")).cloned();
    assert_eq!(default("/properties/listen").unwrap(), config.listen.to_string());
    assert_eq!(default("/properties/limits/properties/attempts/properties/group").unwrap(), 3);
    assert_eq!(default("/properties/keys/items/properties/peers").unwrap(), true);
    assert_eq!(default("/properties/redis/properties/timeout").unwrap(), "250ms");
}
