//! The table the tests play on: a private redis-server, a clock that stands until it is moved, one account and one group.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use shared::ids::{
    AccountId, BucketName, ConnectionId, EndpointId, GroupId, KeyId, ModelName, ReplicaId, RequestId, SecretHash,
};
use shared::limit::{Priority, Weighed};
use shared::money::{NanoDollars, Tokens};
use shared::state::Store;
use shared::state::admission::{Admit, AdmitAsk, Bound, Estimate, Hold, Place, SpendSpan};
use shared::state::capacity::{Acquire, AcquireAsk, Candidate, LeaseId, Mark, Probe, Record, RecordAsk, Turn};
use shared::state::link::Link;
use shared::state::managed::{AppendOnly, ManagedOptions, ManagedRedis};
use shared::state::records::{AccountRecord, KeyRecord, KeyRights, Money, Overdraft};
use shared::state::scripts::Scripts;
use shared::state::settlement::{Basis, Outcome, Settle, Settlement, Upstream};

/// The clock all tests begin at: late enough that no expiry is in the past.
pub(super) const START: i64 = 2_000_000_000_000;
pub(super) const MAX_LOCK: Duration = Duration::from_mins(15);
pub(super) const STAND: Place = Place::Stand { max_wait: Duration::from_mins(10) };

const CLOCK: &str = "local function clock()
  local us = tonumber(redis.call('GET', 'test:clock'))
  return (us - us % 1000) / 1000, us
end
";

pub(super) struct Table {
    server: ManagedRedis,
    _dir: tempfile::TempDir,
    pub(super) link: Link,
    /// Three replicas.
    pub(super) stores: Vec<Store>,
    pub(super) account: AccountId,
    pub(super) key: KeyId,
    pub(super) secret: SecretHash,
    pub(super) group: GroupId,
    rev: std::sync::Mutex<Arc<str>>,
}

impl Table {
    /// A table with the fixed clock.
    pub(super) async fn new() -> Self {
        Self::with(Scripts::with_clock(CLOCK)).await
    }

    /// A table with these scripts.
    pub(super) async fn with(scripts: Scripts) -> Self {
        Self::start(scripts, &[]).await
    }

    /// A table on one node of a cluster that owns all slots: it refuses calls that span several. The clock is its own, for the
    /// tests' clock is read from a key outside the slot.
    pub(super) async fn cluster() -> Self {
        // The bus has a port of its own, taken from the OS: two such servers may run at once.
        let bus = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        Self::start(Scripts::new(), &["--cluster-enabled", "yes", "--cluster-port", &bus]).await
    }

    async fn start(scripts: Scripts, extra: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = ManagedOptions::new(dir.path());
        options.appendonly = AppendOnly::Off;
        options.extra = extra.iter().map(|&word| word.to_owned()).collect();
        let server = ManagedRedis::start(options).await.unwrap();
        let link = Link::open(&server.url(), Duration::from_secs(5), 2).unwrap();
        if !extra.is_empty() {
            serve_all_slots(&link).await;
        }
        let store =
            |name: &str| Store::with_scripts(link.clone(), "hg", ReplicaId::parse(name).unwrap(), scripts.clone());
        let stores = vec![store("r0"), store("r1"), store("r2")];
        let table = Self {
            server,
            _dir: dir,
            link,
            stores,
            account: AccountId::parse("acme").unwrap(),
            key: KeyId::parse("ci").unwrap(),
            secret: SecretHash::of("hg-secret"),
            group: GroupId::parse("openai").unwrap(),
            rev: std::sync::Mutex::new("".into()),
        };
        table.at(0).await;
        table
    }

