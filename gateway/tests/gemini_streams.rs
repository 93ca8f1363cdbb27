//! Gemini's streams come out the same however the upstream cuts and ends its lines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use bytes::Bytes;
use gateway::dialect::code_assist;
use gateway::dialect::gemini::stream::{Framing, Reader, Same, Writer};
use gateway::dialect::translate::{ReadEvents, StreamTranslation, WriteEvents};
use gateway::upstream::sse::Scanner;

const CHUNKS: [&str; 4] = [
    r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"},"index":0}],"responseId":"r"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"Grüße 😀 \ud83d\ude00"}],"role":"model"},"index":0}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"é"}}}],"role":"model"},"index":0}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11}}"#,
];

/// The stream with these line ends, a byte order mark, comments and blank lines in it.
fn upstream(line_end: &str, wrap: fn(&str) -> String) -> Vec<u8> {
    let mut text = String::from("\u{feff}: hello\n\n");
    text.extend(CHUNKS.map(|chunk| format!("data: {}\n\n: comment\n\n\n", wrap(chunk))));
    text.replace('\n', line_end).into_bytes()
}

/// All that comes of a stream that is cut at these places.
fn fed(pieces: &[&[u8]], mut event: impl FnMut(Option<&[u8]>, &[u8])) {
    let mut scanner = Scanner::new();
    for piece in pieces {
        scanner.push(Bytes::copy_from_slice(piece));
        while let Some(found) = scanner.next().unwrap() {
            event(found.name.as_deref(), &found.data);
        }
    }
}

fn passed(mut same: impl StreamTranslation, pieces: &[&[u8]]) -> String {
    let mut out = Vec::new();
    fed(pieces, |name, data| out.extend_from_slice(&same.event(name, data).unwrap().out));
    out.extend_from_slice(&same.end().unwrap().out);
    String::from_utf8(out).unwrap()
}

fn crossed(mut reader: impl ReadEvents, pieces: &[&[u8]]) -> String {
    let mut writer = Writer::new("mine", "req", Framing::Array);
    let mut out = Vec::new();
    fed(pieces, |name, data| {
        for event in reader.event(name, data).unwrap() {
            writer.write(&event, &mut out);
        }
    });
    for event in reader.end().unwrap() {
        writer.write(&event, &mut out);
    }
    writer.finish(&mut out);
    String::from_utf8(out).unwrap()
}

fn bare(chunk: &str) -> String {
    chunk.to_owned()
}

fn wrapped(chunk: &str) -> String {
    format!(r#"{{"response":{chunk},"traceId":"t"}}"#)
}

#[test]
fn the_output_is_the_same_wherever_the_bytes_are_cut_and_however_lines_end() {
    let kept = format!("data: {}\n\n", CHUNKS.join("\n\ndata: "));
    let translated = crossed(Reader::default(), &[&upstream("\n", bare)]);
    for line_end in ["\n", "\r\n", "\r"] {
        let plain = upstream(line_end, bare);
        let enveloped = upstream(line_end, wrapped);
        for at in 0..=enveloped.len() {
            let (before, after) = enveloped.split_at(at);
            assert_eq!(passed(code_assist::stream::Same::new(Framing::Sse, "served"), &[before, after]), kept, "{at}");
            let Some((before, after)) = plain.split_at_checked(at) else { continue };
            assert_eq!(passed(Same::new(Framing::Sse, "served"), &[before, after]), kept, "{at}");
            assert_eq!(crossed(Reader::default(), &[before, after]), translated, "{at}");
        }
        let single: Vec<&[u8]> = plain.chunks(1).collect();
        assert_eq!(passed(Same::new(Framing::Sse, "served"), &single), kept);
        assert_eq!(crossed(Reader::default(), &single), translated);
        let list: Vec<serde_json::Value> =
            serde_json::from_str(&passed(Same::new(Framing::Array, "served"), &single)).unwrap();
        assert_eq!(list.len(), CHUNKS.len());
    }
}

#[test]
fn code_assists_calls_get_the_same_ids_as_geminis() {
    let plain = crossed(Reader::default(), &[&upstream("\n", bare)]);
    let enveloped = crossed(code_assist::stream::Reader::default(), &[&upstream("\n", wrapped)]);
    assert_eq!(plain, enveloped);
}
