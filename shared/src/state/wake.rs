//! Hears, on a connection of its own, which waiting request may try again.
//!
//! A message is a hint, never a grant: the woken request asks the store. A lost message costs at most the fallback that
//! [`Place::woken`] is given.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use rand::RngExt as _;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::link::{Link, StateError};

/// The pause before the second attempt to subscribe; it doubles up to `BACKOFF_MAX`.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// A subscription that held this long was a good one: the next attempt starts from `BACKOFF_MIN` again.
const HELD_LONG: Duration = Duration::from_secs(2);
/// How often a silent connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Hears the messages on one channel for as long as it lives; dropping it ends its task and closes its connection.
#[derive(Debug)]
pub struct Waker {
    places: Arc<Places>,
    listening: watch::Receiver<Listening>,
    task: JoinHandle<()>,
    stop: DropGuard,
}

/// A request that waits for its message. Dropping it unregisters it.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    request: Arc<str>,
    woken: Arc<Notify>,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The message came.
    ByMessage,
    /// It did not come in time.
    ByTime,
}

/// Whether messages are heard at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    No,
    Yes,
}

/// Who waits, by request id. Several may wait under one id; a message wakes them all.
#[derive(Debug, Default)]
struct Places {
    by_request: Mutex<HashMap<Arc<str>, Vec<Arc<Notify>>>>,
}

impl Waker {
    /// Subscribes to `channel` on the servers of `link`, and again whenever the connection is lost, until dropped.
    ///
    /// Must be called within a Tokio runtime.
    pub fn start(link: Link, channel: impl Into<String>) -> Self {
        let places = Arc::new(Places::default());
        let (listening, heard) = watch::channel(Listening::No);
        let token = CancellationToken::new();
        let subscriber = Subscriber { link, channel: channel.into(), places: Arc::clone(&places), listening };
        let stopped = token.clone();
        let task = tokio::spawn(async move {
            stopped.run_until_cancelled_owned(subscriber.run()).await;
        });
        Self { places, listening: heard, task, stop: token.drop_guard() }
    }

    /// Registers a request. To be called before the script that puts it in line, or its message may come too early.
    pub fn place(&self, request: &str) -> Place {
        let request: Arc<str> = request.into();
        let woken = Arc::new(Notify::new());
        let mut places = self.places.lock();
        places.entry(Arc::clone(&request)).or_default().push(Arc::clone(&woken));
        drop(places);
        Place { places: Arc::clone(&self.places), request, woken }
    }

    /// Waits until messages are heard, for at most `max`. A wait that begins earlier only costs its fallback.
    pub async fn listening(&self, max: Duration) -> Result<(), StateError> {
        let mut listening = self.listening.clone();
        match timeout(max, listening.wait_for(|state| *state == Listening::Yes)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StateError::Timeout),
        }
    }

    /// Ends it and waits for its task.
    pub async fn stop(self) {
        drop(self.stop);
        // Cancelled while it awaits, it ends at once; it has no error to tell.
        let _ = self.task.await;
    }
}

impl Place {
    /// Waits for the message, for at most `max`. A message that came since the last wait counts.
    pub async fn woken(&self, max: Duration) -> Woken {
        match timeout(max, self.woken.notified()).await {
            Ok(()) => Woken::ByMessage,
            Err(_elapsed) => Woken::ByTime,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        if let Some(waiting) = places.get_mut(&self.request) {
            waiting.retain(|woken| !Arc::ptr_eq(woken, &self.woken));
            if waiting.is_empty() {
                places.remove(&self.request);
            }
        }
    }
}

impl Places {
    fn wake(&self, request: &str) {
        if let Some(waiting) = self.lock().get(request) {
            // `notify_one` is kept for a place that does not wait at this moment.
            for woken in waiting {
                woken.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Arc<Notify>>>> {
        // Nothing in here panics half-way through a change.
        self.by_request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task behind a [`Waker`].
struct Subscriber {
    link: Link,
    channel: String,
    places: Arc<Places>,
    listening: watch::Sender<Listening>,
}

impl Subscriber {
    /// Subscribes, listens, and does so again.
    async fn run(self) -> Infallible {
        let mut backoff = BACKOFF_MIN;
        let mut told = Told::Well;
        loop {
            let started = Instant::now();
            let error = self.listen(&mut told).await;
            self.listening.send_replace(Listening::No);
            told.lost(&error, &self.channel);
            if started.elapsed() >= HELD_LONG {
                backoff = BACKOFF_MIN;
            }
            // Between half of it and all of it: replicas that lost the same server do not return in step.
            let pause = backoff.mul_f64(rand::rng().random_range(0.5..1.0));
            sleep(pause).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// One connection from beginning to end; returns why it ended.
    async fn listen(&self, told: &mut Told) -> StateError {
        let (sink, stream) = match timeout(self.link.timeout(), self.subscribe()).await {
            Ok(Ok(halves)) => halves,
            Ok(Err(error)) => return error,
            Err(_elapsed) => return StateError::Timeout,
        };
        self.listening.send_replace(Listening::Yes);
        told.back(&self.channel);
        let mut messages = pin!(self.hear(stream));
        let mut pings = pin!(self.keep_asking(sink));
        tokio::select! {
            error = &mut messages => error,
            error = &mut pings => error,
        }
    }

    async fn subscribe(&self) -> Result<(PubSubSink, PubSubStream), StateError> {
        let client = self.link.subscriber().await?;
        let opened = async {
            let (mut sink, stream) = client.get_async_pubsub().await?.split();
            sink.subscribe(&self.channel).await?;
            Ok((sink, stream))
        };
        opened.await.map_err(|error| self.link.explain(&error))
    }

    async fn hear(&self, mut stream: PubSubStream) -> StateError {
        while let Some(message) = stream.next().await {
            if let Ok(request) = std::str::from_utf8(message.get_payload_bytes()) {
                self.places.wake(request);
            }
        }
        StateError::Unreachable("the subscription's connection was closed".to_owned())
    }

    /// A subscriber sends nothing by itself and would never notice a server that is frozen or gone.
    async fn keep_asking(&self, mut sink: PubSubSink) -> StateError {
        loop {
            sleep(PING_EVERY).await;
            match timeout(self.link.timeout(), sink.ping::<redis::Value>()).await {
                Ok(Ok(_pong)) => {}
                Ok(Err(error)) => return self.link.explain(&error),
                Err(_elapsed) => return StateError::Timeout,
            }
        }
    }
}

/// Whether the log says that waiters are not woken. Of a Redis that is away the link's own line tells; this one is for a
/// server that is there and refuses the subscription, which only the log can tell anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Well,
    Refused,
}

impl Told {
    fn lost(&mut self, error: &StateError, channel: &str) {
        if *self == Self::Well && !error.is_transient() {
            *self = Self::Refused;
            tracing::warn!(%error, channel, "waiters are not woken, they look by themselves");
        }
    }

    fn back(&mut self, channel: &str) {
        if *self == Self::Refused {
            *self = Self::Well;
            tracing::info!(channel, "waiters are woken again");
        }
    }
}
