//! `embedContent` and `batchEmbedContents`.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::failure::Transport;

use super::error::{broken, read as read_error};
use super::fields::{Fields, invalid, missing};
use super::request::part_text;
use super::response::not_the_format;
use super::url::{Method, resource};
use crate::canonical::embeddings::{Request, Vectors};
use crate::canonical::usage;
use crate::error::{BadRequest, UpstreamError};

/// Reads the body of either method. What is not said by all the texts of a batch alike cannot be said elsewhere: it is an error.
pub fn read(body: &[u8], method: Method) -> Result<Request, BadRequest> {
    let mut fields = Fields::of_body(body)?;
    if method != Method::BatchEmbedContents {
        let (text, mut request) = one(fields)?;
        request.texts.push(text);
        return Ok(request);
    }
    fields.take("model");
    let at = fields.at("requests");
    let requests = fields.objects("requests")?;
    fields.none_left()?;
    let mut batch: Option<Request> = None;
    for (nth, fields) in requests.into_iter().enumerate() {
        let (text, request) = one(fields)?;
        let batch = batch.get_or_insert_with(|| request.clone());
        if (&batch.dimensions, without_path(&batch.rest)) != (&request.dimensions, without_path(&request.rest)) {
            let why = "all requests of a batch must ask for the same";
            return Err(invalid(format!("{at}.{nth}"), why));
        }
        batch.texts.push(text);
    }
    batch.ok_or_else(|| missing(at))
}

/// Options by their bare names: each has the place of its own request in its path.
fn without_path(rest: &Map<String, Value>) -> Vec<(&str, &Value)> {
    rest.iter().map(|(path, value)| (path.rsplit('.').next().unwrap_or(path), value)).collect()
}

/// One `EmbedContentRequest`: its text, and what else it asks for.
fn one(mut fields: Fields) -> Result<(String, Request), BadRequest> {
    fields.take("model");
    let at = fields.at("content");
    let mut content = fields.object("content")?.ok_or_else(|| missing(at))?;
    content.take("role");
    let parts_at = content.at("parts");
    let parts = content.objects("parts")?;
    content.none_left()?;
    let texts: Vec<String> = parts.into_iter().map(part_text).collect::<Result<_, _>>()?;
    if texts.is_empty() {
        return Err(missing(parts_at));
    }
    // 0 is proto-JSON's absent.
    let dimensions = fields.count("outputDimensionality")?.filter(|length| *length > 0);
    let rest: Map<String, Value> = fields.rest().filter(|(_, value)| value != "TASK_TYPE_UNSPECIFIED").collect();
    Ok((texts.join("\n"), Request { texts: Vec::new(), dimensions, rest }))
}

/// Writes a body of `batchEmbedContents`, whatever the number of texts.
pub fn write(request: &Request, upstream_model: &str) -> Result<Bytes, BadRequest> {
    if let Some(name) = request.rest.keys().next() {
        return Err(super::fields::cannot_cross(name.clone()));
    }
    let model = resource(upstream_model);
    let requests = request.texts.iter().map(|text| {
        let mut one = Map::new();
        one.insert("model".into(), model.as_str().into());
        one.insert("content".into(), json!({"parts": [{"text": text}]}));
        if let Some(dimensions) = request.dimensions {
            one.insert("outputDimensionality".into(), dimensions.into());
        }
        Value::Object(one)
    });
    let requests: Vec<Value> = requests.collect();
    Ok(json!({"requests": requests}).to_string().into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    embedding: Option<Embedding>,
    #[serde(default)]
    embeddings: Option<Vec<Embedding>>,
    #[serde(default, alias = "usage_metadata")]
    usage_metadata: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Embedding {
    values: Vec<f32>,
}

/// Reads the answer of either method. One without vectors is a failure of the upstream.
pub fn read_answer(body: &[u8]) -> Result<Vectors, Box<UpstreamError>> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Box::new(broken(Transport::Empty, "a success without a body")));
    }
    // A derived struct would take a list for its fields in order; a list is how some of Google's front ends wrap an error.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(Box::new(read_error(None, body)));
    }
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else {
        return Err(not_the_format("a success whose body holds no vectors"));
    };
    if answer.error.is_some() {
        return Err(Box::new(read_error(None, body)));
    }
    let vectors: Vec<Vec<f32>> =
        answer.embedding.into_iter().chain(answer.embeddings.unwrap_or_default()).map(|one| one.values).collect();
    if vectors.is_empty() || vectors.iter().any(Vec::is_empty) {
        return Err(not_the_format("a success whose body holds no vectors"));
    }
    Ok(Vectors { vectors, usage: answer.usage_metadata.as_ref().and_then(usage::gemini_embeddings) })
}

