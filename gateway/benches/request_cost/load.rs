//! The callers: a bounded number of requests over kept connections, each answer checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use reqwest::{Client, Response, Url};
use tokio::task::JoinSet;

use crate::rig::SECRET;

/// No answer takes longer.
const ANSWERS_WITHIN: Duration = Duration::from_mins(2);

/// How a good stream ends.
const MARKER: &[u8] = b"data: [DONE]\n\n";

/// Asks one proxy for one model.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    client: Client,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// How an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One body.
    Whole,
    /// Events.
    Stream,
}

impl Caller {
    /// A caller with connections of its own.
    pub(crate) fn new(url: &str, model: &str, kind: Kind) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {SECRET}"))?);
        Ok(Self {
            client: Client::builder().tcp_nodelay(true).timeout(ANSWERS_WITHIN).build()?,
            url: Url::parse(url)?,
            headers,
            body: body(model, kind).into(),
        })
    }

    /// Sends one request; returns when the head of a good answer is there.
    pub(crate) async fn send(&self) -> anyhow::Result<Response> {
        let mut request = reqwest::Request::new(http::Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(self.body.clone().into());
        let answer = self.client.execute(request).await?;
        if answer.status() != http::StatusCode::OK {
            bail!("{}: {}", answer.status(), answer.text().await?);
        }
        Ok(answer)
    }

    /// One request and its whole answer.
    async fn whole(&self) -> anyhow::Result<()> {
        let answer = self.send().await?.bytes().await?;
        ensure!(answer.ends_with(b"}"), "an answer is cut off");
        Ok(())
    }

    /// One request and its stream to the end.
    async fn stream(&self) -> anyhow::Result<()> {
        let mut answer = self.send().await?;
        // Its last bytes, which may come in several pieces.
        let mut tail = Vec::with_capacity(64 * 1024);
        while let Some(chunk) = answer.chunk().await? {
            if tail.len() > MARKER.len() {
                tail.drain(..tail.len() - MARKER.len());
            }
            tail.extend_from_slice(&chunk);
        }
        ensure!(tail.ends_with(MARKER), "a stream ends with {:?}", String::from_utf8_lossy(&tail));
        Ok(())
    }

    /// So many requests, so many at a time.
    pub(crate) async fn run(&self, kind: Kind, requests: u32, at_a_time: u32) -> anyhow::Result<()> {
        let sent = Arc::new(AtomicU32::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..at_a_time {
            let (caller, sent) = (self.clone(), Arc::clone(&sent));
            callers.spawn(async move {
                while sent.fetch_add(1, Relaxed) < requests {
                    match kind {
                        Kind::Whole => caller.whole().await?,
                        Kind::Stream => caller.stream().await?,
                    }
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended?.context("a request failed")?;
        }
        Ok(())
    }
}

/// A request of usual size: a system prompt and a question.
fn body(model: &str, kind: Kind) -> String {
    let stream = match kind {
        Kind::Whole => "",
        Kind::Stream => r#","stream":true,"stream_options":{"include_usage":true}"#,
    };
    format!(
        r#"{{"model":"{model}","messages":[{{"role":"system","content":"You are a helpful assistant. Answer briefly, in plain words, and say so when you do not know."}},{{"role":"user","content":"What does a gateway in front of language models do, and why would anyone want one?"}}],"temperature":0.2,"max_tokens":256{stream}}}"#
    )
}
