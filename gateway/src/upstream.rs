//! One exchange with one rung. No policy.

pub mod client;
pub mod google_token;
pub mod images;
pub mod sse;
pub mod told_time;
