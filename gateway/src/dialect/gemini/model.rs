//! What the name of a model says about how it must be asked.

use std::ops::RangeInclusive;

/// How a model is told how much to think.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Thinks {
    /// By a level; the last one is its highest.
    Levels(&'static str),
    /// By a number of tokens in this range. With `Off` it can also be told not to.
    Budget(RangeInclusive<u64>, Off),
    /// Not at all.
    Never,
}

/// Whether thinking can be turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Off {
    /// By a budget of zero.
    Possible,
    /// It cannot; the smallest budget stands for it.
    Impossible,
}

/// The last part of a model's name: `models/x` and `publishers/google/models/x` are `x`.
fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// True for Claude behind a Google upstream.
pub(super) fn is_claude(model: &str) -> bool {
    bare(model).contains("claude")
}

/// The generation of a Gemini model: 3 for `gemini-3.1-pro`. Names without one (`gemini-flash-latest`) are of the newest.
fn generation(model: &str) -> Option<u32> {
    let rest = bare(model).strip_prefix("gemini-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    if digits.is_empty() { Some(u32::MAX) } else { digits.parse().ok() }
}

/// True when calls in the history must carry a thought signature, and results may hold media.
pub(super) fn signs_calls(model: &str) -> bool {
    generation(model).is_some_and(|generation| generation >= 3)
}

/// How a model is told how much to think. One that is not known takes any budget.
pub(super) fn thinks(model: &str) -> Thinks {
    let name = bare(model);
    match generation(name) {
        Some(u32::MAX | 3) => Thinks::Levels("HIGH"),
        Some(4..) => Thinks::Levels("XHIGH"),
        Some(0 | 1) => Thinks::Never,
        Some(2) if name.starts_with("gemini-2.0") => Thinks::Never,
        Some(2) if name.starts_with("gemini-2.5-pro") => Thinks::Budget(128..=32_768, Off::Impossible),
        Some(2) if name.starts_with("gemini-2.5-flash-lite") => Thinks::Budget(512..=24_576, Off::Possible),
        Some(2) => Thinks::Budget(1..=24_576, Off::Possible),
        None if name.starts_with("gemma") => Thinks::Never,
        None if is_claude(name) => Thinks::Budget(1_024..=u64::MAX, Off::Possible),
        None => Thinks::Budget(1..=u64::MAX, Off::Possible),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_generation() {
        for (name, signs) in [
            ("gemini-2.5-pro", false),
            ("gemini-3-pro-preview", true),
            ("gemini-3.1-flash", true),
            ("publishers/google/models/gemini-3-pro", true),
            ("gemini-flash-latest", true),
            ("gemini-10-ultra", true),
            ("gemma-3-27b", false),
            ("claude-opus-4-6-thinking", false),
            ("gemini-99999999999999999999", false),
            ("", false),
        ] {
            assert_eq!(signs_calls(name), signs, "{name}");
        }
        assert_eq!(thinks("gemini-3-pro"), Thinks::Levels("HIGH"));
        assert_eq!(thinks("models/gemini-2.5-pro"), Thinks::Budget(128..=32_768, Off::Impossible));
        assert_eq!(thinks("gemini-2.0-flash"), Thinks::Never);
        assert_eq!(thinks("claude-sonnet-5"), Thinks::Budget(1_024..=u64::MAX, Off::Possible));
    }
}
