//! Finds the known fields of a request in one pass over its text.

use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::super::fields::{duplicate, invalid, malformed, missing, wrong_kind};
use super::super::url::Method;
use super::without_attachments;
use crate::dialect::bound::Bound;
use crate::error::BadRequest;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) max_output_tokens: Option<u64>,
    pub(super) choices: Option<u64>,
    pub(super) prompt_chars: u64,
    pub(super) bound_to: Option<Bound>,
    /// In the order of the text.
    pub(super) models_at: Vec<Range<usize>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    contents: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "system_instruction")]
    system_instruction: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "generation_config")]
    generation_config: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "cached_content")]
    cached_content: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "continuation_token")]
    continuation_token: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "generate_content_request")]
    generate_content_request: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(borrow, default, alias = "max_output_tokens")]
    max_output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "candidate_count")]
    candidate_count: Option<&'a RawValue>,
}

/// A value that stands there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Looks for what the method needs.
pub(super) fn look(body: &Bytes, method: Method) -> Result<Found, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|_| malformed("it is not UTF-8"))?;
    let mut found = Found::default();
    match method {
        Method::Generate(_) => found.conversation(text, text, "")?,
        Method::CountTokens => found.count(text)?,
        Method::EmbedContent => found.embedding(text, text, "")?,
        Method::BatchEmbedContents => found.embeddings(text)?,
    }
    found.models_at.sort_by_key(|at| at.start);
    Ok(found)
}

/// An object of the body. A list would be taken for its fields in order, so the kind is looked at first.
fn object<'a, T: Deserialize<'a>>(text: &'a str, path: &str) -> Result<T, BadRequest> {
    let kind = kind_of(text);
    match serde_json::from_str(text) {
        Ok(object) if kind == "an object" => Ok(object),
        Ok(_) => Err(wrong_kind(path.to_owned(), "an object", kind)),
        Err(error) if error.is_data() => {
            if kind != "an object" {
                return Err(wrong_kind(path.to_owned(), "an object", kind));
            }
            let words = error.to_string();
            // The only thing that these structs refuse in an object.
            let name = words.strip_prefix("duplicate field `").and_then(|rest| rest.split('`').next()).unwrap_or(path);
            Err(duplicate(name))
        }
        Err(error) => Err(malformed(&error.to_string())),
    }
}

impl Found {
    /// Takes what a `GenerateContentRequest` has.
    fn conversation(&mut self, whole: &str, text: &str, path: &str) -> Result<(), BadRequest> {
        let body: Body<'_> = object(text, path)?;
        self.named(whole, body.model);
        self.bound_to = Bound::in_field("cachedContent", body.cached_content)
            .or_else(|| Bound::in_field("continuationToken", body.continuation_token));
        let contents = body.contents.ok_or_else(|| missing(step(path, "contents")))?;
        self.contents(contents.get(), &step(path, "contents"))?;
        for more in [body.tools, body.system_instruction].into_iter().flatten() {
            self.prompt_chars += without_attachments(more.get());
        }
        if let Some(config) = body.generation_config {
            let at = step(path, "generationConfig");
            let config: Config<'_> = object(config.get(), &at)?;
            self.max_output_tokens = count(config.max_output_tokens, &at, "maxOutputTokens")?;
            self.choices = count(config.candidate_count, &at, "candidateCount")?;
        }
        Ok(())
    }

    /// `countTokens` takes contents, or a whole request.
    fn count(&mut self, text: &str) -> Result<(), BadRequest> {
        let body: Body<'_> = object(text, "")?;
        match (body.generate_content_request, body.contents) {
            (Some(_), Some(_)) => {
                let why = "it cannot be given together with contents";
                Err(invalid("generateContentRequest".to_owned(), why))
            }
            (Some(inner), None) => {
                self.named(text, body.model);
                self.conversation(text, inner.get(), "generateContentRequest")
            }
            _ => self.conversation(text, text, ""),
        }
    }

    fn embedding(&mut self, whole: &str, text: &str, path: &str) -> Result<(), BadRequest> {
        let body: Body<'_> = object(text, path)?;
        self.named(whole, body.model);
        let content = body.content.ok_or_else(|| missing(step(path, "content")))?;
        let kind = kind_of(content.get());
        if kind != "an object" {
            return Err(wrong_kind(step(path, "content"), "an object", kind));
        }
        self.prompt_chars += without_attachments(content.get());
        Ok(())
    }

    fn embeddings(&mut self, text: &str) -> Result<(), BadRequest> {
        let body: Body<'_> = object(text, "")?;
        self.named(text, body.model);
        let requests = body.requests.ok_or_else(|| missing("requests".to_owned()))?;
        let list = elements(requests.get(), "requests")?;
        for (nth, request) in list.iter().enumerate() {
            self.embedding(text, request.get(), &format!("requests.{nth}"))?;
        }
        Ok(())
    }

    fn contents(&mut self, text: &str, path: &str) -> Result<(), BadRequest> {
        for (nth, content) in elements(text, path)?.iter().enumerate() {
            let kind = kind_of(content.get());
            if kind != "an object" {
                return Err(wrong_kind(step(path, &nth.to_string()), "an object", kind));
            }
            self.prompt_chars += without_attachments(content.get());
        }
        Ok(())
    }

    fn named(&mut self, whole: &str, model: Option<&RawValue>) {
        if let Some(model) = model {
            let start = model.get().as_ptr().addr() - whole.as_ptr().addr();
            self.models_at.push(start..start + model.get().len());
        }
    }
}

/// The elements of a list that must have some.
fn elements<'a>(text: &'a str, path: &str) -> Result<Vec<&'a RawValue>, BadRequest> {
    let list: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|_| wrong_kind(path.to_owned(), "an array of objects", kind_of(text)))?;
    if list.is_empty() { Err(invalid(path.to_owned(), "it must not be empty")) } else { Ok(list) }
}

/// A whole number that is not negative, also in quotes; absent and null are none.
fn count(raw: Option<&RawValue>, path: &str, name: &str) -> Result<Option<u64>, BadRequest> {
    let Some(raw) = raw else { return Ok(None) };
    let wrong = |_| wrong_kind(step(path, name), "an integer that is not negative", kind_of(raw.get()));
    raw.get().trim_matches('"').parse().map(Some).map_err(wrong)
}

fn step(path: &str, name: &str) -> String {
    super::super::fields::join(path, name)
}

/// The kind of a raw JSON value, for messages.
fn kind_of(raw: &str) -> &'static str {
    match raw.trim_ascii_start().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}
