//! Random calls of three replicas, some of them sent twice, against a small model in Rust; the clock moves by chance and to the
//! very boundaries (±1 ms) of what the model knows. Every answer must be the model's, and the invariants must hold.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shared::ids::{ConversationHash, RequestId};
use shared::limit::{Amount, Cycle, Extent, Period, Quota, Weighed};
use shared::money::Tokens;
use shared::state::admission::{AdmitAsk, Estimate, Hold, Place};
use shared::state::capacity::{AcquireAsk, Candidate, LeaseId, LeaveAsk, Mark, Pin, Record, RecordAsk, Sibling, Sole};
use shared::state::leases::{ConnectionLease, KeyLease, Progress};
use shared::state::quotas::QuotaTurn;
use shared::state::records::{KeyRights, Money, SpendLimit};
use shared::state::settlement::{LapsedRequest, Settlement};

use super::table::*;
use account::Account;
use group::Group;
use ops::{Call, Limits, Op, Pick, PinOp, Rules, Used, Wish, credential_mark, op, rules};

mod account;
mod foretold;
mod group;
mod line;
mod ops;
mod ring;
mod tokens;

const LABEL: &str = "2033";

/// One run: the real store and the model beside it.
struct Game<'a> {
    table: &'a Table,
    rules: Rules,
    us: i64,
    account: Account,
    group: Group,
    /// When each attempt began, as its caller was told.
    begun: BTreeMap<String, i64>,
    /// Which endpoint each attempt was told to call.
    endpoints: BTreeMap<String, usize>,
    /// How often each request number was used before.
    generations: [u32; 7],
}

impl<'a> Game<'a> {
    async fn begin(table: &'a Table, rules: Rules) -> Self {
        table.command(&["FLUSHDB"]).await;
        table.at(0).await;
        let spend = SpendLimit { limit: nanos(rules.spend_limit), period: "year".into(), zone: "UTC".into() };
        let rights = KeyRights {
            rpm: Some(rules.rpm),
            max_concurrent: Some(rules.cap),
            spend: Some(spend),
            tpm: rules.tpm,
            quotas: quotas(&rules),
            ..KeyRights::default()
        };
        table.declare(Money::Limited { opening: nanos(rules.opening) }, rules.overdraft, rights).await;
        let (account, group) = (Account::new(&rules), Group::new(&rules));
        Self {
            table,
            rules,
            us: 0,
            account,
            group,
            begun: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            generations: [0; 7],
        }
    }

    fn now_ms(&self) -> i64 {
        START + self.us / 1000
    }

    fn now_us(&self) -> i64 {
        START * 1000 + self.us
    }

    fn candidate(&self, number: usize, credential: u8) -> Candidate {
        let Limits { cap, rpm, tpm } = self.rules.connections[number];
        Candidate {
            max_concurrent: cap,
            rpm,
            tpm,
            credential_mark: credential_mark(credential),
            endpoints: (0..group::endpoints_of(number)).map(endpoint).collect(),
            ..open(&format!("c{number}"))
        }
    }

