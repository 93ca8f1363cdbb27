//! The headers this dialect adds to a request: its version, and the beta features in use. Pure.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The version of the dialect.
pub const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Beta features, separated by commas.
pub const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// The version spoken where no client said one: the one every upstream of this dialect takes.
const OLDEST: HeaderValue = HeaderValue::from_static("2023-06-01");
/// Betas that belong to the client's credential, which goes no further than this gateway.
const OF_CREDENTIALS: &[&str] = &["oauth-"];

/// Whose words go to the upstream.
#[derive(Debug, Clone, Copy)]
pub enum Words<'a> {
    /// The client's own, in this dialect; its headers.
    Same(&'a HeaderMap),
    /// Ours: the request was translated.
    Translated,
}

/// The headers for an upstream. A client of this dialect keeps its version and its betas, those of its credential excepted; a
/// translated request has the oldest version and no beta, for nothing in it needs one.
pub fn for_upstream(words: Words<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let client = match words {
        Words::Same(client) => client,
        Words::Translated => {
            headers.insert(VERSION, OLDEST);
            return headers;
        }
    };
    headers.insert(VERSION, client.get(VERSION).filter(|version| is_date(version)).cloned().unwrap_or(OLDEST));
    let betas: Vec<&str> = client
        .get_all(BETA)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|beta| !beta.is_empty() && !OF_CREDENTIALS.iter().any(|start| beta.starts_with(start)))
        .collect();
    if let Ok(betas) = HeaderValue::from_str(&betas.join(","))
        && !betas.is_empty()
    {
        headers.insert(BETA, betas);
    }
    headers
}

/// Versions are dates.
fn is_date(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(client: &[(&'static str, &'static str)]) -> (String, Option<String>) {
        let mut headers = HeaderMap::new();
        for (name, value) in client {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let sent = for_upstream(Words::Same(&headers));
        let text = |name: &HeaderName| sent.get(name).map(|value| value.to_str().unwrap().to_owned());
        assert!(sent.keys().all(|name| *name == VERSION || *name == BETA));
        (text(&VERSION).unwrap(), text(&BETA))
    }

    #[test]
    fn a_client_keeps_its_version_and_its_betas() {
        let client = [
            ("anthropic-version", "2026-10-21"),
            ("anthropic-beta", "context-1m-2025-08-07, oauth-2025-04-20"),
            ("anthropic-beta", "fast-mode-2026-02-01,,"),
            ("x-api-key", "hg-secret"),
            ("authorization", "Bearer hg-secret"),
        ];
        let betas = Some("context-1m-2025-08-07,fast-mode-2026-02-01".to_owned());
        assert_eq!(sent(&client), ("2026-10-21".to_owned(), betas));
    }

    #[test]
    fn a_missing_or_odd_version_is_the_oldest() {
        for version in ["", "latest", "2026-10-2x", "2026/10/21", "2026-10-21 "] {
            assert_eq!(sent(&[("anthropic-version", version)]).0, "2023-06-01", "{version}");
        }
        assert_eq!(sent(&[("anthropic-beta", "oauth-2025-04-20")]), ("2023-06-01".to_owned(), None));
    }

    #[test]
    fn a_translated_request_has_no_beta() {
        let sent = for_upstream(Words::Translated);
        assert_eq!((sent.len(), sent.get(VERSION)), (1, Some(&OLDEST)));
    }
}
