//! Gemini: `generateContent` and its kin. Between Gemini and Gemini bodies pass byte for byte: the model is named in the URL.

pub mod count;
pub mod embed;
pub mod error;
pub mod models;
pub mod names;
pub mod request;
pub mod response;
pub mod stream;
pub mod url;

mod answer;
mod base64;
mod fields;
mod glance;
pub(in crate::dialect) mod mint;
mod model;
mod schema;
