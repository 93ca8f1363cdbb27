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
use crate::upstream::images::Fetcher;

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
    /// Fetches images behind a URL.
    pub images: Fetcher,
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

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use shared::ids::ReplicaId;
    use shared::state::link::Link;

    use super::*;
    use crate::catalog::tests::catalog;

    /// An application whose Redis is at `url`; nothing is started.
    pub(crate) fn app(url: &str) -> Shared {
        let link = Link::open(url, Duration::from_millis(200), 2).unwrap();
        let store = Store::new(link.clone(), "hg", ReplicaId::fresh());
        let metrics = Arc::new(Metrics::new());
        let file = "providers: {p: {dialect: openai, base_url: http://localhost:1}}\nmodels: {m: {provider: p}}\n\
                    connections: [{id: c, provider: p, api_key: k}]\n";
        Arc::new(App {
            catalog: ArcSwap::from_pointee(catalog(file)),
            waker: Waker::start(link, store.wake_channel()),
            upstream: Client::new(Duration::from_secs(1)).unwrap(),
            images: Fetcher::new().unwrap(),
            keeper: LeaseKeeper::new(store.clone(), Arc::clone(&metrics)),
            callers: Callers::new(store.clone()),
            metrics,
            draining: CancellationToken::new(),
            cut: CancellationToken::new(),
            store,
        })
    }
}
