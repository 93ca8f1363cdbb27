//! Embeddings in the common tongue: texts in, vectors out.

use serde_json::{Map, Value};
use shared::money::Tokens;

/// Texts to be turned into vectors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The texts, at least one.
    pub texts: Vec<String>,
    /// The length of each vector; `None`: the model's own.
    pub dimensions: Option<u64>,
    /// Top-level fields that have no place here, as the caller sent them: an error in another dialect.
    pub rest: Map<String, Value>,
}

/// A vector for each text, in the order of the texts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vectors {
    /// The vectors. Upstreams compute no finer than this.
    pub vectors: Vec<Vec<f32>>,
    /// What it used, if reported believably.
    pub usage: Option<Tokens>,
}
