//! Quota pools behind one credential: which one a model's name means, and the markers by which a caller names one. Pure.

use shared::config::{PoolRules, Provider};
use shared::ids::PoolId;

/// The builtin pool of everything that no other rule names.
const GEMINI_CLI: &str = "gemini-cli";
/// The other builtin pool.
const ANTIGRAVITY: &str = "antigravity";
/// What stands before a model's name to name its pool.
const PREFIX: &str = "antigravity-";
/// Older names of models that only the antigravity pool serves, each with or without an effort.
const LEGACY: [&str; 7] = [
    "gemini-3-pro-low",
    "gemini-3-pro-medium",
    "gemini-3-pro-high",
    "gemini-3-flash",
    "gemini-3-flash-low",
    "gemini-3-flash-medium",
    "gemini-3-flash-high",
];

/// The pool that a provider's rules choose for a model; `None` where it has no pools.
pub(super) fn chosen<'p>(provider: &'p Provider, model: &str) -> Option<&'p PoolId> {
    let first = provider.pools.keys().next()?;
    let named = match &provider.pool_rules {
        PoolRules::Builtin => Some(builtin(model)),
        PoolRules::Rules(rules) => {
            rules.iter().find(|rule| rule.pattern.is_match(model)).map(|rule| rule.pool.as_str())
        }
    };
    let named = named.and_then(|named| provider.pools.keys().find(|pool| pool.as_str() == named));
    Some(named.unwrap_or(first))
}

/// The builtin rules, first match wins. A suffix that names a pool is no part of a model's own name.
fn builtin(model: &str) -> &'static str {
    let name = model.to_ascii_lowercase();
    let antigravity = [PREFIX, "claude", "gpt"].iter().any(|start| name.starts_with(start))
        || name.contains("image")
        || LEGACY.contains(&name.as_str());
    if antigravity { ANTIGRAVITY } else { GEMINI_CLI }
}

/// What a name may mean whose markers name a pool, most literal first: the name without them, and the pool in lower case. A
/// suffix says more than a prefix; both are taken off.
pub(super) fn unmarked(name: &str) -> Vec<(&str, String)> {
    let mut meanings = Vec::new();
    let (rest, suffix) = match name.rsplit_once(':') {
        Some((rest, pool)) => (rest, Some(pool.to_ascii_lowercase())),
        None => (name, None),
    };
    if let Some(pool) = &suffix {
        meanings.push((rest, pool.clone()));
    }
    if let Some(rest) = without_prefix(rest) {
        meanings.push((rest, suffix.unwrap_or_else(|| ANTIGRAVITY.to_owned())));
    }
    meanings
}

/// What comes after the builtin prefix, whatever its case.
pub(super) fn without_prefix(name: &str) -> Option<&str> {
    let start = name.get(..PREFIX.len())?;
    start.eq_ignore_ascii_case(PREFIX).then(|| &name[PREFIX.len()..]).filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_rules_choose_the_pool_by_the_name_whatever_its_case() {
        for (model, pool) in [
            ("claude-sonnet-4.5", ANTIGRAVITY),
            ("Claude-Opus-4.6", ANTIGRAVITY),
            ("claude", ANTIGRAVITY),
            ("gpt-oss-120b", ANTIGRAVITY),
            ("GPT-5", ANTIGRAVITY),
            ("antigravity-gemini-3.1-pro", ANTIGRAVITY),
            ("Antigravity-Gemini-3.1-Pro", ANTIGRAVITY),
            ("gemini-3-pro-image", ANTIGRAVITY),
            ("Gemini-2.5-Flash-IMAGE-preview", ANTIGRAVITY),
            ("imagen-4", ANTIGRAVITY),
            ("gemini-3-pro-low", ANTIGRAVITY),
            ("gemini-3-pro-medium", ANTIGRAVITY),
            ("Gemini-3-Pro-High", ANTIGRAVITY),
            ("gemini-3-flash", ANTIGRAVITY),
            ("gemini-3-flash-low", ANTIGRAVITY),
            ("gemini-3-flash-medium", ANTIGRAVITY),
            ("GEMINI-3-FLASH-HIGH", ANTIGRAVITY),
            ("gemini-3-pro", GEMINI_CLI),
            ("gemini-3-pro-preview", GEMINI_CLI),
            ("gemini-3-flash-preview", GEMINI_CLI),
            ("gemini-2.5-pro", GEMINI_CLI),
            ("gemini-claude", GEMINI_CLI),
            ("my-gpt", GEMINI_CLI),
        ] {
            assert_eq!(builtin(model), pool, "{model}");
        }
    }

    #[test]
    fn markers_are_taken_off_whatever_their_case_and_the_suffix_says_more_than_the_prefix() {
        let meanings =
            |name| unmarked(name).into_iter().map(|(rest, pool)| format!("{rest} in {pool}")).collect::<Vec<_>>();
        assert_eq!(meanings("x:antigravity"), ["x in antigravity"]);
        assert_eq!(meanings("x:Gemini-CLI"), ["x in gemini-cli"]);
        assert_eq!(meanings("Antigravity-X"), ["X in antigravity"]);
        assert_eq!(meanings("antigravity-x:gemini-cli"), ["antigravity-x in gemini-cli", "x in gemini-cli"]);
        assert_eq!(meanings("x"), [""; 0]);
        assert_eq!(meanings("antigravity-"), [""; 0]);
        assert_eq!(meanings("ä:ö:B"), ["ä:ö in b"]);
    }
}
