//! Is this replica alive, and may it be sent traffic?

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

use crate::app::Shared;

/// `GET /healthz`: this process answers. Touches nothing, waits for nothing.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: Redis answers within its timeout, a configuration is loaded, and the replica is not draining; else 503 with
/// which of them failed.
pub async fn readyz(State(app): State<Shared>) -> Response {
    let redis = app.store.link().ping().await.is_ok();
    let draining = app.draining.is_cancelled();
    let ready = redis && !draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = |good: bool| if good { "ok" } else { "failed" };
    let body = json!({
        "ready": ready,
        "redis": word(redis),
        "config": app.catalog.load().version,
        "draining": draining,
    });
    (status, Json(body)).into_response()
}
