//! The fake upstream, and the harness of the cluster scenarios.

pub mod fake;
