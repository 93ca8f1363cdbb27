//! What a caller sent: the credential, wherever the caller's SDK puts it, and the body within its limits.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Uri};
use http_body_util::BodyExt as _;
use shared::ids::SecretHash;

/// Headers that may carry a client key, in the order they are looked at.
const KEY_HEADERS: [&str; 2] = ["x-api-key", "x-goog-api-key"];

/// How much of an oversize body is read and thrown away, so that the caller reads our 413 instead of a reset.
const DRAIN_LIMIT: usize = 64 * 1024 * 1024;

/// The client key of a request, hashed: `Authorization: Bearer`, `x-api-key`, `x-goog-api-key` or `?key=`, the first that is
/// there. The secret itself goes no further than this function.
pub fn credential(headers: &HeaderMap, uri: &Uri) -> Option<SecretHash> {
    let bearer = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    let header = || KEY_HEADERS.iter().find_map(|name| headers.get(*name).and_then(|value| value.to_str().ok()));
    let secret = bearer.or_else(header).or_else(|| query_key(uri))?.trim();
    (!secret.is_empty()).then(|| SecretHash::of(secret))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.trim_start().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret)
}

fn query_key(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("key="))
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Longer than the limit.
    #[error("the body is over the limit")]
    TooLarge,
    /// The caller stopped sending.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The connection broke or the framing was wrong.
    #[error("the body could not be read")]
    Broken,
}

/// Reads a whole body of at most `limit` bytes, waiting at most `idle` for each piece.
pub async fn read_body(mut body: Body, limit: usize, idle: Duration) -> Result<Bytes, BodyError> {
    if usize::try_from(http_body::Body::size_hint(&body).lower()).is_ok_and(|least| least > limit) {
        drain(body, idle).await;
        return Err(BodyError::TooLarge);
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(piece) = next_piece(&mut body, idle).await? {
        if first.len() + rest.len() + piece.len() > limit {
            drain(body, idle).await;
            return Err(BodyError::TooLarge);
        }
        if first.is_empty() && rest.is_empty() {
            first = piece;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&piece);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

async fn next_piece(body: &mut Body, idle: Duration) -> Result<Option<Bytes>, BodyError> {
    loop {
        match tokio::time::timeout(idle, body.frame()).await {
            Err(_) => return Err(BodyError::TooSlow),
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(BodyError::Broken),
            Ok(Some(Ok(frame))) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

async fn drain(mut body: Body, idle: Duration) {
    let mut thrown_away = 0;
    while thrown_away < DRAIN_LIMIT {
        match next_piece(&mut body, idle).await {
            Ok(Some(piece)) => thrown_away += piece.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(headers: &[(&str, &[u8])], uri: &str) -> Option<SecretHash> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            map.insert(name, http::HeaderValue::from_bytes(value).unwrap());
        }
        credential(&map, &uri.parse().unwrap())
    }

    #[test]
    fn a_key_is_found_wherever_an_sdk_puts_it() {
        let hash = Some(SecretHash::of("hg-1"));
        assert_eq!(found(&[("authorization", b"Bearer hg-1")], "/"), hash);
        assert_eq!(found(&[("authorization", b"bearer  hg-1 ")], "/"), hash);
        assert_eq!(found(&[("x-api-key", b"hg-1")], "/"), hash);
        assert_eq!(found(&[("x-goog-api-key", b"hg-1")], "/"), hash);
        assert_eq!(found(&[], "/v1beta/models?alt=sse&key=hg-1"), hash);
    }

    #[test]
    fn garbage_is_no_key() {
        for value in [&b"Basic aGc6MQ=="[..], b"Bearer", b"Bearer ", b"Bearer \xff\xfe", b""] {
            assert_eq!(found(&[("authorization", value)], "/?keys=hg-1"), None, "{value:?}");
        }
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_limit_and_no_further() {
        let body = |size: usize| Body::from(vec![b'x'; size]);
        let second = Duration::from_secs(1);
        assert_eq!(read_body(body(10), 10, second).await.map(|b| b.len()), Ok(10));
        assert_eq!(read_body(body(11), 10, second).await, Err(BodyError::TooLarge));
        let pieces = futures_util::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"abc"))));
        assert_eq!(
            read_body(Body::from_stream(pieces), 12, second).await.unwrap(),
            Bytes::from_static(b"abcabcabcabc")
        );
        let pieces = futures_util::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"abc"))));
        assert_eq!(read_body(Body::from_stream(pieces), 11, second).await, Err(BodyError::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_arriving_is_given_up() {
        let body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(read_body(body, 10, Duration::from_secs(5)).await, Err(BodyError::TooSlow));
    }
}
