//! Keeps what is held and gives it back: renews leases in batches, releases and settles whatever way a request ended, and holds
//! what Redis could not take in a bounded outbox until it can.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shared::ids::{AccountId, ConnectionId, GroupId, KeyId, RequestId};
use shared::state::capacity::{LeaseId, RecordAsk};
use shared::state::leases::{ConnectionLease, KeyLease, Progress};
use shared::state::settlement::Settlement;
use shared::state::{StateError, Store};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flow::tally::Tally;
use crate::metrics::Metrics;

/// A lease lives 15 s and is renewed three times in that.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// How often the keeper looks for leases that are due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// That content flows is reported at once, so that a crash leaves it to be charged; what commits in so short a time after that
/// goes in one call.
const GATHER: Duration = Duration::from_millis(2);
/// Settlements and releases kept while Redis is away; about 500 bytes each.
const OUTBOX_MAX: usize = 50_000;
/// How soon the outbox tries again after Redis did not answer.
const OUTBOX_PAUSE: Duration = Duration::from_millis(250);

/// What must reach Redis once, now or later. Both scripts are idempotent in their id.
#[derive(Debug, Clone)]
pub enum Parcel {
    /// The outcome of an attempt; gives its lease back.
    Record(Box<RecordAsk>),
    /// The cost of a request; gives its key's lease back.
    Settle(Box<Settlement>),
}

/// Where a request's own lease is held.
#[derive(Debug, Clone)]
pub struct RequestHold {
    /// Whose slot.
    pub account: AccountId,
    /// Which key's leases.
    pub key: KeyId,
    /// What to report with each renewal.
    pub tally: Arc<Tally>,
}

#[derive(Debug)]
struct Due<T> {
    held: T,
    at: Instant,
    /// Whether a renewal has told Redis that content flows.
    told: bool,
}

/// Shared by everything that holds a lease.
#[derive(Debug, Clone)]
pub struct LeaseKeeper {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    metrics: Arc<Metrics>,
    deliveries: TaskTracker,
    requests: Mutex<HashMap<RequestId, Due<RequestHold>>>,
    connections: Mutex<HashMap<LeaseId, Due<(GroupId, ConnectionId)>>>,
    outbox: Mutex<VecDeque<Parcel>>,
    posted: Notify,
    commits: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LeaseKeeper {
    /// Holds nothing yet. [`Self::run`] must run for leases to be renewed.
    pub fn new(store: Store, metrics: Arc<Metrics>) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                metrics,
                deliveries: TaskTracker::new(),
                requests: Mutex::default(),
                connections: Mutex::default(),
                outbox: Mutex::default(),
                posted: Notify::new(),
                commits: Notify::new(),
            }),
        }
    }

    /// Renews a request's lease until its settlement is handed over.
    pub fn hold_request(&self, request: RequestId, hold: RequestHold) {
        // First renewed soon: a request that is never renewed is taken for one whose caller gave up.
        let due = Due { held: hold, at: Instant::now() + LOOK_EVERY, told: false };
        lock(&self.inner.requests).insert(request, due);
    }

    /// Content of some request flows from now on.
    pub fn committed(&self) {
        self.inner.commits.notify_one();
    }

    /// Renews a connection's lease until its record is handed over.
    pub fn hold_connection(&self, lease: LeaseId, group: GroupId, connection: ConnectionId) {
        let due = Due { held: (group, connection), at: Instant::now() + RENEW_EVERY, told: false };
        lock(&self.inner.connections).insert(lease, due);
        self.inner.metrics.leases.inc();
    }

    /// Ends the renewals of what a parcel gives back.
    fn let_go(&self, parcel: &Parcel) {
        match parcel {
            Parcel::Record(record) => {
                if lock(&self.inner.connections).remove(&record.lease).is_some() {
                    self.inner.metrics.leases.dec();
                }
            }
            Parcel::Settle(settlement) => {
                lock(&self.inner.requests).remove(&settlement.request);
            }
        }
    }

    /// Gives back in the background: never blocks, never fails, also while the caller is being dropped.
    pub fn hand_over(&self, parcel: Parcel) {
        self.let_go(&parcel);
        let inner = Arc::clone(&self.inner);
        self.inner.deliveries.spawn(async move {
            if let Err(error) = inner.deliver(&parcel).await {
                inner.keep(parcel, &error);
            }
        });
    }

    /// Gives back now, for a decision that must be seen before the next one; what Redis could not take waits in the outbox.
    pub async fn give_back(&self, record: RecordAsk) {
        let parcel = Parcel::Record(Box::new(record));
        self.let_go(&parcel);
        if let Err(error) = self.inner.deliver(&parcel).await {
            self.inner.keep(parcel, &error);
        }
    }

    /// Runs work that must survive its caller and be joined at drain.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.deliveries.spawn(work);
    }

    /// Renews and re-sends until cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outbox = async {
            loop {
                self.inner.posted.notified().await;
                self.inner.drain_outbox().await;
            }
        };
        let renewals = async {
            loop {
                tokio::select! {
                    _ = look.tick() => {}
                    () = self.inner.commits.notified() => {}
                }
                self.inner.renew_due().await;
                tokio::time::sleep(GATHER).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = outbox => {}
            () = renewals => {}
        }
    }

    /// Waits until everything handed over has reached Redis; what is left after `patience` is logged and lost to this process
    /// (its leases lapse and another replica settles it).
    pub async fn drain(&self, patience: Duration) {
        self.inner.deliveries.close();
        let all = async {
            self.inner.deliveries.wait().await;
            self.inner.drain_outbox().await;
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            let left = lock(&self.inner.outbox).len();
            tracing::error!(left, "stopped with settlements that Redis did not take");
        }
    }
}

