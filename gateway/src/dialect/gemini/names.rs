//! Names of functions that Gemini would refuse, made fit on the way there and given back on the way home.

use std::collections::HashMap;

use super::mint::minted;
use crate::canonical::request::{Part, Request, ToolChoice};
use crate::canonical::response::{Event, Response};

/// The longest name.
const MAX: usize = 64;

/// The names of one request that had to change. Made from the request alone, so every replica makes the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// As the upstream gets it → as the caller wrote it.
    home: HashMap<String, String>,
}

impl Names {
    /// The names of a request's functions and calls.
    pub fn of(request: &Request) -> Self {
        let tools = request.tools.iter().map(|tool| tool.name.as_str());
        let said = request.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.name.as_str()),
            Part::ToolResult(result) => Some(result.name.as_str()),
            _ => None,
        });
        let chosen = match &request.tool_choice {
            Some(ToolChoice::Function(name)) => Some(name.as_str()),
            _ => None,
        };
        let unfit = tools.chain(said).chain(chosen).filter(|name| !is_fit(name));
        Self { home: unfit.map(|name| (fitted(name), name.to_owned())).collect() }
    }

    /// As the caller wrote it.
    pub fn incoming<'a>(&'a self, name: &'a str) -> &'a str {
        self.home.get(name).map_or(name, String::as_str)
    }

    /// Gives the calls of a whole answer their own names.
    pub fn restore(&self, answer: &mut Response) {
        if self.home.is_empty() {
            return;
        }
        for part in answer.choices.iter_mut().flat_map(|choice| &mut choice.parts) {
            if let Part::ToolCall(call) = part
                && let Some(own) = self.home.get(&call.name)
            {
                call.name.clone_from(own);
            }
        }
    }

    /// Gives a streamed call its own name.
    pub(super) fn restore_event(&self, event: &mut Event) {
        if let Event::CallStart { name, .. } = event
            && let Some(own) = self.home.get(name)
        {
            name.clone_from(own);
        }
    }
}

/// A name as Gemini takes it. A name that has to change ends in a hash of the whole, so no two become one.
pub(super) fn outgoing(name: &str) -> String {
    if is_fit(name) { name.to_owned() } else { fitted(name) }
}

fn fitted(name: &str) -> String {
    let hash = minted(&[name.as_bytes()]);
    let clean: String = name.chars().map(|c| if is_fit_char(c) { c } else { '_' }).take(MAX - 15).collect();
    format!("f_{clean}_{}", &hash["call_".len()..][..12])
}

fn is_fit(name: &str) -> bool {
    name.len() <= MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_fit_char)
}

fn is_fit_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::request::Tool;
    use proptest::prelude::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), description: None, parameters: serde_json::json!({}), strict: None }
    }

    #[test]
    fn only_names_that_gemini_refuses_change() {
        for name in ["get_weather", "_x", "a.b:c-d"] {
            assert_eq!(outgoing(name), name);
        }
        for name in ["", "9lives", "-x", "naïve", "a b"] {
            assert!(is_fit(&outgoing(name)), "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_fit_on_the_way_and_comes_home(names in prop::collection::hash_set("\\PC{0,90}", 1..6)) {
            let request = Request { tools: names.iter().map(|name| tool(name)).collect(), ..Request::default() };
            let known = Names::of(&request);
            for name in &names {
                let sent = outgoing(name);
                prop_assert!(is_fit(&sent), "{}", sent);
                prop_assert_eq!(known.incoming(&sent), name);
            }
        }
    }
}
