//! Scenarios over real replicas, a real Redis and the fake upstream. Each proves one sentence.

#[path = "scenarios/fake.rs"]
mod fake;
#[path = "scenarios/harness.rs"]
mod harness;
