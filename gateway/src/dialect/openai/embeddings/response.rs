//! Answers with embeddings.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use shared::failure::Transport;

use super::super::error::{self, broken};
use super::super::json::{present, quoted, range_in, replaced};
use super::super::response::refuse_foreign;
use super::request::Encoding;
use crate::canonical::embeddings::Vectors;
use crate::canonical::usage;
use crate::dialect::translate::WholeAnswer;
use crate::error::UpstreamError;

#[derive(Deserialize)]
struct Body<'a, Item> {
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(default = "Vec::new")]
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vector,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

fn foreign(reason: &str) -> Box<UpstreamError> {
    Box::new(broken(Transport::NotTheFormat, reason))
}

/// A good answer is a JSON object with at least one vector; anything else is a failure of the upstream.
fn check<'a, Item: Deserialize<'a>>(
    content_type: Option<&str>,
    body: &'a Bytes,
) -> Result<Body<'a, Item>, Box<UpstreamError>> {
    refuse_foreign(content_type, body)?;
    let parsed: Body<'a, Item> = match serde_json::from_slice(body) {
        Ok(parsed) => parsed,
        // What is broken may be broken because it is an error.
        Err(_) => match serde_json::from_slice::<Body<'a, IgnoredAny>>(body) {
            Ok(Body { error: Some(_), .. }) => return Err(Box::new(error::read(None, body))),
            _ => return Err(foreign("a success whose body is not a list of embeddings")),
        },
    };
    if parsed.error.is_some() {
        return Err(Box::new(error::read(None, body)));
    }
    if parsed.data.is_empty() {
        return Err(foreign("a success without an embedding"));
    }
    Ok(parsed)
}

/// An answer for a caller of the same dialect: checked, and every byte but the model's name as received.
pub fn pass(content_type: Option<&str>, body: &Bytes, caller_model: &str) -> Result<WholeAnswer, Box<UpstreamError>> {
    let parsed = check::<IgnoredAny>(content_type, body)?;
    let usage = parsed.usage.and_then(|usage| usage::openai_embeddings(usage.get()));
    let at: Option<Range<usize>> = parsed.model.map(|model| range_in(body, model));
    let body = match at {
        Some(at) => replaced(body, &at, &quoted(caller_model)),
        None => body.clone(),
    };
    Ok(WholeAnswer { body, usage, output_chars: 0, ..WholeAnswer::default() })
}

/// The vectors, in the order of their texts.
pub fn read(content_type: Option<&str>, body: &Bytes) -> Result<Vectors, Box<UpstreamError>> {
    let mut parsed = check::<Item>(content_type, body)?;
    parsed.data.sort_by_key(|item| item.index.unwrap_or(usize::MAX));
    let vector = |item: Item| match item.embedding {
        Vector::Numbers(numbers) => Ok(numbers),
        Vector::Base64(text) => decoded(&text).ok_or_else(|| foreign("an embedding that is no list of numbers")),
    };
    Ok(Vectors {
        vectors: parsed.data.into_iter().map(vector).collect::<Result<_, _>>()?,
        usage: parsed.usage.and_then(|usage| usage::openai_embeddings(usage.get())),
    })
}

/// The vectors as a caller gets them, the model named as it was asked for.
pub fn write(answer: &Vectors, model: &str, encoding: Encoding) -> Bytes {
    let data = answer
        .vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| WrittenItem {
            object: "embedding",
            index,
            embedding: match encoding {
                Encoding::Float => WrittenVector::Numbers(vector),
                Encoding::Base64 => WrittenVector::Base64(encoded(vector)),
            },
        })
        .collect();
    let prompt_tokens = answer.usage.unwrap_or_default().all_input();
    let usage = WrittenUsage { prompt_tokens, total_tokens: prompt_tokens };
    let list = WrittenList { object: "list", data, model, usage };
    // Numbers and texts always can be written.
    serde_json::to_vec(&list).unwrap_or_default().into()
}

#[derive(Serialize)]
struct WrittenList<'a> {
    object: &'static str,
    data: Vec<WrittenItem<'a>>,
    model: &'a str,
    usage: WrittenUsage,
}

#[derive(Serialize)]
struct WrittenItem<'a> {
    object: &'static str,
    index: usize,
    embedding: WrittenVector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenVector<'a> {
    Numbers(&'a [f32]),
    Base64(String),
}

#[derive(Serialize)]
struct WrittenUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

fn encoded(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

fn decoded(text: &str) -> Option<Vec<f32>> {
    let bytes = STANDARD.decode(text).ok()?;
    let (numbers, []) = bytes.as_chunks::<4>() else { return None };
    Some(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
