//! Streams: for a caller of the same dialect, into the common tongue, and from it.

mod frame;
mod reader;
mod same;
mod writer;

pub use frame::Framing;
pub use reader::Reader;
pub use same::Same;
pub use writer::Writer;

#[cfg(test)]
mod tests;
