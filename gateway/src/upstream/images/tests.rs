use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shared::config::{ByteSize, ImageFetch};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// The beginning of an image.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

/// A server on loopback that answers all requests alike.
pub(crate) struct Served {
    /// Where an image is.
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
    _server: AbortOnDropHandle<()>,
}

impl Served {
    /// How many connections have come, one for each request.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Answers with this status, these header lines and this body; the body ends with the connection.
pub(crate) async fn serve(status: &str, headers: &str, body: &'static [u8]) -> Served {
    serve_then(status, headers, body, End::Close).await
}

#[derive(Clone, Copy)]
enum End {
    Close,
    Hang,
}

async fn serve_then(status: &str, headers: &str, body: &'static [u8], end: End) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a.png", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap() == 0 {
                    break;
                }
            }
            // The client may have seen enough before the end.
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(body).await;
            if let End::Hang = end {
                std::future::pending::<()>().await;
            }
        }
    });
    Served { url, asked, _server: AbortOnDropHandle::new(server) }
}

fn rules(size: u64, timeout: Duration) -> Rules {
    Rules { fetch: ImageFetch::Https, size: ByteSize(size), timeout }
}

async fn fetched(server: &Served, size: u64) -> Result<Image, FetchError> {
    Fetcher::unguarded().fetch(&server.url, &rules(size, Duration::from_secs(5))).await
}

#[test]
fn only_public_addresses_of_one_machine_pass() {
    for ip in
        ["1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "198.20.0.1", "223.255.255.1"]
    {
        assert!(is_public(ip.parse().unwrap()), "{ip}");
    }
    for ip in ["2606:4700::1111", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"] {
        assert!(is_public(ip.parse().unwrap()), "{ip}");
    }
    for ip in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.9.9.9",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
    ] {
        assert!(!is_public(ip.parse().unwrap()), "{ip}");
    }
    for ip in [
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b:1::808:808",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2001::1",
        "2001:2::1",
        "2001:db8::1",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "5f00::1",
    ] {
        assert!(!is_public(ip.parse().unwrap()), "{ip}");
    }
}

#[test]
fn one_address_that_is_not_public_spoils_the_host() {
    let of = |ips: &[&str]| ips.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect::<Vec<_>>();
    assert!(all_public(of(&["1.1.1.1", "2606:4700::1111"])).is_some());
    assert!(all_public(of(&["1.1.1.1", "10.0.0.1"])).is_none());
    assert!(all_public(of(&[])).is_none());
}

#[tokio::test]
async fn the_guarded_fetcher_asks_nobody_in_our_own_network() {
    let server = serve("200 OK", "content-type: image/png\r\n", PNG).await;
    let port = server.url.trim_start_matches("http://127.0.0.1:").trim_end_matches("/a.png").to_owned();
    let fetcher = Fetcher::new().unwrap();
    for (url, expected) in [
        (server.url.clone(), FetchError::Url),
        ("ftp://example.com/a.png".to_owned(), FetchError::Url),
        ("a.png".to_owned(), FetchError::Url),
        ("https://user@example.com/a.png".to_owned(), FetchError::Url),
        ("https://:secret@example.com/a.png".to_owned(), FetchError::Url),
        (format!("https://127.0.0.1:{port}/a.png"), FetchError::Away),
        (format!("https://0x7f.1:{port}/a.png"), FetchError::Away),
        (format!("https://2130706433:{port}/a.png"), FetchError::Away),
        (format!("https://[::ffff:127.0.0.1]:{port}/a.png"), FetchError::Away),
        (format!("https://localhost:{port}/a.png"), FetchError::Away),
    ] {
        let error = fetcher.fetch(&url, &rules(1 << 10, Duration::from_secs(5))).await.unwrap_err();
        assert_eq!(error, expected, "{url}");
    }
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn the_look_up_of_the_client_gives_no_address_of_our_own() {
    assert!(PublicOnly.resolve("localhost".parse().unwrap()).await.is_err());
}

#[tokio::test]
async fn an_image_comes_whole_with_the_kind_of_its_bytes() {
    let server = serve("200 OK", "content-type: image/jpeg; x=y\r\n", PNG).await;
    let image = fetched(&server, PNG.len() as u64).await.unwrap();
    assert_eq!((image.mime, &image.bytes[..]), ("image/png", PNG));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = serve("200 OK", "content-type: image/png\r\n", PNG).await;
    let server = serve("302 Found", &format!("location: {}\r\n", target.url), b"").await;
    assert_eq!(fetched(&server, 1 << 10).await.unwrap_err(), FetchError::Redirect);
    assert_eq!((server.asked(), target.asked()), (1, 0));
}

#[tokio::test]
async fn an_error_is_told_by_its_status() {
    let server = serve("404 Not Found", "content-type: image/png\r\n", PNG).await;
    assert_eq!(fetched(&server, 1 << 10).await.unwrap_err(), FetchError::Status(404));
}

#[tokio::test]
async fn a_large_image_is_refused_whether_its_length_is_said_or_not() {
    let size = PNG.len() as u64 - 1;
    for length in ["", "content-length: 12\r\n"] {
        let server = serve("200 OK", &format!("content-type: image/png\r\n{length}"), PNG).await;
        assert_eq!(fetched(&server, size).await.unwrap_err(), FetchError::TooLarge(size), "{length}");
    }
}

#[tokio::test]
async fn what_is_no_image_or_not_served_as_one_is_refused() {
    for (headers, body) in [
        ("content-type: text/html\r\n", PNG),
        ("content-type: image/svg+xml\r\n", PNG),
        ("", PNG),
        ("content-type: image/png\r\n", b"<html>secret</html>".as_slice()),
        ("content-type: image/png\r\n", b"".as_slice()),
    ] {
        let server = serve("200 OK", headers, body).await;
        assert_eq!(fetched(&server, 1 << 10).await.unwrap_err(), FetchError::Kind, "{headers}");
    }
}

#[tokio::test]
async fn an_image_that_stops_coming_runs_out_of_time() {
    let server = serve_then("200 OK", "content-type: image/png\r\ncontent-length: 99\r\n", PNG, End::Hang).await;
    let rules = rules(1 << 10, Duration::from_millis(200));
    assert_eq!(Fetcher::unguarded().fetch(&server.url, &rules).await.unwrap_err(), FetchError::Timeout);
}

#[test]
fn kinds_are_told_by_the_first_bytes() {
    for (bytes, expected) in [
        (PNG, Some("image/png")),
        (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
        (b"GIF89a", Some("image/gif")),
        (b"GIF87a...", Some("image/gif")),
        (b"RIFF\x01\x02\x03\x04WEBPVP8 ", Some("image/webp")),
        (b"RIFF\x01\x02\x03\x04WAVE", None),
        (b"%PDF-1.7", None),
    ] {
        assert_eq!(kind(bytes), expected);
    }
}
