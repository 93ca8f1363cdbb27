//! Cloud Code Assist: Gemini's bodies in an envelope. Only ever an upstream.

pub mod error;
pub mod request;
pub mod response;
pub mod stream;