impl Inner {
    async fn deliver(&self, parcel: &Parcel) -> Result<(), StateError> {
        match parcel {
            Parcel::Record(record) => self.store.record(record).await.map(drop),
            Parcel::Settle(settlement) => self.store.settle(settlement).await.map(drop),
        }
    }

    fn keep(&self, parcel: Parcel, error: &StateError) {
        self.metrics.store_errors.inc();
        let mut outbox = lock(&self.outbox);
        if outbox.len() >= OUTBOX_MAX {
            // Its lease lapses, and the replica that notices settles it from the last progress reported.
            self.metrics.outbox_dropped.inc();
            tracing::error!(%error, "the outbox is full: a settlement or release is dropped");
            return;
        }
        outbox.push_back(parcel);
        self.metrics.outbox.set(i64::try_from(outbox.len()).unwrap_or(i64::MAX));
        drop(outbox);
        self.posted.notify_one();
    }

    /// Sends what waits, oldest first, pausing while Redis does not answer. Returns when nothing is left.
    async fn drain_outbox(&self) {
        loop {
            let Some(parcel) = lock(&self.outbox).front().cloned() else { return };
            match self.deliver(&parcel).await {
                Err(error) if error.is_transient() => tokio::time::sleep(OUTBOX_PAUSE).await,
                outcome => {
                    if let Err(error) = outcome {
                        tracing::error!(%error, "Redis refused a settlement or release; it is dropped");
                        self.metrics.outbox_dropped.inc();
                    }
                    let mut outbox = lock(&self.outbox);
                    outbox.pop_front();
                    self.metrics.outbox.set(i64::try_from(outbox.len()).unwrap_or(i64::MAX));
                }
            }
        }
    }

    async fn renew_due(&self) {
        self.renew_requests().await;
        self.renew_connections().await;
    }

    async fn renew_requests(&self) {
        for (account, batch) in self.due_requests() {
            match self.store.renew_keys(&account, &batch).await {
                Ok(lost) => self.lost(lost.len(), "request"),
                Err(error) => self.not_renewed(&error),
            }
        }
    }

    fn due_requests(&self) -> HashMap<AccountId, Vec<KeyLease>> {
        let now = Instant::now();
        let mut due: HashMap<AccountId, Vec<KeyLease>> = HashMap::new();
        for (request, entry) in lock(&self.requests).iter_mut() {
            let served = entry.held.tally.served().is_some();
            if entry.at > now && (entry.told || !served) {
                continue;
            }
            entry.at = now + RENEW_EVERY;
            entry.told = served;
            let lease = KeyLease {
                key: entry.held.key.clone(),
                request: request.clone(),
                progress: progress(&entry.held.tally),
            };
            due.entry(entry.held.account.clone()).or_default().push(lease);
        }
        due
    }

    async fn renew_connections(&self) {
        let now = Instant::now();
        let mut due: HashMap<GroupId, Vec<ConnectionLease>> = HashMap::new();
        for (lease, entry) in lock(&self.connections).iter_mut().filter(|(_, entry)| entry.at <= now) {
            entry.at = now + RENEW_EVERY;
            let (group, connection) = &entry.held;
            due.entry(group.clone())
                .or_default()
                .push(ConnectionLease { connection: connection.clone(), lease: lease.clone() });
        }
        for (group, batch) in due {
            match self.store.renew_connections(&group, &batch).await {
                Ok(lost) => self.lost(lost.len(), "connection"),
                Err(error) => self.not_renewed(&error),
            }
        }
    }

    fn lost(&self, count: usize, of: &'static str) {
        if count > 0 {
            self.metrics.lost_leases.inc_by(count as u64);
            tracing::warn!(count, of, "leases lapsed while their requests went on");
        }
    }

    fn not_renewed(&self, error: &StateError) {
        self.metrics.store_errors.inc();
        tracing::debug!(%error, "leases were not renewed; the next look tries again");
    }
}

fn progress(tally: &Tally) -> Progress {
    let bill = tally.bill();
    let served = tally.served();
    Progress {
        served_model: served.map(|served| served.model.clone()),
        connection: served.map(|served| served.connection.clone()),
        tokens: bill.tokens,
        cost: bill.cost,
    }
}
