//! The gateway.

pub mod canonical;
pub mod dialect;
pub mod error;
pub mod upstream;
