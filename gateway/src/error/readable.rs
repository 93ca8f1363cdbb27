//! Makes a foreign text fit to be shown: short, printable, without secrets.

/// The longest reason shown, in bytes.
const CAP: usize = 2 * 1024;

/// What a secret begins with: keys and tokens of providers and of Headgate, and the ids of a platform's own organisations.
const SECRET_STARTS: &[&str] = &[
    "sk-", "sk_", "pk-", "rk-", "hg-", "gsk_", "xai-", "AIza", "ya29.", "eyJ", "AKIA", "ASIA", "ghp_", "org-", "proj_",
];

/// A text without control characters and without anything that looks like a key or a token, at most 2 KB.
pub fn readable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(CAP));
    let mut after_bearer = false;
    let mut rest = text;
    while !rest.is_empty() && shown.len() < CAP {
        let end = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
        let (token, tail) = rest.split_at(end);
        if after_bearer && !token.is_empty() || is_secret(token) {
            shown.push_str("[redacted]");
        } else {
            shown.push_str(token);
        }
        if !token.is_empty() {
            after_bearer = token.eq_ignore_ascii_case("bearer");
        }
        let mut chars = tail.chars();
        if let Some(c) = chars.next() {
            shown.push(if c.is_control() { ' ' } else { c });
        }
        rest = chars.as_str();
    }
    let mut end = shown.len().min(CAP);
    while !shown.is_char_boundary(end) {
        end -= 1;
    }
    shown.truncate(end);
    shown.trim().to_owned()
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '~' | '+' | '/')
}

fn is_secret(token: &str) -> bool {
    token.len() >= 8 && SECRET_STARTS.iter().any(|start| token.starts_with(start))
}

/// What to say about a body that is no error object.
pub fn unstructured(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return "an empty body".to_owned();
    }
    if !text.starts_with('<') {
        return readable(text);
    }
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").map(|at| at + "<title>".len());
    let end = lower.find("</title>");
    match title.zip(end).and_then(|(from, to)| text.get(from..to)) {
        Some(title) => format!("a page instead of JSON: {}", readable(title)),
        None => "a page instead of JSON".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_and_tokens_are_not_shown() {
        for (text, expected) in [
            (
                "Incorrect API key provided: sk-proj-abc***xyz. Find it",
                "Incorrect API key provided: [redacted] Find it",
            ),
            ("header 'Authorization: Bearer abc.def/ghi=' bad", "header 'Authorization: Bearer [redacted]=' bad"),
            ("key=AIzaSyA1234567890 is bad", "key=[redacted] is bad"),
            ("in organization org-A1b2C3d4 on tokens per min", "in organization [redacted] on tokens per min"),
            ("sk-ip the line", "sk-ip the line"),
            ("a\r\nb\u{0}c", "a  b c"),
        ] {
            assert_eq!(readable(text), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_short_and_printable(text in "(?s).{0,3000}") {
            let shown = readable(&text);
            prop_assert!(shown.len() <= CAP);
            prop_assert!(!shown.contains(char::is_control));
        }

        #[test]
        fn no_secret_survives_wherever_it_stands(before in ".{0,30}[ \"':=,(]", secret in "sk-[A-Za-z0-9_-]{20,50}", after in "[ \"',)].{0,30}") {
            let shown = readable(&format!("{before}{secret}{after}"));
            prop_assert!(!shown.contains(&secret));
        }
    }
}
