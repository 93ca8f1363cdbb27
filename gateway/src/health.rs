//! How well connections do, as this replica last heard: each record of an outcome brings the figures of all replicas along.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use shared::ids::ConnectionId;
use shared::state::survey::Health;
use tokio::time::Instant;

/// Every connection gets this much of its weight at least, so that its recovery is seen.
const FACTOR_MIN: f64 = 0.05;
/// What is so old counts half.
const HALF_LIFE_S: f64 = 30.0;
/// Up to this share of failures is normal; from [`FAILING_RATE`] on the factor is the least.
const NORMAL_RATE: f64 = 0.1;
const FAILING_RATE: f64 = 0.5;
/// So many normal attempts are supposed besides those that were seen: one that fails or is slow on a quiet connection says little.
const SUPPOSED: f64 = 4.0;
/// Up to so many times its usual one a time to the first token is normal; from [`SLOW_RATIO`] on the factor is the least.
const NORMAL_RATIO: f64 = 2.0;
const SLOW_RATIO: f64 = 4.0;
/// Usual times below this count as this: nobody notices that 10 ms became 50 ms.
const USUAL_MIN_S: f64 = 0.1;
/// A conversation leaves its connection when that is less than so well as the best of its equals.
const GIVEN_UP_BELOW: f64 = 0.5;

/// What one replica knows of the health of connections; empty at its start, when all are supposed to be well.
#[derive(Debug, Default)]
pub struct Healths {
    known: RwLock<HashMap<ConnectionId, (Health, Instant)>>,
}

impl Healths {
    /// Takes the figures of this moment.
    pub fn learn(&self, connection: &ConnectionId, health: Health) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(connection) {
            Some(entry) => *entry = (health, Instant::now()),
            None => drop(known.insert(connection.clone(), (health, Instant::now()))),
        }
    }

    /// Which share of its weight a connection deserves now, from 0.05 to 1 (normal).
    pub fn factor(&self, connection: &ConnectionId) -> f64 {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(connection).map_or(1.0, |(health, at)| factor(health, at.elapsed()))
    }

    /// Those of these connections that a conversation should not stay at: much less well than the best of them.
    pub fn unwell<'a>(&self, connections: impl Iterator<Item = &'a ConnectionId>) -> Vec<ConnectionId> {
        let factors: Vec<(f64, &ConnectionId)> = connections.map(|id| (self.factor(id), id)).collect();
        let best = factors.iter().map(|(factor, _)| *factor).fold(0.0, f64::max);
        factors.iter().filter(|(factor, _)| *factor < best * GIVEN_UP_BELOW).map(|(_, id)| (*id).clone()).collect()
    }
}

/// 1 when normal, falling as failures become more or the first token comes later than usual; with `age` both fade.
fn factor(health: &Health, age: Duration) -> f64 {
    let keep = 0.5_f64.powf(age.as_secs_f64() / HALF_LIFE_S);
    #[expect(clippy::cast_precision_loss, reason = "counts of attempts are small")]
    let attempts = |milli: u64| milli as f64 / 1000.0 * keep;
    let (oks, fails) = (attempts(health.oks_milli), attempts(health.fails_milli));
    let seen = oks + fails;
    let rate = fails / (seen + SUPPOSED);
    let ratio = health.first_token.zip(health.recent).map_or(1.0, |(usual, recent)| {
        let (usual, recent) = (usual.as_secs_f64(), recent.as_secs_f64());
        let ratio = (usual + (recent - usual) * keep) / usual.max(USUAL_MIN_S);
        1.0 + (ratio - 1.0) * seen / (seen + SUPPOSED)
    });
    (falling(rate, NORMAL_RATE, FAILING_RATE) * falling(ratio, NORMAL_RATIO, SLOW_RATIO)).max(FACTOR_MIN)
}

/// 1 up to `normal`, [`FACTOR_MIN`] from `worst` on, in a straight line between.
fn falling(value: f64, normal: f64, worst: f64) -> f64 {
    let way = ((value - normal) / (worst - normal)).clamp(0.0, 1.0);
    1.0 - way * (1.0 - FACTOR_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(oks: u64, fails: u64) -> Health {
        Health { oks_milli: oks * 1000, fails_milli: fails * 1000, ..Health::default() }
    }

    fn times(usual_ms: u64, recent_ms: u64) -> Health {
        let time = |ms| Some(Duration::from_millis(ms));
        Health { oks_milli: 4_000_000, first_token: time(usual_ms), recent: time(recent_ms), ..Health::default() }
    }

    #[track_caller]
    fn is(health: Health, age_s: u64, expected: f64) {
        let factor = factor(&health, Duration::from_secs(age_s));
        assert!((factor - expected).abs() < 0.011, "{health:?} after {age_s} s: {factor}, not {expected}");
    }

    #[test]
    fn a_normal_connection_has_its_whole_weight() {
        for health in
            [Health::default(), counts(1000, 0), counts(100, 10), counts(0, 0), times(500, 999), times(5, 150)]
        {
            is(health, 0, 1.0);
        }
    }

    #[test]
    fn failures_beyond_the_normal_lower_the_factor_down_to_a_twentieth() {
        for (health, expected) in [
            (counts(76, 20), 0.76),
            (counts(66, 30), 0.52),
            (counts(46, 50), 0.05),
            (counts(0, 1000), 0.05),
            (counts(0, 1), 0.76),
            (counts(0, 3), 0.22),
        ] {
            is(health, 0, expected);
        }
    }

    #[test]
    fn a_first_token_later_than_twice_the_usual_lowers_it_too() {
        let table =
            [(times(500, 1000), 1.0), (times(500, 1500), 0.525), (times(500, 2000), 0.05), (times(5, 300), 0.525)];
        for (health, expected) in table {
            is(health, 0, expected);
        }
        is(Health { fails_milli: 4_000_000, ..times(500, 5000) }, 0, 0.05);
        is(Health { oks_milli: 1000, ..times(500, 2000) }, 0, 1.0);
        is(Health { oks_milli: 12_000, ..times(500, 2000) }, 0, 0.406);
    }

    #[test]
    fn both_fade_by_themselves() {
        let failing = counts(0, 20);
        for (age_s, expected) in [(0, 0.05), (60, 0.05), (90, 0.32), (120, 0.67), (150, 0.92), (180, 1.0)] {
            is(failing, age_s, expected);
        }
        let slow = times(500, 4500);
        for (age_s, expected) in [(0, 0.05), (30, 0.05), (60, 0.525), (90, 1.0)] {
            is(slow, age_s, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_goes_by_what_it_last_heard_and_by_the_time_since() {
        let healths = Healths::default();
        let id = |name: &str| name.parse::<ConnectionId>().unwrap();
        let (a, b, c) = (id("a"), id("b"), id("c"));
        assert!((healths.factor(&a) - 1.0).abs() < 1e-9, "nothing is known: well");
        healths.learn(&a, counts(0, 20));
        healths.learn(&b, counts(10, 0));
        assert!((healths.factor(&a) - 0.05).abs() < 1e-9);
        assert_eq!(healths.unwell([&a, &b, &c].into_iter()), std::slice::from_ref(&a));
        tokio::time::advance(Duration::from_mins(3)).await;
        assert!((healths.factor(&a) - 1.0).abs() < 1e-9);
        healths.learn(&a, counts(0, 20));
        healths.learn(&b, counts(0, 20));
        assert!(healths.unwell([&a, &b].into_iter()).is_empty(), "where all do badly nobody has to leave");
    }
}
