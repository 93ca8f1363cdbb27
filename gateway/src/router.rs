//! Which path is answered by whom.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::Shared;
use crate::dialect::Dialect;
use crate::error::Refusal;
use crate::{flow, ops};

/// The data plane.
pub fn router(app: Shared) -> Router {
    Router::new()
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz))
        .route("/v1/chat/completions", any(chat_completions))
        .fallback(nothing_here)
        .layer(CatchPanicLayer::new())
        .with_state(app)
}

async fn chat_completions(State(app): State<Shared>, request: Request) -> Response {
    if request.method() != http::Method::POST {
        return flow::refuse(&app, Dialect::OpenAi, request, Refusal::Method { allow: "POST" });
    }
    flow::answer(app, Dialect::OpenAi, request).await
}

async fn nothing_here(State(app): State<Shared>, request: Request) -> Response {
    flow::refuse(&app, Dialect::OpenAi, request, Refusal::NoRoute)
}
