//! A stream from Gemini to a Gemini caller: the bytes of each chunk are kept, the model has the caller's name.

use shared::failure::Transport;

use super::super::answer::Ended;
use super::super::error::broken;
use super::super::glance::Glance;
use super::super::response::said_nothing;
use super::frame::{Frame, Framing};
use crate::dialect::openai::json::quoted;
use crate::dialect::translate::{Fed, StreamTranslation};
use crate::error::UpstreamError;

/// Follows one stream. Until content came, an end without any is a failure; after it, the upstream's own reason is passed on.
#[derive(Debug)]
pub struct Same {
    frame: Frame,
    /// The model as the caller wrote it, as JSON.
    caller_model: String,
    /// Bit n: candidate n was seen, or ended. Candidates beyond 127 share the last bit.
    seen: u128,
    ended: u128,
    blocked: bool,
    said: bool,
}

impl Same {
    /// A stream of which nothing was read yet.
    pub fn new(framing: Framing, caller_model: &str) -> Self {
        let caller_model = quoted(caller_model);
        Self { frame: Frame::new(framing), caller_model, seen: 0, ended: 0, blocked: false, said: false }
    }
}

impl StreamTranslation for Same {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>> {
        let data = data.trim_ascii();
        // Some servers that imitate Gemini end with OpenAI's marker; Gemini's callers cannot read it.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(Fed::default());
        }
        if name == Some(b"error") {
            return Err(Box::new(super::super::error::read(None, data)));
        }
        let glance = Glance::at(data)?;
        if let Some(fault) = glance.fault(self.said) {
            return Err(fault);
        }
        for (index, ended) in glance.ends() {
            let bit = 1 << index.min(127);
            self.seen |= bit;
            self.ended |= if ended.is_some() { bit } else { 0 };
        }
        self.blocked |= glance.is_blocked();
        self.said |= glance.has_content();
        let mut out = Vec::new();
        match glance.model_at(data) {
            Some(at) => {
                let renamed = [&data[..at.start], self.caller_model.as_bytes(), &data[at.end..]].concat();
                self.frame.chunk(&renamed, &mut out);
            }
            None => self.frame.chunk(data, &mut out),
        }
        let (content, chars, usage) = (glance.has_content(), glance.chars(), glance.usage());
        Ok(Fed { out: out.into(), content, chars, usage, made: glance.continuation(), ..Fed::default() })
    }

    fn end(&mut self) -> Result<Fed, Box<UpstreamError>> {
        if !self.is_whole() {
            return Err(truncated(self.said));
        }
        let mut out = Vec::new();
        self.frame.end(&mut out);
        Ok(Fed { out: out.into(), done: true, ..Fed::default() })
    }

    fn is_whole(&self) -> bool {
        self.blocked || self.ended != 0 && self.ended == self.seen
    }
}

/// The failure of a stream that ends before its answer does.
pub(super) fn truncated(said: bool) -> Box<UpstreamError> {
    if said {
        Box::new(broken(Transport::Truncated, "the answer ended before it was complete"))
    } else {
        said_nothing()
    }
}

/// True for an end that is a failure when nothing was said.
pub(super) fn needs_content(ended: Ended) -> bool {
    matches!(ended, Ended::Done | Ended::Broken)
}
