use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn geminis_schema_becomes_plain_json_schema() {
    let given = json!({
        "type": "OBJECT",
        "property_ordering": ["a"],
        "properties": {
            "type": {"type": "STRING", "nullable": true, "format": "enum", "enum": ["x", "y"]},
            "list": {"type": "ARRAY", "min_items": "1", "maxItems": "3", "items": {"type": "INTEGER", "format": "int32"}},
            "either": {"anyOf": [{"type": "NUMBER"}, {"type": "TYPE_UNSPECIFIED", "example": 7}], "nullable": true},
            "null": {"type": "NULL"}
        },
        "required": ["type"],
        "maximum": null
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"], "enum": ["x", "y", null]},
            "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "format": "int32"}},
            "either": {"anyOf": [{"type": "number"}, {"examples": [7]}, {"type": "null"}]},
            "null": {"type": "null"}
        },
        "required": ["type"]
    });
    assert_eq!(from_openapi(given), expected);
    assert_eq!(from_openapi(json!("odd")), json!("odd"));
}

#[test]
fn json_schema_becomes_geminis_subset() {
    let given = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": false,
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number", "exclusiveMinimum": 0}}, "required": ["x"]}},
        "properties": {
            "at": {"$ref": "#/$defs/Point", "description": "where"},
            "kind": {"const": "circle"},
            "level": {"type": "integer", "enum": [1, 2]},
            "name": {"type": ["string", "null"], "format": "uri"},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "maybe": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
            "both": {"allOf": [{"$ref": "#/$defs/Point"}, {"properties": {"y": {"type": "number"}}, "required": ["y"]}]},
            "mixed": {"type": ["string", "number"]}
        },
        "required": ["at", "gone"]
    });
    let expected = json!({
        "type": "OBJECT",
        "properties": {
            "at": {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}, "required": ["x"], "description": "where"},
            "kind": {"enum": ["circle"], "type": "STRING", "format": "enum"},
            "level": {"type": "STRING", "enum": ["1", "2"], "format": "enum"},
            "name": {"nullable": true, "type": "STRING"},
            "either": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            "maybe": {"nullable": true, "type": "STRING", "minLength": 1},
            "both": {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}, "y": {"type": "NUMBER"}}, "required": ["x", "y"]},
            "mixed": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}
        },
        "required": ["at"]
    });
    assert_eq!(to_openapi(&given), expected);
}

#[test]
fn a_schema_that_holds_itself_ends() {
    let tree = json!({
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "up": {"$ref": "#"}}}}
    });
    let cleaned = to_openapi(&tree);
    assert_eq!(cleaned["properties"]["next"], json!({"type": "OBJECT"}));
    let mut wide = json!({"type": "object", "properties": {}, "$defs": {}});
    for n in 0..12 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        wide["$defs"][format!("d{n}")] = json!({"properties": {"a": next, "b": next, "c": next}});
    }
    wide["properties"]["a"] = json!({"$ref": "#/$defs/d0"});
    assert!(to_openapi(&wide).to_string().len() < 100_000);
}

#[test]
fn a_schema_without_properties_asks_for_nothing() {
    for nothing in
        [json!(null), json!({}), json!({"type": "object"}), json!({"type": "object", "properties": {}, "required": []})]
    {
        assert!(asks_nothing(&nothing), "{nothing}");
    }
    for something in [
        json!({"type": "string"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"a": {}}}),
        json!({"anyOf": []}),
        json!(true),
    ] {
        assert!(!asks_nothing(&something), "{something}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z$#/]{0,6}|object|STRING|null|#|#/\\$defs/a".prop_map(Value::from),
    ];
    let key = "type|properties|items|anyOf|oneOf|allOf|enum|const|\\$ref|\\$defs|required|nullable|format|a|min_items";
    leaf.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_makes_it_panic_and_a_clean_one_holds_only_known_words(schema in any_json()) {
        let _ = from_openapi(schema.clone());
        let _ = asks_nothing(&schema);
        let cleaned = to_openapi(&schema).to_string();
        for word in ["\"$ref\"", "\"$defs\"", "\"oneOf\"", "\"allOf\"", "\"const\""] {
            // A property may have any name.
            prop_assert!(schema.to_string().contains("properties") || !cleaned.contains(word), "{} in {}", word, cleaned);
        }
    }
}
