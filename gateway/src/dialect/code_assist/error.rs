//! Errors of Code Assist are Google's.

pub use crate::dialect::gemini::error::{broken, read};
