//! OpenAI chat completions. Bodies pass byte for byte but for the model name and `stream_options`.

pub mod error;
pub mod request;
pub mod response;
pub mod stream;

mod json;
