//! OpenAI chat completions, embeddings and models. Between equals, bodies pass byte for byte but for the model name and
//! `stream_options`.

pub mod embeddings;
pub mod error;
pub mod models;
pub mod names;
pub mod request;
pub mod response;
pub mod stream;

pub(in crate::dialect) mod json;
pub(in crate::dialect) mod media;
pub(in crate::dialect) mod tree;

pub use tree::Dropped;
