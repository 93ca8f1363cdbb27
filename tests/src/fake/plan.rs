//! Turns an answer and a rule into the steps of a body. Pure: no I/O, no clock.

use std::collections::VecDeque;
use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::dialect::{Api, Event, Framing};
use super::rule::{Eol, Rule};

/// One step of a body. A body without an ending of its own ends cleanly after its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait.
    Wait(Duration),
    /// Hand these bytes to the network.
    Send(Bytes),
    /// What follows is broken off by the rule.
    End(Ending),
}

/// How a rule breaks a body off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The HTTP body ends as if it were whole.
    Clean,
    /// FIN inside the body.
    Drop,
    /// RST inside the body.
    Reset,
    /// Nothing more, until the client goes.
    Stall,
}

/// The break a rule asks for: after how many content chunks, and how.
struct Break {
    after: usize,
    ending: Ending,
    event: Option<Event>,
}

/// The steps of a streamed body.
pub(crate) fn stream(rule: &Rule, api: Api, framing: Framing, events: &[Event]) -> VecDeque<Step> {
    let mut writer = Writer::new(rule, framing);
    let broken = asked_break(rule, api);
    let content = events.iter().filter(|event| event.content).count();
    let stop_at = broken.as_ref().map(|broken| broken.after.min(content));
    let mut seen = 0;
    for event in events {
        if event.content {
            if stop_at == Some(seen) {
                break;
            }
            writer.wait(if seen == 0 { rule.delay_first_ms } else { rule.delay_between_ms });
            seen += 1;
        } else if stop_at == Some(seen) && seen > 0 {
            break;
        }
        writer.event(event);
    }
    match broken {
        Some(broken) => {
            if let Some(event) = &broken.event {
                writer.wait(if seen == 0 { rule.delay_first_ms } else { rule.delay_between_ms });
                writer.event(event);
            }
            writer.steps.push(Step::End(broken.ending));
        }
        None => writer.close(),
    }
    finish(rule, writer.steps)
}

/// The steps of a unary body. A break after 0 chunks comes before the body, any other after half of it.
pub(crate) fn unary(rule: &Rule, api: Api, body: &str) -> VecDeque<Step> {
    let mut steps = vec![Step::Wait(Duration::from_millis(rule.delay_first_ms))];
    let broken = asked_break(rule, api).filter(|broken| broken.event.is_none());
    let length = match &broken {
        None => body.len(),
        Some(Break { after: 0, .. }) => 0,
        Some(_) => body.len() / 2,
    };
    steps.push(Step::Send(Bytes::copy_from_slice(&body.as_bytes()[..length])));
    steps.extend(broken.map(|broken| Step::End(broken.ending)));
    finish(rule, steps)
}

/// The length of a unary body on the wire if it were sent whole: what `content-length` promises.
pub(crate) fn whole_length(rule: &Rule, body: &str) -> usize {
    let whole = Rule { gzip: rule.gzip, ..Rule::default() };
    let bytes = Step::Send(Bytes::copy_from_slice(body.as_bytes()));
    finish(&whole, vec![bytes]).iter().map(|step| if let Step::Send(bytes) = step { bytes.len() } else { 0 }).sum()
}

fn asked_break(rule: &Rule, api: Api) -> Option<Break> {
    let plain = |after: Option<usize>, ending| after.map(|after| Break { after, ending, event: None });
    let with_event =
        |after| Break { after, ending: Ending::Clean, event: Some(api.error_event(rule.error_event.as_ref())) };
    plain(rule.cut_after_chunks, Ending::Clean)
        .or(plain(rule.drop_after_chunks, Ending::Drop))
        .or(plain(rule.reset_after_chunks, Ending::Reset))
        .or(plain(rule.stall_after_chunks, Ending::Stall))
        .or(rule.error_event_after_chunks.map(with_event))
}

