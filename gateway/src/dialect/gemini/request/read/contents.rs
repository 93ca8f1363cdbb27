//! Turns and their parts.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::super::super::base64;
use super::super::super::fields::{Fields, cannot_cross, invalid, missing, unsupported, wrong_type};
use super::super::super::mint::own_or_minted;
use super::super::super::response::SKIP_SIGNATURE;
use crate::canonical::request::{Media, Part, Role, Source, Thinking, ToolCall, ToolOutcome, ToolResult, Turn};
use crate::error::BadRequest;

/// The instructions: an object of parts, or just a text.
pub(super) fn system(value: Value, path: String) -> Result<Vec<String>, BadRequest> {
    if let Value::String(text) = value {
        return Ok(vec![text]);
    }
    let mut content = Fields::of(value, path)?;
    content.take("role");
    let parts = content.objects("parts")?;
    content.none_left()?;
    let texts: Result<Vec<String>, BadRequest> = parts.into_iter().map(part_text).collect();
    Ok(texts?.into_iter().filter(|text| !text.is_empty()).collect())
}

/// A part that must be a text.
pub(in super::super::super) fn part_text(mut part: Fields) -> Result<String, BadRequest> {
    let at = part.at("text");
    let text = part.text("text")?;
    part.none_left()?;
    text.ok_or_else(|| missing(at))
}

/// The calls that still wait for their result, oldest first, by name.
#[derive(Debug, Default)]
struct Waiting(VecDeque<(String, String)>);

impl Waiting {
    fn call(&mut self, name: &str, id: &str) {
        self.0.push_back((name.to_owned(), id.to_owned()));
    }

    /// The id that a result belongs to: the one it says, else the oldest call of its name.
    fn result(&mut self, name: &str, id: Option<String>) -> Option<String> {
        let at = match &id {
            Some(id) => self.0.iter().position(|(_, waiting)| waiting == id),
            None => self.0.iter().position(|(waiting, _)| waiting == name),
        };
        match at {
            Some(at) => self.0.remove(at).map(|(_, id)| id),
            None => id,
        }
    }
}

/// The conversation. Results without an id are paired with the calls of their name in order.
pub(super) fn turns(contents: Vec<Fields>) -> Result<Vec<Turn>, BadRequest> {
    let mut waiting = Waiting::default();
    let mut turns = Vec::with_capacity(contents.len());
    for (nth, mut content) in contents.into_iter().enumerate() {
        let role = match content.text("role")?.as_deref() {
            // `function` is what results were said by once.
            None | Some("" | "user" | "function") => Role::User,
            Some("model") => Role::Assistant,
            Some(_) => return Err(invalid(content.at("role"), "expected 'user' or 'model'")),
        };
        let mut parts = Vec::new();
        for (place, part) in content.objects("parts")?.into_iter().enumerate() {
            parts.extend(read_part(part, role, (nth, place), &mut waiting)?);
        }
        content.none_left()?;
        turns.push(Turn { role, parts });
    }
    Ok(turns)
}

/// One part; nothing for an empty text.
fn read_part(
    mut part: Fields,
    role: Role,
    place: (usize, usize),
    waiting: &mut Waiting,
) -> Result<Option<Part>, BadRequest> {
    for hint in ["partMetadata", "mediaResolution"] {
        part.take(hint);
    }
    let thought = part.flag("thought")?;
    let signature = part.text("thoughtSignature")?.filter(|signature| signature != SKIP_SIGNATURE);
    let read = if let Some(text) = part.text("text")? {
        match (thought, text.is_empty()) {
            (true, _) => Some(Part::Thinking(Thinking { text, signature, redacted: None })),
            (false, true) => None,
            (false, false) => Some(Part::Text(text)),
        }
    } else if let Some(call) = part.object("functionCall")? {
        must_be(role, Role::Assistant, &part, "functionCall")?;
        Some(Part::ToolCall(read_call(call, place, signature, waiting)?))
    } else if let Some(result) = part.object("functionResponse")? {
        must_be(role, Role::User, &part, "functionResponse")?;
        Some(Part::ToolResult(read_result(result, waiting)?))
    } else if let Some(blob) = part.object("inlineData")? {
        Some(read_blob(blob)?)
    } else if let Some(file) = part.object("fileData")? {
        Some(read_file(file)?)
    } else if signature.is_some() || thought {
        None
    } else {
        let path = part.path().to_owned();
        part.none_left()?;
        return Err(missing(format!("{path}.text")));
    };
    part.none_left()?;
    Ok(read)
}

fn must_be(role: Role, needed: Role, part: &Fields, name: &str) -> Result<(), BadRequest> {
    let who = if needed == Role::User { "user" } else { "model" };
    if role == needed { Ok(()) } else { Err(invalid(part.at(name), &format!("it must stand in a turn of the {who}"))) }
}

