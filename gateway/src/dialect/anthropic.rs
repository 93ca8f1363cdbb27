//! Anthropic messages. Between two who speak it, bodies pass byte for byte but for the model name.

pub mod count;
pub mod error;
pub mod headers;
pub mod models;
pub mod names;
pub mod request;
pub mod response;
pub mod stream;

mod finish;
mod json;
mod object;
mod schema;
mod usage;
