//! Media in data URLs and in bare base64.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use super::tree::At;
use crate::canonical::request::Source;
use crate::error::BadRequest;

/// What a URL leads to: the media themselves if it is a data URL.
pub(in crate::dialect) fn source(url: String, at: &At<'_>) -> Result<Source, BadRequest> {
    let Some(rest) = strip_scheme(&url, "data:") else {
        if strip_scheme(&url, "https://").or_else(|| strip_scheme(&url, "http://")).is_some() {
            return Ok(Source::Url(url));
        }
        return Err(at.invalid("expected an http, https or data URL"));
    };
    let (head, data) = rest.split_once(',').ok_or_else(|| at.invalid("a data URL without a comma"))?;
    let mut words = head.split(';');
    let mime = words.next().unwrap_or_default().trim();
    if !words.any(|word| word.trim().eq_ignore_ascii_case("base64")) {
        return Err(at.invalid("expected a data URL in base64"));
    }
    if mime.is_empty() {
        return Err(at.invalid("a data URL without a media type"));
    }
    Ok(Source::Inline { mime: mime.to_ascii_lowercase(), data: standard_base64(data).into_owned() })
}

/// Media as a data URL.
pub(in crate::dialect) fn data_url(mime: &str, data: &str) -> String {
    format!("data:{mime};base64,{data}")
}

/// Base64 in the standard alphabet, padded, whatever alphabet it came in.
pub(in crate::dialect) fn standard_base64(data: &str) -> Cow<'_, str> {
    let is_url_safe = data.bytes().any(|byte| matches!(byte, b'-' | b'_'));
    let missing = (4 - data.len() % 4) % 4;
    if !is_url_safe && missing == 0 {
        return Cow::Borrowed(data);
    }
    let mut standard = data.replace('-', "+").replace('_', "/");
    standard.extend(std::iter::repeat_n('=', missing));
    Cow::Owned(standard)
}

/// An id made from what it names: the same for the same, so that a history reads the same again.
pub(in crate::dialect) fn minted(prefix: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut id = prefix.to_owned();
    for byte in digest.iter().take(12) {
        for digit in [byte >> 4, byte & 15] {
            id.extend(char::from_digit(digit.into(), 16));
        }
    }
    id
}

fn strip_scheme<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let (head, rest) = url.split_at_checked(scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(url: &str) -> Result<Source, BadRequest> {
        source(url.to_owned(), &At::BODY.field("url"))
    }

    #[test]
    fn a_data_url_is_taken_apart_and_its_base64_made_standard() {
        let inline = |mime: &str, data: &str| Source::Inline { mime: mime.into(), data: data.into() };
        assert_eq!(read("data:image/png;base64,AAAA"), Ok(inline("image/png", "AAAA")));
        assert_eq!(read("DATA:image/PNG;charset=x;BASE64,-_8"), Ok(inline("image/png", "+/8=")));
        assert_eq!(read("https://x/y.png"), Ok(Source::Url("https://x/y.png".into())));
        for bad in ["", "data:", "data:image/png,AAAA", "data:;base64,AAAA", "file:///etc/passwd", "ftp://x", "AAAA"] {
            let fault = read(bad).unwrap_err();
            assert_eq!((fault.field.as_deref(), fault.code), (Some("url"), Some("invalid_value")), "{bad}");
        }
    }

    #[test]
    fn minted_ids_are_the_same_for_the_same_and_differ_otherwise() {
        assert_eq!(minted("call_", &["a", "b"]), minted("call_", &["a", "b"]));
        assert_ne!(minted("call_", &["a", "b"]), minted("call_", &["ab", ""]));
        assert_eq!(minted("call_", &[]).len(), "call_".len() + 24);
    }

    proptest! {
        #[test]
        fn no_url_makes_it_panic(url in "(data:)?\\PC{0,40}") {
            let _ = read(&url);
        }
    }
}
