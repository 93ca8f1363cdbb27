//! OpenAI responses: spoken by callers to any upstream, and passed on to upstreams that speak it too.

pub mod error;
pub mod request;
pub mod response;
pub mod stream;

mod json;
