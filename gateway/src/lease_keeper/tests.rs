//! The keeper against a private Redis that freezes and thaws.

use shared::ids::SecretHash;
use shared::limit::{Priority, TokenWeights, Weighed};
use shared::money::{NanoDollars, Tokens};
use shared::state::admission::{Admit, AdmitAsk, Bound, Estimate, Hold, Place};
use shared::state::capacity::{Acquire, AcquireAsk, Candidate, Mark, Turn};
use shared::state::managed::{AppendOnly, ManagedOptions, ManagedRedis};
use shared::state::records::{AccountRecord, KeyRecord, KeyRights, Money, Overdraft};
use shared::state::settlement::{Basis, Outcome, Upstream};

use super::*;
use crate::app::Shared;
use crate::app::tests::app;
use crate::flow::tally::Served;

const COST: i64 = 1_000;

/// A Redis with one account, and a replica whose keeper runs.
struct Scene {
    redis: ManagedRedis,
    app: Shared,
    stop: CancellationToken,
    task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("hg-keeper-").tempdir().unwrap();
        let options = ManagedOptions { appendonly: AppendOnly::Off, ..ManagedOptions::new(folder.path()) };
        let redis = ManagedRedis::start(options).await.unwrap();
        let app = app(&redis.url());
        let key = KeyRecord { id: "ci".parse().unwrap(), secret: SecretHash::of("s"), rights: KeyRights::default() };
        let account = AccountRecord {
            id: "acme".parse().unwrap(),
            money: Money::Limited { opening: NanoDollars::new(1_000_000_000).unwrap() },
            overdraft: Overdraft::Soft,
            residency: None,
            keys: vec![key],
        };
        app.store.declare(&[account]).await.unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(app.keeper.clone().run(stop.clone()));
        Self { redis, app, stop, task, _folder: folder }
    }

    fn signal(&self, name: &str) {
        let pid = self.redis.pid().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn freeze(&self) {
        self.signal("STOP");
    }

    fn thaw(&self) {
        self.signal("CONT");
    }

    async fn admit(&self, request: &str) {
        let caller = self.app.store.look_up(SecretHash::of("s")).await.unwrap().unwrap();
        let ask = AdmitAsk {
            account: caller.account,
            key: caller.key,
            secret: SecretHash::of("s"),
            rev: caller.rev,
            request: request.parse().unwrap(),
            hold: Hold::Free,
            span: None,
            estimate: Estimate { bound: Bound::Stated, tokens: 0, input_milli: 0, output_milli: 0 },
            quotas: Vec::new(),
            place: Place::Pass,
            model: "m".parse().unwrap(),
        };
        let answer = self.app.store.admit(&ask).await.unwrap();
        assert!(matches!(answer, Admit::Admitted { .. }), "{answer:?}");
    }

    fn hold(&self, request: &str) -> Arc<Tally> {
        let tally = Arc::new(Tally::new(400, TokenWeights::default()));
        let hold =
            RequestHold { account: "acme".parse().unwrap(), key: "ci".parse().unwrap(), tally: Arc::clone(&tally) };
        self.app.keeper.hold_request(request.parse().unwrap(), hold);
        tally
    }

    fn settle(&self, request: &str) {
        self.app.keeper.hand_over(Parcel::Settle(Box::new(Settlement {
            admitted_ms: 0,
            account: "acme".parse().unwrap(),
            key: "ci".parse().unwrap(),
            request: request.parse().unwrap(),
            span: None,
            quotas: Vec::new(),
            weighed: Weighed::default(),
            upstream: Upstream::Reached,
            tokens: Tokens { input: 1, ..Tokens::default() },
            cost: NanoDollars::new(COST).unwrap(),
            basis: Basis::Exact,
            outcome: Outcome::Ok,
            model: "m".parse().unwrap(),
            served_model: None,
            connection: None,
        })));
    }

    async fn rows(&self) -> usize {
        self.app.store.ledger(&"acme".parse().unwrap(), 10_000).await.map_or(0, |rows| rows.len())
    }

    /// A field of an open request.
    async fn field(&self, request: &str, field: &str) -> Option<String> {
        let key = format!("hg:{{a:acme}}:req:{request}");
        let mut command = redis::cmd("HGET");
        let reply = self.app.store.link().command(command.arg(key).arg(field)).await.ok()?;
        redis::from_redis_value(reply).unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        self.redis.kill().await.unwrap();
    }
}

