//! The first content is there: from now on this rung answers, and no other can.

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use shared::state::capacity::Mark;
use shared::state::settlement::Outcome;

use super::attempt::{Body, Origin};
use super::climb::Answered;
use super::journey::Journey;
use super::relay::{Ends, Relay};
use super::settle::Open;
use super::tally::Served;
use crate::app::Shared;
use crate::catalog::Owner;
use crate::dialect::gemini::stream::Framing;

const MODEL: HeaderName = HeaderName::from_static("x-headgate-model");
const CONNECTION: HeaderName = HeaderName::from_static("x-headgate-connection");
/// Tells nginx not to collect a stream before passing it on.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Answers the caller with what the rung brings; from here the relay owns the request's lease and the connection's.
pub fn commit(app: &Shared, answered: Answered, open: Open, journey: &Journey, ends: Ends) -> Response {
    let Answered { rung, mut held, committed } = answered;
    let connection = &rung.serving.connection;
    // An own credential is billed by its vendor, not by us.
    let price = rung.model.price.filter(|_| connection.owner == Owner::Platform);
    open.tally().commit(Served { connection: connection.id.clone(), model: rung.model.name.clone(), price });
    measure(app, &rung.model.name, committed.first_token, journey);

    let mut headers = committed.headers;
    journey.tell(&mut headers);
    put(&mut headers, MODEL, rung.model.name.as_str());
    put(&mut headers, CONNECTION, connection.id.as_str());
    let body = match committed.body {
        Body::Whole(answer) => {
            open.tally().delivered(answer.output_chars);
            if let Some(tokens) = answer.usage {
                open.tally().report(tokens);
            }
            held.used(open.tally().bill().weighed);
            open.end(Outcome::Ok);
            match committed.origin {
                // Counting tokens is no measure of how soon an upstream answers.
                Origin::Upstream => held.succeeded((!ends.api.counts()).then_some(committed.first_token)),
                Origin::Us => held.ended(Mark::Nothing),
            }
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            answer.body.into()
        }
        Body::Stream(stream) => {
            announce_stream(&mut headers, ends.framing);
            Relay::new(*stream, open, held, ends.of(rung, committed.first_token)).into_body()
        }
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

/// Says of a stream what it is, and that nobody may keep or collect it on its way.
pub fn announce_stream(headers: &mut HeaderMap, framing: Framing) {
    let kind = match framing {
        Framing::Sse => "text/event-stream; charset=utf-8",
        Framing::Array => "application/json",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
}

fn measure(app: &Shared, model: &shared::ids::ModelName, first_token: std::time::Duration, journey: &Journey) {
    app.metrics.first_token(model.as_str(), first_token);
    app.metrics.overhead(journey.started.elapsed().saturating_sub(journey.waited + journey.upstream));
    if journey.trail.len() > 1 {
        app.metrics.failovers.inc();
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
