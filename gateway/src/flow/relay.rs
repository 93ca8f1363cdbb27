//! Streams an answer to the caller, event by event, until it is complete, breaks off, or the caller hangs up.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use shared::config::Timeouts;
use shared::failure::Transport;
use shared::state::capacity::{Mark, Sole};
use shared::state::settlement::Outcome;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::AbortOnDropHandle;

use super::attempt::{Failed, OpenStream};
use super::held::Held;
use super::memory::Memory;
use super::plan::Rung;
use super::record::mark;
use super::settle::Open;
use crate::dialect::Api;
use crate::dialect::gemini::stream::Framing;
use crate::dialect::thoughts::Kept;
use crate::dialect::translate::Fed;
use crate::error::{After, Failed as Told, Fault, Refusal};

/// After the last event an upstream gets so long to end its response properly, so that its connection can be used again.
const TAIL: Duration = Duration::from_millis(100);

/// A caller that hears nothing for so long is told that we are still there: proxies and clients cut silent connections.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long after the end of its time a caller may leave its answer unread.
const UNREAD: Duration = Duration::from_secs(1);

/// What can end a stream besides its upstream.
#[derive(Debug, Clone)]
pub struct Ends {
    /// What the caller speaks to: error events are in its form.
    pub api: Api,
    /// How a Gemini caller wants its stream.
    pub framing: Framing,
    /// The clocks of one call.
    pub timeouts: Timeouts,
    /// When the whole request must be over.
    pub deadline: Instant,
    /// Cancelled when the replica has to stop.
    pub cut: CancellationToken,
    /// Whether the rung's connection is the only one.
    pub sole: Sole,
    /// Where what proves the upstream's thoughts is kept.
    pub memory: Memory,
}

/// A rung that streams.
#[derive(Debug)]
pub struct Source {
    ends: Ends,
    rung: Rung,
    first_token: Duration,
}

impl Ends {
    /// These ends, for this rung.
    pub fn of(self, rung: Rung, first_token: Duration) -> Source {
        Source { ends: self, rung, first_token }
    }
}

/// An answer on its way. Dropped before its end, the caller is gone: the upstream call is cancelled with it, the leases are
/// released and what was delivered is charged.
#[derive(Debug)]
pub struct Relay {
    stream: OpenStream,
    source: Source,
    /// Dropped after the stream: whoever gets the slot next must not meet this call upstream.
    held: Unended,
    last: Last,
    /// What broke the stream, until the caller is told.
    failed: Option<Failed>,
    /// How long the upstream was listened to since it last sent anything. The time a caller takes to read is none of it.
    silence: Duration,
    /// What is to be kept before the caller has what was written.
    kept: Vec<Kept>,
    /// The id under which the upstream keeps the answer, until that is remembered.
    made: Option<String>,
    /// Rings when the upstream may have been silent for too long, or the caller heard nothing for a while. Kept over the events, as is `cut`: made anew for each, they
    /// would cost more than the event does.
    alarm: Pin<Box<Sleep>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// What is held until the end of the answer.
#[derive(Debug)]
struct Unended {
    both: Option<(Open, Held)>,
    first_token: Duration,
}

/// Where a relay is while nobody asks it for more. A caller that does not read asks for nothing, so nothing in the relay can
/// see its time run out: what holds on to the slot can.
#[derive(Debug)]
struct Slot(Mutex<Option<Box<Relay>>>);

/// The caller did not read its answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the answer was not read in time")]
struct Unread;

/// What was sent last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing yet.
    Nothing,
    /// Content.
    Content,
    /// The end of a whole answer.
    Done,
    /// An error event.
    Error,
}

/// What came next.
enum Next {
    Chunk(Bytes),
    End,
    Broken(Failed),
    Cut,
    /// Nothing, and the caller should hear that we are there.
    Quiet,
}

impl Slot {
    fn new(relay: Relay) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Box::new(relay)))))
    }

    fn take(&self) -> Option<Box<Relay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, relay: Box<Relay>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(relay);
    }

    /// Drops the relay if it is still there then: its caller does not read.
    async fn clear_at(slot: Weak<Self>, latest: Instant) {
        sleep_until(latest).await;
        drop(slot.upgrade().and_then(|slot| slot.take()));
    }
}

