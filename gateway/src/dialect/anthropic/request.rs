//! Requests: looked into and spliced between two who speak the dialect; read and written where only one does.

mod dropped;
mod peek;
mod read;
mod target;
mod thoughts;
mod write;

pub use dropped::{DROPPED, DROPPED_INTO};
pub use peek::{Peek, Purpose, peek, splice};
pub use read::read;
pub use target::{Sampling, Target, ThinkingForm, Thoughts};
pub use thoughts::{refuses_thoughts, without_thoughts};
pub use write::{write, write_count};

#[cfg(test)]
mod tests;
