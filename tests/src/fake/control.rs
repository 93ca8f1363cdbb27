//! The control API of the fake upstream, under `/__fake` on its own port, and what services answer beside models' words.

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::HeaderMap;
use serde_json::{Value, json};

use super::log::{Call, Peaks, State};
use super::rule::Rule;

/// The models the lists name; calls may name any other.
const MODELS: [&str; 6] = [
    "gpt-5.6-luna",
    "gpt-5.6-terra",
    "claude-sonnet-4.5",
    "gemini-2.5-pro",
    "gemini-3.1-flash-lite",
    "text-embedding-3-small",
];

/// `POST /rules` replaces, `POST /rules/add` appends, `DELETE /rules` heals; `GET`/`DELETE` of `/calls` and `/peak`.
pub(crate) fn routes(state: State) -> Router {
    Router::new()
        .route("/rules", post(replace_rules).delete(heal))
        .route("/rules/add", post(add_rules))
        .route("/calls", get(calls).delete(clear_calls))
        .route("/peak", get(peaks).delete(clear_peaks))
        .with_state(state)
}

/// A list of models in the dialect the caller shows itself to speak.
pub(crate) fn models(headers: &HeaderMap, query: &str) -> Value {
    if headers.contains_key("anthropic-version") {
        let entry = |id| json!({"id": id, "type": "model", "display_name": id, "created_at": "2026-01-01T00:00:00Z"});
        return json!({"data": MODELS.map(entry), "has_more": false, "first_id": MODELS[0], "last_id": MODELS[5]});
    }
    let gemini = headers.contains_key("x-goog-api-key") || headers.contains_key("x-goog-api-client");
    if gemini || query.split('&').any(|pair| pair.starts_with("key=")) {
        let methods = ["generateContent", "streamGenerateContent", "countTokens"];
        return json!({"models": MODELS.map(|id| json!({"name": format!("models/{id}"), "supportedGenerationMethods": methods}))});
    }
    let entry = |id| json!({"id": id, "object": "model", "created": 1_790_000_000, "owned_by": "fake"});
    json!({"object": "list", "data": MODELS.map(entry)})
}

/// What Google answers around Code Assist: an access token for a refresh token (`ya29.` and the refresh token, so that the log
/// tells whose it is), and the project of an account.
pub(crate) fn google(path: &str, body: &str) -> Option<Value> {
    if path.ends_with("/token") {
        let refresh = body.split('&').find_map(|pair| pair.strip_prefix("refresh_token=")).unwrap_or_default();
        return Some(json!({"access_token": format!("ya29.{refresh}"), "expires_in": 3599, "token_type": "Bearer"}));
    }
    let tier = json!({"id": "standard-tier", "name": "Standard"});
    path.ends_with("/v1internal:loadCodeAssist")
        .then(|| json!({"currentTier": tier, "allowedTiers": [tier], "cloudaicompanionProject": "fake-project"}))
}

/// Rules as a script gives them: a list, or one alone.
fn read_rules(script: Value) -> Result<Vec<Rule>, (StatusCode, String)> {
    let list = if script.is_array() { script } else { Value::Array(vec![script]) };
    serde_json::from_value(list).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

async fn replace_rules(
    Shared(state): Shared<State>,
    Json(script): Json<Value>,
) -> Result<StatusCode, (StatusCode, String)> {
    state.replace_rules(read_rules(script)?);
    Ok(StatusCode::NO_CONTENT)
}

async fn add_rules(
    Shared(state): Shared<State>,
    Json(script): Json<Value>,
) -> Result<StatusCode, (StatusCode, String)> {
    state.add_rules(read_rules(script)?);
    Ok(StatusCode::NO_CONTENT)
}

async fn heal(Shared(state): Shared<State>) -> StatusCode {
    state.replace_rules(Vec::new());
    StatusCode::NO_CONTENT
}

async fn calls(Shared(state): Shared<State>) -> Json<Vec<Call>> {
    Json(state.calls())
}

async fn clear_calls(Shared(state): Shared<State>) -> StatusCode {
    state.clear_calls();
    StatusCode::NO_CONTENT
}

async fn peaks(Shared(state): Shared<State>) -> Json<Peaks> {
    Json(state.peaks())
}

async fn clear_peaks(Shared(state): Shared<State>) -> StatusCode {
    state.clear_peaks();
    StatusCode::NO_CONTENT
}