/// Puts events into bytes.
struct Writer<'a> {
    rule: &'a Rule,
    framing: Framing,
    begun: bool,
    steps: Vec<Step>,
}

impl<'a> Writer<'a> {
    fn new(rule: &'a Rule, framing: Framing) -> Self {
        let mut writer = Self { rule, framing, begun: false, steps: Vec::new() };
        if rule.bom {
            writer.send("\u{feff}".into());
        }
        writer
    }

    fn wait(&mut self, wait_ms: u64) {
        if wait_ms > 0 {
            self.steps.push(Step::Wait(Duration::from_millis(wait_ms)));
        }
    }

    fn send(&mut self, text: String) {
        self.steps.push(Step::Send(text.into()));
    }

    fn event(&mut self, event: &Event) {
        let text = match self.framing {
            Framing::Sse => self.sse(event),
            Framing::JsonArray if self.begun => format!(",\r\n{}", event.data),
            Framing::JsonArray => format!("[{}", event.data),
        };
        self.begun = true;
        self.send(text);
    }

    fn sse(&self, event: &Event) -> String {
        let eol = match self.rule.eol {
            Eol::Lf => "\n",
            Eol::Crlf => "\r\n",
            Eol::Cr => "\r",
        };
        let mut text = String::with_capacity(event.data.len() + 32);
        if let Some(comment) = &self.rule.comment {
            text.extend([": ", comment, eol, eol]);
        }
        if let Some(name) = event.name {
            text.extend(["event: ", name, eol]);
        }
        for line in event.data.split('\n') {
            text.extend(["data: ", line, eol]);
        }
        text.push_str(eol);
        text
    }

    fn close(&mut self) {
        if self.framing == Framing::JsonArray {
            let end = if self.begun { "]" } else { "[]" };
            self.send(end.into());
        }
    }
}

/// Compresses, cuts and splits the bytes, in this order: what a network would do to what a server wrote.
fn finish(rule: &Rule, mut steps: Vec<Step>) -> VecDeque<Step> {
    if rule.gzip {
        steps = gzip(steps);
    }
    if let Some(limit) = rule.cut_after_bytes {
        steps = cut(steps, limit);
    }
    if let Some(size) = rule.split_at {
        steps = steps.into_iter().flat_map(|step| split(step, size.max(1))).collect();
    }
    steps.retain(|step| !matches!(step, Step::Send(bytes) if bytes.is_empty()) && *step != Step::Wait(Duration::ZERO));
    steps.into()
}

/// Each `Send` becomes what the compressor has for it after a flush; a body that ends cleanly gets the trailer.
fn gzip(steps: Vec<Step>) -> Vec<Step> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut out = Vec::new();
    let mut broken = false;
    for step in steps {
        out.push(match step {
            // Writing to a Vec cannot fail.
            Step::Send(bytes) => {
                let _ = encoder.write_all(&bytes).and_then(|()| encoder.flush());
                Step::Send(std::mem::take(encoder.get_mut()).into())
            }
            Step::End(ending) => {
                broken = true;
                Step::End(ending)
            }
            wait @ Step::Wait(_) => wait,
        });
    }
    if !broken {
        out.push(Step::Send(encoder.finish().unwrap_or_default().into()));
    }
    out
}

fn cut(steps: Vec<Step>, limit: usize) -> Vec<Step> {
    let mut left = limit;
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Send(bytes) if bytes.len() > left => {
                out.push(Step::Send(bytes.slice(..left)));
                out.push(Step::End(Ending::Drop));
                return out;
            }
            Step::Send(bytes) => {
                left -= bytes.len();
                out.push(Step::Send(bytes));
            }
            other => out.push(other),
        }
    }
    out
}

