//! Streams of Code Assist: each event is an envelope around a Gemini chunk.

use super::response::unwrapped;
use crate::canonical::response::Event;
use crate::dialect::gemini::names::Names;
use crate::dialect::gemini::stream::{self as gemini, Framing};
use crate::dialect::translate::{Fed, ReadEvents, StreamTranslation};
use crate::error::UpstreamError;

/// Reads one stream into the common tongue.
#[derive(Debug, Default)]
pub struct Reader(gemini::Reader);

impl Reader {
    /// A stream of which nothing was read yet, for a request whose functions had these names.
    pub fn new(names: Names) -> Self {
        Self(gemini::Reader::new(names))
    }
}

impl ReadEvents for Reader {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Vec<Event>, Box<UpstreamError>> {
        self.0.event(name, unwrapped(data)?)
    }

    fn end(&mut self) -> Result<Vec<Event>, Box<UpstreamError>> {
        self.0.end()
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole()
    }
}

/// Follows one stream to a Gemini caller: the bytes within each envelope are kept.
#[derive(Debug)]
pub struct Same(gemini::Same);

impl Same {
    /// A stream of which nothing was read yet.
    pub fn new(framing: Framing, caller_model: &str) -> Self {
        Self(gemini::Same::new(framing, caller_model))
    }
}

impl StreamTranslation for Same {
    fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<Fed, Box<UpstreamError>> {
        self.0.event(name, unwrapped(data)?)
    }

    fn end(&mut self) -> Result<Fed, Box<UpstreamError>> {
        self.0.end()
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HI: &str = r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"responseId":"r"}"#;
    const END: &str = r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}"#;

    fn wrapped(chunk: &str) -> String {
        format!(r#"{{"response":{chunk},"traceId":"t"}}"#)
    }

    #[test]
    fn a_gemini_caller_gets_what_lies_in_the_envelopes() {
        let mut same = Same::new(Framing::Sse, "served");
        let fed = same.event(None, wrapped(HI).as_bytes()).unwrap();
        assert_eq!((fed.out.as_ref(), fed.content, fed.chars), (format!("data: {HI}\n\n").as_bytes(), true, 2));
        assert!(!same.is_whole() && same.end().is_err());
        same.event(None, wrapped(END).as_bytes()).unwrap();
        assert!(same.is_whole() && same.end().unwrap().done);
    }

    #[test]
    fn other_callers_get_it_through_the_common_tongue() {
        let mut reader = Reader::default();
        let events = reader.event(None, wrapped(HI).as_bytes()).unwrap();
        assert_eq!(events, [Event::Start(Some("r".into())), Event::Text("hi".into())]);
        let error = reader.event(None, br#"{"error":{"code":503,"message":"No capacity available for model g"}}"#);
        assert_eq!(error.unwrap_err().signals.status, Some(503));
    }
}
