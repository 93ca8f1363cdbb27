//! What one request costs Redis. Calls are counted exactly; times are printed (`--no-capture`), as they depend on the machine.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use shared::ids::ConversationHash;
use shared::limit::{Amount, Cycle, Extent, Period, Quota, Weighed};
use shared::money::NanoDollars;
use shared::state::admission::{Admit, AdmitAsk, Hold};
use shared::state::capacity::{Acquire, AcquireAsk, Candidate, Mark, Pin, Record, RecordAsk};
use shared::state::quotas::QuotaTurn;
use shared::state::records::{KeyRights, Money, Overdraft, SpendLimit};
use shared::state::scripts::Scripts;
use shared::state::settlement::{Settle, Settlement};

use super::table::*;

const REQUESTS: u32 = 2_000;

/// Calls and µs of each command since the last reset.
async fn command_stats(table: &Table) -> BTreeMap<String, (u64, u64)> {
    let text = table.text(&["INFO", "commandstats"]).await;
    let mut stats = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, fields) = line.split_once(':').unwrap();
        let number =
            |field: &str| fields.split(',').find_map(|part| part.strip_prefix(field)).unwrap().parse::<u64>().unwrap();
        stats.insert(name.to_owned(), (number("calls="), number("usec=")));
    }
    stats
}

/// Runs `each` for every request and answers how many commands Redis ran and how many µs it spent, per request.
async fn measured(table: &Table, name: &str, each: impl AsyncFn(u32)) -> (f64, f64) {
    table.command(&["CONFIG", "RESETSTAT"]).await;
    stream::iter(0..REQUESTS).for_each_concurrent(32, |n| each(n)).await;
    let stats = command_stats(table).await;
    let total = f64::from(REQUESTS);
    let micros = stats["evalsha"].1;
    let calls: u64 = stats.iter().filter(|(name, _)| name.as_str() != "evalsha").map(|(_, (calls, _))| calls).sum();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (calls, micros) = (calls as f64 / total, micros as f64 / total);
    let usual = table.text(&["INFO", "latencystats"]).await;
    let usual = usual.lines().find_map(|line| line.strip_prefix("latency_percentiles_usec_evalsha:p50=")).unwrap();
    let usual = usual.split(',').next().unwrap();
    println!("{name:8} {calls:5.1} calls {micros:6.1} µs (half within {usual})");
    (calls, micros)
}

/// Ten requests each.
fn conversation(request: u32) -> ConversationHash {
    let mut digest = [0; 32];
    digest[..4].copy_from_slice(&(request / 10).to_le_bytes());
    ConversationHash::of(digest)
}

#[tokio::test]
async fn one_request_with_all_limits_on_and_three_candidates_takes_few_calls_to_redis() {
    let table = Table::with(Scripts::new()).await;
    let spend = SpendLimit { limit: NanoDollars::MAX, period: "total".into(), zone: "UTC".into() };
    let rights =
        KeyRights { rpm: Some(REQUESTS), max_concurrent: Some(REQUESTS), spend: Some(spend), ..KeyRights::default() };
    table.declare(Money::Limited { opening: nanos(1_000_000_000) }, Overdraft::Soft, rights).await;
    let mut span = month("total", 0, 0);
    (span.start_ms, span.end_ms) = (0, None);
    let three: Vec<Candidate> =
        ["a", "b", "c"].map(|name| Candidate { rpm: Some(1_000_000), ..slots(name, REQUESTS) }).to_vec();
    let ask = |n: u32| AdmitAsk {
        hold: Hold::AtMost(nanos(1)),
        span: Some(span.clone()),
        ..table.admit_ask(&format!("0190b3c4-6f00-7abc-8def-{n:012}"))
    };
    let name = |n: u32| ask(n).request.as_str().to_owned();

    let admit = measured(&table, "admit", async |n| {
        let answer = table.store().admit(&ask(n)).await.unwrap();
        assert!(matches!(answer, Admit::Admitted { .. }), "{answer:?}");
    })
    .await;
    let acquire = measured(&table, "acquire", async |n| {
        let pin = Pin { conversation: conversation(n), patience: secs(1), given_up: Vec::new() };
        let ask = AcquireAsk { pin: Some(pin), ..table.acquire_ask(&name(n), &three) };
        let answer = table.store().acquire(&ask).await.unwrap();
        assert!(matches!(answer, Acquire::Acquired { index: 0, .. }), "{answer:?}");
    })
    .await;
    let record = measured(&table, "record", async |n| {
        let success = Mark::Success { first_token: Some(millis(300)) };
        let ask = table.record_ask(&name(n), &three[0], START, success);
        let answer = table.store().record(&RecordAsk { pin: Some(conversation(n)), ..ask }).await.unwrap();
        assert_eq!(answer, Record::Recorded { closed: None });
    })
    .await;
    let settle = measured(&table, "settle", async |n| {
        let settlement = Settlement { span: Some(span.clone()), ..table.settlement(&name(n), 1) };
        assert!(matches!(table.store().settle(&settlement).await.unwrap(), Settle::Settled { .. }));
    })
    .await;
    let all = [admit, acquire, record, settle];
    let calls: f64 = all.iter().map(|(calls, _)| calls).sum();
    let micros: f64 = all.iter().map(|(_, micros)| micros).sum();
    println!("request  {calls:5.1} calls {micros:6.1} µs");
    // Of the 51, two keep the sums of the day (HGET, HSET), and three what the spend limit may yet be overspent by (HMGET,
    // HINCRBY, PEXPIRE at admission). One more each 10 s, and for a conversation's first request.
    assert!(calls < 52.0, "{calls} calls");
}

