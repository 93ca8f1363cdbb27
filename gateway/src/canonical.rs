//! The common tongue between dialects. Pure data; knows no dialect.

pub mod embeddings;
pub mod request;
pub mod response;
pub mod usage;
