//! Streams: passed on between two who speak the dialect, read and written where only one does.

mod event;
mod reader;
mod same;
mod writer;

pub use reader::Reader;
pub use same::Same;
pub use writer::Writer;

#[cfg(test)]
mod tests;
