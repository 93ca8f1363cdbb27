//! Names of functions that OpenAI would refuse, made fit on the way there and given back on the way home.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::media::minted;
use crate::canonical::request::{Part, Request, ToolChoice};
use crate::canonical::response::Response;

/// The longest name.
const MAX: usize = 64;

/// The names of one request that had to change. Made from the request alone, so every replica makes the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// As the caller wrote it → as the upstream gets it.
    there: BTreeMap<String, String>,
    /// The other way.
    home: BTreeMap<String, String>,
}

impl Names {
    /// The names of a request's functions and calls.
    pub fn of(request: &Request) -> Self {
        let tools = request.tools.iter().map(|tool| tool.name.as_str());
        let called = request.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.name.as_str()),
            _ => None,
        });
        let chosen = match &request.tool_choice {
            Some(ToolChoice::Function(name)) => Some(name.as_str()),
            _ => None,
        };
        let all: BTreeSet<&str> = tools.chain(called).chain(chosen).collect();
        let mut names = Self::default();
        for name in all.iter().filter(|name| !is_fit(name)) {
            let mut fit: String = name.chars().map(|c| if is_fit_char(c) { c } else { '_' }).take(MAX).collect();
            if fit.is_empty() || all.contains(fit.as_str()) || names.home.contains_key(&fit) {
                fit.truncate(MAX - 13);
                fit = minted(&format!("{fit}_"), &[name]);
                fit.truncate(MAX);
            }
            names.there.insert((*name).to_owned(), fit.clone());
            names.home.insert(fit, (*name).to_owned());
        }
        names
    }

    /// As the upstream gets it.
    pub fn outgoing<'a>(&'a self, name: &'a str) -> &'a str {
        self.there.get(name).map_or(name, String::as_str)
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
}

fn is_fit(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX && name.chars().all(is_fit_char)
}

fn is_fit_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The longest id of a call.
const MAX_ID: usize = 40;

/// The id of a call as OpenAI takes it; the same for a call and its result.
pub(in crate::dialect) fn call_id(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID { Cow::Borrowed(id) } else { Cow::Owned(minted("call_", &[id])) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::request::Tool;
    use proptest::prelude::*;

    fn names(list: &[String]) -> Names {
        let tools = list
            .iter()
            .map(|name| Tool { name: name.clone(), description: None, parameters: serde_json::json!({}), strict: None })
            .collect();
        Names::of(&Request { tools, ..Request::default() })
    }

    #[test]
    fn only_unfit_names_change() {
        let found = names(&["get_weather".into(), "ns.get:it".into()]);
        assert_eq!(found.outgoing("get_weather"), "get_weather");
        assert_eq!(found.outgoing("ns.get:it"), "ns_get_it");
        assert_eq!(found.incoming("ns_get_it"), "ns.get:it");
    }

    proptest! {
        #[test]
        fn every_name_comes_home_and_no_two_meet(list in prop::collection::vec("[a.:_é]{0,3}|[a-c]{60}[.d]{0,8}", 1..8)) {
            let found = names(&list);
            let mut seen = BTreeMap::new();
            for name in &list {
                let out = found.outgoing(name);
                prop_assert!(is_fit(out), "{}", out);
                prop_assert_eq!(found.incoming(out), name);
                prop_assert_eq!(seen.entry(out.to_owned()).or_insert(name), &name);
            }
        }
    }
}
