//! A relay, fed by hand. Redis is away: what would be settled is seen in the tally.

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use shared::limit::TokenWeights;
use shared::money::Tokens;
use shared::state::capacity::{LeaseId, Probe, RecordAsk};
use shared::state::settlement::Basis;

use super::*;
use crate::app::Shared;
use crate::app::tests::app;
use crate::dialect::UsageChunk;
use crate::dialect::openai::stream::Same;
use crate::flow::plan::{Means, plan};
use crate::flow::settle::Facts;
use crate::flow::tally::{Served, Tally};
use crate::upstream::sse::Scanner;

/// Five events; two-, three- and four-byte characters, an escaped pair, all three line endings and a comment.
const TEXT: &str = concat!(
    "data: {\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\r\n\r\n",
    ": keep-alive\n\n",
    "data: {\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"北é\"}}]}\n\n",
    "data: {\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"😀\\ud83d\\ude00\"},\"finish_reason\":\"stop\"}]}\r\r",
    "data: {\"model\":\"up\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}\n\n",
    "data: [DONE]\n\n"
);
/// What was held back until commit.
const FIRST: &str = ": held back\n\n";

type Piece = Result<Bytes, std::io::Error>;

/// A relay of these pieces, and its tally: 400 characters of prompt.
fn relay(app: &Shared, pieces: Vec<Piece>) -> (Relay, Arc<Tally>) {
    let catalog = app.catalog.load_full();
    let account = "acme".parse().unwrap();
    let means = Means::of(&account);
    let rung = plan(&catalog, means, catalog.model("m").unwrap(), None).steps[0].rungs[0].clone();
    let facts = Facts {
        account: account.clone(),
        priority: shared::limit::Priority::default(),
        key: "ci".parse().unwrap(),
        admitted_ms: 0,
        request: "r".parse().unwrap(),
        model: rung.model.name.clone(),
        span: None,
        quotas: Vec::new(),
        prompt_chars: 400,
        weights: TokenWeights::default(),
        dialect: "openai",
    };
    let open = Open::new(Arc::clone(app), facts);
    let connection = rung.serving.connection.id.clone();
    open.tally().commit(Served { connection: connection.clone(), model: rung.model.name.clone(), price: None });
    let receipt = RecordAsk {
        group: "p".parse().unwrap(),
        connection,
        model: rung.model.name.clone(),
        bucket: rung.serving.bucket.clone(),
        lease: LeaseId { request: "r".parse().unwrap(), attempt: 1 },
        begun_ms: 0,
        mark: Mark::Nothing,
        max_concurrent: None,
        jitter_percent: 100,
        max_lock: Duration::from_mins(15),
        tokens: None,
        endpoint: None,
        told: Vec::new(),
        siblings: Vec::new(),
        pin: None,
    };
    let stream = OpenStream {
        response: Some(http::Response::new(reqwest::Body::wrap_stream(stream::iter(pieces))).into()),
        scanner: Scanner::new(),
        translation: Box::new(Same::new("caller's", UsageChunk::Wanted)),
        first: Fed { out: Bytes::from_static(FIRST.as_bytes()), ..Fed::default() },
    };
    let ends = Ends {
        api: Api::Chat,
        framing: Framing::Sse,
        timeouts: catalog.timeouts.clone(),
        deadline: Instant::now() + Duration::from_mins(1),
        cut: CancellationToken::new(),
        sole: Sole::Yes,
        memory: Memory::new(app.store.clone(), account),
    };
    let tally = Arc::clone(open.tally());
    let held = Held::new(app, receipt, Probe::No);
    (Relay::new(stream, open, held, ends.of(rung, Duration::ZERO)), tally)
}

async fn relayed(app: &Shared, pieces: Vec<Piece>) -> (String, Arc<Tally>) {
    let (relay, tally) = relay(app, pieces);
    let bytes = relay.into_body().collect().await.unwrap().to_bytes();
    (String::from_utf8(bytes.to_vec()).unwrap(), tally)
}

/// Bytes that come, or, if there are none, a break.
fn piece(bytes: &[u8]) -> Piece {
    if bytes.is_empty() { Err(std::io::ErrorKind::ConnectionReset.into()) } else { Ok(Bytes::copy_from_slice(bytes)) }
}

#[tokio::test]
async fn every_way_to_split_the_bytes_gives_the_same_events_and_the_same_bill() {
    let app = app("redis://127.0.0.1:1");
    let (whole, tally) = relayed(&app, vec![piece(TEXT.as_bytes())]).await;
    assert!(whole.ends_with("data: [DONE]\n\n") && whole.matches("\"caller's\"").count() == 4, "{whole}");
    assert!(whole.contains("北é") && whole.contains("😀\\ud83d\\ude00"), "{whole}");
    let bill = tally.bill();
    assert_eq!((bill.tokens.input, bill.tokens.output, bill.basis), (7, 3, Basis::Exact));
    for at in 1..TEXT.len() {
        let (first, second) = TEXT.as_bytes().split_at(at);
        let (split, tally) = relayed(&app, vec![piece(first), piece(second)]).await;
        assert_eq!((split, tally.bill()), (whole.clone(), bill), "split at byte {at}");
    }
    let bytes = TEXT.as_bytes().iter().map(|byte| piece(&[*byte])).collect();
    assert_eq!(relayed(&app, bytes).await.0, whole, "byte by byte");
}

