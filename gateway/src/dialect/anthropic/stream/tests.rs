mod crossing;
mod passing;

use bytes::Bytes;

use crate::dialect::translate::{ReadEvents, WriteEvents};
use crate::error::UpstreamError;
use crate::upstream::sse::Scanner;

/// A stream of every kind of block, as an upstream sends it.
const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-up","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me \"think\"…"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1+/=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüße \ud83d\ude00"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" 北"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"San"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" Francisco\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89,"output_tokens_details":{"thinking_tokens":9}}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// Cuts a stream into events and gives each to a function.
fn each(
    pieces: &[&[u8]],
    mut event: impl FnMut(Option<&[u8]>, &[u8]) -> Result<(), Box<UpstreamError>>,
) -> Result<(), Box<UpstreamError>> {
    let mut scanner = Scanner::new();
    for piece in pieces {
        scanner.push(Bytes::copy_from_slice(piece));
        while let Some(found) = scanner.next().unwrap() {
            event(found.name.as_deref(), &found.data)?;
        }
    }
    Ok(())
}

/// What a client gets for the events of an upstream.
fn written(events: &[crate::canonical::response::Event]) -> String {
    let mut writer = super::Writer::new("mine", "0190-ab");
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out);
    }
    writer.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// What a stream says in the common tongue.
fn said(pieces: &[&[u8]]) -> Result<Vec<crate::canonical::response::Event>, Box<UpstreamError>> {
    let mut reader = super::Reader::default();
    let mut events = Vec::new();
    each(pieces, |name, data| reader.event(name, data).map(|more| events.extend(more)))?;
    events.extend(reader.end()?);
    Ok(events)
}
