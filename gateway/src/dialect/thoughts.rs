//! What proves an upstream's thoughts on the calls they led to: gathered from its answers for callers whose dialect cannot carry it,
//! and put back where the calls return to the same upstream. Pure: where it lies meanwhile is the flow's affair.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Dialect, anthropic, gemini};
use crate::canonical::request::{Part, Request, Role, Thinking, Turn};
use crate::canonical::response::{Event, Response};

/// The most bytes kept of one call; what is larger is let go.
const KEPT_MAX: usize = 64 * 1024;
/// The proofs of so many calls are asked for at most, those of the last ones.
const CALLS_MAX: usize = 256;

/// Whose thoughts: a proof is worth nothing to anyone else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker<'a> {
    /// What it speaks.
    pub dialect: Dialect,
    /// The provider's name.
    pub provider: &'a str,
}

/// What proves the thoughts before one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The call's id as the caller sees it, and as it comes back.
    pub call_id: String,
    proof: Proof,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Proof {
    /// Signed and redacted thoughts, in order (Anthropic).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    thoughts: Vec<Thinking>,
    /// What rides on the call itself (Gemini).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// A proof at rest.
#[derive(Serialize, Deserialize)]
struct AtRest<'a> {
    #[serde(borrow)]
    dialect: Cow<'a, str>,
    #[serde(borrow)]
    provider: Cow<'a, str>,
    #[serde(flatten)]
    proof: Proof,
}

impl Kept {
    /// As JSON, with its maker; nothing if it is too large.
    pub fn at_rest(&self, maker: Maker<'_>) -> Option<Vec<u8>> {
        let (dialect, provider) = (maker.dialect.as_str().into(), maker.provider.into());
        let json = serde_json::to_vec(&AtRest { dialect, provider, proof: self.proof.clone() }).ok()?;
        (json.len() <= KEPT_MAX).then_some(json)
    }
}

/// Follows an answer and gathers what proves the thoughts before each call.
#[derive(Debug, Clone)]
pub struct Gatherer {
    /// Who will send the calls back.
    caller: Dialect,
    /// Thoughts since the last call.
    thoughts: Vec<Thinking>,
    /// The words of a thought that is not signed yet.
    text: String,
}

impl Gatherer {
    /// Of an answer to a caller of this dialect, of which nothing was read yet.
    pub fn new(caller: Dialect) -> Self {
        Self { caller, thoughts: Vec::new(), text: String::new() }
    }

    /// Takes the next step of a stream.
    pub fn event(&mut self, event: &Event) -> Option<Kept> {
        match event {
            Event::Thinking(text) => self.text.push_str(text),
            Event::ThinkingSignature(signature) => {
                let text = std::mem::take(&mut self.text);
                self.thoughts.push(Thinking { text, signature: Some(signature.clone()), redacted: None });
            }
            Event::RedactedThinking(data) => {
                self.text.clear();
                self.thoughts.push(Thinking { redacted: Some(data.clone()), ..Thinking::default() });
            }
            Event::CallStart { id, signature, .. } => return self.call(id, signature.as_ref()),
            Event::Text(_) | Event::Refusal(_) => self.text.clear(),
            Event::Start(_) | Event::CallArguments { .. } | Event::Usage(_) | Event::Finish(_) => {}
        }
        None
    }

    /// All of a whole answer.
    pub fn of(answer: &Response, caller: Dialect) -> Vec<Kept> {
        let of_choice = |parts: &[Part]| {
            let mut gatherer = Self::new(caller);
            parts.iter().filter_map(|part| gatherer.part(part)).collect::<Vec<Kept>>()
        };
        answer.choices.iter().flat_map(|choice| of_choice(&choice.parts)).collect()
    }

    fn part(&mut self, part: &Part) -> Option<Kept> {
        match part {
            Part::Thinking(thought) if is_proven(thought) => self.thoughts.push(thought.clone()),
            Part::ToolCall(call) => return self.call(&call.id, call.signature.as_ref()),
            _ => {}
        }
        None
    }

    fn call(&mut self, id: &str, signature: Option<&String>) -> Option<Kept> {
        self.text.clear();
        let proof = Proof { thoughts: std::mem::take(&mut self.thoughts), signature: signature.cloned() };
        (proof != Proof::default()).then(|| Kept { call_id: returned(id, self.caller), proof })
    }
}

