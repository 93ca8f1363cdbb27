//! One request, from what the caller sent to what it is answered: the stages in their order.
//!
//! `ingress → authenticate → admit → plan → climb (acquire → attempt → record)* → commit → relay → settle`

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use shared::ids::ModelName;
use shared::state::settlement::Outcome;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::app::Shared;
use crate::catalog::{Catalog, Named};
use crate::dialect::conversation as signals;
use crate::dialect::wanted::{Entry, WORDS, Wanted};
use crate::dialect::{Answer, Dialect};
use crate::error::{BadRequest, Fault, Refusal};
use crate::ingress::{self, BodyError};
use crate::metrics::{KindLabel, RequestLabels};

pub mod admit;
pub mod attempt;
pub mod authenticate;
pub mod bound;
pub mod climb;
pub mod commit;
pub mod conversation;
pub mod held;
pub mod journey;
pub mod memory;
pub mod models;
pub mod offer;
pub mod patience;
pub mod pictures;
pub mod plan;
pub mod record;
pub mod relay;
pub mod settle;
pub mod tally;
pub mod usage;

use admit::{Admission, Asked};
use attempt::Exchange;
use authenticate::{Known, Read, authenticate, authenticate_again};
use bound::{Tie, tie};
use climb::Climb;
use conversation::Conversation;
use journey::Journey;
use memory::Memory;
use patience::Admitted;
use pictures::Pictures;
use plan::{Ladder, Means};
use relay::Ends;
use settle::Open;

/// A client's record can change while it is being admitted; that often in a row it does not.
const LOOK_UPS_MAX: u32 = 5;

/// Why a request gets no answer of a rung.
#[derive(Debug)]
pub enum Fall {
    /// The caller hung up: nobody is told.
    Gone,
    /// We say no.
    Refused(Refusal),
    /// The upstreams failed.
    Failed(Box<Fault>),
}

