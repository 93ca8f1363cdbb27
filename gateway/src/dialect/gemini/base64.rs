//! Base64 in the alphabet a dialect wants. Nothing is decoded.

/// Base64 of either alphabet in the standard one, padded; `None` if it is no base64.
pub(super) fn standard(data: &str) -> Option<String> {
    let body = data.trim_end_matches('=');
    if body.len() % 4 == 1 || data.len() - body.len() > 2 {
        return None;
    }
    let mut out = String::with_capacity(data.len() + 3);
    for c in body.chars() {
        out.push(match c {
            '-' => '+',
            '_' => '/',
            c if c.is_ascii_alphanumeric() || matches!(c, '+' | '/') => c,
            _ => return None,
        });
    }
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    Some(out)
}

/// Whether a text is base64 of either alphabet.
pub(super) fn is_valid(data: &str) -> bool {
    standard(data).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_become_the_standard_one() {
        for (given, standard_text) in [
            ("", Some("")),
            ("-_-_", Some("+/+/")),
            ("+/+/", Some("+/+/")),
            ("YQ", Some("YQ==")),
            ("YQ==", Some("YQ==")),
            ("YWI=", Some("YWI=")),
            ("Y", None),
            ("YQ===", None),
            ("Y Q=", None),
            ("a=bc", None),
            ("data:x", None),
        ] {
            assert_eq!(standard(given).as_deref(), standard_text, "{given}");
        }
        assert!(is_valid("skip_thought_signature_validator"));
    }
}