/// Writes the answer for a caller of the method.
pub fn write_answer(answer: &Vectors, method: Method) -> Bytes {
    let mut embeddings: Vec<Value> = answer.vectors.iter().map(|values| json!({"values": values})).collect();
    let body = if method == Method::BatchEmbedContents {
        json!({"embeddings": embeddings})
    } else {
        let first = embeddings.drain(..).next();
        json!({"embedding": first.unwrap_or_else(|| json!({"values": []}))})
    };
    body.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Method = Method::BatchEmbedContents;
    const ONE: Method = Method::EmbedContent;

    #[test]
    fn both_methods_are_read() {
        let one = read(
            br#"{"model":"models/e","content":{"parts":[{"text":"a"},{"text":"b"}]},"output_dimensionality":8}"#,
            ONE,
        );
        assert_eq!(one, Ok(Request { texts: vec!["a\nb".into()], dimensions: Some(8), rest: Map::new() }));
        let batch = br#"{"requests":[{"model":"models/e","content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}"#;
        assert_eq!(read(batch, BATCH).unwrap().texts, ["a", "b"]);
    }

    #[test]
    fn what_cannot_be_said_is_named() {
        for (body, method, field) in [
            ("{}", ONE, "content"),
            (r#"{"content":{"parts":[]}}"#, ONE, "content.parts"),
            (r#"{"content":{"parts":[{"inlineData":{}}]}}"#, ONE, "content.parts.0.inlineData"),
            (r#"{"requests":[]}"#, BATCH, "requests"),
            (r#"{"requests":[{"content":{}}]}"#, BATCH, "requests.0.content.parts"),
            (
                r#"{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"a"}]},"outputDimensionality":3}]}"#,
                BATCH,
                "requests.1",
            ),
        ] {
            assert_eq!(read(body.as_bytes(), method).unwrap_err().field.as_deref(), Some(field), "{body}");
        }
        let task = read(br#"{"content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY"}"#, ONE).unwrap();
        assert_eq!(write(&task, "e").unwrap_err().field.as_deref(), Some("taskType"));
    }

    #[test]
    fn a_batch_is_written_and_its_answer_read() {
        let request = Request { texts: vec!["a".into(), "b".into()], dimensions: Some(2), rest: Map::new() };
        let body: Value = serde_json::from_slice(&write(&request, "e").unwrap()).unwrap();
        let one = |text: &str| json!({"model": "models/e", "content": {"parts": [{"text": text}]}, "outputDimensionality": 2});
        assert_eq!(body, json!({"requests": [one("a"), one("b")]}));
        let answer = read_answer(br#"{"embeddings":[{"values":[0.5,-1]},{"values":[0.25,3e-5]}]}"#).unwrap();
        assert_eq!(answer.vectors, [[0.5, -1.0], [0.25, 3e-5]]);
        assert_eq!(read_answer(&write_answer(&answer, BATCH)).unwrap(), answer);
        let first = read_answer(&write_answer(&answer, ONE)).unwrap();
        assert_eq!(first.vectors, [[0.5, -1.0]]);
    }

    #[test]
    fn an_answer_without_vectors_is_a_failure() {
        for bad in
            ["", "{}", "[]", "null", r#"{"embedding":{}}"#, r#"{"embeddings":[]}"#, r#"{"embedding":{"values":[]}}"#]
        {
            assert!(read_answer(bad.as_bytes()).is_err(), "{bad}");
        }
        let error = read_answer(br#"{"error":{"code":404,"message":"gone","status":"NOT_FOUND"}}"#).unwrap_err();
        assert_eq!((error.signals.status, error.reason.as_str()), (Some(404), "gone"));
    }
}
