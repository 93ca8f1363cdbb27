//! Streams of the Responses API: events passed on with the model named as the caller did, or written from the common tongue.

mod same;
mod writer;

pub use same::Same;
pub use writer::Writer;