fn read_call(
    mut call: Fields,
    (turn, place): (usize, usize),
    signature: Option<String>,
    waiting: &mut Waiting,
) -> Result<ToolCall, BadRequest> {
    let name = call.text("name")?.filter(|name| !name.is_empty()).ok_or_else(|| missing(call.at("name")))?;
    let arguments = object_or_empty(&mut call, "args")?;
    let id = call.text("id")?;
    call.none_left()?;
    let said = Value::Object(arguments.clone()).to_string();
    let (turn, place) = (turn.to_le_bytes(), place.to_le_bytes());
    let id = own_or_minted(id.as_deref(), &[&turn, &place, name.as_bytes(), said.as_bytes()]);
    waiting.call(&name, &id);
    Ok(ToolCall { id, name, arguments, signature })
}

fn object_or_empty(fields: &mut Fields, name: &str) -> Result<Map<String, Value>, BadRequest> {
    match fields.take(name) {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(wrong_type(fields.at(name), "an object", &other)),
    }
}

fn read_result(mut result: Fields, waiting: &mut Waiting) -> Result<ToolResult, BadRequest> {
    let name = result.text("name")?.filter(|name| !name.is_empty()).ok_or_else(|| missing(result.at("name")))?;
    let own = result.text("id")?.filter(|id| !id.is_empty());
    let own = own.map(|id| own_or_minted(Some(&id), &[]));
    let id = waiting.result(&name, own).ok_or_else(|| {
        let why = "it answers no call of the conversation before it";
        invalid(result.path().to_owned(), why)
    })?;
    let (outcome, text) = said(object_or_empty(&mut result, "response")?);
    let mut content = vec![Part::Text(text)];
    for mut part in result.objects("parts")? {
        if let Some(blob) = part.object("inlineData")? {
            content.push(read_blob(blob)?);
        } else if let Some(file) = part.object("fileData")? {
            content.push(read_file(file)?);
        }
        part.none_left()?;
    }
    // Both say that nothing more of this result will come, which is always so here.
    for word in ["willContinue", "scheduling"] {
        if result.take(word).is_some_and(|value| value == true) {
            return Err(cannot_cross(result.at(word)));
        }
    }
    result.none_left()?;
    Ok(ToolResult { id, name, content, outcome })
}

/// What a function answered, as a text. The SDKs wrap what is no object as `result`, `output` or `error`.
fn said(mut response: Map<String, Value>) -> (ToolOutcome, String) {
    if response.len() == 1 {
        for (name, outcome) in
            [("result", ToolOutcome::Ok), ("output", ToolOutcome::Ok), ("error", ToolOutcome::Failed)]
        {
            match response.remove(name) {
                Some(Value::String(text)) => return (outcome, text),
                Some(other) => return (outcome, other.to_string()),
                None => {}
            }
        }
    }
    (ToolOutcome::Ok, Value::Object(response).to_string())
}

fn read_blob(mut blob: Fields) -> Result<Part, BadRequest> {
    let mime = blob.text("mimeType")?.filter(|mime| !mime.is_empty()).ok_or_else(|| missing(blob.at("mimeType")))?;
    let data = blob.text("data")?.ok_or_else(|| missing(blob.at("data")))?;
    let data = base64::standard(&data).ok_or_else(|| invalid(blob.at("data"), "expected base64"))?;
    let name = blob.text("displayName")?;
    blob.none_left()?;
    let is_image = mime.starts_with("image/");
    let media = Media { source: Source::Inline { mime, data }, name, detail: None };
    Ok(if is_image { Part::Image(media) } else { Part::File(media) })
}

/// Places that only Google's own upstreams can read.
const GOOGLES_OWN: &[&str] = &["generativelanguage.googleapis.com", "youtube.com/", "youtu.be/"];

fn read_file(mut file: Fields) -> Result<Part, BadRequest> {
    let uri = file.text("fileUri")?.filter(|uri| !uri.is_empty()).ok_or_else(|| missing(file.at("fileUri")))?;
    let mime = file.text("mimeType")?;
    let name = file.text("displayName")?;
    let is_web = uri.starts_with("https://") || uri.starts_with("http://");
    if !is_web || GOOGLES_OWN.iter().any(|place| uri.contains(place)) {
        return Err(unsupported(file.at("fileUri"), "only Google's own upstreams can read it"));
    }
    file.none_left()?;
    let media = Media { source: Source::Url(uri), name, detail: None };
    let is_image = mime.is_some_and(|mime| mime.starts_with("image/"));
    Ok(if is_image { Part::Image(media) } else { Part::File(media) })
}
