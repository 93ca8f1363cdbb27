//! Every caller's API with every upstream's dialect, through the one door between them.
//!
//! `HEADGATE_BLESS=1` writes the golden files anew; read the difference before you keep it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod alike;
mod answers;
mod callers;
mod changed;
mod costs;
mod dropped;
mod golden;
mod interleaved;
mod noise;
mod requests;
mod said;
mod upstreams;