    async fn play(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Wait { us } => self.go_to(self.us + us).await,
            Op::Boundary { nth, ms } => self.go_to_boundary(nth, ms).await,
            Op::Admit { call, wish, place } => self.admit(call, wish, place).await?,
            Op::LeaveKey { call } => {
                self.store(call).leave_key(&self.table.account, &self.table.key, &self.id(call)).await.unwrap();
                self.account.line.leave(&self.name(call));
            }
            Op::RenewKey { call, used } => self.renew_key(call, used).await?,
            Op::Settle { call, used } => self.settle(call, used).await?,
            Op::SettleLapsed { call } => self.settle_lapsed(call).await?,
            Op::Credit { receipt, amount } => {
                let receipt = format!("r{receipt}");
                let answer =
                    self.table.store().credit(&self.table.account, &request(&receipt), nanos(amount)).await.unwrap();
                prop_assert_eq!(answer, self.account.credit(&receipt, amount));
            }
            Op::Acquire { call, attempt, wish, place, reversed, credential, pin } => {
                let order = if reversed { Order::Backwards } else { Order::Forwards };
                self.acquire(call, attempt, (wish, place, order, credential), pin).await?;
            }
            Op::Record { call, lease, mark, used, siblings, pin } => {
                let (lease, number) = self.picked(call, lease);
                let others = (0..self.rules.connections.len()).filter(|other| *other != number);
                let others = others.take(siblings).collect::<Vec<_>>();
                self.record(call, (lease, number), (mark, used, pin), &others).await?;
            }
            Op::RenewConnection { call, lease } => {
                let (lease, number) = self.picked(call, lease);
                self.renew_connection(call, lease, number).await?;
            }
            Op::LeaveGroup { call } => {
                let connections = (0..self.rules.connections.len()).map(|n| self.candidate(n, 1).connection).collect();
                let (group, turn) = (self.table.group.clone(), call.turn(self.rules.fairness));
                let ask = LeaveAsk { group, connections, request: self.id(call), turn };
                for _ in 0..call.times() {
                    self.store(call).leave_lines(&ask).await.unwrap();
                }
                self.group.leave(&self.name(call));
            }
        }
        let held = self.table.command(&["HGETALL", "hg:{a:acme}:key:ci:held"]).await;
        let held: BTreeMap<String, i64> = redis::from_redis_value(held).unwrap();
        prop_assert_eq!(held, self.account.held_by_counter());
        for number in 0..self.rules.connections.len() {
            if let Some(expected) = self.group.tokens_held(number) {
                let held = self.table.command(&["HGETALL", &format!("hg:{{g:openai}}:conn:c{number}:tpm:held")]).await;
                prop_assert_eq!(redis::from_redis_value::<BTreeMap<String, i64>>(held).unwrap(), expected);
            }
        }
        self.account.check(self.now_us())?;
        self.group.check(self.now_us())
    }

    /// The counters of the key's quotas.
    fn turns(&self) -> Vec<QuotaTurn> {
        quotas(&self.rules).iter().map(|quota| QuotaTurn::at(quota, self.now_ms())).collect()
    }

    fn store(&self, call: Call) -> &'a shared::state::Store {
        &self.table.stores[call.replica()]
    }

    fn name(&self, call: Call) -> String {
        let number = usize::from(call.request);
        format!("q{number}-{}", self.generations[number])
    }

    fn id(&self, call: Call) -> RequestId {
        request(&self.name(call))
    }

    /// A lease and the number of its connection.
    fn picked(&self, call: Call, pick: Pick) -> (LeaseId, usize) {
        let held = self.group.held();
        match pick {
            Pick::Held { nth } if !held.is_empty() => {
                let (text, number) = &held[nth % held.len()];
                let (name, attempt) = text.split_once(':').unwrap();
                (lease(name, attempt.parse().unwrap()), *number)
            }
            Pick::Held { .. } => (lease(&self.name(call), 1), 0),
            Pick::Stray { attempt, connection } => {
                (lease(&self.name(call), attempt), connection % self.rules.connections.len())
            }
        }
    }

    async fn go_to(&mut self, us: i64) {
        self.us = us.max(self.us);
        self.table.at_us(self.us).await;
    }

    async fn go_to_boundary(&mut self, nth: usize, ms: i64) {
        let mut coming: Vec<i64> = self.account.boundaries();
        coming.extend(self.group.boundaries());
        coming.retain(|at| *at > self.now_ms());
        coming.sort_unstable();
        coming.dedup();
        if let Some(at) = coming.get(nth % coming.len().max(1)) {
            self.go_to((at + ms - START) * 1000).await;
        }
    }

    async fn admit(&mut self, call: Call, wish: Wish, place: Place) -> Result<(), TestCaseError> {
        if self.account.is_settled(&self.name(call)) && !call.twice {
            self.generations[usize::from(call.request)] += 1;
        }
        let span = Some(month(LABEL, 0, 1 << 40));
        let hold = if wish.hold < 0 { Hold::Free } else { Hold::AtMost(nanos(wish.hold)) };
        let estimate = Estimate { bound: wish.bound, ..estimate(wish.input, wish.output) };
        let ask =
            AdmitAsk { hold, span, place, estimate, quotas: self.turns(), ..self.table.admit_ask(&self.name(call)) };
        for _ in 0..call.times() {
            let before = self.digest().await;
            let answer = self.store(call).admit(&ask).await.unwrap();
            let (expected, writes) = self.account.admit(&self.name(call), wish, place, self.us);
            prop_assert_eq!(answer, expected);
            if !writes {
                prop_assert_eq!(self.digest().await, before, "a refusal or a repeated call wrote");
            }
        }
        Ok(())
    }

    async fn renew_key(&mut self, call: Call, used: Used) -> Result<(), TestCaseError> {
        let (tokens, weighed) = figures(used);
        let progress = Progress { cost: nanos(used.cost), tokens, weighed, ..Progress::default() };
        let lease = KeyLease { key: self.table.key.clone(), request: self.id(call), progress };
        for _ in 0..call.times() {
            let lost = self.store(call).renew_keys(&self.table.account, std::slice::from_ref(&lease)).await.unwrap();
            let kept = self.account.renew(&self.name(call), used, self.now_ms());
            prop_assert_eq!(lost.is_empty(), kept);
        }
        Ok(())
    }

    async fn settle(&mut self, call: Call, used: Used) -> Result<(), TestCaseError> {
        let span = Some(month(LABEL, 0, 1 << 40));
        let (tokens, weighed) = figures(used);
        let (quotas, upstream) = (self.turns(), used.upstream);
        let settlement = Settlement {
            span,
            tokens,
            weighed,
            quotas,
            upstream,
            ..self.table.settlement(&self.name(call), used.cost)
        };
        for _ in 0..call.times() {
            let answer = self.store(call).settle(&settlement).await.unwrap();
            prop_assert_eq!(answer, self.account.settle(&self.name(call), used, self.now_ms()));
        }
        Ok(())
    }

    async fn settle_lapsed(&mut self, call: Call) -> Result<(), TestCaseError> {
        let seen = self.table.store().lapsed(&self.table.account).await.unwrap();
        let lapsed = LapsedRequest {
            account: self.table.account.clone(),
            key: self.table.key.clone(),
            request: self.id(call),
            admitted_ms: seen.iter().find(|one| one.request == self.id(call)).map_or(START, |one| one.admitted_ms),
            span: Some(month(LABEL, 0, 1 << 40)),
            quotas: self.turns(),
        };
        let due = self.account.lapsed(&self.name(call), self.now_ms());
        prop_assert_eq!(seen.contains(&lapsed), due);
        for _ in 0..call.times() {
            let answer = self.table.store().settle_lapsed(&lapsed).await.unwrap();
            prop_assert_eq!(answer, self.account.settle_lapsed(&self.name(call), self.now_ms()));
        }
        Ok(())
    }

    async fn acquire(
        &mut self,
        call: Call,
        attempt: u32,
        (wish, place, direction, credential): (Wish, Place, Order, u8),
        pin: Option<PinOp>,
    ) -> Result<(), TestCaseError> {
        let mut order: Vec<usize> = (0..self.rules.connections.len()).collect();
        if direction == Order::Backwards {
            order.reverse();
        }
        let lease = lease(&self.name(call), attempt);
        let candidates = order.iter().map(|number| self.candidate(*number, credential)).collect();
        let ask = AcquireAsk {
            group: self.table.group.clone(),
            lease: lease.clone(),
            max_lock: self.rules.max_lock,
            place,
            turn: call.turn(self.rules.fairness),
            estimate: Estimate { bound: wish.bound, ..estimate(wish.input, wish.output) },
            pin: pin.map(preference),
            candidates,
        };
        for _ in 0..call.times() {
            let before = self.digest().await;
            let told = self.table.store().explain(&ask.group, &ask.candidates, ask.max_lock).await.unwrap();
            prop_assert_eq!(&self.digest().await, &before, "looking wrote");
            let is_new = self.group.held().iter().all(|(held, _)| *held != lease.to_string());
            let answer = self.store(call).acquire(&ask).await.unwrap();
            // How many tokens a newcomer will want is nothing that `explain` is told.
            if is_new && ask.pin.is_none() && ask.candidates.iter().all(|candidate| candidate.tpm.is_none()) {
                foretold::check(&told, &answer)?;
            }
            let asked = group::Ask {
                lease: lease.to_string(),
                member: self.name(call),
                turn: ask.turn.clone(),
                place,
                credential,
                wish,
                pin,
            };
            let (expected, writes) = self.group.acquire(&asked, &order, self.us);
            prop_assert_eq!(&answer, &expected);
            if let shared::state::capacity::Acquire::Acquired { begun_ms, endpoint, .. } = answer {
                self.begun.insert(lease.to_string(), begun_ms);
                self.endpoints.insert(lease.to_string(), endpoint);
            }
            if !writes {
                prop_assert_eq!(self.digest().await, before, "a refusal or a repeated call wrote");
            }
        }
        Ok(())
    }

    async fn record(
        &mut self,
        call: Call,
        (lease, connection): (LeaseId, usize),
        (mark, used, pin): (Mark, Used, Option<u8>),
        siblings: &[usize],
    ) -> Result<(), TestCaseError> {
        let begun_ms = self.begun.get(&lease.to_string()).copied().unwrap_or(self.now_ms());
        let at = self.candidate(connection, 1);
        // A stray word may name an endpoint that the connection has not.
        let number = self.endpoints.get(&lease.to_string()).copied().unwrap_or(0) % 2;
        let ask = RecordAsk {
            lease: lease.clone(),
            endpoint: at.endpoints.get(number).cloned(),
            max_lock: self.rules.max_lock,
            tokens: at.tpm.map(|_| figures(used).1),
            siblings: siblings.iter().map(|other| sibling(&self.candidate(*other, 1))).collect(),
            pin: pin.map(conversation),
            ..self.table.record_ask("q", &at, begun_ms, mark.clone())
        };
        let last = !siblings.is_empty() && siblings.iter().all(|other| self.group.is_closed(*other, self.now_ms()));
        let mark = if last && matches!(mark, Mark::Failure { .. }) { Mark::Failure { sole: Sole::Yes } } else { mark };
        let end = group::End { mark: &mark, begun: begun_ms, used };
        for _ in 0..call.times() {
            let before = self.digest().await;
            let answer = self.store(call).record(&ask).await.unwrap();
            prop_assert_eq!(&answer, &self.group.record(&lease.to_string(), (connection, number), &end, self.now_ms()));
            if let (Record::Recorded { .. }, Mark::Success { .. }, Some(conversation)) = (&answer, &mark, pin) {
                self.group.bind(conversation, connection);
            }
            if answer == Record::Already {
                prop_assert_eq!(self.digest().await, before, "a second record wrote");
            }
        }
        Ok(())
    }

    async fn renew_connection(&mut self, call: Call, lease: LeaseId, number: usize) -> Result<(), TestCaseError> {
        let held = ConnectionLease { connection: self.candidate(number, 1).connection, lease };
        for _ in 0..call.times() {
            let lost =
                self.store(call).renew_connections(&self.table.group, std::slice::from_ref(&held)).await.unwrap();
            let kept = self.group.renew(&held.lease.to_string(), number, self.now_ms());
            prop_assert_eq!(lost.is_empty(), kept);
        }
        Ok(())
    }

    /// All content but the lines, the connections' leases and what these hold, which a refusal may touch (places, reaping).
    async fn digest(&self) -> String {
        let script = "local all = {}
            for _, key in ipairs(redis.call('KEYS', 'hg:*')) do
              if not key:find('waiters') and not (key:find('{g:') and (key:find(':leases') or key:find(':tpm'))) then
                local hash = redis.call('TYPE', key).ok == 'hash'
                local content = hash and redis.call('HGETALL', key) or {redis.call('DUMP', key)}
                for i = 1, hash and #content or 0, 2 do content[(i + 1) / 2] = content[i] .. content[i + 1] end
                if hash then for i = #content, #content / 2 + 1, -1 do content[i] = nil end end
                table.sort(content)
                all[#all + 1] = key .. redis.sha1hex(table.concat(content))
              end
            end
            table.sort(all)
            return redis.sha1hex(table.concat(all))";
        self.table.text(&["EVAL", script, "0"]).await
    }

    /// The sum of the ledger is what left the balance, to the nano-dollar, and every request has at most one row.
    async fn audit(&self) -> Result<(), TestCaseError> {
        let rows = self.table.store().ledger(&self.table.account, 1000).await.unwrap();
        let mut ids: Vec<&String> = rows.iter().map(|row| &row.fields["id"]).collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        prop_assert_eq!(ids.len(), count, "a request with two rows");
        let spent: i64 = rows.iter().map(|row| row.fields["cost"].parse::<i64>().unwrap()).sum();
        let waived = rows.iter().filter_map(|row| row.fields.get("waived")).map(|nanos| nanos.parse::<i64>().unwrap());
        prop_assert_eq!(waived.sum::<i64>(), self.account.waived());
        let balance: i64 = self.table.text(&["GET", "hg:{a:acme}:balance"]).await.parse().unwrap();
        prop_assert_eq!(self.account.credited() - spent, balance);
        let counter = self.table.text(&["GET", &format!("hg:{{a:acme}}:key:ci:spend:{LABEL}")]).await;
        prop_assert_eq!(counter.parse().unwrap_or(0), spent);
        self.audit_days(count as u64, spent).await
    }

    /// The sums of all days are those of the ledger.
    async fn audit_days(&self, rows: u64, spent: i64) -> Result<(), TestCaseError> {
        let names = self.table.command(&["KEYS", "hg:{a:acme}:day:*"]).await;
        let names: Vec<String> = redis::from_redis_value(names).unwrap();
        let days: Vec<String> = names.iter().map(|name| name.rsplit(':').next().unwrap().to_owned()).collect();
        let sums = self.table.store().day_sums(&self.table.account, &days).await.unwrap();
        let sums: Vec<_> = sums.iter().flat_map(|day| day.values()).collect();
        prop_assert_eq!(sums.iter().map(|sum| sum.requests).sum::<u64>(), rows);
        prop_assert_eq!(sums.iter().map(|sum| sum.cost.nanos()).sum::<i64>(), spent);
        Ok(())
    }
}