impl Relay {
    /// Begins with the events that were held back until commit.
    pub fn new(stream: OpenStream, open: Open, held: Held, source: Source) -> Self {
        if let Some(tokens) = stream.first.usage {
            open.tally().report(tokens);
        }
        let now = Instant::now();
        let alarm = now + source.ends.timeouts.idle.min(KEEP_ALIVE);
        let alarm = Box::pin(sleep_until(alarm.min(source.ends.deadline)));
        let cut = Box::pin(source.ends.cut.clone().cancelled_owned());
        Self {
            stream,
            held: Unended { both: Some((open, held)), first_token: source.first_token },
            source,
            last: Last::Nothing,
            failed: None,
            silence: Duration::ZERO,
            kept: Vec::new(),
            made: None,
            alarm,
            cut,
        }
    }

    /// The response body.
    pub fn into_body(self) -> Body {
        let latest = self.source.ends.deadline + UNREAD;
        let slot = Slot::new(self);
        let watch = AbortOnDropHandle::new(tokio::spawn(Slot::clear_at(Arc::downgrade(&slot), latest)));
        Body::from_stream(stream::unfold((slot, watch), |(slot, watch)| async move {
            let bytes = match slot.take() {
                Some(mut relay) => {
                    let bytes = relay.next().await?;
                    slot.put(relay);
                    Ok(bytes)
                }
                None => Err(Unread),
            };
            Some((bytes, (slot, watch)))
        }))
    }

