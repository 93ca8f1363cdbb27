//! The shared state in Redis: the only place that names a key, a script or the redis crate.

pub mod link;
pub mod managed;
pub mod script;
