//! `GET /v1/headgate/usage`: what a client key has and has used, told to its holder.

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};

use super::admit::unanswered;
use super::journey::Journey;
use super::models::{dialect, known};
use super::{Fall, tell};
use crate::app::Shared;
use crate::error::Refusal;
use crate::ingress;
use crate::manage::usage::{Holder, usage};

/// Answers it. Nothing is taken or charged, also where every limit is used up.
pub async fn holders_usage(app: &Shared, request: Request) -> Response {
    let journey = Journey::begin();
    let secret = ingress::credential(request.headers(), request.uri());
    match look(app, secret).await {
        Ok(body) => {
            let mut response = Json(body).into_response();
            journey.tell(response.headers_mut());
            response
        }
        Err(refusal) => tell(app, dialect(&request), &Fall::Refused(refusal), &journey),
    }
}

async fn look(app: &Shared, secret: Option<shared::ids::SecretHash>) -> Result<serde_json::Value, Refusal> {
    let known = known(app, secret).await?;
    let caller = &known.caller;
    let holder = Holder {
        account: &caller.account,
        key: &caller.key,
        rights: &caller.rights,
        money: caller.money,
        overdraft: caller.overdraft,
    };
    let usage = usage(&app.store, holder).await.map_err(|error| unanswered(app, &error))?;
    Ok(usage.json(holder))
}
