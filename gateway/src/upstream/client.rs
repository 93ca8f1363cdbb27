//! One exchange with one endpoint, without policy: send, and say how the transport failed.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::{Request, Response, Url};
use shared::failure::Transport;

/// One upstream call, ready to send.
#[derive(Debug)]
pub struct Call {
    /// Where to.
    pub url: Url,
    /// With what; the credential of the connection included, nothing of the caller's.
    pub headers: HeaderMap,
    /// The identical bytes on every attempt.
    pub body: Bytes,
}

/// How the transport failed: no connection at all, or one that broke.
fn transport(error: &reqwest::Error) -> Transport {
    if error.is_connect() { Transport::Connect } else { Transport::Reset }
}

/// The upstream HTTP client: pooled connections, no redirects, no decompression.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

impl Client {
    /// A client that gives up connecting after `connect`.
    pub fn new(connect: Duration) -> Result<Self, reqwest::Error> {
        reqwest::Client::builder()
            .connect_timeout(connect)
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .pool_idle_timeout(Duration::from_mins(1))
            .referer(false)
            .build()
            .map(Self)
    }

    /// Posts a form, for exchanges with token servers.
    pub async fn post_form(&self, url: Url, form: &str) -> Result<Response, Transport> {
        let mut request = Request::new(Method::POST, url);
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        *request.body_mut() = Some(form.to_owned().into());
        self.0.execute(request).await.map_err(|error| transport(&error))
    }

    /// Sends a call; returns when the response's head is there. Cancelled by dropping the future, its body by dropping that.
    pub async fn send(&self, call: Call) -> Result<Response, Transport> {
        let mut request = Request::new(Method::POST, call.url);
        *request.headers_mut() = call.headers;
        *request.body_mut() = Some(call.body.into());
        self.0.execute(request).await.map_err(|error| {
            tracing::debug!(cause = error.source().map(tracing::field::display), "upstream transport failed");
            transport(&error)
        })
    }
}
