use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use crate::canonical::request::*;

fn read_json(body: &Value) -> Result<Request, BadRequest> {
    read(body.to_string().as_bytes(), Answer::Whole)
}

fn field(body: &Value) -> String {
    read_json(body).unwrap_err().field.unwrap_or_default().into_owned()
}

/// What google-genai for Python sends: camelCase at the top, snake_case within, URL-safe base64, no ids.
fn python() -> Value {
    json!({
        "contents": [
            {"role": "user", "parts": [
                {"text": "What is on it?"},
                {"inlineData": {"data": "_-8", "mime_type": "image/png"}},
                {"inline_data": {"data": "JVBERi0", "mimeType": "application/pdf", "display_name": "a.pdf"}}
            ]},
            {"role": "model", "parts": [
                {"thought": true, "text": "hm"},
                {"functionCall": {"name": "look", "args": {"at": [1, {"snake_case": null}]}}, "thoughtSignature": "c2ln"},
                {"function_call": {"name": "look", "args": {}}}
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "look", "response": {"result": "a cat"}}},
                {"functionResponse": {"name": "look", "response": {"error": "blind"}}},
                {"text": "and?"}
            ]}
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [
            {"name": "look", "description": "Looks.", "parameters_json_schema": {"type": "object", "properties": {"at": {"type": "array"}}}},
            {"name": "stop", "parameters": {"type": "OBJECT", "properties": {"why": {"type": "STRING", "nullable": true}}}},
            {"name": "bare"}
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowed_function_names": ["look"]}},
        "generationConfig": {
            "temperature": 0.5, "topP": 0.9, "topK": 40, "candidateCount": 1, "maxOutputTokens": 100, "stopSequences": ["END"],
            "seed": 7, "presencePenalty": 0.1, "frequencyPenalty": 0.2, "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"}, "thinkingConfig": {"include_thoughts": true, "thinking_level": "LOW"},
            "responseModalities": ["TEXT"]
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}],
        "labels": {"team": "a"}
    })
}

#[test]
fn the_whole_of_a_request_is_read() {
    let read = read_json(&python()).unwrap();
    assert_eq!(read.system, ["Be brief."]);
    let [asked, called, answered] = read.turns.as_slice() else { panic!("{:?}", read.turns) };
    let inline = |mime: &str, data: &str| Source::Inline { mime: mime.into(), data: data.into() };
    assert_eq!(
        asked.parts,
        [
            Part::Text("What is on it?".into()),
            Part::Image(Media { source: inline("image/png", "/+8="), name: None, detail: None }),
            Part::File(Media {
                source: inline("application/pdf", "JVBERi0="),
                name: Some("a.pdf".into()),
                detail: None
            }),
        ]
    );
    assert_eq!(called.role, Role::Assistant);
    let [Part::Thinking(_), Part::ToolCall(first), Part::ToolCall(second)] = called.parts.as_slice() else { panic!() };
    assert_eq!(first.signature.as_deref(), Some("c2ln"));
    assert_eq!(Value::Object(first.arguments.clone()), json!({"at": [1, {"snake_case": null}]}));
    assert_ne!(first.id, second.id);
    let result = |id: &str, text: &str, outcome| {
        let (id, name) = (id.to_owned(), "look".to_owned());
        Part::ToolResult(ToolResult { id, name, content: vec![Part::Text(text.into())], outcome })
    };
    assert_eq!(
        answered.parts,
        [
            result(&first.id, "a cat", ToolOutcome::Ok),
            result(&second.id, "blind", ToolOutcome::Failed),
            Part::Text("and?".into()),
        ]
    );
    assert_eq!(read.tools[0].parameters, json!({"type": "object", "properties": {"at": {"type": "array"}}}));
    assert_eq!(
        read.tools[1].parameters,
        json!({"type": "object", "properties": {"why": {"type": ["string", "null"]}}})
    );
    assert_eq!(read.tools[2].parameters, json!({"type": "object", "properties": {}}));
    assert_eq!(read.tool_choice, Some(ToolChoice::Function("look".into())));
    assert_eq!((read.max_output, read.sampling.choices), (Some(100), Some(1)));
    assert_eq!(read.sampling.stop, ["END"]);
    assert_eq!(read.reasoning, Some(Reasoning { amount: Amount::Effort(Effort::Low), visible: Visible::Yes }));
    assert!(matches!(read.format, Some(Format::JsonSchema { .. })));
    assert!(read.rest.is_empty(), "{:?}", read.rest);
}

