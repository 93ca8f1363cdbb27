//! The command line as a person meets it: real processes, their exit codes and what they print.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod check;
mod demo;
mod health;
mod manage;
mod serve;
mod support;
