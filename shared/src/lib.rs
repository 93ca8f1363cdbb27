//! The ground of Headgate: ids, money, limits and failures, the configuration, and the shared state in Redis.
//!
//! Knows no HTTP. Imports point one way: `state > config > ids, money, limit, failure`.

pub mod config;
pub mod failure;
pub mod ids;
pub mod limit;
pub mod money;
pub mod state;