/// An upstream's id of a call as a caller of this dialect sends it back.
fn returned(id: &str, caller: Dialect) -> String {
    match caller {
        Dialect::Anthropic => anthropic::names::call_id(id),
        Dialect::Gemini | Dialect::CodeAssist => gemini::mint::own_or_minted(Some(id), &[]),
        Dialect::OpenAi => id.to_owned(),
    }
}

fn is_proven(thought: &Thinking) -> bool {
    thought.signature.is_some() || thought.redacted.is_some()
}

/// The calls of a conversation whose proofs an upstream of this dialect would take, and that came without: the last ones, in order.
pub(super) fn unproven(request: &Request, to: Dialect) -> Vec<String> {
    let said = request.turns.iter().filter(|turn| turn.role == Role::Assistant).flat_map(|turn| &turn.parts);
    let mut ids: Vec<String> = said
        .filter_map(|part| match (part, to) {
            (Part::ToolCall(call), Dialect::Anthropic) => Some(call.id.clone()),
            (Part::ToolCall(call), Dialect::Gemini | Dialect::CodeAssist) if call.signature.is_none() => {
                Some(call.id.clone())
            }
            _ => None,
        })
        .collect();
    ids.drain(..ids.len().saturating_sub(CALLS_MAX));
    ids
}

/// Whether anything of the conversation has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restored {
    /// Nothing was known.
    Nothing,
    /// Thoughts stand in it, all of them the upstream's own.
    Own,
}

/// What was found for the calls of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thoughts {
    proofs: HashMap<String, Proof>,
}

impl Thoughts {
    /// Adds what was found for a call, if it was made by this very upstream.
    pub fn add(&mut self, call_id: &str, at_rest: &[u8], maker: Maker<'_>) {
        let Ok(found) = serde_json::from_slice::<AtRest<'_>>(at_rest) else { return };
        if found.dialect == maker.dialect.as_str() && found.provider == maker.provider {
            self.proofs.insert(call_id.to_owned(), found.proof);
        }
    }

    /// Puts all of it back, for an upstream of this dialect.
    pub(super) fn restore(&self, request: &mut Request, to: Dialect) -> Restored {
        if self.proofs.is_empty() {
            return Restored::Nothing;
        }
        match to {
            Dialect::Anthropic => {
                // Whatever else stands there was signed by others, if at all.
                for turn in &mut request.turns {
                    turn.parts.retain(|part| !matches!(part, Part::Thinking(_)));
                }
                for run in request.turns.chunk_by_mut(|one, next| one.role == next.role) {
                    self.think(run);
                }
                Restored::Own
            }
            Dialect::Gemini | Dialect::CodeAssist => {
                for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
                    if let Part::ToolCall(call) = part
                        && call.signature.is_none()
                        && let Some(proof) = self.proofs.get(&call.id)
                    {
                        call.signature.clone_from(&proof.signature);
                    }
                }
                Restored::Nothing
            }
            Dialect::OpenAi => Restored::Nothing,
        }
    }

    /// Puts the thoughts into neighbouring turns of the model, which are one message to Anthropic: it must begin with those that led
    /// to the first call. Later ones stood before their calls.
    fn think(&self, run: &mut [Turn]) {
        let mut opening = Vec::new();
        let mut calls = 0;
        for turn in run.iter_mut().filter(|turn| turn.role == Role::Assistant) {
            let mut parts = Vec::with_capacity(turn.parts.len() + 1);
            for part in turn.parts.drain(..) {
                if let Part::ToolCall(call) = &part {
                    let proof = self.proofs.get(&call.id);
                    let thoughts = proof.into_iter().flat_map(|proof| &proof.thoughts).cloned().map(Part::Thinking);
                    let place = if calls == 0 { &mut opening } else { &mut parts };
                    place.extend(thoughts);
                    calls += 1;
                }
                parts.push(part);
            }
            turn.parts = parts;
        }
        if let Some(first) = run.first_mut() {
            first.parts.splice(..0, opening);
        }
    }
}

#[cfg(test)]
mod tests;