/// Asks until it is true, within this time.
async fn eventually(within: Duration, what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !probe().await {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_redis_could_not_take_is_sent_once_it_thaws_also_while_the_replica_drains() {
    let scene = Scene::start().await;
    scene.freeze();
    for number in 0..200 {
        scene.settle(&format!("r{number}"));
    }
    eventually(Duration::from_secs(10), "all wait", async || scene.app.metrics.outbox.get() == 200).await;
    // The running task and the drain both empty the outbox: neither may take out what the other has not sent.
    let drain = scene.app.keeper.drain(Duration::from_secs(20));
    let thaw = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        scene.thaw();
    };
    tokio::join!(drain, thaw);
    assert_eq!((scene.rows().await, scene.app.metrics.outbox.get()), (200, 0));
    assert_eq!(scene.app.metrics.outbox_dropped.get(), 0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_a_frozen_redis_did_not_take_is_repeated_at_once_and_not_five_seconds_later() {
    let scene = Scene::start().await;
    scene.admit("r").await;
    let tally = scene.hold("r");
    tally.commit(Served { connection: "c".parse().unwrap(), model: "m".parse().unwrap(), price: None });
    tally.delivered(40);
    scene.freeze();
    scene.app.keeper.committed();
    eventually(Duration::from_secs(5), "the renewal failed", async || scene.app.metrics.store_errors.get() > 0).await;
    scene.thaw();
    let told = async || scene.field("r", "output").await.as_deref() == Some("10");
    eventually(Duration::from_millis(2_500), "Redis knows what was delivered", told).await;
    scene.settle("r");
    eventually(Duration::from_secs(5), "it is settled", async || scene.rows().await == 1).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_delivery_is_told_to_redis_at_once_so_that_a_crash_is_charged_for_it() {
    let scene = Scene::start().await;
    scene.admit("r").await;
    let tally = scene.hold("r");
    tally.commit(Served { connection: "c".parse().unwrap(), model: "m".parse().unwrap(), price: None });
    scene.app.keeper.committed();
    tally.delivered(4);
    scene.app.keeper.committed();
    let told = async || scene.field("r", "output").await.as_deref() == Some("1");
    eventually(Duration::from_millis(800), "Redis knows what was delivered", told).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_given_back_tells_how_long_its_rung_stays_closed() {
    let scene = Scene::start().await;
    let candidate = Candidate {
        connection: "c".parse().unwrap(),
        model: "m".parse().unwrap(),
        bucket: "m".parse().unwrap(),
        max_concurrent: Some(1),
        rpm: None,
        tpm: None,
        credential_mark: "x".into(),
        endpoints: Vec::new(),
    };
    let lease = LeaseId { request: "r".parse().unwrap(), attempt: 1 };
    let max_lock = Duration::from_mins(15);
    let ask = AcquireAsk {
        group: "g".parse().unwrap(),
        lease: lease.clone(),
        max_lock,
        place: Place::Pass,
        turn: Turn { account: None, priority: Priority::default() },
        estimate: Estimate { bound: Bound::Stated, tokens: 0, input_milli: 0, output_milli: 0 },
        pin: None,
        candidates: vec![candidate],
    };
    let taken = scene.app.store.acquire(&ask).await.unwrap();
    let Acquire::Acquired { begun_ms, .. } = taken else { panic!("{taken:?}") };
    let record = RecordAsk {
        group: "g".parse().unwrap(),
        connection: "c".parse().unwrap(),
        model: "m".parse().unwrap(),
        bucket: "m".parse().unwrap(),
        lease,
        begun_ms,
        mark: Mark::LockBucket {
            cause: shared::state::capacity::LockCause::RateLimited,
            length: shared::state::capacity::Length::Told(Duration::from_mins(5)),
        },
        max_concurrent: None,
        jitter_percent: 100,
        max_lock,
        tokens: None,
        endpoint: None,
        told: Vec::new(),
        siblings: Vec::new(),
        pin: None,
    };
    let closed = scene.app.keeper.give_back(record.clone()).await.unwrap();
    assert!((Duration::from_secs(295)..=Duration::from_mins(5)).contains(&closed), "{closed:?}");
    assert_eq!(scene.app.keeper.give_back(record).await, None, "only the holder's word counts, once");
    scene.end().await;
}
