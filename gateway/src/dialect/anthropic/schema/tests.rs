use super::*;

#[test]
fn every_object_is_closed_and_what_cannot_be_enforced_is_told() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 1, "maximum": 10, "description": "In years"},
            "mail": {"type": "string", "format": "email", "maxLength": 9},
            "odd": {"type": "string", "format": "phone"},
            "tags": {"type": "array", "items": {"type": "object", "properties": {}}, "minItems": 1, "maxItems": 3},
            "either": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"const": {"minimum": 3}}}}]},
            "link": {"$ref": "#/$defs/node"}
        },
        "required": ["age"],
        "additionalProperties": true,
        "$defs": {"node": {"type": ["object", "null"], "properties": {"next": {"$ref": "#/$defs/node"}}}}
    });
    assert_eq!(
        of_answer(&schema),
        json!({
            "type": "object",
            "properties": {
                "age": {"type": "integer", "description": "In years\n\n{minimum: 1, maximum: 10}"},
                "mail": {"type": "string", "format": "email", "description": "{maxLength: 9}"},
                "odd": {"type": "string", "description": "{format: \"phone\"}"},
                "tags": {
                    "type": "array", "minItems": 1, "description": "{maxItems: 3}",
                    "items": {"type": "object", "properties": {}, "additionalProperties": false},
                },
                "either": {"anyOf": [{"type": "string"}, {
                    "type": "object", "properties": {"a": {"const": {"minimum": 3}}}, "additionalProperties": false,
                }]},
                "link": {"$ref": "#/$defs/node"},
            },
            "required": ["age"],
            "$defs": {"node": {
                "type": ["object", "null"], "properties": {"next": {"$ref": "#/$defs/node"}},
                "additionalProperties": false,
            }},
            "additionalProperties": false,
        })
    );
}

#[test]
fn values_and_properties_named_like_keywords_are_no_schemas() {
    let schema = json!({
        "type": "object",
        "properties": {"minimum": {"type": "string"}, "format": {"type": "string", "default": {"minimum": 1}}},
        "enum": [{"maximum": 2, "type": "object"}],
        "additionalProperties": false
    });
    assert_eq!(of_answer(&schema), schema);
}

#[test]
fn arguments_are_always_an_object() {
    let empty = json!({"type": "object", "properties": {}});
    for none in [Value::Null, json!(true), json!([])] {
        assert_eq!(of_arguments(&none), empty);
    }
    assert_eq!(of_arguments(&json!({})), json!({"type": "object"}));
    let whole = json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "x-mine": 1});
    assert_eq!(of_arguments(&whole), whole);
}