/// The quotas of the key, in the order of the model's.
fn quotas(rules: &Rules) -> Vec<Quota> {
    let count = |limit: i64| u64::try_from(limit).unwrap().try_into().unwrap();
    let ops::Quotas { tokens, requests, cost } = rules.quotas;
    let total = Extent::Calendar(Period::utc(Cycle::Total));
    vec![
        Quota { amount: Amount::Tokens(count(tokens)), extent: total },
        Quota { amount: Amount::Requests(count(requests)), extent: Extent::Sliding(secs(60)) },
        Quota { amount: Amount::Cost(nanos(cost)), extent: Extent::Sliding(secs(120)) },
    ]
}

/// Tokens, and what they weigh.
fn figures(used: Used) -> (Tokens, Weighed) {
    let (total_milli, output_milli) = ((used.input + used.output) * 1_000, used.output * 1_000);
    (Tokens { input: used.input, output: used.output, ..Tokens::default() }, Weighed { total_milli, output_milli })
}

/// The order of the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Forwards,
    Backwards,
}

fn conversation(number: u8) -> ConversationHash {
    ConversationHash::of([number; 32])
}

fn preference(pin: PinOp) -> Pin {
    let given_up = pin.given_up.map(|number| connection(&format!("c{number}"))).into_iter().collect();
    Pin { conversation: conversation(pin.conversation), patience: millis(pin.patience_ms), given_up }
}

fn sibling(candidate: &Candidate) -> Sibling {
    Sibling { connection: candidate.connection.clone(), bucket: candidate.bucket.clone() }
}

#[test]
fn three_replicas_calls_in_any_order_get_the_answers_of_the_model_and_keep_its_invariants() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let table = runtime.block_on(Table::new());
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600);
    let config = Config { cases, failure_persistence: None, max_shrink_time: 20_000, ..Config::default() };
    let began = std::time::Instant::now();
    let outcome = TestRunner::new(config).run(&(rules(), prop::collection::vec(op(), 1..100)), |(rules, ops)| {
        // A machine under load plays fewer games rather than holding everyone up.
        if began.elapsed() > Duration::from_secs(40) {
            return Ok(());
        }
        runtime.block_on(async {
            let mut game = Game::begin(&table, rules).await;
            for op in ops {
                game.play(op).await?;
            }
            game.audit().await
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
