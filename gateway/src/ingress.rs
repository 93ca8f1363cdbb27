//! What a caller sent: the credential, wherever the caller's SDK puts it, and the body within its limits.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Uri};
use http_body_util::BodyExt as _;
use shared::ids::SecretHash;

/// Headers that may carry a client key, in the order they are looked at.
const KEY_HEADERS: [&str; 2] = ["x-api-key", "x-goog-api-key"];

/// How much of an unwanted body is read and thrown away, so that its caller reads our answer instead of a reset.
const DISCARD_MAX: usize = 64 * 1024 * 1024;
/// How long that may take.
const DISCARD_WITHIN: Duration = Duration::from_secs(30);

/// The client key of a request, hashed: `Authorization: Bearer`, `x-api-key`, `x-goog-api-key` or `?key=`, the first that is
/// there and not empty. The secret itself goes no further than this function.
pub fn credential(headers: &HeaderMap, uri: &Uri) -> Option<SecretHash> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(http::header::AUTHORIZATION.as_str()).and_then(bearer);
    let in_headers = std::iter::once(bearer).chain(KEY_HEADERS.iter().map(|name| text(name)));
    let placed = in_headers.flatten().map(Cow::Borrowed).chain(query_key(uri));
    let secret = placed.into_iter().find(|secret| !secret.trim().is_empty())?;
    Some(SecretHash::of(secret.trim()))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.trim_start().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret)
}

fn query_key(uri: &Uri) -> Option<Cow<'_, str>> {
    let pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.into_iter().find_map(|(name, value)| (name == "key").then_some(value))
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
pub async fn read_body(body: &mut Body, limit: usize, idle: Duration) -> Result<Bytes, BodyError> {
    if usize::try_from(http_body::Body::size_hint(body).lower()).is_ok_and(|least| least > limit) {
        return Err(BodyError::TooLarge);
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(piece) = next_piece(body, idle).await? {
        if first.len() + rest.len() + piece.len() > limit {
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

/// What throws away the rest of a body that is not wanted; `None` if nothing more comes. A caller that waits for our leave
/// (`expect: 100-continue`) is not given it: then nothing comes.
pub fn discard(headers: &HeaderMap, mut body: Body) -> Option<impl Future<Output = ()> + Send + use<>> {
    if http_body::Body::is_end_stream(&body) || headers.contains_key(http::header::EXPECT) {
        return None;
    }
    let all = async move {
        let mut left = DISCARD_MAX;
        while let Ok(Some(piece)) = next_piece(&mut body, DISCARD_WITHIN).await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                return;
            }
        }
    };
    Some(async move {
        // Whatever has not come by then is not waited for.
        let _ = tokio::time::timeout(DISCARD_WITHIN, all).await;
    })
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
        assert_eq!(found(&[], "/v1beta/models?key=hg%2D1&alt=sse"), hash);
    }

    #[test]
    fn an_empty_place_does_not_hide_the_next_one() {
        let hash = Some(SecretHash::of("hg-1"));
        assert_eq!(found(&[("authorization", b"Bearer "), ("x-api-key", b""), ("x-goog-api-key", b"hg-1")], "/"), hash);
        assert_eq!(found(&[("authorization", b"Basic aGc6MQ==")], "/?key=hg-1"), hash);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unwanted_body_is_thrown_away_within_bounds_and_never_asked_for() {
        let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = std::sync::Arc::clone(&sent);
        let mebibyte = Bytes::from(vec![0; 1 << 20]);
        let pieces = futures_util::stream::repeat_with(move || {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok::<_, std::io::Error>(mebibyte.clone())
        });
        discard(&HeaderMap::new(), Body::from_stream(pieces)).unwrap().await;
        assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), DISCARD_MAX >> 20);

        let silent = || Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let began = tokio::time::Instant::now();
        discard(&HeaderMap::new(), silent()).unwrap().await;
        assert_eq!(began.elapsed(), DISCARD_WITHIN);

        let waits = HeaderMap::from_iter([(http::header::EXPECT, http::HeaderValue::from_static("100-continue"))]);
        assert!(discard(&waits, silent()).is_none() && discard(&HeaderMap::new(), Body::empty()).is_none());
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
        assert_eq!(read_body(&mut body(10), 10, second).await.map(|b| b.len()), Ok(10));
        assert_eq!(read_body(&mut body(11), 10, second).await, Err(BodyError::TooLarge));
        let pieces = futures_util::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"abc"))));
        assert_eq!(
            read_body(&mut Body::from_stream(pieces), 12, second).await.unwrap(),
            Bytes::from_static(b"abcabcabcabc")
        );
        let pieces = futures_util::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"abc"))));
        assert_eq!(read_body(&mut Body::from_stream(pieces), 11, second).await, Err(BodyError::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_arriving_is_given_up() {
        let mut body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(read_body(&mut body, 10, Duration::from_secs(5)).await, Err(BodyError::TooSlow));
    }
}
