//! One request, from what the caller sent to what it is answered: the stages in their order.
//!
//! `ingress → authenticate → admit → plan → climb (acquire → attempt → record)* → commit → relay → settle`

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use shared::ids::{ModelName, SecretHash};
use shared::state::settlement::Outcome;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::app::Shared;
use crate::catalog::Catalog;
use crate::dialect::Dialect;
use crate::dialect::openai::request::{self, Peek};
use crate::error::{BadRequest, Fault, Refusal};
use crate::ingress::{self, BodyError};
use crate::metrics::{KindLabel, RequestLabels};

pub mod admit;
pub mod attempt;
pub mod authenticate;
pub mod climb;
pub mod commit;
pub mod held;
pub mod journey;
pub mod plan;
pub mod record;
pub mod relay;
pub mod settle;
pub mod tally;

use admit::{Admission, Asked, Known};
use attempt::Exchange;
use climb::Climb;
use journey::Journey;
use plan::{Means, Platform};
use relay::Ends;

/// A client's record can change while it is being admitted; that often in a row it does not.
const LOOK_UPS_MAX: u32 = 4;

/// Headers of a caller that an upstream gets, besides our own.
const FORWARDED: [&str; 1] = ["openai-beta"];

/// What a caller wants, as it put it.
#[derive(Debug)]
pub struct Wanted {
    /// The dialect it speaks.
    pub dialect: Dialect,
    /// What its body says.
    pub peek: Peek,
    /// Its body, untouched.
    pub body: Bytes,
    /// Its headers that go upstream.
    pub forwarded: HeaderMap,
}

/// Why a request gets no answer of a rung.
#[derive(Debug)]
pub enum Fall {
    /// The caller hung up: nobody is told.
    Gone,
    /// We say no.
    Refused(Refusal),
    /// The upstreams failed.
    Failed(Fault),
}

impl From<Refusal> for Fall {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Answers one request.
pub async fn answer(app: Shared, dialect: Dialect, request: Request) -> Response {
    // The line runs in a task of its own: when the caller hangs up, only this future is dropped, and what was begun is ended.
    let gone = CancellationToken::new();
    let _hang_up = gone.clone().drop_guard();
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        otel.name = "chat",
        gen_ai.operation.name = "chat",
        gen_ai.request.model = tracing::field::Empty,
        gen_ai.response.model = tracing::field::Empty,
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.usage.output_tokens = tracing::field::Empty,
        headgate.request_id = tracing::field::Empty,
        headgate.outcome = tracing::field::Empty,
    );
    let line = line(Arc::clone(&app), dialect, request, gone).instrument(span);
    match tokio::spawn(line).await {
        Ok(response) => response,
        Err(_) => refuse(&app, dialect, &Refusal::Internal),
    }
}

/// A refusal before anything was done.
pub fn refuse(app: &Shared, dialect: Dialect, refusal: &Refusal) -> Response {
    tell(app, dialect, &Fall::Refused(refusal.clone()), &Journey::begin())
}

async fn line(app: Shared, dialect: Dialect, request: Request, gone: CancellationToken) -> Response {
    let mut journey = Journey::begin();
    tracing::Span::current().record("headgate.request_id", journey.request.as_str());
    let catalog = app.catalog.load_full();
    match stages(&app, &catalog, dialect, request, &gone, &mut journey).await {
        Ok(response) => response,
        Err(fall) => tell(&app, dialect, &fall, &journey),
    }
}

