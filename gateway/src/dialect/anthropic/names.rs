//! Function names and call ids as this dialect takes them, and the way back.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::canonical::request::{Part, Request, ToolChoice};
use crate::canonical::response::Response;

/// The longest function name.
const MAX_NAME: usize = 128;
/// The longest call id that is passed on as it is.
const MAX_ID: usize = 64;

/// The functions of one request whose names had to be changed, both ways. The same request gives the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    sent: HashMap<String, String>,
    original: HashMap<String, String>,
}

impl Names {
    /// Of the functions a request offers, calls or demands.
    pub fn of(request: &Request) -> Self {
        let mut names = Self::default();
        let odd: Vec<&str> = named(request).filter(|name| !is_plain(name, MAX_NAME)).collect();
        if odd.is_empty() {
            return names;
        }
        let taken: std::collections::HashSet<&str> = named(request).filter(|name| is_plain(name, MAX_NAME)).collect();
        for name in odd {
            if names.sent.contains_key(name) {
                continue;
            }
            let mut sent: String = name.chars().map(|c| if is_word(c) { c } else { '_' }).take(MAX_NAME).collect();
            if sent.is_empty() || taken.contains(sent.as_str()) || names.original.contains_key(&sent) {
                sent = format!("{}_{}", &sent[..sent.len().min(MAX_NAME - 17)], digest(name));
            }
            names.original.insert(sent.clone(), name.to_owned());
            names.sent.insert(name.to_owned(), sent);
        }
        names
    }

    /// The name for the upstream.
    pub fn sent<'a>(&'a self, name: &'a str) -> &'a str {
        self.sent.get(name).map_or(name, String::as_str)
    }

    /// The caller's name for what the upstream calls.
    pub fn original<'a>(&'a self, sent: &'a str) -> &'a str {
        self.original.get(sent).map_or(sent, String::as_str)
    }

    /// Gives the calls of an answer the caller's names.
    pub fn restore(&self, response: &mut Response) {
        if self.original.is_empty() {
            return;
        }
        for part in response.choices.iter_mut().flat_map(|choice| &mut choice.parts) {
            if let Part::ToolCall(call) = part
                && let Some(original) = self.original.get(&call.name)
            {
                call.name.clone_from(original);
            }
        }
    }
}

fn named(request: &Request) -> impl Iterator<Item = &str> {
    let tools = request.tools.iter().map(|tool| tool.name.as_str());
    let calls = request.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.name.as_str()),
        _ => None,
    });
    let demanded = match &request.tool_choice {
        Some(ToolChoice::Function(name)) => Some(name.as_str()),
        _ => None,
    };
    tools.chain(calls).chain(demanded)
}

/// An id as this dialect takes it: itself, or for one with other characters or of great length another that stands for it everywhere.
pub(in crate::dialect) fn call_id(id: &str) -> String {
    if is_plain(id, MAX_ID) { id.to_owned() } else { format!("toolu_{}", digest(id)) }
}

fn is_plain(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && text.chars().all(is_word)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// 16 hexadecimal digits that stand for a text.
fn digest(text: &str) -> String {
    let start = Sha256::digest(text.as_bytes()).iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    format!("{start:016x}")
}
