//! The plain proxy to compare with: axum and reqwest passing the same bytes, nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use http::{HeaderValue, StatusCode, header};
use reqwest::{Client, Url};

use crate::process;

struct Proxy {
    client: Client,
    upstream: Url,
}

/// Serves until the parent ends.
pub(crate) async fn serve(upstream: &str) -> anyhow::Result<()> {
    // The settings of the gateway's own client.
    let client = Client::builder()
        .connect_timeout(Duration::from_secs(5))
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(Duration::from_mins(1))
        .referer(false)
        .build()?;
    let upstream = Url::parse(&format!("http://{upstream}/v1/chat/completions"))?;
    let proxy = Arc::new(Proxy { client, upstream });
    process::play(Router::new().route("/v1/chat/completions", post(pass)).with_state(proxy)).await
}

async fn pass(State(proxy): State<Arc<Proxy>>, body: Bytes) -> Result<Response, StatusCode> {
    let mut request = reqwest::Request::new(http::Method::POST, proxy.upstream.clone());
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *request.body_mut() = Some(body.into());
    let answer = proxy.client.execute(request).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
    let length = answer.content_length();
    let body = match length {
        Some(_) => Body::from(answer.bytes().await.map_err(|_| StatusCode::BAD_GATEWAY)?),
        None => Body::from_stream(answer.bytes_stream()),
    };
    let mut response = Response::new(body);
    if let Some(kind) = kind {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    Ok(response)
}
