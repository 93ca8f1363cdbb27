//! Reads what a script answers: a tag word, then integers and short words.

use std::time::Duration;
use std::vec;

use redis::Value;

use super::link::StateError;
use crate::money::NanoDollars;

/// The rest of a reply, read from the left.
#[derive(Debug)]
pub(super) struct Reply {
    script: &'static str,
    items: vec::IntoIter<Value>,
}

impl Reply {
    /// The tag word of a reply and what follows it.
    pub(super) fn open(script: &'static str, value: Value) -> Result<(String, Self), StateError> {
        let Value::Array(items) = value else {
            return Err(StateError::Reply(format!("{script} did not answer a list")));
        };
        let mut reply = Self { script, items: items.into_iter() };
        let tag = reply.word()?;
        Ok((tag, reply))
    }

    /// The next item as a word.
    pub(super) fn word(&mut self) -> Result<String, StateError> {
        match self.items.next() {
            Some(Value::BulkString(bytes)) => String::from_utf8(bytes).map_err(|_| self.unexpected("a word")),
            Some(Value::SimpleString(text)) => Ok(text),
            _ => Err(self.unexpected("a word")),
        }
    }

    /// The next item as an integer.
    pub(super) fn int(&mut self) -> Result<i64, StateError> {
        match self.items.next() {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(self.unexpected("an integer")),
        }
    }

    /// The next item as a count.
    pub(super) fn count(&mut self) -> Result<u32, StateError> {
        u32::try_from(self.int()?).map_err(|_| self.unexpected("a count"))
    }

    /// The next item as a length of time in ms.
    pub(super) fn wait(&mut self) -> Result<Duration, StateError> {
        u64::try_from(self.int()?).map(Duration::from_millis).map_err(|_| self.unexpected("a length of time"))
    }

    /// The next item as nano-dollars.
    pub(super) fn money(&mut self) -> Result<NanoDollars, StateError> {
        NanoDollars::new(self.int()?).map_err(|_| self.unexpected("nano-dollars"))
    }

    /// The next item as a list of its own.
    pub(super) fn row(&mut self) -> Result<Self, StateError> {
        match self.items.next() {
            Some(Value::Array(items)) => Ok(Self { script: self.script, items: items.into_iter() }),
            _ => Err(self.unexpected("a row")),
        }
    }

    /// Whether everything was read.
    pub(super) fn is_empty(&self) -> bool {
        self.items.as_slice().is_empty()
    }

    /// The error for a tag no one knows.
    pub(super) fn unknown(&self, tag: &str) -> StateError {
        StateError::Reply(format!("{} answered '{tag}'", self.script))
    }

    fn unexpected(&self, wanted: &str) -> StateError {
        StateError::Reply(format!("{} should have answered {wanted}", self.script))
    }
}

/// Whole milliseconds, rounded up: what is waited or locked is never a hair too short.
pub(super) fn ms(length: Duration) -> i64 {
    i64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX).min((1 << 53) - 1)
}
