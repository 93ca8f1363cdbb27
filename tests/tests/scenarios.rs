//! Scenarios over real replicas, a real Redis and the fake upstream. Each proves one sentence.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a helper fails the test")]

#[path = "scenarios/attempts.rs"]
mod attempts;
#[path = "scenarios/bad_input.rs"]
mod bad_input;
#[path = "scenarios/chains.rs"]
mod chains;
#[path = "scenarios/classes.rs"]
mod classes;
#[path = "scenarios/clocks.rs"]
mod clocks;
#[path = "scenarios/concurrency.rs"]
mod concurrency;
#[path = "scenarios/conn_tpm.rs"]
mod conn_tpm;
#[path = "scenarios/cooldowns.rs"]
mod cooldowns;
#[path = "scenarios/crash.rs"]
mod crash;
#[path = "scenarios/drain.rs"]
mod drain;
#[path = "scenarios/endpoints.rs"]
mod endpoints;
#[path = "scenarios/explain.rs"]
mod explain;
#[path = "scenarios/failover.rs"]
mod failover;
#[path = "scenarios/fake.rs"]
mod fake;
#[path = "scenarios/faults.rs"]
mod faults;
#[path = "scenarios/handover.rs"]
mod handover;
#[path = "scenarios/hangups.rs"]
mod hangups;
#[path = "scenarios/harness.rs"]
mod harness;
#[path = "scenarios/hygiene.rs"]
mod hygiene;
#[path = "scenarios/kept.rs"]
mod kept;
#[path = "scenarios/keys.rs"]
mod keys;
#[path = "scenarios/ladder_edges.rs"]
mod ladder_edges;
#[path = "scenarios/ladders.rs"]
mod ladders;
#[path = "scenarios/leaks.rs"]
mod leaks;
#[path = "scenarios/lines.rs"]
mod lines;
#[path = "scenarios/locks.rs"]
mod locks;
#[path = "scenarios/money.rs"]
mod money;
#[path = "scenarios/ops.rs"]
mod ops;
#[path = "scenarios/prices.rs"]
mod prices;
#[path = "scenarios/quotas.rs"]
mod quotas;
#[path = "scenarios/races.rs"]
mod races;
#[path = "scenarios/refusals.rs"]
mod refusals;
#[path = "scenarios/rpm.rs"]
mod rpm;
#[path = "scenarios/sdk.rs"]
mod sdk;
#[path = "scenarios/shapes.rs"]
mod shapes;
#[path = "scenarios/signals.rs"]
mod signals;
#[path = "scenarios/spend.rs"]
mod spend;
#[path = "scenarios/sticky.rs"]
mod sticky;
#[path = "scenarios/streams.rs"]
mod streams;
#[path = "scenarios/tpm.rs"]
mod tpm;
#[path = "scenarios/traces.rs"]
mod traces;
#[path = "scenarios/waiting.rs"]
mod waiting;
#[path = "scenarios/wire.rs"]
mod wire;
