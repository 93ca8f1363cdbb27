//! The two ways a Gemini stream is framed.

/// How a caller gets its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Server-sent events that only have `data`, for `alt=sse`.
    Sse,
    /// One JSON array.
    Array,
}

/// Frames the chunks of one stream.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    framing: Framing,
    begun: bool,
}

impl Frame {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, begun: false }
    }

    /// Adds one chunk. The official Python SDK reads line by line, so a chunk must be one line: line ends between its tokens become
    /// blanks (within its texts there are none: JSON escapes them).
    pub(super) fn chunk(&mut self, json: &[u8], out: &mut Vec<u8>) {
        out.reserve(json.len() + 8);
        match self.framing {
            Framing::Sse => out.extend_from_slice(b"data: "),
            Framing::Array if self.begun => out.extend_from_slice(b",\n"),
            Framing::Array => out.push(b'['),
        }
        self.begun = true;
        if memchr::memchr2(b'\n', b'\r', json).is_none() {
            out.extend_from_slice(json);
        } else {
            out.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        }
        if self.framing == Framing::Sse {
            out.extend_from_slice(b"\n\n");
        }
    }

    /// Ends the stream. Events just end.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        if self.framing == Framing::Array {
            out.extend_from_slice(if self.begun { b"\n]" } else { b"[]" });
        }
    }
}
