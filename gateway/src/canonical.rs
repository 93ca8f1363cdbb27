//! The common tongue between dialects.

pub mod usage;
