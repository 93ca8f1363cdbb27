//! Cuts a byte stream into server-sent events. Bytes in, bytes out; nothing is decoded.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

/// The largest line, and the most data of one event, in bytes, unless set otherwise.
pub const MAX_EVENT: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The text of its last `event:` line, if that was not empty.
    pub name: Option<Bytes>,
    /// Its `data:` lines, joined by line feeds. A view into the received chunk where it is one line within one chunk.
    pub data: Bytes,
}

/// A stream that cannot be cut into events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line, or the data of one event, is longer than allowed. The stream cannot be read further.
    #[error("an event of the stream is longer than {limit} bytes")]
    LineTooLong {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// The data lines of the event being read.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Many(BytesMut),
}

/// Cuts chunks into events. Holds at most one unfinished line and one unfinished event besides the chunks given to it.
///
/// Follows the event stream format of the HTML standard: lines end with LF, CR LF or CR, a byte order mark at the start is skipped,
/// comments and unknown fields are ignored, an event without a data line is no event, an event that the stream ends in is
/// dropped. `id` and `retry` mean nothing here.
#[derive(Debug)]
pub struct Scanner {
    limit: usize,
    waiting: VecDeque<Bytes>,
    chunk: Bytes,
    /// Where the next line begins in `chunk`.
    at: usize,
    /// The beginning of a line whose end has not come yet.
    partial: BytesMut,
    name: Option<Bytes>,
    data: Data,
    /// The last line ended with CR: a line feed right after it belongs to it.
    after_cr: bool,
    /// No line was read yet: a byte order mark may come.
    at_start: bool,
    failed: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner with the usual limit of [`MAX_EVENT`].
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT)
    }

    /// A scanner that refuses lines and events longer than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            waiting: VecDeque::new(),
            chunk: Bytes::new(),
            at: 0,
            partial: BytesMut::new(),
            name: None,
            data: Data::None,
            after_cr: false,
            at_start: true,
            failed: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if self.at == self.chunk.len() && self.waiting.is_empty() {
            self.chunk = chunk;
            self.at = 0;
        } else if !chunk.is_empty() {
            self.waiting.push_back(chunk);
        }
    }

    /// The next whole event, or `None` when more bytes are needed. An error stays.
    #[expect(clippy::should_implement_trait, reason = "it can fail and can go on after `None`")]
    pub fn next(&mut self) -> Result<Option<Event>, SseError> {
        if self.failed {
            return Err(SseError::LineTooLong { limit: self.limit });
        }
        let event = self.scan();
        if event.is_err() {
            self.failed = true;
            (self.partial, self.data, self.chunk) = (BytesMut::new(), Data::None, Bytes::new());
            self.waiting.clear();
        }
        event
    }

    /// True when bytes were received that belong to no event yet given: asked at the end of the stream, that it broke off inside an
    /// event. A comment or an empty line that was cut off does not count.
    pub fn has_partial(&self) -> bool {
        !matches!(self.data, Data::None)
            || self.name.is_some()
            || self.partial.first().is_some_and(|first| *first != b':')
    }

    fn scan(&mut self) -> Result<Option<Event>, SseError> {
        loop {
            if self.after_cr && self.at < self.chunk.len() {
                self.after_cr = false;
                self.at += usize::from(self.chunk[self.at] == b'\n');
            }
            let Some(length) = memchr2(b'\n', b'\r', &self.chunk[self.at..]) else {
                if !self.keep_rest()? {
                    return Ok(None);
                }
                continue;
            };
            let end = self.at + length;
            if self.partial.len() + length > self.limit {
                return Err(SseError::LineTooLong { limit: self.limit });
            }
            self.after_cr = self.chunk[end] == b'\r';
            let event = if self.partial.is_empty() {
                // Taken out for the call: a clone would count references at every line.
                let chunk = std::mem::take(&mut self.chunk);
                let event = self.line(&chunk, self.at, end);
                self.chunk = chunk;
                event?
            } else {
                self.partial.extend_from_slice(&self.chunk[self.at..end]);
                let line = self.partial.split().freeze();
                self.line(&line, 0, line.len())?
            };
            self.at = end + 1;
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Keeps what is left of the chunk as the beginning of a line and goes to the next chunk. False when there is none.
    fn keep_rest(&mut self) -> Result<bool, SseError> {
        let rest = &self.chunk[self.at..];
        if self.partial.len() + rest.len() > self.limit {
            return Err(SseError::LineTooLong { limit: self.limit });
        }
        self.partial.extend_from_slice(rest);
        self.at = 0;
        let next = self.waiting.pop_front();
        let more = next.is_some();
        self.chunk = next.unwrap_or_default();
        Ok(more)
    }

    /// Takes the line `holder[start..end]`; an empty one ends the event.
    fn line(&mut self, holder: &Bytes, start: usize, end: usize) -> Result<Option<Event>, SseError> {
        let mut start = start;
        if self.at_start {
            self.at_start = false;
            start += if holder[start..end].starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        }
        let line = &holder[start..end];
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        if let Some(value) = value_of(line, b"data") {
            self.add_data(holder.slice(start + value..end))?;
        } else if let Some(value) = value_of(line, b"event") {
            self.name = Some(holder.slice(start + value..end)).filter(|name| !name.is_empty());
        }
        Ok(None)
    }

    fn add_data(&mut self, value: Bytes) -> Result<(), SseError> {
        self.data = match std::mem::take(&mut self.data) {
            Data::None => Data::One(value),
            Data::One(first) => {
                let mut all = BytesMut::with_capacity(first.len() + value.len() + 1);
                all.extend_from_slice(&first);
                Data::Many(joined(all, &value))
            }
            Data::Many(all) => Data::Many(joined(all, &value)),
        };
        match &self.data {
            Data::Many(all) if all.len() > self.limit => Err(SseError::LineTooLong { limit: self.limit }),
            _ => Ok(()),
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = self.name.take();
        match std::mem::take(&mut self.data) {
            Data::None => None,
            Data::One(data) => Some(Event { name, data }),
            Data::Many(all) => Some(Event { name, data: all.freeze() }),
        }
    }
}

fn joined(mut all: BytesMut, value: &Bytes) -> BytesMut {
    all.extend_from_slice(b"\n");
    all.extend_from_slice(value);
    all
}

/// Where the value of a line begins, if the line is of this field: after the colon and one space.
fn value_of(line: &[u8], field: &[u8]) -> Option<usize> {
    let rest = line.strip_prefix(field)?;
    match rest {
        [] => Some(line.len()),
        [b':', b' ', ..] => Some(field.len() + 2),
        [b':', ..] => Some(field.len() + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
