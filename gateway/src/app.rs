//! What every request of this replica shares.

use std::sync::Arc;

use arc_swap::ArcSwap;
use shared::state::Store;
use shared::state::wake::Waker;
use tokio_util::sync::CancellationToken;

use crate::catalog::Catalog;
use crate::flow::authenticate::Callers;
use crate::lease_keeper::LeaseKeeper;
use crate::metrics::Metrics;
use crate::upstream::client::Client;

/// The application, shared by all its tasks.
pub type Shared = Arc<App>;

/// What every request of this replica shares.
#[derive(Debug)]
pub struct App {
    /// The current configuration; swapped whole.
    pub catalog: ArcSwap<Catalog>,
    /// The decisions made in Redis.
    pub store: Store,
    /// Hears who may try again.
    pub waker: Waker,
    /// Calls upstreams.
    pub upstream: Client,
    /// Renews and gives back.
    pub keeper: LeaseKeeper,
    /// The callers this replica knows.
    pub callers: Callers,
    /// What Prometheus sees.
    pub metrics: Arc<Metrics>,
    /// Cancelled when the replica was asked to stop: it is not ready any more.
    pub draining: CancellationToken,
    /// Cancelled when the drain is over: streams still running end with an error event.
    pub cut: CancellationToken,
}
