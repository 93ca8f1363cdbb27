//! A stream from Gemini into the common tongue.

use super::super::answer::{Answer, Ended};
use super::super::error::read as read_error;
use super::super::names::Names;
use super::super::response::{broke_off, is_block, not_the_format, said_nothing};
use super::same::{needs_content, truncated};
use crate::canonical::request::Part;
use crate::canonical::response::Event;
use crate::canonical::usage;
use crate::dialect::translate::ReadEvents;
use crate::error::UpstreamError;

/// Reads one stream. The end is told when the response ends: Gemini's last chunk is only known by that.
#[derive(Debug, Default)]
pub struct Reader {
    names: Names,
    started: bool,
    calls: usize,
    said: bool,
    ended: Option<Ended>,
}

impl Reader {
    /// A stream of which nothing was read yet, for a request whose functions had these names.
    pub fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// What one part says.
    fn part(&mut self, part: Part, events: &mut Vec<Event>) -> Result<(), Box<UpstreamError>> {
        self.said = true;
        match part {
            Part::Text(text) => events.push(Event::Text(text)),
            Part::Thinking(thinking) => events.push(Event::Thinking(thinking.text)),
            Part::ToolCall(call) => {
                let index = self.calls;
                self.calls += 1;
                let fragment = serde_json::Value::Object(call.arguments).to_string();
                let mut start = Event::CallStart { index, id: call.id, name: call.name, signature: call.signature };
                self.names.restore_event(&mut start);
                events.extend([start, Event::CallArguments { index, fragment }]);
            }
            Part::Image(_) | Part::File(_) => {
                return Err(not_the_format("the stream holds media, which the caller's dialect cannot take"));
            }
            Part::ToolResult(_) | Part::Refusal(_) => {}
        }
        Ok(())
    }
}

impl ReadEvents for Reader {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Vec<Event>, Box<UpstreamError>> {
        let data = data.trim_ascii();
        if data.is_empty() || data == b"[DONE]" {
            return Ok(Vec::new());
        }
        // A list is how some of Google's front ends wrap an error.
        if name == Some(b"error") || data.starts_with(b"[") {
            return Err(Box::new(read_error(None, data)));
        }
        let Ok(answer) = serde_json::from_slice::<Answer>(data) else {
            return Err(not_the_format("the stream holds an event that is no Gemini answer"));
        };
        if answer.error.is_some() {
            return Err(Box::new(read_error(None, data)));
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.started, true) {
            events.push(Event::Start(answer.response_id.filter(|id| !id.is_empty())));
        }
        let blocked = answer.prompt_feedback.and_then(|feedback| feedback.block_reason);
        if blocked.is_some_and(|reason| is_block(&reason)) {
            self.ended = Some(Ended::Filtered);
        }
        // Several candidates are not asked for in a stream.
        for candidate in answer.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.unwrap_or_default().parts {
                // The chunk is the seed: it holds the response's id and its usage.
                if let Some(part) = part.into_part(data, self.calls) {
                    self.part(part, &mut events)?;
                }
            }
            let ended = candidate.finish_reason.as_deref().and_then(Ended::of);
            match ended {
                Some(Ended::Broken) => return Err(broke_off()),
                Some(ended) if needs_content(ended) && !self.said => return Err(said_nothing()),
                _ => self.ended = ended.or(self.ended),
            }
        }
        events.extend(answer.usage_metadata.as_ref().and_then(usage::gemini).map(Event::Usage));
        Ok(events)
    }

    fn end(&mut self) -> Result<Vec<Event>, Box<UpstreamError>> {
        match self.ended {
            Some(ended) => Ok(vec![Event::Finish(ended.finish(self.calls))]),
            None => Err(truncated(self.said)),
        }
    }

    fn is_whole(&self) -> bool {
        self.ended.is_some()
    }
}