fn split(step: Step, size: usize) -> Vec<Step> {
    match step {
        Step::Send(bytes) => {
            let starts = (0..bytes.len()).step_by(size);
            starts.map(|start| Step::Send(bytes.slice(start..bytes.len().min(start + size)))).collect()
        }
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn events() -> Vec<Event> {
        let event = |data: &str, content| Event { name: None, data: data.into(), content };
        vec![event("open", false), event("a", true), event("b", true), event("c", true), event("[DONE]", false)]
    }

    fn sent(steps: &VecDeque<Step>) -> String {
        String::from_utf8(bytes(steps)).unwrap()
    }

    fn bytes(steps: &VecDeque<Step>) -> Vec<u8> {
        steps.iter().flat_map(|step| if let Step::Send(bytes) = step { bytes.to_vec() } else { Vec::new() }).collect()
    }

    fn play(rule: &Rule) -> VecDeque<Step> {
        stream(rule, Api::Chat, Framing::Sse, &events())
    }

    #[test]
    fn a_break_after_n_chunks_comes_right_after_the_nth_content_chunk() {
        for (after, expected) in [(0, "open"), (1, "a"), (3, "c"), (99, "c")] {
            let steps = play(&Rule { cut_after_chunks: Some(after), ..Rule::any() });
            assert!(sent(&steps).ends_with(&format!("data: {expected}\n\n")), "{after}: {steps:?}");
            assert_eq!(steps.back(), Some(&Step::End(Ending::Clean)));
        }
    }

    #[test]
    fn an_error_event_takes_the_place_of_the_rest() {
        let rule = Rule { error_event_after_chunks: Some(1), error_event: Some("oops".into()), ..Rule::any() };
        assert!(sent(&play(&rule)).ends_with("data: a\n\ndata: oops\n\n"));
    }

    #[test]
    fn delays_stand_before_the_first_and_between_content_chunks() {
        let rule = Rule { delay_first_ms: 7, delay_between_ms: 3, ..Rule::any() };
        let waits: Vec<u128> = play(&rule)
            .iter()
            .filter_map(|step| if let Step::Wait(wait) = step { Some(wait.as_millis()) } else { None })
            .collect();
        assert_eq!(waits, [7, 3, 3]);
    }

    #[test]
    fn the_bytes_are_the_same_however_they_are_split() {
        let whole = play(&Rule::any());
        let split = play(&Rule { split_at: Some(1), ..Rule::any() });
        assert_eq!(sent(&whole), sent(&split));
        assert_eq!(split.len(), sent(&whole).len());
    }

    #[test]
    fn a_compressed_stream_unpacks_to_the_plain_one_and_each_event_is_flushed() {
        let plain = play(&Rule::any());
        let packed = play(&Rule { gzip: true, ..Rule::any() });
        assert!(packed.len() > plain.len(), "one piece per event and the trailer");
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes(&packed).as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, sent(&plain));
    }

    #[test]
    fn a_cut_counts_bytes_on_the_wire() {
        let steps = play(&Rule { cut_after_bytes: Some(10), ..Rule::any() });
        assert_eq!(bytes(&steps).len(), 10);
        assert_eq!(steps.back(), Some(&Step::End(Ending::Drop)));
    }

    #[test]
    fn line_endings_comments_and_mark_are_written_as_asked() {
        let rule = Rule { eol: Eol::Crlf, comment: Some("hi".into()), bom: true, ..Rule::any() };
        assert!(sent(&play(&rule)).starts_with("\u{feff}: hi\r\n\r\ndata: open\r\n\r\n"));
        let rule = Rule { eol: Eol::Cr, ..Rule::any() };
        assert!(sent(&play(&rule)).starts_with("data: open\r\rdata: a\r\r"));
    }

    #[test]
    fn a_json_array_is_whole_or_visibly_cut() {
        let array = |rule: &Rule| sent(&stream(rule, Api::Chat, Framing::JsonArray, &events()));
        assert_eq!(array(&Rule::any()), "[open,\r\na,\r\nb,\r\nc,\r\n[DONE]]");
        assert_eq!(array(&Rule { cut_after_chunks: Some(1), ..Rule::any() }), "[open,\r\na");
    }
}