/// The stages up to commit. Whatever an admitted request ends in, it is settled here or, once committed, by its relay.
async fn stages(
    app: &Shared,
    catalog: &Catalog,
    dialect: Dialect,
    request: Request,
    gone: &CancellationToken,
    journey: &mut Journey,
) -> Result<Response, Fall> {
    let (head, body) = request.into_parts();
    let secret = ingress::credential(&head.headers, &head.uri);
    let mut known = identify(app, secret).await?;
    let wanted = read(catalog, dialect, &head.headers, body).await?;
    let model = catalog.model(&wanted.peek.model).ok_or_else(|| unknown(&wanted))?;
    tracing::Span::current().record("gen_ai.request.model", model.name.as_str());
    journey.model = Some(model.name.clone());

    let mut looks = 0;
    let (ladder, mut open) = loop {
        let ladder = plan::plan(catalog, means(&known), model);
        if ladder.steps.is_empty() {
            return Err(unknown(&wanted).into());
        }
        let asked = Asked { wanted: &wanted, model, ladder: &ladder, gone };
        match admit::admit(app, &known, asked, journey).await? {
            Admission::Admitted(open) => break (ladder, open),
            Admission::Stale if looks < LOOK_UPS_MAX => {
                looks += 1;
                app.callers.forget(&known.secret);
                known = identify(app, secret).await?;
            }
            Admission::Stale => return Err(Refusal::StateUnavailable.into()),
        }
    };

    let deadline = journey.started + catalog.timeouts.total;
    let exchange = Exchange { client: &app.upstream, wanted: &wanted, timeouts: &catalog.timeouts, deadline, gone };
    let climbed = climb::climb(Climb { app, catalog, ladder: &ladder, exchange }, journey).await;
    open.remember(journey);
    match climbed {
        Ok(answered) => {
            let cut = app.cut.clone();
            let ends = Ends { dialect, timeouts: catalog.timeouts.clone(), deadline, cut, sole: ladder.sole() };
            Ok(commit::commit(app, *answered, open, journey, ends))
        }
        Err(fall) => {
            open.end(fall.outcome());
            Err(fall)
        }
    }
}

async fn identify(app: &Shared, secret: Option<SecretHash>) -> Result<Known, Refusal> {
    let (secret, caller) = authenticate::authenticate(&app.callers, secret).await?;
    Ok(Known { secret, caller })
}

fn means(known: &Known) -> Means<'_> {
    let rights = &known.caller.rights;
    let platform =
        if rights.platform_fallback || rights.byok.is_empty() { Platform::Allowed } else { Platform::Denied };
    Means { account: &known.caller.account, byok: &rights.byok, platform }
}

/// Reads and checks the body.
async fn read(
    catalog: &Catalog,
    dialect: Dialect,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<Wanted, Refusal> {
    let limit = catalog.limits.body.0;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let body = ingress::read_body(body, most, catalog.timeouts.idle).await.map_err(|error| match error {
        BodyError::TooLarge => Refusal::BodyTooLarge { limit },
        BodyError::TooSlow => Refusal::BodyTimeout,
        BodyError::Broken => {
            Refusal::BadRequest(BadRequest { field: None, code: None, message: "The body could not be read.".into() })
        }
    })?;
    let peek = request::peek(&body).map_err(Refusal::BadRequest)?;
    let mut forwarded = HeaderMap::new();
    for name in FORWARDED {
        if let Some(value) = headers.get(name) {
            forwarded.insert(name, value.clone());
        }
    }
    Ok(Wanted { dialect, peek, body, forwarded })
}

fn unknown(wanted: &Wanted) -> Refusal {
    Refusal::UnknownModel { model: wanted.peek.model.clone() }
}

impl Fall {
    /// What the ledger calls it.
    fn outcome(&self) -> Outcome {
        match self {
            Self::Gone => Outcome::ClientGone,
            Self::Refused(_) => Outcome::RefusedAfterStart,
            Self::Failed(_) => Outcome::Failed,
        }
    }
}

/// Tells the caller in its dialect why there is no answer.
fn tell(app: &Shared, dialect: Dialect, fall: &Fall, journey: &Journey) -> Response {
    let fault = match fall {
        // Nobody reads this; the status is the customary one for logs of proxies in front.
        Fall::Gone => Refusal::BodyTimeout.fault(),
        Fall::Refused(refusal) => refusal.fault(),
        Fall::Failed(fault) => fault.clone(),
    };
    if let Some(kind) = fault.refusal {
        app.metrics.refusals.get_or_create(&KindLabel { kind }).inc();
    }
    if !journey.admitted {
        refused(app, dialect, &fault, journey);
    }
    let mut response = Response::new(dialect.envelope(&fault).into());
    *response.status_mut() = fault.status;
    let headers = response.headers_mut();
    *headers = fault.headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    journey.tell(headers);
    response
}

/// Counts and logs a request that was never admitted; an admitted one does that when it is settled.
fn refused(app: &Shared, dialect: Dialect, fault: &Fault, journey: &Journey) {
    let model = journey.model.as_ref().map_or("unknown", ModelName::as_str);
    let labels = RequestLabels { dialect: dialect.as_str(), model: model.into(), outcome: "refused" };
    app.metrics.requests.get_or_create(&labels).inc();
    tracing::info!(
        request_id = %journey.request,
        model,
        outcome = "refused",
        refusal = fault.refusal,
        status = fault.status.as_u16(),
        queued_ms = u64::try_from(journey.waited.as_millis()).unwrap_or(u64::MAX),
        "request"
    );
}
