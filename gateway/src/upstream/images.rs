//! Fetches an image from a public https address, and from nowhere else: its URL is the caller's word, and must not reach our own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, header};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Response, Url};
use shared::config::Images as Rules;
use url::Host;

/// The kinds of images that upstreams take.
const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// An image.
#[derive(Debug)]
pub struct Image {
    /// Its kind, by its first bytes.
    pub mime: &'static str,
    /// All of it.
    pub bytes: Bytes,
}

/// Why there is no image. Says nothing of our own network: an address that is not public looks as one that does not answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Not a URL we follow.
    #[error("only https URLs without credentials are fetched")]
    Url,
    /// No such host, no public address, no connection, or one that broke.
    #[error("no public server answers there")]
    Away,
    /// It is elsewhere.
    #[error("the server redirects, which is not followed")]
    Redirect,
    /// Not a success.
    #[error("the server answers with status {0}")]
    Status(u16),
    /// Larger than the limit, in bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// Not an image that upstreams take.
    #[error("it is not a PNG, JPEG, GIF or WebP image that is served as one")]
    Kind,
    /// Not here in time.
    #[error("it did not arrive in time")]
    Timeout,
}

/// Whether addresses are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Public,
    #[cfg(test)]
    None,
}

/// Fetches images. No redirects, no proxies, no cookies, no credentials; no connection is kept.
#[derive(Debug, Clone)]
pub struct Fetcher {
    client: Client,
    guard: Guard,
}

impl Fetcher {
    /// For https at public addresses.
    pub fn new() -> Result<Self, reqwest::Error> {
        let client = builder().https_only(true).dns_resolver(Arc::new(PublicOnly)).build()?;
        Ok(Self { client, guard: Guard::Public })
    }

    /// For tests, against servers of their own: http too, at any address.
    #[cfg(test)]
    pub(crate) fn unguarded() -> Self {
        Self { client: builder().build().unwrap(), guard: Guard::None }
    }

    /// Fetches the image behind a URL, within the size and time of the rules.
    pub async fn fetch(&self, url: &str, rules: &Rules) -> Result<Image, FetchError> {
        let url = Url::parse(url).map_err(|_| FetchError::Url)?;
        if self.guard == Guard::Public {
            check(&url)?;
        }
        tokio::time::timeout(rules.timeout, self.get(url, rules.size.0)).await.map_err(|_| FetchError::Timeout)?
    }

    async fn get(&self, url: Url, size: u64) -> Result<Image, FetchError> {
        let asked = self
            .client
            .get(url)
            .header(header::ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/gif, image/webp"))
            .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = asked.send().await.map_err(|_| FetchError::Away)?;
        let status = response.status();
        if status.is_redirection() {
            return Err(FetchError::Redirect);
        }
        if status != http::StatusCode::OK {
            return Err(FetchError::Status(status.as_u16()));
        }
        if !is_served_as_image(&response) {
            return Err(FetchError::Kind);
        }
        let bytes = read(response, size).await?;
        let mime = kind(&bytes).ok_or(FetchError::Kind)?;
        Ok(Image { mime, bytes })
    }
}

fn builder() -> reqwest::ClientBuilder {
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        // A proxy would look the host up by itself.
        .no_proxy()
        .referer(false)
        .user_agent(concat!("headgate/", env!("CARGO_PKG_VERSION")))
        .pool_max_idle_per_host(0)
}

/// What can be told from the URL alone. An address in it is never looked up, so it is checked here.
fn check(url: &Url) -> Result<(), FetchError> {
    if url.scheme() != "https" || !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Url);
    }
    match url.host() {
        Some(Host::Domain(_)) => Ok(()),
        Some(Host::Ipv4(ip)) if is_public(ip.into()) => Ok(()),
        Some(Host::Ipv6(ip)) if is_public(ip.into()) => Ok(()),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => Err(FetchError::Away),
        None => Err(FetchError::Url),
    }
}

/// Looks hosts up for the client, once: what it connects to is what was checked.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let checked: Addrs = Box::new(all_public(found).ok_or("not a public host")?.into_iter());
            Ok(checked)
        })
    }
}

/// The addresses of a host, if there are any and all are public: a host that is half in our network is not trusted at all.
fn all_public(found: Vec<SocketAddr>) -> Option<Vec<SocketAddr>> {
    (!found.is_empty() && found.iter().all(|address| is_public(address.ip()))).then_some(found)
}

/// Whether an address is one of the public internet's, for one machine: by the special-purpose registries of IANA (RFC 6890).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || matches!(
            ip.octets(),
            // This network, reserved and broadcast, shared (carrier) space, protocol assignments, 6to4 relays, benchmarking.
            [0 | 240..=255, ..] | [100, 64..=127, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..]
        );
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        // Mapped, NAT64 and 6to4 lead to an IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            v4(high, low)
        }
        // Protocol assignments (Teredo and benchmarking among them) and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All that is given out as global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

fn is_served_as_image(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

async fn read(mut response: Response, size: u64) -> Result<Bytes, FetchError> {
    if response.content_length().is_some_and(|length| length > size) {
        return Err(FetchError::TooLarge(size));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| FetchError::Away)? {
        if (body.len() + chunk.len()) as u64 > size {
            return Err(FetchError::TooLarge(size));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The kind of an image by its first bytes.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    let [png, jpeg, gif, webp] = KINDS;
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(png),
        [0xff, 0xd8, 0xff, ..] => Some(jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(webp),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
