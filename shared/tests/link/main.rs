//! The connection layer against real servers: every promise of `state::link`, `state::wake` and `state::managed` once.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod faults;
mod harness;
mod managed;
mod scripts;
mod topologies;
mod wake;
