//! One exchange with one rung. No policy.

pub mod sse;
pub mod told_time;