    pub(super) fn store(&self) -> &Store {
        &self.stores[0]
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Puts the clock at so many ms after the start.
    pub(super) async fn at(&self, ms: i64) {
        self.at_us(ms * 1000).await;
    }

    /// Puts the clock at so many µs after the start.
    pub(super) async fn at_us(&self, us: i64) {
        self.command(&["SET", "test:clock", &(START * 1000 + us).to_string()]).await;
    }

    pub(super) async fn command(&self, words: &[&str]) -> Value {
        let mut cmd = redis::cmd(words[0]);
        cmd.arg(&words[1..]);
        self.link.command(&cmd).await.unwrap()
    }

    /// What a command answers, as text ("" for nil).
    pub(super) async fn text(&self, words: &[&str]) -> String {
        match self.command(words).await {
            Value::Int(number) => number.to_string(),
            Value::Nil => String::new(),
            Value::Double(number) => number.to_string(),
            value => redis::from_redis_value(value).unwrap(),
        }
    }

    /// Every key and its whole content: two of these are equal if nothing was written between them.
    pub(super) async fn dump(&self) -> Vec<(String, Value)> {
        let mut names: Vec<String> = redis::from_redis_value(self.command(&["KEYS", "hg:*"]).await).unwrap();
        names.sort();
        let mut all = Vec::new();
        for name in names {
            let dump = self.command(&["DUMP", &name]).await;
            all.push((name, dump));
        }
        all
    }

    /// Declares the account and its one key.
    pub(super) async fn declare(&self, money: Money, overdraft: Overdraft, rights: KeyRights) {
        let key = KeyRecord { id: self.key.clone(), secret: self.secret, rights };
        let account = AccountRecord { id: self.account.clone(), money, overdraft, residency: None, keys: vec![key] };
        self.store().declare(&[account]).await.unwrap();
        let rev = self.store().look_up(self.secret).await.unwrap().unwrap().rev;
        *self.rev.lock().unwrap() = rev;
    }

    /// Declares a key with these rights; the account has no money limit.
    pub(super) async fn declare_rights(&self, rights: KeyRights) {
        self.declare(Money::Unlimited, Overdraft::Soft, rights).await;
    }

    pub(super) fn admit_ask(&self, name: &str) -> AdmitAsk {
        AdmitAsk {
            account: self.account.clone(),
            key: self.key.clone(),
            secret: self.secret,
            rev: Arc::clone(&self.rev.lock().unwrap()),
            request: request(name),
            hold: Hold::AtMost(NanoDollars::ZERO),
            span: None,
            estimate: estimate(0, 0),
            quotas: Vec::new(),
            place: Place::Pass,
            model: model("m"),
        }
    }

    pub(super) async fn admit(&self, name: &str) -> Admit {
        self.store().admit(&self.admit_ask(name)).await.unwrap()
    }

    pub(super) fn settlement(&self, name: &str, cost: i64) -> Settlement {
        Settlement {
            account: self.account.clone(),
            key: self.key.clone(),
            request: request(name),
            admitted_ms: START,
            span: None,
            quotas: Vec::new(),
            tokens: Tokens { input: 10, output: 5, ..Tokens::default() },
            cost: nanos(cost),
            weighed: Weighed { total_milli: 15_000, output_milli: 5_000 },
            upstream: Upstream::Reached,
            basis: Basis::Exact,
            outcome: Outcome::Ok,
            model: model("m"),
            served_model: Some(model("m")),
            connection: Some(connection("a")),
        }
    }

    pub(super) async fn settle(&self, name: &str, cost: i64) -> Settle {
        self.store().settle(&self.settlement(name, cost)).await.unwrap()
    }

    pub(super) fn acquire_ask(&self, name: &str, candidates: &[Candidate]) -> AcquireAsk {
        AcquireAsk {
            group: self.group.clone(),
            lease: lease(name, 1),
            max_lock: MAX_LOCK,
            place: Place::Pass,
            turn: turn("acme"),
            estimate: estimate(0, 0),
            pin: None,
            candidates: candidates.to_vec(),
        }
    }

    pub(super) async fn acquire(&self, name: &str, candidates: &[Candidate]) -> Acquire {
        self.store().acquire(&self.acquire_ask(name, candidates)).await.unwrap()
    }

    /// Acquires the one candidate; panics if it is refused.
    pub(super) async fn take(&self, name: &str, candidate: &Candidate) -> (i64, Probe) {
        match self.acquire(name, std::slice::from_ref(candidate)).await {
            Acquire::Acquired { begun_ms, probe, .. } => (begun_ms, probe),
            other => panic!("{name}: {other:?}"),
        }
    }

    pub(super) fn record_ask(&self, name: &str, at: &Candidate, begun_ms: i64, mark: Mark) -> RecordAsk {
        RecordAsk {
            group: self.group.clone(),
            connection: at.connection.clone(),
            model: at.model.clone(),
            bucket: at.bucket.clone(),
            lease: lease(name, 1),
            begun_ms,
            mark,
            jitter_percent: 100,
            max_concurrent: at.max_concurrent,
            max_lock: MAX_LOCK,
            tokens: at.tpm.map(|_| Weighed::default()),
            endpoint: None,
            told: Vec::new(),
            siblings: Vec::new(),
            pin: None,
        }
    }

    pub(super) async fn record(&self, name: &str, at: &Candidate, begun_ms: i64, mark: Mark) -> Record {
        self.store().record(&self.record_ask(name, at, begun_ms, mark)).await.unwrap()
    }

    /// One attempt from beginning to end, at this moment.
    pub(super) async fn attempt(&self, name: &str, at: &Candidate, mark: Mark) -> Record {
        let (begun_ms, _) = self.take(name, at).await;
        self.record(name, at, begun_ms, mark).await
    }
}

/// Gives a lone node of a cluster all slots and waits until it serves them.
async fn serve_all_slots(link: &Link) {
    link.command(redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383)).await.unwrap();
    let deadline = std::time::Instant::now() + secs(10);
    while link.command(redis::cmd("SET").arg("probe").arg(1)).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "the cluster does not come up");
        tokio::time::sleep(millis(10)).await;
    }
}

