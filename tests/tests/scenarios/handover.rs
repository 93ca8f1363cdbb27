//! How fast a freed slot is used: a measurement, not a scenario. The command and its figures are in `gateway/benches/README.md`.

use std::time::Duration;

use cluster::fake::{Call, Rule};
use cluster::harness::{Cluster, Config, secret_of};
use futures_util::future::join_all;

const SLOTS: usize = 10;
const WAITERS: usize = 200;
const CALLS_EACH: usize = 15;
/// How long each call holds its slot.
const WORK: Duration = Duration::from_millis(50);
const ACCOUNTS: [&str; 4] = ["a", "b", "c", "d"];

/// From the end of each call at the upstream to the beginning of the one that uses its slot, in ms, sorted.
fn gaps(calls: &[Call]) -> Vec<u64> {
    let mut begun: Vec<u64> = calls.iter().map(|call| call.at_ms).collect();
    let mut ended: Vec<u64> = calls.iter().map(|call| call.at_ms + call.duration_ms.unwrap()).collect();
    begun.sort_unstable();
    ended.sort_unstable();
    // At the end nobody waits any more.
    let waiting = calls.len().saturating_sub(WAITERS + SLOTS);
    let mut gaps: Vec<u64> = (0..waiting).map(|nth| begun[nth + SLOTS].saturating_sub(ended[nth])).collect();
    gaps.sort_unstable();
    gaps
}

/// Slots in use, of those there are, while somebody waited.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn used(calls: &[Call]) -> f64 {
    let waiting = &calls[..calls.len() - WAITERS - SLOTS];
    let work: u64 = waiting.iter().map(|call| call.duration_ms.unwrap()).sum();
    let elapsed = calls[calls.len() - WAITERS - SLOTS].at_ms - calls[0].at_ms;
    work as f64 / (elapsed * SLOTS as u64) as f64
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: wants an optimized binary and a machine of its own"]
async fn handing_a_freed_slot_to_the_head_of_the_line_takes_few_ms_with_200_waiters_on_three_replicas() {
    let config = Config::connections(1).each(&format!("max_concurrent: {SLOTS}")).more("limits: {capacity_wait: 50s}");
    let config = ACCOUNTS.iter().fold(config, |config, account| config.caller(account, ""));
    let cluster = Cluster::of_three(&config).await;
    cluster.fake.script([Rule::any().delays_headers(WORK)]);
    cluster.redis.cli(&["CONFIG", "RESETSTAT"]).await;
    join_all((0..WAITERS + SLOTS).map(async |number| {
        for _ in 0..CALLS_EACH {
            let answer = cluster.client(number % 3).chat(&secret_of(ACCOUNTS[number % 4]), "m1", "hi").await;
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
    }))
    .await;
    let stats: String = cluster.redis.ask(&["INFO", "commandstats"]).await;
    let calls = cluster.fake.calls();
    assert_eq!((calls.len(), cluster.fake.peak("cred-1").peak), ((WAITERS + SLOTS) * CALLS_EACH, SLOTS as u64));
    let gaps = gaps(&calls);
    let at = |percent: usize| gaps[gaps.len() * percent / 100];
    println!(
        "from the end of a call to the next in its slot: median {} ms, p90 {} ms, p99 {} ms",
        at(50),
        at(90),
        at(99)
    );
    println!("slots in use while somebody waits: {:.1} %", used(&calls) * 100.0);
    let scripts = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or_default();
    println!("scripts of {} calls: {scripts}", calls.len());
    assert!(at(50) < 5 && at(99) < 20, "{gaps:?}");
    assert!(used(&calls) >= 0.9);
    cluster.assert_clean().await;
}
