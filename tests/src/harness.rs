//! Real replicas over a real Redis and the fake upstream. Everything is a child or a task of the test and ends with it.
//!
//! Functions panic with the reason where a test could not go on.

mod binary;
mod client;
mod cluster;
mod config;
mod eventually;
mod proxy;
mod redis;
mod refused;
mod replica;
mod speaks;

pub use binary::{Exit, headgate};
pub use client::{Client, Event, Response, Stream};
pub use cluster::{Cluster, ClusterBuilder};
pub use config::{ADMIN_TOKEN, Config, SECRET, secret_of};
pub use eventually::{eventually, eventually_ok};
pub use proxy::Proxy;
pub use redis::{Closure, Durability, LedgerRow, Redis};
pub use refused::Refused;
pub use replica::Replica;
pub use speaks::Speaks;
