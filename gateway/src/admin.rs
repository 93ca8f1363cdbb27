//! The admin plane: on a listener of its own, behind a bearer token.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use crate::app::Shared;

/// What Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The token of the admin plane (`HEADGATE_ADMIN_TOKEN`); `None` leaves the plane open to whoever reaches its listener, which
/// is the loopback interface unless configured otherwise.
#[derive(Debug, Clone, Default)]
pub struct AdminToken(Option<SecretString>);

impl AdminToken {
    /// Reads the token from the environment.
    pub fn from_env() -> Self {
        Self(std::env::var("HEADGATE_ADMIN_TOKEN").ok().filter(|token| !token.is_empty()).map(Into::into))
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    fn admits(&self, authorization: Option<&str>) -> bool {
        let Some(token) = &self.0 else { return true };
        let given = authorization.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        token.expose_secret().as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// The routes of the admin plane.
pub fn router(app: Shared, token: AdminToken) -> Router {
    Router::new().route("/metrics", get(metrics)).layer(from_fn_with_state(token, guard)).with_state(app)
}

async fn guard(State(token): State<AdminToken>, request: Request, next: Next) -> Response {
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if token.admits(authorization) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "the admin plane needs its bearer token (HEADGATE_ADMIN_TOKEN)\n")
        .into_response()
}

async fn metrics(State(app): State<Shared>) -> Response {
    app.metrics.store_down.set(app.store.link().is_away().into());
    ([(header::CONTENT_TYPE, OPENMETRICS)], app.metrics.text()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_opens_a_plane_that_has_one() {
        let token = AdminToken(Some("t0ken".to_owned().into()));
        assert!(token.admits(Some("Bearer t0ken")));
        for wrong in [None, Some(""), Some("Bearer "), Some("Bearer t0ke"), Some("Bearer t0kenn"), Some("t0ken")] {
            assert!(!token.admits(wrong), "{wrong:?}");
        }
        assert!(AdminToken(None).admits(None));
    }
}
