//! OpenAI embeddings. Between equals, bodies pass byte for byte but for the model name.

pub mod request;
pub mod response;

#[cfg(test)]
mod tests;
