//! By what a request is known to belong to a conversation: what its caller tells of it, or else how it opens. Pure.

use std::borrow::Cow;

use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use opening::Turns;

mod opening;

/// The headers that may tell a conversation.
pub const HEADERS: [&str; 9] = [
    CLAUDE_CODE_SESSION,
    CLAUDE_CODE_AGENT,
    "session-id",
    "session_id",
    "conversation-id",
    "conversation_id",
    "x-session-id",
    "x-session-affinity",
    "x-headgate-session",
];
const CLAUDE_CODE_SESSION: &str = "x-claude-code-session-id";
/// An agent of a session has a prompt of its own, so a conversation of its own.
const CLAUDE_CODE_AGENT: &str = "x-claude-code-agent-id";

/// What is longer names no conversation.
const NAME_MAX: usize = 255;

/// A conversation as its requests show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Tells it from others; the same for all its requests. Says nothing of whose it is, nor of what is said in it.
    pub mark: [u8; 32],
    /// Where in it the request stands.
    pub stage: Stage,
}

/// Where in its conversation a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its caller names the conversation, or an earlier answer is in it.
    GoesOn,
    /// Nothing tells the conversation but its opening, and there is nothing after that: the same words may open many.
    Opens,
}

/// The fields of a body that may tell, whatever its dialect: their names do not collide.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "cachedContent")]
    cached_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    safety_identifier: Option<&'a RawValue>,
    #[serde(borrow, default)]
    user: Option<&'a RawValue>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "systemInstruction")]
    system_instruction: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    functions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<Turns<'a>>,
    #[serde(borrow, default)]
    input: Option<Turns<'a>>,
    #[serde(borrow, default)]
    contents: Option<Turns<'a>>,
}

/// The conversation that these headers and this body show; `None`: there is none in them.
pub fn read(headers: &HeaderMap, body: &[u8]) -> Option<Shown> {
    let agent = header(headers, CLAUDE_CODE_AGENT).unwrap_or_default();
    let claude_code = |session: &str| named(CLAUDE_CODE_SESSION, &[session, agent]);
    if let Some(session) = header(headers, CLAUDE_CODE_SESSION) {
        return Some(claude_code(session));
    }
    let mut others = HEADERS.iter().filter(|name| ![CLAUDE_CODE_SESSION, CLAUDE_CODE_AGENT].contains(name));
    let by_header = others.find_map(|name| Some(named(name, &[header(headers, name)?])));
    // Of the body only Claude Code's session is more telling, and there is none without that word.
    if by_header.is_some() && memchr::memmem::find(body, b"session").is_none() {
        return by_header;
    }
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(body) else { return by_header };
    let user_id = user_id(fields.metadata);
    let session = user_id.as_deref().and_then(session_in);
    let by_session = session.map(|session| claude_code(&session));
    by_session.or(by_header).or_else(|| by_field(&fields, user_id.as_deref())).or_else(|| by_opening(&fields))
}

/// What the fields name, the most telling first. The last ones name a user: better than nothing.
fn by_field(fields: &Fields<'_>, user_id: Option<&str>) -> Option<Shown> {
    let named_by = |name, raw: Option<&RawValue>| Some(named(name, &[&*usable(text(raw?)?)?]));
    named_by("previous_response_id", fields.previous_response_id)
        .or_else(|| Some(named("conversation", &[&*usable(id(fields.conversation?)?)?])))
        .or_else(|| named_by("prompt_cache_key", fields.prompt_cache_key))
        .or_else(|| named_by("cached_content", fields.cached_content))
        .or_else(|| Some(named("user_id", &[&*usable(user_id?.into())?])))
        .or_else(|| named_by("safety_identifier", fields.safety_identifier))
        .or_else(|| named_by("user", fields.user))
}

/// System, tools and the first thing a user says.
fn by_opening(fields: &Fields<'_>) -> Option<Shown> {
    let turns = [&fields.messages, &fields.input, &fields.contents].into_iter().flatten().next()?;
    let mut hash = Sha256::new();
    for system in [fields.system, fields.instructions, fields.system_instruction].into_iter().flatten() {
        opening::add_system(&mut hash, system);
    }
    for tools in [fields.tools, fields.functions].into_iter().flatten() {
        opening::add_tools(&mut hash, tools);
    }
    let stage = turns.add(&mut hash)?;
    Some(Shown { mark: hash.finalize().into(), stage })
}

fn named(signal: &str, values: &[&str]) -> Shown {
    let mut hash = Sha256::new();
    for word in [&[signal], values].into_iter().flatten() {
        hash.update(word.len().to_le_bytes());
        hash.update(word);
    }
    Shown { mark: hash.finalize().into(), stage: Stage::GoesOn }
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (1..=NAME_MAX).contains(&value.len()).then_some(value)
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    opening::text(raw)
}

/// A text, or an object that has an id.
pub(super) fn id(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
    }
    text(raw).or_else(|| serde_json::from_str::<Object<'_>>(raw.get()).ok().map(|object| object.id))
}

fn usable(name: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let printable = !name.chars().any(char::is_control);
    ((1..=NAME_MAX).contains(&name.len()) && printable).then_some(name)
}

fn user_id(metadata: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, default)]
        user_id: Option<&'a RawValue>,
    }
    let metadata: Metadata<'_> = serde_json::from_str(metadata?.get()).ok()?;
    text(metadata.user_id?)
}

/// The session in Claude Code's user id: JSON with a `session_id`, or `user_…_account_…_session_…` of its older versions.
fn session_in(user_id: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Device<'a> {
        #[serde(borrow)]
        session_id: Cow<'a, str>,
    }
    let session = match serde_json::from_str::<Device<'_>>(user_id) {
        Ok(device) => device.session_id,
        Err(_) => user_id.strip_prefix("user_")?.rsplit_once("_session_")?.1.into(),
    };
    usable(session)
}

#[cfg(test)]
mod tests;