#[test]
fn a_history_reads_the_same_again_and_equal_calls_differ_by_their_place() {
    let (once, again) = (read_json(&python()).unwrap(), read_json(&python()).unwrap());
    assert_eq!(once, again);
    let call = json!({"role": "model", "parts": [{"functionCall": {"name": "f"}}]});
    let result = json!({"parts": [{"functionResponse": {"name": "f", "response": {}}}]});
    let read = read_json(&json!({"contents": [{"parts": [{"text": "x"}]}, call, result, call, result]})).unwrap();
    let ids: Vec<&str> = read
        .turns
        .iter()
        .flat_map(|turn| &turn.parts)
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id.as_str()),
            Part::ToolResult(result) => Some(result.id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    assert_ne!(ids[0], ids[2]);
}

#[test]
fn results_find_their_call_by_id_or_else_by_name_in_order() {
    let call = |id: Option<&str>, name: &str| json!({"functionCall": {"id": id, "name": name}});
    let result =
        |id: Option<&str>, name: &str| json!({"functionResponse": {"id": id, "name": name, "response": {"x": 1}}});
    let read = read_json(&json!({"contents": [
        {"role": "model", "parts": [call(Some("a1"), "a"), call(None, "b"), call(Some("a2"), "a")]},
        {"role": "function", "parts": [result(None, "b"), result(Some("a2"), "a"), result(None, "a")]},
    ]}))
    .unwrap();
    let id = |turn: usize, part: usize| match &read.turns[turn].parts[part] {
        Part::ToolCall(call) => call.id.clone(),
        Part::ToolResult(result) => result.id.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((id(1, 0), id(1, 1), id(1, 2)), (id(0, 1), "a2".into(), "a1".into()));
}

#[test]
fn what_is_wrong_is_named_by_its_path() {
    let part = |part: Value| json!({"contents": [{"parts": [{"text": "a"}]}, {"role": "user", "parts": [part]}]});
    let config = |config: Value| json!({"contents": [{"parts": [{"text": "a"}]}], "generationConfig": config});
    for (body, path) in [
        (json!({}), "contents"),
        (json!({"contents": [{"role": "system", "parts": []}]}), "contents.0.role"),
        (json!({"contents": [{"parts": [], "mood": 1}]}), "contents.0.mood"),
        (part(json!({})), "contents.1.parts.0.text"),
        (part(json!({"text": 7})), "contents.1.parts.0.text"),
        (part(json!({"text": "a", "color": "red"})), "contents.1.parts.0.color"),
        (part(json!({"executableCode": {}})), "contents.1.parts.0.executableCode"),
        (part(json!({"inlineData": {"data": "AA"}})), "contents.1.parts.0.inlineData.mimeType"),
        (part(json!({"inlineData": {"mimeType": "a/b", "data": "%"}})), "contents.1.parts.0.inlineData.data"),
        (part(json!({"fileData": {"fileUri": "gs://b/o"}})), "contents.1.parts.0.fileData.fileUri"),
        (part(json!({"fileData": {"fileUri": "https://youtu.be/x"}})), "contents.1.parts.0.fileData.fileUri"),
        (part(json!({"functionCall": {"name": "f"}})), "contents.1.parts.0.functionCall"),
        (part(json!({"functionResponse": {"name": "f"}})), "contents.1.parts.0.functionResponse"),
        (
            part(json!({"functionResponse": {"id": "c", "name": "f", "response": "x"}})),
            "contents.1.parts.0.functionResponse.response",
        ),
        (config(json!({"topK": "many"})), "generationConfig.topK"),
        (config(json!({"maxOutputTokens": 1.5})), "generationConfig.maxOutputTokens"),
        (config(json!({"responseMimeType": "text/x.enum", "responseSchema": {}})), "generationConfig.responseMimeType"),
        (config(json!({"responseSchema": {}, "response_json_schema": {}})), "generationConfig.responseSchema"),
        (
            config(json!({"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}})),
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
        (config(json!({"thinkingConfig": {"thinkingLevel": "HUGE"}})), "generationConfig.thinkingConfig.thinkingLevel"),
        (
            json!({"contents": [{"parts": []}], "systemInstruction": {"parts": [{"inlineData": {}}]}}),
            "systemInstruction.parts.0.inlineData",
        ),
        (
            json!({"contents": [{"parts": []}], "tools": [{"functionDeclarations": [{}]}]}),
            "tools.0.functionDeclarations.0.name",
        ),
        (
            json!({"contents": [{"parts": []}], "toolConfig": {"functionCallingConfig": {"mode": "SOMETIMES"}}}),
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            json!({"contents": [{"parts": []}], "tools": [{"functionDeclarations": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a", "b"]}}}),
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
    ] {
        assert_eq!(field(&body), path, "{body}");
    }
}

#[test]
fn what_only_gemini_knows_is_kept_by_its_path_and_empty_fields_are_absent() {
    let rest = |body: Value| read_json(&body).unwrap().rest.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        rest(json!({
            "contents": [{"parts": [{"text": "a"}]}], "cachedContent": "cachedContents/x", "tools": [{"googleSearch": {}}],
            "generationConfig": {"responseLogprobs": true, "logprobs": 3, "responseModalities": ["IMAGE"], "speechConfig": {}},
            "toolConfig": {"retrievalConfig": {"languageCode": "de"}}
        })),
        [
            "tools.0.googleSearch",
            "toolConfig.retrievalConfig",
            "generationConfig.responseModalities",
            "generationConfig.responseLogprobs",
            "generationConfig.logprobs",
            "cachedContent"
        ]
    );
    let empty = json!({"contents": [{"parts": [{"text": "a"}]}], "cached_content": "", "generationConfig": {"responseLogprobs": false}, "tools": []});
    assert!(rest(empty).is_empty());
}

#[test]
fn every_dropped_field_is_really_taken() {
    for (path, _) in DROPPED.iter().filter(|(path, _)| !path.contains('.')) {
        let body = json!({"contents": [{"parts": [{"text": "a"}]}], *path: {"x": 1}});
        assert!(read_json(&body).unwrap().rest.is_empty(), "{path}");
    }
    let nested = json!({
        "contents": [{"parts": [{"text": "a", "partMetadata": {"x": 1}, "mediaResolution": {"level": "L"}}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "response": {"type": "OBJECT"}, "responseJsonSchema": {}}]}],
        "generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW"}
    });
    assert!(read_json(&nested).unwrap().rest.is_empty());
}

#[test]
fn choices_and_budgets_are_read_in_all_their_forms() {
    let choice = |config: Value| {
        let body = json!({"contents": [{"parts": []}], "tools": [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}], "toolConfig": {"functionCallingConfig": config}});
        read_json(&body).unwrap().tool_choice
    };
    assert_eq!(choice(json!({})), None);
    assert_eq!(choice(json!({"mode": "AUTO"})), Some(ToolChoice::Auto));
    assert_eq!(choice(json!({"mode": "validated"})), Some(ToolChoice::Auto));
    assert_eq!(choice(json!({"mode": "NONE"})), Some(ToolChoice::None));
    assert_eq!(choice(json!({"mode": "ANY", "allowedFunctionNames": ["b", "a"]})), Some(ToolChoice::Any));
    let amount = |thinking: Value| {
        let body = json!({"contents": [{"parts": []}], "generationConfig": {"thinkingConfig": thinking}});
        read_json(&body).unwrap().reasoning.unwrap().amount
    };
    assert_eq!(amount(json!({"thinkingBudget": -1})), Amount::Dynamic);
    assert_eq!(amount(json!({"thinkingBudget": 0})), Amount::Effort(Effort::None));
    assert_eq!(amount(json!({"thinkingBudget": 77})), Amount::Budget(77));
    assert_eq!(amount(json!({"thinkingLevel": "minimal"})), Amount::Effort(Effort::Minimal));
    assert_eq!(amount(json!({"includeThoughts": true})), Amount::Dynamic);
}

pub(in super::super::super) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "user|model|AUTO|ANY|\\PC{0,6}".prop_map(Value::from),
    ];
    let key = "contents|parts|text|role|functionCall|functionResponse|inline_data|mimeType|data|name|args|id|response|tools|functionDeclarations|parameters|generationConfig|thinking_config|toolConfig|candidates|content|finishReason|usageMetadata|error|x";
    leaf.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(value in any_json(), nested in any_json()) {
        let _ = read_json(&value);
        let _ = read_json(&json!({"contents": [{"role": "model", "parts": [nested]}, {"parts": [value]}], "tools": [nested], "generationConfig": value}));
    }

    #[test]
    fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = read(&data, Answer::Whole);
    }
}
