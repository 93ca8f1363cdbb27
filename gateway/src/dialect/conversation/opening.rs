//! How a conversation opens: system, the tools' names and the first message of its user, without what changes from turn to turn.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::Stage;

/// So much of a text is looked at.
const TEXT_MAX: usize = 16 * 1024;
/// So much of anything that is no text: images and files differ early.
const OTHER_MAX: usize = 1024;
/// Claude Code's first block of a system prompt; another one in every request.
const BILLING: &str = "x-anthropic-billing-header";

/// The messages, as far as the first of the user, and what follows it.
#[derive(Default)]
pub(super) struct Turns<'a> {
    before: Vec<Turn<'a>>,
    first: Option<First<'a>>,
    answered: bool,
}

enum First<'a> {
    Turn(Turn<'a>),
    /// The whole input is one text.
    Text(Cow<'a, str>),
}

#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parts: Option<&'a RawValue>,
}

impl Turn<'_> {
    /// A message without a role is its user's; an item of another kind (a call, its result) is nobody's.
    fn is_users(&self) -> bool {
        match self.role.as_deref() {
            Some(role) => role == "user",
            None => self.kind.as_deref().is_none_or(|kind| kind == "message"),
        }
    }

    fn is_an_answer(&self) -> bool {
        match self.role.as_deref() {
            Some(role) => matches!(role, "assistant" | "model"),
            None => !self.is_users(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Turns<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Turns<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("messages")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Turns::default())
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Turns { first: Some(First::Text(text.into())), ..Turns::default() })
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Turns { first: Some(First::Text(text.to_owned().into())), ..Turns::default() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut turns = Turns::default();
                while turns.first.is_none()
                    && let Some(turn) = list.next_element::<Turn<'de>>()?
                {
                    if turn.is_users() {
                        turns.first = Some(First::Turn(turn));
                    } else {
                        turns.before.push(turn);
                    }
                }
                while !turns.answered
                    && let Some(turn) = list.next_element::<Turn<'de>>()?
                {
                    turns.answered = turn.is_an_answer();
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(turns)
            }
        }
        deserializer.deserialize_any(Look)
    }
}

impl Turns<'_> {
    /// Adds the messages up to the first of the user; `None` if there is none of the user.
    pub(super) fn add(&self, hash: &mut Sha256) -> Option<Stage> {
        for content in self.before.iter().filter_map(|turn| turn.content.or(turn.parts)) {
            add_system(hash, content);
        }
        match self.first.as_ref()? {
            First::Text(text) => add_text(hash, Kind::User, text),
            First::Turn(turn) => {
                if let Some(content) = turn.content.or(turn.parts) {
                    add_content(hash, Kind::User, content);
                }
            }
        }
        Some(if self.answered { Stage::GoesOn } else { Stage::Opens })
    }
}

/// What a text is: system prompts tell the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    System,
    User,
    Tool,
}

/// Adds a system prompt, in whatever shape.
pub(super) fn add_system(hash: &mut Sha256, content: &RawValue) {
    add_content(hash, Kind::System, content);
}

/// Adds the names of tools.
pub(super) fn add_tools(hash: &mut Sha256, tools: &RawValue) {
    #[derive(Deserialize)]
    struct Tool<'a> {
        #[serde(borrow, default)]
        name: Option<Cow<'a, str>>,
        #[serde(rename = "type", borrow, default)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        function: Option<&'a RawValue>,
        #[serde(borrow, default, alias = "functionDeclarations")]
        function_declarations: Option<&'a RawValue>,
    }
    let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(tools.get()) else { return };
    for tool in tools.into_iter().filter_map(|tool| serde_json::from_str::<Tool<'_>>(tool.get()).ok()) {
        if let Some(name) = tool.name.as_deref().or(tool.kind.as_deref().filter(|kind| *kind != "function")) {
            add_text(hash, Kind::Tool, name);
        }
        if let Some(function) = tool.function {
            add_named(hash, function);
        }
        let declared =
            tool.function_declarations.and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok());
        declared.into_iter().flatten().for_each(|function| add_named(hash, function));
    }
}

fn add_named(hash: &mut Sha256, function: &RawValue) {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default)]
        name: Cow<'a, str>,
    }
    if let Ok(named) = serde_json::from_str::<Named<'_>>(function.get()) {
        add_text(hash, Kind::Tool, &named.name);
    }
}

/// Adds a text, a part, or a list of parts. Marks for caches are none of it: they move on from turn to turn.
fn add_content(hash: &mut Sha256, kind: Kind, content: &RawValue) {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        parts: Option<&'a RawValue>,
    }
    if let Some(text) = text(content) {
        return add_text(hash, kind, &text);
    }
    if let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        return parts.into_iter().for_each(|part| add_content(hash, kind, part));
    }
    match serde_json::from_str::<Part<'_>>(content.get()) {
        Ok(Part { text: Some(text), .. }) => add_text(hash, kind, &text),
        Ok(Part { parts: Some(parts), .. }) => add_content(hash, kind, parts),
        _ => add_bytes(hash, kind, &content.get().as_bytes()[..content.get().len().min(OTHER_MAX)]),
    }
}

fn add_text(hash: &mut Sha256, kind: Kind, text: &str) {
    let looked_at = &text.as_bytes()[..text.len().min(TEXT_MAX)];
    match kind {
        Kind::System if text.trim_start().starts_with(BILLING) => {}
        Kind::System => add_bytes(hash, kind, &without_numbers(looked_at)),
        Kind::User | Kind::Tool => add_bytes(hash, kind, looked_at),
    }
}

fn add_bytes(hash: &mut Sha256, kind: Kind, bytes: &[u8]) {
    hash.update([kind as u8]);
    hash.update(bytes.len().to_le_bytes());
    hash.update(bytes);
}

/// A system prompt may tell the date and the time: every number in it counts as the same.
fn without_numbers(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        let byte = if byte.is_ascii_digit() { b'0' } else { *byte };
        if byte != b'0' || out.last() != Some(&b'0') {
            out.push(byte);
        }
    }
    out
}

/// A JSON string.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    if !raw.get().starts_with('"') {
        return None;
    }
    serde_json::from_str::<Borrowed<'_>>(raw.get()).ok().map(|text| text.0)
}

/// Borrows where nothing is escaped.
#[derive(Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
