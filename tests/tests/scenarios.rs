//! Scenarios over real replicas, a real Redis and the fake upstream. Each proves one sentence.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a helper fails the test")]

#[path = "scenarios/bad_input.rs"]
mod bad_input;
#[path = "scenarios/concurrency.rs"]
mod concurrency;
#[path = "scenarios/crash.rs"]
mod crash;
#[path = "scenarios/failover.rs"]
mod failover;
#[path = "scenarios/fake.rs"]
mod fake;
#[path = "scenarios/faults.rs"]
mod faults;
#[path = "scenarios/harness.rs"]
mod harness;
#[path = "scenarios/locks.rs"]
mod locks;
#[path = "scenarios/money.rs"]
mod money;
#[path = "scenarios/ops.rs"]
mod ops;
#[path = "scenarios/rpm.rs"]
mod rpm;
#[path = "scenarios/sdk.rs"]
mod sdk;
#[path = "scenarios/streams.rs"]
mod streams;
#[path = "scenarios/traces.rs"]
mod traces;