    /// The next bytes for the caller; `None` at the end. What must be kept of them is kept: the caller may answer at once, and to
    /// another replica.
    async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.advance().await;
        if let Some(id) = self.made.take() {
            self.source.ends.memory.made(&id, &self.source.rung.serving.connection).await;
        }
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            self.source.ends.memory.keep(&kept, &self.source.rung.serving.connection).await;
        }
        bytes
    }

    async fn advance(&mut self) -> Option<Bytes> {
        if self.last == Last::Nothing {
            return Some(self.first());
        }
        // Whatever the upstream sends meanwhile: what counts is that none of it is for the caller.
        let quiet = Instant::now() + KEEP_ALIVE;
        loop {
            match self.last {
                Last::Nothing | Last::Content => {}
                Last::Done => return self.tail().await,
                Last::Error => return None,
            }
            let out = self.events();
            if !out.is_empty() {
                return Some(out);
            }
            if let Some(failed) = self.failed.take() {
                return Some(self.broken(failed));
            }
            match self.receive(quiet).await {
                Next::Chunk(chunk) => self.stream.scanner.push(chunk),
                Next::End => return Some(self.end(None)),
                // The answer is whole: only its farewell is missing, and that we can say ourselves.
                Next::Broken(failed) if self.stream.translation.is_whole() => return Some(self.end(Some(failed))),
                Next::Broken(failed) => return Some(self.broken(failed)),
                Next::Cut => return Some(self.cut()),
                Next::Quiet => return Some(self.source.ends.api.keep_alive()),
            }
        }
    }

    /// What was held back. Only now it counts as delivered: a caller that left before is not charged for it.
    fn first(&mut self) -> Bytes {
        self.last = Last::Content;
        let first = std::mem::take(&mut self.stream.first);
        self.kept.extend(first.kept);
        self.made = first.made;
        if let Some((open, _)) = &self.held.both {
            open.deliver(first.chars);
            // Reported before, lest the caller leave at once; now for what was delivered, too.
            if let Some(tokens) = first.usage {
                open.tally().report(tokens);
            }
        }
        if first.done {
            self.complete();
        }
        first.out
    }

    /// The upstream's response is over, well or not: what its dialect still has to say, or that the answer was not whole.
    fn end(&mut self, broken: Option<Failed>) -> Bytes {
        match self.stream.translation.end() {
            Ok(fed) => {
                let out = self.count(fed);
                self.complete();
                out
            }
            Err(error) => self.broken(broken.unwrap_or_else(|| error.into())),
        }
    }

    /// Counts what goes to the caller.
    fn count(&mut self, fed: Fed) -> Bytes {
        if let Some((open, _)) = &self.held.both {
            open.tally().delivered(fed.chars);
            if let Some(tokens) = fed.usage {
                open.tally().report(tokens);
            }
        }
        self.kept.extend(fed.kept);
        self.made = fed.made.or(self.made.take());
        fed.out
    }

    /// All whole events that have arrived, as the caller gets them; what breaks the stream is kept until they are sent.
    fn events(&mut self) -> Bytes {
        let mut one = Bytes::new();
        let mut many = BytesMut::new();
        while self.failed.is_none() && self.last == Last::Content {
            let event = match self.stream.scanner.next() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    self.failed = Some(self.failure(Transport::NotTheFormat));
                    break;
                }
            };
            let fed = match self.stream.translation.event(event.name.as_deref(), &event.data) {
                Ok(fed) => fed,
                Err(error) => {
                    self.failed = Some(error.into());
                    break;
                }
            };
            if fed.done {
                self.last = Last::Done;
            }
            let written = self.count(fed);
            if one.is_empty() && many.is_empty() {
                one = written;
            } else if !written.is_empty() {
                if many.is_empty() {
                    many.extend_from_slice(&std::mem::take(&mut one));
                }
                many.extend_from_slice(&written);
            }
        }
        if self.last == Last::Done {
            self.complete();
        }
        if many.is_empty() { one } else { many.freeze() }
    }

    fn failure(&self, transport: Transport) -> Failed {
        Failed::of(self.source.rung.serving.connection.dialect, transport)
    }

    /// What comes next, until `quiet` at most.
    async fn receive(&mut self, quiet: Instant) -> Next {
        let dialect = self.source.rung.serving.connection.dialect;
        let Ends { timeouts, deadline, .. } = &self.source.ends;
        let Some(response) = &mut self.stream.response else { return Next::End };
        let listening = Instant::now();
        let silent = (listening + timeouts.idle.saturating_sub(self.silence)).min(*deadline);
        loop {
            tokio::select! {
                biased;
                chunk = response.chunk() => {
                    self.silence = Duration::ZERO;
                    return match chunk {
                        Ok(Some(chunk)) => Next::Chunk(chunk),
                        Ok(None) => Next::End,
                        Err(_) => Next::Broken(Failed::of(dialect, Transport::Reset)),
                    };
                }
                () = &mut self.cut => return Next::Cut,
                // Set at an earlier event, it may ring too soon; never too late, for both times only grow up to the deadline.
                () = &mut self.alarm => {
                    let now = Instant::now();
                    if now >= silent {
                        let late = now >= *deadline;
                        let silence = if late { Transport::TotalTimeout } else { Transport::IdleTimeout };
                        return Next::Broken(Failed::of(dialect, silence));
                    }
                    if now >= quiet {
                        self.silence += now - listening;
                        return Next::Quiet;
                    }
                    self.alarm.as_mut().reset(silent.min(quiet));
                }
            }
        }
    }

    /// Lets the upstream end its response; nothing of it is passed on.
    async fn tail(&mut self) -> Option<Bytes> {
        if let Some(response) = &mut self.stream.response {
            let end = async { while let Ok(Some(_)) = response.chunk().await {} };
            let _ = tokio::time::timeout(TAIL, end).await;
        }
        None
    }

    /// The answer is whole.
    fn complete(&mut self) {
        self.last = Last::Done;
        if let Some((open, held)) = self.held.take() {
            open.end(Outcome::Ok);
            held.succeeded(Some(self.source.first_token));
        }
    }

    /// The upstream broke off after content: an error event, no completion marker.
    fn broken(&mut self, failed: Failed) -> Bytes {
        let connection = &self.source.rung.serving.connection;
        let failure = failed.class(&self.source.rung.serving);
        tracing::info!(
            connection = %connection.id,
            class = failure.verdict.class.as_str(),
            "an upstream broke off its answer"
        );
        self.stream.response = None;
        if let Some((open, held)) = self.held.take() {
            open.end(Outcome::UpstreamBroken);
            held.ended(mark(&failure, &self.source.rung, self.source.ends.sole));
        }
        let class = failure.verdict.class;
        let told = Told { class, owner: connection.owner_kind(), error: &failure.error, after: After::Mixed };
        self.error_event(&told.fault())
    }

    /// The replica has to stop.
    fn cut(&mut self) -> Bytes {
        self.stream.response = None;
        if let Some((open, held)) = self.held.take() {
            open.end(Outcome::Failed);
            held.ended(Mark::Nothing);
        }
        self.error_event(&Refusal::Draining.fault())
    }

    fn error_event(&mut self, fault: &Fault) -> Bytes {
        self.last = Last::Error;
        self.source.ends.api.error_event(fault, self.source.ends.framing)
    }
}

impl Unended {
    /// Both, to be ended now: nothing that counts comes after.
    fn take(&mut self) -> Option<(Open, Held)> {
        let (open, mut held) = self.both.take()?;
        held.used(open.tally().bill().weighed);
        Some((open, held))
    }
}

/// The caller is gone.
impl Drop for Unended {
    fn drop(&mut self) {
        if let Some((open, held)) = self.take() {
            open.end(Outcome::ClientGone);
            // Content flowed: the connection is well.
            held.succeeded(Some(self.first_token));
        }
    }
}

#[cfg(test)]
mod tests;
