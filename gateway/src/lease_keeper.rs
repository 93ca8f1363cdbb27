//! Keeps what is held and gives it back: renews leases in batches, releases and settles whatever way a request ended, and holds
//! what Redis could not take in a bounded outbox until it can.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use shared::ids::{AccountId, ConnectionId, GroupId, KeyId, RequestId};
use shared::state::capacity::{LeaseId, Record, RecordAsk};
use shared::state::leases::{ConnectionLease, KeyLease, Progress};
use shared::state::settlement::Settlement;
use shared::state::{StateError, Store};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flow::tally::Tally;
use crate::health::Healths;
use crate::metrics::{Counted, Metrics};

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
/// So many parcels of the outbox are under way at a time: a part of a cluster that is away must not hold up the others.
const OUTBOX_BATCH: usize = 32;
/// So many batches of renewals are under way at a time, for the same reason.
const RENEWALS_AT_ONCE: usize = 16;

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

/// Where a slot is held.
#[derive(Debug)]
struct Slot {
    group: GroupId,
    connection: ConnectionId,
    _counted: Counted,
}

#[derive(Debug)]
struct Due<T> {
    held: T,
    at: Instant,
    /// Whether a renewal has told Redis that there is something to charge.
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
    healths: Healths,
    deliveries: TaskTracker,
    requests: Mutex<HashMap<RequestId, Due<RequestHold>>>,
    connections: Mutex<HashMap<LeaseId, Due<Slot>>>,
    outbox: Mutex<VecDeque<Parcel>>,
    /// Held by whoever empties the outbox: two at once would each take out what the other has not sent.
    emptying: tokio::sync::Mutex<()>,
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
                healths: Healths::default(),
                deliveries: TaskTracker::new(),
                requests: Mutex::default(),
                connections: Mutex::default(),
                outbox: Mutex::default(),
                emptying: tokio::sync::Mutex::default(),
                posted: Notify::new(),
                commits: Notify::new(),
            }),
        }
    }

    /// What the records of this replica brought of the connections' health.
    pub fn healths(&self) -> &Healths {
        &self.inner.healths
    }

    /// Renews a request's lease until its settlement is handed over.
    pub fn hold_request(&self, request: RequestId, hold: RequestHold) {
        // First renewed soon: a request that is never renewed is taken for one whose caller gave up.
        let due = Due { held: hold, at: Instant::now() + LOOK_EVERY, told: false };
        lock(&self.inner.requests).insert(request, due);
    }

    /// Content of some request has reached its caller: Redis is told at once.
    pub fn committed(&self) {
        self.inner.commits.notify_one();
    }

    /// Renews a connection's lease until its record is handed over.
    pub fn hold_connection(&self, lease: LeaseId, group: GroupId, connection: ConnectionId) {
        let counted = self.inner.metrics.occupancy.holds(&group, &connection);
        let due =
            Due { held: Slot { group, connection, _counted: counted }, at: Instant::now() + RENEW_EVERY, told: false };
        lock(&self.inner.connections).insert(lease, due);
        self.inner.metrics.leases.inc();
    }

    /// Ends the renewals of what a parcel gives back.
    fn let_go(&self, parcel: &Parcel) {
        match parcel {
            Parcel::Record(record) => self.let_go_of_lease(&record.lease),
            Parcel::Settle(settlement) => {
                lock(&self.inner.requests).remove(&settlement.request);
            }
        }
    }

    fn let_go_of_lease(&self, lease: &LeaseId) {
        if lock(&self.inner.connections).remove(lease).is_some() {
            self.inner.metrics.leases.dec();
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
    /// Answers how long the rung stays closed, if it does and Redis said so.
    pub async fn give_back(&self, record: RecordAsk) -> Option<Duration> {
        self.let_go_of_lease(&record.lease);
        match self.inner.record(&record).await {
            Ok(Record::Recorded { closed }) => closed,
            Ok(Record::Already) => None,
            Err(error) => {
                self.inner.keep(Parcel::Record(Box::new(record)), &error);
                None
            }
        }
    }

    /// Runs work that must survive its caller and be joined at drain.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.inner.deliveries.spawn(work)
    }

    /// Renews and re-sends until cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outbox = async {
            loop {
                self.inner.posted.notified().await;
                self.inner.empty_outbox().await;
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
            self.inner.empty_outbox().await;
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
            Parcel::Record(record) => self.record(record).await.map(drop),
            Parcel::Settle(settlement) => self.store.settle(settlement).await.map(drop),
        }
    }

    async fn record(&self, ask: &RecordAsk) -> Result<Record, StateError> {
        let (record, health) = self.store.record_and_learn(ask).await?;
        if let Some(health) = health {
            self.healths.learn(&ask.connection, health);
        }
        Ok(record)
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
    async fn empty_outbox(&self) {
        let _alone = self.emptying.lock().await;
        loop {
            let batch: Vec<Parcel> = lock(&self.outbox).iter().take(OUTBOX_BATCH).cloned().collect();
            if batch.is_empty() {
                return;
            }
            let outcomes = join_all(batch.iter().map(|parcel| self.deliver(parcel))).await;
            let stays: Vec<bool> = outcomes
                .into_iter()
                .map(|outcome| outcome.is_err_and(|error| self.may_be_taken_later(&error)))
                .collect();
            self.take_out(&stays);
            if stays.contains(&true) {
                tokio::time::sleep(OUTBOX_PAUSE).await;
            }
        }
    }

    /// Everything but an answer that makes no sense: a password or a right that is missing today is put right by a person, and
    /// until then nothing may be lost.
    fn may_be_taken_later(&self, error: &StateError) -> bool {
        let senseless = matches!(error, StateError::Reply(_) | StateError::BadUrl(_));
        if senseless {
            tracing::error!(%error, "Redis answers a settlement or release with nonsense; it is dropped");
            self.metrics.outbox_dropped.inc();
        }
        !senseless
    }

    /// Takes the first parcels out but for those that stay, which go to the end. New ones were only added behind them.
    fn take_out(&self, stays: &[bool]) {
        let mut outbox = lock(&self.outbox);
        let first: Vec<Parcel> = outbox.drain(..stays.len()).collect();
        outbox.extend(first.into_iter().zip(stays).filter(|(_, stays)| **stays).map(|(parcel, _)| parcel));
        self.metrics.outbox.set(i64::try_from(outbox.len()).unwrap_or(i64::MAX));
    }

    async fn renew_due(&self) {
        self.renew_requests().await;
        self.renew_connections().await;
    }

    async fn renew_requests(&self) {
        let renew =
            async |(account, batch): (AccountId, Vec<KeyLease>)| match self.store.renew_keys(&account, &batch).await {
                Ok(lost) => {
                    let held = lock(&self.requests);
                    self.lost(lost.iter().filter(|id| held.contains_key(*id)).count(), "request");
                }
                Err(error) => {
                    self.not_renewed(&error);
                    retry_soon(&self.requests, batch.iter().map(|lease| &lease.request));
                }
            };
        stream::iter(self.due_requests()).for_each_concurrent(RENEWALS_AT_ONCE, renew).await;
    }

    fn due_requests(&self) -> HashMap<AccountId, Vec<KeyLease>> {
        let now = Instant::now();
        let mut due: HashMap<AccountId, Vec<KeyLease>> = HashMap::new();
        for (request, entry) in lock(&self.requests).iter_mut() {
            let costs = entry.held.tally.costs();
            if entry.at > now && (entry.told || !costs) {
                continue;
            }
            entry.at = now + RENEW_EVERY;
            entry.told = costs;
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
        let renew = async |(group, batch): (GroupId, Vec<ConnectionLease>)| match self
            .store
            .renew_connections(&group, &batch)
            .await
        {
            Ok(lost) => {
                let held = lock(&self.connections);
                self.lost(lost.iter().filter(|id| held.contains_key(*id)).count(), "connection");
            }
            Err(error) => {
                self.not_renewed(&error);
                retry_soon(&self.connections, batch.iter().map(|held| &held.lease));
            }
        };
        stream::iter(self.due_connections()).for_each_concurrent(RENEWALS_AT_ONCE, renew).await;
    }

    fn due_connections(&self) -> HashMap<GroupId, Vec<ConnectionLease>> {
        let now = Instant::now();
        let mut due: HashMap<GroupId, Vec<ConnectionLease>> = HashMap::new();
        for (lease, entry) in lock(&self.connections).iter_mut().filter(|(_, entry)| entry.at <= now) {
            entry.at = now + RENEW_EVERY;
            let connection = entry.held.connection.clone();
            let lease = ConnectionLease { connection, lease: lease.clone() };
            due.entry(entry.held.group.clone()).or_default().push(lease);
        }
        due
    }

    /// Leases whose holders still go on. (What was given back while the call was under way is not lost.)
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

/// What Redis did not take is due at the next look: a lease outlives few missed renewals.
fn retry_soon<'a, K: Eq + Hash + 'a, T>(held: &Mutex<HashMap<K, Due<T>>>, ids: impl Iterator<Item = &'a K>) {
    let mut held = lock(held);
    for id in ids {
        if let Some(entry) = held.get_mut(id) {
            entry.at = Instant::now();
            entry.told = false;
        }
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
        weighed: bill.weighed,
    }
}

#[cfg(test)]
mod tests;