impl From<Refusal> for Fall {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Answers one request.
pub async fn answer(app: Shared, entry: Entry, request: Request) -> Response {
    let dialect = entry.api.dialect();
    // The line runs in a task of its own: when the caller hangs up, only this future is dropped, and what was begun is ended.
    // The end of a drain counts as a hang-up, too.
    let gone = app.cut.child_token();
    let hang_up = gone.clone().drop_guard();
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
    let (admits, admitted) = oneshot::channel();
    let line = line(Arc::clone(&app), entry, request, Caller { gone, admits }).instrument(span);
    match patience::answer(app.keeper.spawn(line), admitted, hang_up).await {
        Ok(response) => response,
        Err(_) => tell(&app, dialect, &Refusal::Internal.into(), &Journey::begin()),
    }
}

/// A refusal before anything was looked at.
pub fn refuse(app: &Shared, dialect: Dialect, request: Request, refusal: Refusal) -> Response {
    let (head, body) = request.into_parts();
    discard(app, &head.headers, body);
    tell(app, dialect, &refusal.into(), &Journey::begin())
}

/// Throws a body away that is not wanted, after its answer: a caller that still sends would see a reset instead.
fn discard(app: &Shared, headers: &HeaderMap, body: axum::body::Body) {
    if let Some(discarding) = ingress::discard(headers, body) {
        app.keeper.spawn(discarding);
    }
}

/// Whoever waits for the answer.
#[derive(Debug)]
struct Caller {
    /// Cancelled when it hangs up.
    gone: CancellationToken,
    /// Told when the request was admitted, if it asks for a stream.
    admits: oneshot::Sender<Admitted>,
}

async fn line(app: Shared, entry: Entry, request: Request, caller: Caller) -> Response {
    let dialect = entry.api.dialect();
    let mut journey = Journey::begin();
    tracing::Span::current().record("headgate.request_id", journey.request.as_str());
    let catalog = app.catalog.load_full();
    match stages(&app, &catalog, entry, request, caller, &mut journey).await {
        Ok(response) => response,
        Err(fall) => tell(&app, dialect, &fall.or_draining(&app), &journey),
    }
}

/// The stages up to commit. Whatever an admitted request ends in, it is settled here or, once committed, by its relay.
async fn stages(
    app: &Shared,
    catalog: &Catalog,
    entry: Entry,
    request: Request,
    Caller { gone, admits }: Caller,
    journey: &mut Journey,
) -> Result<Response, Fall> {
    let gone = &gone;
    let (head, body) = request.into_parts();
    let known = match authenticate(&app.callers, ingress::credential(&head.headers, &head.uri)).await {
        Ok(known) => known,
        Err(refusal) => {
            discard(app, &head.headers, body);
            return Err(refusal.into());
        }
    };
    let wanted = tokio::select! {
        wanted = read(app, catalog, entry, &head.headers, body) => wanted?,
        () = gone.cancelled() => return Err(Fall::Gone),
    };
    let Some(named) = catalog.find(&wanted.look().model) else {
        if known.read == Read::Before {
            // A key that was revoked meanwhile learns nothing of our models.
            authenticate_again(&app.callers, known).await?;
        }
        return Err(unknown(&wanted).into());
    };
    let model = &named.model;
    tracing::Span::current().record("gen_ai.request.model", model.name.as_str());
    journey.model = Some(model.name.clone());

    let account = known.caller.account.clone();
    let memory = Memory::new(app.store.clone(), account.clone());
    let conversation = Conversation::new(&wanted, &account, &model.name);
    let tie = tie(&app.store, &wanted, &account).await.map_err(|error| admit::unanswered(app, &error))?;
    let wish = Wish { wanted: &wanted, named: &named, tie: &tie, gone };
    let (ladder, mut open) = admitted(app, catalog, known, wish, journey).await?;
    if wanted.look().answer == Answer::Stream {
        // Nobody listens where the caller is gone.
        let _ = admits.send(Admitted::new(wanted.api(), wanted.framing(), journey));
    }
    let deadline = journey.started + catalog.timeouts.total;
    let id = journey.request.clone();
    let (client, timeouts) = (&app.upstream, &catalog.timeouts);
    let pictures = Pictures::new(&app.images, &catalog.images);
    let (wants, memories, images) = (&wanted, &memory, &pictures);
    let exchange =
        Exchange { client, wanted: wants, memory: memories, pictures: images, request: &id, timeouts, deadline, gone };
    let (model, turn) = (&model.name, &open.turn());
    let climb = Climb { app, catalog, ladder: &ladder, model, turn, conversation: &conversation, exchange };
    let climbed = climb::climb(climb, journey).await;
    app.metrics.waited(journey.waited);
    open.remember(journey);
    match climbed {
        Ok(mut answered) => {
            if let attempt::Body::Whole(answer) = &mut answered.committed.body {
                let connection = &answered.rung.serving.connection;
                memory.keep(&std::mem::take(&mut answer.kept), connection).await;
                if let Some(id) = answer.made.take() {
                    memory.made(&id, connection).await;
                }
            }
            let cut = app.cut.clone();
            let ends = Ends {
                api: wanted.api(),
                framing: wanted.framing(),
                timeouts: catalog.timeouts.clone(),
                deadline,
                cut,
                sole: ladder.sole(&answered.rung.model.name),
                memory,
            };
            Ok(commit::commit(app, *answered, *open, journey, ends))
        }
        Err(fall) => {
            let fall = fall.or_draining(app);
            open.end(fall.outcome());
            Err(fall)
        }
    }
}

/// A request that wants to be admitted.
#[derive(Debug, Clone, Copy)]
struct Wish<'a> {
    wanted: &'a Wanted,
    named: &'a Named,
    tie: &'a Tie,
    gone: &'a CancellationToken,
}