#[tokio::test]
async fn a_relay_dropped_before_it_was_read_charges_nothing_and_one_dropped_later_what_it_gave() {
    let app = app("redis://127.0.0.1:1");
    let (mut unread, tally) = relay(&app, vec![]);
    unread.stream.first.chars = 9;
    drop(unread);
    assert!(!tally.costs());

    let (mut read, tally) = relay(&app, vec![]);
    read.stream.first.chars = 9;
    assert_eq!(read.next().await.unwrap(), FIRST);
    drop(read);
    let bill = tally.bill();
    assert_eq!((bill.tokens.input, bill.tokens.output, bill.basis), (100, 3, Basis::Estimated));
}

#[tokio::test]
async fn usage_that_was_held_back_with_the_first_content_counts_for_all_of_it() {
    let app = app("redis://127.0.0.1:1");
    let (mut whole, tally) = relay(&app, vec![]);
    whole.stream.first.chars = 9;
    whole.stream.first.usage = Some(Tokens { input: 7, output: 2, ..Tokens::default() });
    assert_eq!(whole.next().await.unwrap(), FIRST);
    assert_eq!((tally.bill().tokens.output, tally.bill().basis), (2, Basis::Exact));
}

#[tokio::test]
async fn a_break_is_an_error_event_without_done_unless_every_choice_had_ended() {
    let app = app("redis://127.0.0.1:1");
    let before_finish =
        TEXT.find("data: {\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"😀").unwrap();
    let (said, _) = relayed(&app, vec![piece(&TEXT.as_bytes()[..before_finish]), piece(b"")]).await;
    assert!(said.contains("\"error\"") && !said.contains("[DONE]"), "{said}");
    let before_usage = TEXT.find("data: {\"model\":\"up\",\"choices\":[],").unwrap();
    let (said, tally) = relayed(&app, vec![piece(&TEXT.as_bytes()[..before_usage]), piece(b"")]).await;
    assert!(!said.contains("\"error\"") && said.ends_with("data: [DONE]\n\n"), "{said}");
    assert_eq!(tally.bill().basis, Basis::Estimated);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_is_left_when_the_time_is_over_and_sees_no_clean_end() {
    let app = app("redis://127.0.0.1:1");
    let (relay, tally) = relay(&app, vec![piece(TEXT.as_bytes())]);
    let mut body = relay.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), FIRST);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(app.metrics.open_requests.get(), 1, "it has a minute");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((app.metrics.open_requests.get(), app.metrics.leases.get()), (0, 0));
    assert!(body.frame().await.unwrap().is_err());
    assert_eq!(tally.bill().tokens.output, 0, "only the usage says more, and it was never read");
}

/// A relay whose upstream says these things, each after so many seconds, and then nothing more for ever.
fn slow(app: &Shared, said: Vec<(u64, &'static str)>) -> Relay {
    let (mut relay, _) = relay(app, vec![]);
    let said = stream::iter(said).then(|(seconds, piece)| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Piece::Ok(Bytes::from_static(piece.as_bytes()))
    });
    let body = reqwest::Body::wrap_stream(said.chain(stream::pending()));
    relay.stream.response = Some(http::Response::new(body).into());
    relay.source.ends.deadline = Instant::now() + Duration::from_mins(10);
    relay
}

/// What a relay gives, and after how many seconds each.
async fn timed(mut relay: Relay) -> Vec<(u64, String)> {
    let (begun, mut given) = (Instant::now(), Vec::new());
    while let Some(bytes) = relay.next().await {
        given.push((begun.elapsed().as_secs(), String::from_utf8(bytes.to_vec()).unwrap()));
    }
    given
}

fn alive_at(given: &[(u64, String)]) -> Vec<u64> {
    given.iter().filter(|(_, bytes)| *bytes == ": keep-alive\n\n").map(|(at, _)| *at).collect()
}

#[tokio::test(start_paused = true)]
async fn a_caller_hears_every_fifteen_seconds_that_we_are_there_while_its_upstream_is_silent() {
    let app = app("redis://127.0.0.1:1");
    let given = timed(slow(&app, vec![(40, TEXT)])).await;
    assert_eq!(alive_at(&given), [15, 30]);
    let (at, last) = given.last().unwrap();
    assert!(*at == 40 && last.ends_with("data: [DONE]\n\n"), "{given:?}");
}

#[tokio::test(start_paused = true)]
async fn keep_alives_do_not_prolong_the_silence_of_an_upstream() {
    let app = app("redis://127.0.0.1:1");
    let given = timed(slow(&app, vec![])).await;
    assert_eq!(alive_at(&given), [15, 30, 45]);
    let (at, last) = given.last().unwrap();
    assert!(*at == 60 && last.contains("\"error\""), "{given:?}");
}

#[tokio::test(start_paused = true)]
async fn what_an_upstream_says_to_nobody_keeps_it_alive_but_not_its_caller() {
    let app = app("redis://127.0.0.1:1");
    let given = timed(slow(&app, vec![(20, ": ping\n\n"), (50, ": ping\n\n")])).await;
    assert_eq!(alive_at(&given), [15, 30, 45, 60, 75, 90, 105, 120]);
    let (at, last) = given.last().unwrap();
    assert!(*at == 70 + 60 && last.contains("\"error\""), "{given:?}");
}

#[test]
fn every_dialect_has_its_own_keep_alive() {
    let gemini = Api::Gemini(crate::dialect::gemini::url::Method::Generate(crate::dialect::Answer::Stream));
    let said = [Api::Chat, Api::Responses, Api::Messages, gemini].map(Api::keep_alive);
    assert_eq!(said, [": keep-alive\n\n", ": keep-alive\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n", "\n\n"]);
}