#[tokio::test]
async fn a_key_without_limits_pays_for_none_of_them() {
    let table = Table::with(Scripts::new()).await;
    table.declare_rights(KeyRights::default()).await;
    let name = |n: u32| format!("0190b3c4-6f00-7abc-8def-{n:012}");
    let (admit, _) = measured(&table, "admit", async |n| {
        let answer = table.admit(&name(n)).await;
        assert!(matches!(answer, Admit::Admitted { .. }), "{answer:?}");
    })
    .await;
    let (settle, _) = measured(&table, "settle", async |n| {
        table.settle(&name(n), 1).await;
    })
    .await;
    // Admission: the time, three records to read, the lease and the open request with their expiry. Settlement: the time, the
    // open request, the lease, the line behind it, the row, the sums of the day, and the receipt in three.
    assert!(admit < 8.5 && settle < 10.5, "{admit} and {settle} calls");
}

#[tokio::test]
async fn tokens_per_minute_and_quotas_add_few_calls_to_an_admission_and_its_settlement() {
    let table = Table::with(Scripts::new()).await;
    let spend = SpendLimit { limit: NanoDollars::MAX, period: "total".into(), zone: "UTC".into() };
    let total = Extent::Calendar(Period::utc(Cycle::Total));
    let quota = Quota { amount: Amount::Requests(1_000_000.try_into().unwrap()), extent: total };
    let (rpm, max_concurrent) = (Some(REQUESTS), Some(REQUESTS));
    let (spend, tpm, quotas) = (Some(spend), Some(u32::MAX), vec![quota.clone()]);
    let rights = KeyRights { rpm, max_concurrent, spend, tpm, quotas, ..KeyRights::default() };
    table.declare(Money::Limited { opening: nanos(1_000_000_000) }, Overdraft::Soft, rights).await;
    let mut span = month("total", 0, 0);
    (span.start_ms, span.end_ms) = (0, None);
    let name = |n: u32| format!("0190b3c4-6f00-7abc-8def-{n:012}");
    let turn = QuotaTurn::at(&quota, 0);
    let (span, quotas) = (Some(span), vec![turn]);

    let (admit, _) = measured(&table, "admit", async |n| {
        let (hold, span, quotas) = (Hold::AtMost(nanos(1)), span.clone(), quotas.clone());
        let ask = AdmitAsk { hold, span, quotas, estimate: estimate(10, 20), ..table.admit_ask(&name(n)) };
        let answer = table.store().admit(&ask).await.unwrap();
        assert!(matches!(answer, Admit::Admitted { .. }), "{answer:?}");
    })
    .await;
    let (settle, _) = measured(&table, "settle", async |n| {
        let (span, quotas) = (span.clone(), quotas.clone());
        let settlement = Settlement { span, quotas, ..table.settlement(&name(n), 1) };
        assert!(matches!(table.store().settle(&settlement).await.unwrap(), Settle::Settled { .. }));
    })
    .await;
    assert!(admit < 24.0 && settle < 20.0, "{admit} and {settle} calls");
}

#[tokio::test]
async fn tokens_per_minute_of_connections_cost_only_where_there_is_such_a_limit() {
    let table = Table::with(Scripts::new()).await;
    let success = Mark::Success { first_token: Some(millis(300)) };
    let mut calls = Vec::new();
    for tpm in [None, Some(u32::MAX)] {
        let first = Candidate { tpm, rpm: Some(1_000_000), ..slots("a", REQUESTS) };
        let three = [first, open("b"), open("c")];
        let name = |n: u32| format!("0190b3c4-{:04}-7abc-8def-{n:012}", tpm.map_or(0, |_| 1));
        let (acquire, _) = measured(&table, "acquire", async |n| {
            let ask = AcquireAsk { estimate: estimate(10, 20), ..table.acquire_ask(&name(n), &three) };
            let answer = table.store().acquire(&ask).await.unwrap();
            assert!(matches!(answer, Acquire::Acquired { index: 0, .. }), "{answer:?}");
        })
        .await;
        let (record, _) = measured(&table, "record", async |n| {
            let weighed = Weighed { total_milli: 15_000, output_milli: 5_000 };
            let ask = table.record_ask(&name(n), &three[0], START, success.clone());
            let ask = RecordAsk { tokens: tpm.map(|_| weighed), ..ask };
            assert_eq!(table.store().record(&ask).await.unwrap(), Record::Recorded { closed: None });
        })
        .await;
        calls.push((acquire, record));
    }
    let ((acquire, record), (limited_acquire, limited_record)) = (calls[0], calls[1]);
    assert!(acquire < 11.5 && record < 6.5, "{acquire} and {record} commands");
    assert!(limited_acquire < acquire + 8.5 && limited_record < record + 5.5, "{limited_acquire} and {limited_record}");
}

#[tokio::test]
async fn one_acquire_with_fifty_candidates_takes_one_call_and_few_commands() {
    let table = Table::with(Scripts::new()).await;
    let fifty: Vec<Candidate> =
        (0..50).map(|n| Candidate { rpm: Some(1_000_000), ..slots(&format!("c{n}"), REQUESTS) }).collect();
    let (calls, _) = measured(&table, "50 candidates", async |n| {
        let answer = table.acquire(&format!("q{n}"), &fifty).await;
        assert!(matches!(answer, Acquire::Acquired { index: 0, .. }), "{answer:?}");
    })
    .await;
    assert!(calls < 64.0, "{calls} commands");
}