/// Plans and admits, again with the caller's record read anew when the one remembered will not do.
async fn admitted(
    app: &Shared,
    catalog: &Catalog,
    mut known: Known,
    wish: Wish<'_>,
    journey: &mut Journey,
) -> Result<(Ladder, Box<Open>), Fall> {
    for _ in 0..LOOK_UPS_MAX {
        let Named { model, pool, .. } = wish.named;
        let ladder = match wish.tie.hold(plan::plan(catalog, means(&known), model, pool.as_ref()), wish.wanted) {
            Ok(ladder) => ladder,
            Err(_) if known.read == Read::Before => {
                known = authenticate_again(&app.callers, known).await?;
                continue;
            }
            Err(refusal) => return Err(refusal.into()),
        };
        let asked = Asked { wanted: wish.wanted, named: wish.named, ladder: &ladder, gone: wish.gone };
        match admit::admit(app, &known, asked, journey).await? {
            Admission::Admitted(open) => return Ok((ladder, open)),
            Admission::Stale => known = authenticate_again(&app.callers, known).await?,
        }
    }
    Err(Refusal::StateUnavailable.into())
}

fn means(known: &Known) -> Means<'_> {
    Means::of_caller(&known.caller)
}

/// Reads and checks the body.
async fn read(
    app: &Shared,
    catalog: &Catalog,
    mut entry: Entry,
    headers: &HeaderMap,
    mut body: axum::body::Body,
) -> Result<Wanted, Refusal> {
    let limit = catalog.limits.body.0;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let read = ingress::read_body(&mut body, most, catalog.timeouts.idle).await;
    let body = read.map_err(|error| match error {
        BodyError::TooLarge => {
            discard(app, headers, body);
            Refusal::BodyTooLarge { limit }
        }
        BodyError::TooSlow => Refusal::BodyTimeout,
        BodyError::Broken => {
            Refusal::BadRequest(BadRequest { field: None, code: None, message: "The body could not be read.".into() })
        }
    })?;
    for name in WORDS {
        if let Some(value) = headers.get(name) {
            entry.words.insert(name, value.clone());
        }
    }
    for name in signals::HEADERS {
        if let Some(value) = headers.get(name) {
            entry.signals.insert(name, value.clone());
        }
    }
    Wanted::read(entry, body).map_err(Refusal::BadRequest)
}

fn unknown(wanted: &Wanted) -> Refusal {
    Refusal::UnknownModel { model: wanted.look().model.clone() }
}

impl Fall {
    /// At the end of a drain nobody hung up: the caller is told to come again.
    fn or_draining(self, app: &Shared) -> Self {
        match self {
            Self::Gone if app.cut.is_cancelled() => Refusal::Draining.into(),
            other => other,
        }
    }

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
    let (fault, outcome) = match fall {
        // Nobody reads this; the status is the customary one for logs of proxies in front.
        Fall::Gone => (Refusal::BodyTimeout.fault(), "client_gone"),
        Fall::Refused(refusal) => (refusal.fault(), "refused"),
        Fall::Failed(fault) => ((**fault).clone(), "failed"),
    };
    if let (Fall::Refused(_), Some(kind)) = (fall, fault.refusal) {
        app.metrics.refusals.get_or_create(&KindLabel { kind }).inc();
    }
    if !journey.admitted {
        not_admitted(app, dialect, (&fault, outcome), journey);
    }
    let mut response = Response::new(dialect.envelope(&fault).into());
    *response.status_mut() = fault.status;
    let headers = response.headers_mut();
    *headers = fault.headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    journey.tell(headers);
    patience::leave_word(&mut response, fault);
    response
}

/// Counts and logs a request that was never admitted; an admitted one does that when it is settled.
fn not_admitted(app: &Shared, dialect: Dialect, (fault, outcome): (&Fault, &'static str), journey: &Journey) {
    let model = journey.model.as_ref().map_or("unknown", ModelName::as_str);
    let labels = RequestLabels { dialect: dialect.as_str(), model: model.into(), outcome };
    app.metrics.requests.get_or_create(&labels).inc();
    tracing::info!(
        request_id = %journey.request,
        model,
        outcome,
        refusal = fault.refusal,
        status = fault.status.as_u16(),
        queued_ms = u64::try_from(journey.waited.as_millis()).unwrap_or(u64::MAX),
        "request"
    );
}
