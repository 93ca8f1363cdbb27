//! Serves a router on a listener: takes connections until told to close, lets the open ones finish, and cuts them when told.
//!
//! axum's own server can do all but the last: its connections outlive it, and with them what their requests hold.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// How long a connection may take to send the head of a request, and so how long it may idle: longer than the load balancers in
/// front keep theirs (60 s is usual), for it should be they who close.
const HEAD_WITHIN: Duration = Duration::from_secs(75);
/// How often an HTTP/2 peer is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// When there is no descriptor left for a new connection, some must close first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the requests of connections that were cut may take to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// When to stop.
#[derive(Debug, Clone, Default)]
pub struct Until {
    /// No new connections; those that idle are closed, the others when their request is answered.
    pub closing: CancellationToken,
    /// No connections: what is left is dropped, and with it all it holds.
    pub cut: CancellationToken,
}

/// Serves until told to stop; returns when the last connection is closed.
pub async fn serve(listener: TcpListener, router: Router, until: Until) {
    let streams = Streams::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = until.closing.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), streams.clone(), until.closing.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    loop {
        tokio::select! {
            next = connections.join_next() => if next.is_none() { break },
            () = until.cut.cancelled() => {
                connections.shutdown().await;
                break;
            }
        }
    }
    streams.0.close();
    // Without their connection they end by themselves.
    let _ = tokio::time::timeout(NOTICED_WITHIN, streams.0.wait()).await;
}

async fn connection(stream: TcpStream, router: Router, streams: Streams, closing: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection without TCP_NODELAY");
    }
    let mut builder = Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_EVERY);
    let service =
        TowerToHyperService::new(router.map_request(|request: http::Request<Incoming>| request.map(Body::new)));
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended badly");
    }
}

/// Runs the streams of HTTP/2 connections.
#[derive(Debug, Clone, Default)]
struct Streams(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}