pub(super) fn request(name: &str) -> RequestId {
    RequestId::parse(name).unwrap()
}

pub(super) fn lease(name: &str, attempt: u32) -> LeaseId {
    LeaseId { request: request(name), attempt }
}

/// The turn of an account.
pub(super) fn turn(account: &str) -> Turn {
    Turn { account: Some(AccountId::parse(account).unwrap()), priority: Priority::default() }
}

pub(super) fn model(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

pub(super) fn connection(name: &str) -> ConnectionId {
    ConnectionId::parse(name).unwrap()
}

pub(super) fn endpoint(number: usize) -> EndpointId {
    EndpointId::parse(&format!("e{number}")).unwrap()
}

pub(super) fn nanos(amount: i64) -> NanoDollars {
    NanoDollars::new(amount).unwrap()
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A candidate without limits, with model and bucket `m`.
pub(super) fn open(name: &str) -> Candidate {
    Candidate {
        connection: connection(name),
        model: model("m"),
        bucket: BucketName::parse("m").unwrap(),
        max_concurrent: None,
        rpm: None,
        tpm: None,
        credential_mark: "c1".into(),
        endpoints: Vec::new(),
    }
}

/// The same with so many slots.
pub(super) fn slots(name: &str, max_concurrent: u32) -> Candidate {
    Candidate { max_concurrent: Some(max_concurrent), ..open(name) }
}

/// A key with so many requests per minute.
pub(super) fn per_minute(rpm: u32) -> KeyRights {
    KeyRights { rpm: Some(rpm), ..KeyRights::default() }
}

/// A key with so many requests at once.
pub(super) fn at_once(max_concurrent: u32) -> KeyRights {
    KeyRights { max_concurrent: Some(max_concurrent), ..KeyRights::default() }
}

/// What a request says it will use: so many tokens in, and so many out.
pub(super) fn estimate(input: u64, output: u64) -> Estimate {
    Estimate { bound: Bound::Stated, tokens: input + output, input_milli: input * 1_000, output_milli: output * 1_000 }
}

/// A month that began with the test.
pub(super) fn month(label: &str, start_ms: i64, end_ms: i64) -> SpendSpan {
    SpendSpan { label: label.into(), start_ms: START + start_ms, end_ms: Some(START + end_ms) }
}
