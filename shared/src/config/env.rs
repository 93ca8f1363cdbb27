//! `${NAME}` and `${NAME:-default}` inside a text.

/// Why a text could not be filled in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfilled {
    /// The variable is not set and has no default.
    Unset(String),
    /// `${` without a name or without its `}`.
    Malformed,
}

/// A text after substitution.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) text: String,
    /// True when any part of it came from a `${...}`.
    pub(super) from_env: bool,
}

/// Replaces every `${NAME}` by the variable's value and `${NAME:-default}` by its value or, when it is unset or empty, by the
/// default, which runs to the next `}`. What is put in is never looked at again: a value cannot bring in another variable.
pub(super) fn fill(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Filled, Unfilled> {
    let mut filled = Filled { text: String::with_capacity(text.len()), from_env: false };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, left) = after.split_once('}').ok_or(Unfilled::Malformed)?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            return Err(Unfilled::Malformed);
        }
        filled.text.push_str(before);
        match (env(name), default) {
            (Some(value), Some(default)) if value.is_empty() => filled.text.push_str(default),
            (Some(value), _) => filled.text.push_str(&value),
            (None, Some(default)) => filled.text.push_str(default),
            (None, None) => return Err(Unfilled::Unset(name.to_owned())),
        }
        filled.from_env = true;
        rest = left;
    }
    filled.text.push_str(rest);
    Ok(filled)
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, Unfilled> {
        let env = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${A}".to_owned()),
            _ => None,
        };
        fill(text, &env).map(|filled| filled.text)
    }

    #[test]
    fn variables_are_put_in_anywhere_in_a_text_and_only_once() {
        for (text, expected) in [
            ("plain $5 {x}", "plain $5 {x}"),
            ("${A}", "1"),
            ("x${A}y${A}", "x1y1"),
            ("${B:-two}", "two"),
            ("${A:-two}", "1"),
            ("${EMPTY:-two}", "two"),
            ("${EMPTY}", ""),
            ("${B:-}", ""),
            ("${B:-http://h:1/-x}", "http://h:1/-x"),
            ("${TRICK}", "${A}"),
        ] {
            assert_eq!(filled(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_unset_variable_and_a_broken_one_are_told_apart() {
        assert_eq!(filled("a${B}"), Err(Unfilled::Unset("B".to_owned())));
        for text in ["${A", "${}", "${1A}", "${A-x}", "${ A }", "${:-x}"] {
            assert_eq!(filled(text), Err(Unfilled::Malformed), "{text}");
        }
    }
}
