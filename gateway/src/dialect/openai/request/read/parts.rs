//! Reads the content of messages: a text, or a list of parts.

use serde_json::Value;

use super::super::super::media::{source, standard_base64};
use super::super::super::tree::{At, Object};
use super::DROPPED_IN_MESSAGES;
use crate::canonical::request::{Media, Part, Source};
use crate::error::BadRequest;

/// Instructions: text and nothing else.
pub(super) fn texts(content: Value, at: &At<'_>) -> Result<Vec<String>, BadRequest> {
    let mut texts: Vec<String> = each(content, at, |kind, part, at| match kind {
        "text" => part.need_text("text"),
        _ => Err(at.field("type").unsupported("instructions can only be text")),
    })?;
    texts.retain(|text| !text.is_empty());
    Ok(texts)
}

/// What a user or a tool says: text and media.
pub(super) fn user(content: Value, at: &At<'_>) -> Result<Vec<Part>, BadRequest> {
    each(content, at, |kind, part, at| match kind {
        "text" => part.need_text("text").map(Part::Text),
        "image_url" => image(part, at),
        "input_audio" => audio(part, at),
        "file" => file(part, at),
        _ => Err(at.field("type").unsupported("no such part can be")),
    })
}

/// What the model said.
pub(super) fn assistant(content: Value, at: &At<'_>) -> Result<Vec<Part>, BadRequest> {
    each(content, at, |kind, part, at| match kind {
        "text" => part.need_text("text").map(Part::Text),
        "refusal" => part.need_text("refusal").map(Part::Refusal),
        _ => Err(at.field("type").unsupported("no such part can be")),
    })
}

/// Reads a text as one part, or every part of a list. What `read` leaves of a part must be a hint.
fn each<T: FromText>(
    content: Value,
    at: &At<'_>,
    read: impl Fn(&str, &mut Object<'_>, &At<'_>) -> Result<T, BadRequest>,
) -> Result<Vec<T>, BadRequest> {
    let list = match content {
        Value::String(text) => return Ok(vec![T::from_text(text)]),
        Value::Array(list) => list,
        other => return Err(at.wrong("a string or an array of parts", &other)),
    };
    let mut parts = Vec::with_capacity(list.len());
    for (nth, part) in list.into_iter().enumerate() {
        let at = at.nth(nth);
        let mut part = Object::new(part, &at)?;
        let kind = part.need_text("type")?;
        parts.push(read(&kind, &mut part, &at)?);
        part.close(DROPPED_IN_MESSAGES)?;
    }
    Ok(parts)
}

/// What a bare text is among parts.
trait FromText {
    fn from_text(text: String) -> Self;
}

impl FromText for String {
    fn from_text(text: String) -> Self {
        text
    }
}

impl FromText for Part {
    fn from_text(text: String) -> Self {
        Self::Text(text)
    }
}

fn image(part: &mut Object<'_>, at: &At<'_>) -> Result<Part, BadRequest> {
    let at = at.field("image_url");
    let mut image = Object::new(part.need("image_url")?, &at)?;
    let url = image.need_text("url")?;
    let source = source(url, &at.field("url"))?;
    let detail = image.text("detail")?;
    image.close(DROPPED_IN_MESSAGES)?;
    Ok(Part::Image(Media { source, name: None, detail }))
}

fn audio(part: &mut Object<'_>, at: &At<'_>) -> Result<Part, BadRequest> {
    let at = at.field("input_audio");
    let mut audio = Object::new(part.need("input_audio")?, &at)?;
    let data = audio.need_text("data")?;
    let format = audio.need_text("format")?;
    audio.close(DROPPED_IN_MESSAGES)?;
    if format.is_empty() || !format.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(at.field("format").invalid("no such format"));
    }
    let mime = format!("audio/{}", format.to_ascii_lowercase());
    let source = Source::Inline { mime, data: standard_base64(&data).into_owned() };
    Ok(Part::File(Media { source, name: None, detail: None }))
}

fn file(part: &mut Object<'_>, at: &At<'_>) -> Result<Part, BadRequest> {
    let at = at.field("file");
    let mut file = Object::new(part.need("file")?, &at)?;
    if file.take("file_id").is_some() {
        return Err(at.field("file_id").unsupported("the file lies at OpenAI"));
    }
    let name = file.text("filename")?;
    let data = file.need_text("file_data")?;
    let source = file_source(data, name.as_deref(), &at.field("file_data"))?;
    file.close(DROPPED_IN_MESSAGES)?;
    Ok(Part::File(Media { source, name, detail: None }))
}

/// File data: a data URL, or bare base64 whose kind the name tells.
pub(in crate::dialect) fn file_source(data: String, name: Option<&str>, at: &At<'_>) -> Result<Source, BadRequest> {
    if data.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return source(data, at);
    }
    let ending = name.and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending.to_ascii_lowercase());
    let mime = match ending.as_deref() {
        None | Some("pdf") => "application/pdf",
        Some("txt" | "md") => "text/plain",
        Some("csv") => "text/csv",
        Some("html" | "htm") => "text/html",
        Some("json") => "application/json",
        Some(_) => return Err(at.invalid("expected a data URL, which tells the media type")),
    };
    Ok(Source::Inline { mime: mime.to_owned(), data: standard_base64(&data).into_owned() })
}
