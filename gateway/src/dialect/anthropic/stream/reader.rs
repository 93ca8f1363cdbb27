//! Reads the events of a stream into the common tongue.

use super::event::{Block, Delta, parse, truncated};
use crate::canonical::response::{Event, Finish};
use crate::canonical::usage::AnthropicUsage;
use crate::dialect::anthropic::error::broken;
use crate::dialect::anthropic::finish;
use crate::dialect::anthropic::names::Names;
use crate::dialect::translate::ReadEvents;
use crate::error::UpstreamError;
use shared::failure::Transport;

/// Follows one stream of one attempt.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    names: Names,
    usage: AnthropicUsage,
    calls: usize,
    /// The call whose block is open.
    open: Option<Call>,
    finished: bool,
    stopped: bool,
}

/// An open block of a call.
#[derive(Debug, Clone)]
struct Call {
    /// The block's number in the message.
    block: Option<u64>,
    /// The number of the call.
    index: usize,
    /// What to say at its end if no fragment of arguments came: those given at its beginning.
    unsaid: Option<String>,
}

impl Reader {
    /// A stream of which nothing was read yet, in answer to a request whose functions had these names.
    pub fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    fn start_block(&mut self, number: Option<u64>, block: &Block<'_>) -> Result<Vec<Event>, Box<UpstreamError>> {
        let mut events = self.close();
        match block.kind.as_str() {
            "text" => events.extend(some(&block.text, Event::Text)),
            "thinking" => events.extend(some(&block.thinking, Event::Thinking)),
            "redacted_thinking" => events.extend(some(&block.data, Event::RedactedThinking)),
            "tool_use" => {
                let (id, name) = (block.id.as_str(), block.name.as_str());
                if id.is_empty() || name.is_empty() {
                    return Err(Box::new(broken(Transport::NotTheFormat, "a call without a name or an id")));
                }
                let index = self.calls;
                self.calls += 1;
                // Upstreams of other make give the arguments here, whole.
                let given = block.input.map(|input| input.get().trim()).filter(|input| !input.is_empty());
                let unsaid = given.filter(|input| *input != "null").unwrap_or("{}").to_owned();
                self.open = Some(Call { block: number, index, unsaid: Some(unsaid) });
                let name = self.names.original(name).to_owned();
                events.push(Event::CallStart { index, id: id.to_owned(), name, signature: None });
            }
            // Tools that run at Anthropic are never asked for by a translated request.
            _ => {}
        }
        Ok(events)
    }

    fn more(&mut self, number: Option<u64>, delta: &Delta<'_>) -> Vec<Event> {
        match delta.kind.as_str() {
            "text_delta" => some(&delta.text, Event::Text).collect(),
            "thinking_delta" => some(&delta.thinking, Event::Thinking).collect(),
            "signature_delta" => some(&delta.signature, Event::ThinkingSignature).collect(),
            "input_json_delta" => match &mut self.open {
                Some(call) if call.block == number && !delta.partial_json.as_str().is_empty() => {
                    call.unsaid = None;
                    let index = call.index;
                    some(&delta.partial_json, |fragment| Event::CallArguments { index, fragment }).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Ends the open call.
    fn close(&mut self) -> Vec<Event> {
        let unsaid = self.open.take().and_then(|call| Some((call.index, call.unsaid?)));
        unsaid.map(|(index, fragment)| Event::CallArguments { index, fragment }).into_iter().collect()
    }

    fn finish(&mut self, finish: Finish) -> Vec<Event> {
        let mut events = self.close();
        if !self.finished {
            self.finished = true;
            events.push(Event::Finish(finish));
        }
        events
    }
}

/// An event of a text that is not empty.
fn some<E: FnOnce(String) -> Event>(
    text: &crate::dialect::anthropic::json::Text<'_>,
    event: E,
) -> impl Iterator<Item = Event> + use<E> {
    let text = text.as_str();
    (!text.is_empty()).then(|| event(text.to_owned())).into_iter()
}

impl ReadEvents for Reader {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Vec<Event>, Box<UpstreamError>> {
        if self.stopped {
            return Ok(Vec::new());
        }
        let Some(event) = parse(name, data)? else { return Ok(Vec::new()) };
        Ok(match event.kind() {
            "message_start" => {
                let message = event.message.as_ref();
                if let Some(usage) = message.and_then(|message| message.usage) {
                    self.usage.report(usage.get());
                }
                let id = message.map(|message| message.id.as_str()).filter(|id| !id.is_empty());
                vec![Event::Start(id.map(str::to_owned))]
            }
            "content_block_start" => match &event.content_block {
                Some(block) => self.start_block(event.index, block)?,
                None => Vec::new(),
            },
            "content_block_delta" => match &event.delta {
                Some(delta) => self.more(event.index, delta),
                None => Vec::new(),
            },
            "content_block_stop" => self.close(),
            "message_delta" => {
                let mut events = Vec::new();
                // The beginning of a message knows its input only: a usage is whole when this event brings its own figures.
                if let Some(usage) = event.usage {
                    self.usage.report(usage.get());
                    events.extend(self.usage.tokens().map(Event::Usage));
                }
                if let Some(delta) = event.delta.as_ref().filter(|delta| !delta.stop_reason.as_str().is_empty()) {
                    let finish = finish::read(delta.stop_reason.as_str(), delta.stop_sequence.0.as_deref());
                    events.extend(self.finish(finish));
                }
                events
            }
            "message_stop" => {
                self.stopped = true;
                self.finish(Finish::Stop)
            }
            _ => Vec::new(),
        })
    }

    fn end(&mut self) -> Result<Vec<Event>, Box<UpstreamError>> {
        if self.is_whole() { Ok(Vec::new()) } else { Err(truncated()) }
    }

    fn is_whole(&self) -> bool {
        self.finished
    }

    fn is_over(&self) -> bool {
        self.stopped
    }
}
