//! Texts with a shape: URLs, headers, regions.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Value as Json, json};
use url::Url;

use super::scalar::{Scalar, any_text_schema, text_schema};

/// An `http` or `https` URL with a host, without credentials, query, fragment or trailing slash: a path can be put behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl(Arc<str>);

/// The name of an HTTP header, in lower case; never one that Headgate or the HTTP client sets itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderName(Arc<str>);

/// Where a connection's upstream works and where an account's requests may go: `us`, `eu`, `global`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Region(Arc<str>);

/// The version of an API that is named in the query of every call, as Azure wants it: `2026-10-01-preview`, `v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApiVersion(Arc<str>);

/// The value of an HTTP header.
pub(super) struct HeaderText(pub(super) SecretString);

impl BaseUrl {
    /// The URL, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl HeaderName {
    /// The name, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ApiVersion {
    /// The version as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Region {
    /// The region's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Scalar for BaseUrl {
    /// Someone may have put a credential into it.
    const SHOWN: bool = false;
    fn expected() -> Cow<'static, str> {
        "an http or https URL with a host, without user, password, query or fragment".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        (matches!(scheme.as_deref(), Some("http" | "https")) && bare && url.fragment().is_none() && url.has_host())
            .then(|| Self(url.as_str().trim_end_matches('/').into()))
    }
    fn schema() -> Json {
        text_schema("^https?://[^?#@]+$", "an http or https URL")
    }
}

impl Scalar for ApiVersion {
    fn expected() -> Cow<'static, str> {
        "1 to 40 letters, digits, '.', '_' or '-'".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        (plain && (1..=40).contains(&text.len())).then(|| Self(text.into()))
    }
    fn schema() -> Json {
        text_schema("^[A-Za-z0-9._-]{1,40}$", "letters, digits, '.', '_' or '-'")
    }
}

/// Headers that frame the message or carry the credential.
const OWN_HEADERS: [&str; 11] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
    "x-goog-api-key",
];

impl FromStr for HeaderName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let name = text.to_ascii_lowercase();
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let usable =
            (1..=100).contains(&name.len()) && name.bytes().all(token) && !OWN_HEADERS.contains(&name.as_str());
        if usable { Ok(Self(name.into())) } else { Err(()) }
    }
}

impl Scalar for HeaderName {
    fn expected() -> Cow<'static, str> {
        "a header name other than those of the credential and the message's framing".into()
    }
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn schema() -> Json {
        Self::name_schema()
    }
    fn name_schema() -> Json {
        json!({"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$", "not": {"enum": OWN_HEADERS}})
    }
}

impl Scalar for HeaderText {
    const SHOWN: bool = false;
    fn expected() -> Cow<'static, str> {
        "a header value: printable ASCII".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let printable = text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        (!text.is_empty() && printable && text.trim() == text).then(|| Self(text.into()))
    }
    fn schema() -> Json {
        any_text_schema("a header value")
    }
}

impl Scalar for Region {
    fn expected() -> Cow<'static, str> {
        "a region in lower-case letters, digits and '-', such as us, eu or global".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        (plain && (1..=40).contains(&text.len())).then(|| Self(text.into()))
    }
    fn schema() -> Json {
        text_schema("^[a-z0-9-]{1,40}$", "a region such as us, eu or global")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_put_behind_a_base_url() {
        for (text, url) in [
            ("https://api.example/v1", "https://api.example/v1"),
            ("https://api.example/v1/", "https://api.example/v1"),
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("HTTP://Host/", "http://host"),
        ] {
            assert_eq!(BaseUrl::parse(text).unwrap().as_str(), url);
        }
        for bad in
            ["", "api.example", "https://", "file:///etc", "https://u@h", "https://h?a", "https://h#a", "https:h"]
        {
            assert!(BaseUrl::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn headers_of_the_credential_and_the_framing_are_refused() {
        assert_eq!("X-Client".parse::<HeaderName>().unwrap().as_str(), "x-client");
        for bad in ["", "a b", "a:b", "Authorization", "host", "Content-Length", "x-api-key"] {
            assert!(bad.parse::<HeaderName>().is_err(), "{bad}");
        }
        for bad in ["", " a", "a\r\nb: c", "ä"] {
            assert!(HeaderText::parse(bad).is_none(), "{bad}");
        }
    }
}
