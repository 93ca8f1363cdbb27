//! The models a key may use, as its caller's dialect lists them.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderValue, header};

use super::admit::allowed;
use super::authenticate::{Known, Read, authenticate, authenticate_again};
use super::journey::Journey;
use super::{Fall, means, plan, tell};
use crate::app::Shared;
use crate::catalog::Named;
use crate::dialect::{Dialect, anthropic, gemini, openai};
use crate::error::Refusal;
use crate::ingress;

/// Which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// The one of this name.
    One(String),
}

/// The dialect of a caller of `/models`, which three dialects claim: told by its headers.
pub fn dialect(request: &Request) -> Dialect {
    let headers = request.headers();
    let has_key = || request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("key=")));
    if headers.contains_key(anthropic::headers::VERSION) {
        Dialect::Anthropic
    } else if !request.uri().path().starts_with("/v1/")
        || headers.contains_key("x-goog-api-key")
        || headers.contains_key("x-goog-api-client")
        || has_key()
    {
        Dialect::Gemini
    } else {
        Dialect::OpenAi
    }
}

/// Answers `GET /models` and `GET /models/{id}`.
pub async fn models(app: &Shared, dialect: Dialect, which: Which, request: Request) -> Response {
    let journey = Journey::begin();
    let secret = ingress::credential(request.headers(), request.uri());
    let body = match known(app, secret).await {
        Ok(known) => list(app, &known, dialect, &which),
        Err(refusal) => Err(refusal),
    };
    match body {
        Ok(body) => {
            let mut response = Response::new(body.into());
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            journey.tell(response.headers_mut());
            response
        }
        Err(refusal) => tell(app, dialect, &Fall::Refused(refusal), &journey),
    }
}

/// Who asks, by the record that Redis has now: nothing after this would notice a revoked key.
pub(super) async fn known(app: &Shared, secret: Option<shared::ids::SecretHash>) -> Result<Known, Refusal> {
    let known = authenticate(&app.callers, secret).await?;
    if known.read == Read::Before { authenticate_again(&app.callers, known).await } else { Ok(known) }
}

fn list(app: &Shared, known: &Known, dialect: Dialect, which: &Which) -> Result<bytes::Bytes, Refusal> {
    let catalog = app.catalog.load();
    let usable: Vec<&str> = catalog
        .names()
        .into_iter()
        .filter(|(name, model)| {
            let rights = &known.caller.rights;
            let named = Named { name: (*name).clone(), model: Arc::clone(model), pool: None };
            allowed(&rights.models, &named) && !plan::plan(&catalog, means(known), model, None).steps.is_empty()
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let wanted = match which {
        Which::All => None,
        Which::One(name) => {
            let name = name.strip_prefix("models/").unwrap_or(name);
            if !usable.contains(&name) {
                return Err(Refusal::UnknownModel { model: name.to_owned() });
            }
            Some(name)
        }
    };
    let claude = |name| anthropic::models::Model { name, created: None };
    let serves = gemini::models::Serves::Content;
    Ok(match (dialect, wanted) {
        (Dialect::OpenAi, None) => openai::models::list(usable),
        (Dialect::OpenAi, Some(name)) => openai::models::one(name),
        (Dialect::Anthropic, None) => anthropic::models::list(&usable.into_iter().map(claude).collect::<Vec<_>>()),
        (Dialect::Anthropic, Some(name)) => anthropic::models::one(&claude(name)),
        (Dialect::Gemini | Dialect::CodeAssist, None) => {
            gemini::models::list(usable.into_iter().map(|name| (name, serves)))
        }
        (Dialect::Gemini | Dialect::CodeAssist, Some(name)) => gemini::models::one(name, serves),
    })
}
