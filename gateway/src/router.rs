//! Which path is answered by whom.

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::Shared;
use crate::dialect::gemini::url;
use crate::dialect::wanted::Entry;
use crate::dialect::{Api, Dialect};
use crate::error::Refusal;
use crate::flow::models::{self, Which};
use crate::flow::usage;
use crate::{flow, ops};

/// The versions that Gemini's SDKs put into their paths.
const GEMINI_VERSIONS: [&str; 3] = ["/v1", "/v1beta", "/v1alpha"];

/// The data plane.
pub fn router(app: Shared) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz))
        .route("/v1/headgate/usage", any(holders_usage))
        .route("/v1/chat/completions", any(|app, request| post(app, Api::Chat, request)))
        .route("/v1/responses", any(|app, request| post(app, Api::Responses, request)))
        .route("/v1/embeddings", any(|app, request| post(app, Api::Embeddings, request)))
        .route("/v1/messages", any(|app, request| post(app, Api::Messages, request)))
        .route("/v1/messages/count_tokens", any(|app, request| post(app, Api::CountTokens, request)));
    for version in GEMINI_VERSIONS {
        router = router
            .route(&format!("{version}/models"), any(list_models))
            .route(&format!("{version}/models/{{*rest}}"), any(one_model));
    }
    router.fallback(nothing_here).layer(CatchPanicLayer::new()).with_state(app)
}

async fn post(State(app): State<Shared>, api: Api, request: Request) -> Response {
    if request.method() != http::Method::POST {
        return flow::refuse(&app, api.dialect(), request, Refusal::Method { allow: "POST" });
    }
    flow::answer(app, Entry::at(api), request).await
}

async fn holders_usage(State(app): State<Shared>, request: Request) -> Response {
    if request.method() != http::Method::GET {
        return flow::refuse(&app, models::dialect(&request), request, Refusal::Method { allow: "GET" });
    }
    usage::holders_usage(&app, request).await
}

async fn list_models(State(app): State<Shared>, request: Request) -> Response {
    let dialect = models::dialect(&request);
    if request.method() != http::Method::GET {
        return flow::refuse(&app, dialect, request, Refusal::Method { allow: "GET" });
    }
    models::models(&app, dialect, Which::All, request).await
}

/// `GET` of one model, or a method of Gemini: `models/{model}:{method}`.
async fn one_model(State(app): State<Shared>, Path(rest): Path<String>, request: Request) -> Response {
    if request.method() == http::Method::GET {
        let dialect = models::dialect(&request);
        return models::models(&app, dialect, Which::One(rest), request).await;
    }
    if request.method() != http::Method::POST {
        return flow::refuse(&app, models::dialect(&request), request, Refusal::Method { allow: "GET, POST" });
    }
    let Some(call) = url::call(&rest) else {
        return flow::refuse(&app, Dialect::Gemini, request, Refusal::NoRoute);
    };
    let framing = url::framing(request.uri().query());
    let entry = Entry { path_model: call.model, framing, ..Entry::at(Api::Gemini(call.method)) };
    flow::answer(app, entry, request).await
}

async fn nothing_here(State(app): State<Shared>, request: Request) -> Response {
    let dialect = match request.uri().path() {
        path if path.starts_with("/v1/messages") => Dialect::Anthropic,
        path if path.starts_with("/v1beta/") || path.starts_with("/v1alpha/") => Dialect::Gemini,
        _ => Dialect::OpenAi,
    };
    flow::refuse(&app, dialect, request, Refusal::NoRoute)
}
