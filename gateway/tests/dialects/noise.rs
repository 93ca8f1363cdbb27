//! Bytes that nobody should send: nothing panics, and what is written stays within a bound of what was read.

use bytes::Bytes;
use gateway::dialect::gemini::url::Method;
use gateway::dialect::wanted::{Entry, Found, Wanted};
use gateway::dialect::{Answer, Api, Dialect};
use gateway::upstream::sse::Scanner;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::de::IgnoredAny;

use super::callers::{Caller, REQUEST};
use super::upstreams::{ANSWERS, Followed, UPSTREAMS, follow, model, stream, whole};

/// Written for each byte read: escapes at most six for one (`\u0000`), and a frame of its own around each fragment.
const PER_BYTE: usize = 60;
/// Written for nothing: heads, echoes of the request, ends.
const AT_LEAST: usize = 64 * 1024;

/// What is done to a text.
#[derive(Debug, Clone)]
enum Damage {
    Cut(Index, Index),
    Put(Index, Vec<u8>),
    Flip(Index, u8),
    Repeat(Index, Index),
}

fn any_damage() -> impl Strategy<Value = Vec<Damage>> {
    let words = select(vec![
        "null",
        "0",
        "-1",
        "1e999",
        "\"\"",
        "[]",
        "{}",
        "[[[[",
        "}",
        "\"",
        "\\u",
        "\\ud800",
        "\n\n",
        "\r",
        "data:",
        "true",
        "99999999999999999999",
        ",",
        ":",
        "\u{feff}",
    ]);
    let one = prop_oneof![
        (any::<Index>(), any::<Index>()).prop_map(|(from, length)| Damage::Cut(from, length)),
        (any::<Index>(), words).prop_map(|(at, word)| Damage::Put(at, word.as_bytes().to_vec())),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Damage::Put(at, bytes)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Flip(at, byte)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, length)| Damage::Repeat(from, length)),
    ];
    prop::collection::vec(one, 1..5)
}

fn damaged(text: &[u8], damage: &[Damage]) -> Vec<u8> {
    let mut text = text.to_vec();
    for one in damage {
        let end = text.len() + 1;
        match one {
            Damage::Cut(from, length) => {
                let from = from.index(end);
                text.drain(from..(from + length.index(24)).min(end - 1));
            }
            Damage::Put(at, bytes) => {
                let at = at.index(end);
                text.splice(at..at, bytes.iter().copied());
            }
            Damage::Flip(at, byte) if !text.is_empty() => {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            Damage::Flip(..) => {}
            Damage::Repeat(from, length) => {
                let from = from.index(end);
                let again = text[from..(from + length.index(60)).min(end - 1)].to_vec();
                text.splice(from..from, again);
            }
        }
    }
    text
}

fn entries() -> Vec<Entry> {
    let mut all: Vec<Entry> = Caller::ALL.map(|caller| caller.entry(Answer::Whole)).into();
    all.extend([Entry::at(Api::CountTokens), Entry::at(Api::Embeddings)]);
    for method in [Method::CountTokens, Method::EmbedContent, Method::BatchEmbedContents] {
        all.push(Entry { path_model: "mine".into(), ..Entry::at(Api::Gemini(method)) });
    }
    all
}

fn assert_bounded(written: usize, read: usize) {
    assert!(written <= AT_LEAST + PER_BYTE * read, "{written} bytes of {read}");
}

/// All that can be asked of a body by every API.
pub(crate) fn ask(body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    for entry in entries() {
        let Ok(wanted) = Wanted::read(entry, body.clone()) else { continue };
        for upstream in UPSTREAMS {
            if let Ok(call) = wanted.call(upstream, model(upstream), REQUEST, &Found::default()) {
                assert_bounded(call.body.len(), body.len());
                let parsed = serde_json::from_slice::<IgnoredAny>(&call.body);
                assert!(parsed.is_ok(), "{:?}: {}", wanted.api(), String::from_utf8_lossy(&call.body));
            }
            let _ = wanted.local_answer(upstream);
        }
    }
}

pub(crate) fn fixtures() -> Vec<String> {
    let bodies = Caller::APIS.into_iter().flat_map(|caller| caller.requests().values().cloned().collect::<Vec<_>>());
    bodies.map(|body| body.to_string()).collect()
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

pub(crate) fn any_caller() -> impl Strategy<Value = Caller> {
    select(Caller::ALL.to_vec())
}

pub(crate) fn any_upstream() -> impl Strategy<Value = Dialect> {
    select(UPSTREAMS.to_vec())
}

pub(crate) fn followed(caller: Caller, upstream: Dialect, text: &[u8], sizes: &[usize]) -> Followed {
    let mut pieces = Vec::new();
    let (mut rest, mut sizes) = (text, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, more) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        pieces.push(piece);
        rest = more;
    }
    let followed = follow(caller.wanted("tools").stream(upstream, REQUEST), pieces);
    assert_bounded(followed.out.len(), text.len());
    followed
}

proptest! {
    #[test]
    fn no_bytes_make_a_request_panic(bytes in any_bytes()) {
        ask(&bytes);
    }

    #[test]
    fn no_damage_makes_a_request_panic_or_its_call_no_json(fixture in select(fixtures()), damage in any_damage()) {
        ask(&damaged(fixture.as_bytes(), &damage));
    }

    #[test]
    fn no_bytes_make_a_whole_answer_panic(
        bytes in any_bytes(), caller in any_caller(), upstream in any_upstream(),
        answer in select(ANSWERS.to_vec()), damage in any_damage(),
    ) {
        let wanted = caller.wanted("tools");
        for body in [bytes, damaged(&whole(caller, upstream, answer), &damage)] {
            let read = body.len();
            if let Ok(answer) = wanted.whole(upstream, None, &body.into(), REQUEST) {
                assert_bounded(answer.body.len(), read);
            }
        }
    }

    #[test]
    fn no_damage_makes_a_stream_panic_or_depend_on_how_it_is_cut(
        caller in any_caller(), upstream in any_upstream(), answer in select(ANSWERS.to_vec()),
        damage in any_damage(), sizes in prop::collection::vec(1usize..40, 1..6),
    ) {
        let text = damaged(stream(caller, upstream, answer).as_bytes(), &damage);
        let at_once = followed(caller, upstream, &text, &[usize::MAX]);
        let in_pieces = followed(caller, upstream, &text, &sizes);
        prop_assert_eq!(String::from_utf8_lossy(&at_once.out), String::from_utf8_lossy(&in_pieces.out));
        prop_assert_eq!((at_once.usage, at_once.error), (in_pieces.usage, in_pieces.error));
    }

    #[test]
    fn no_bytes_make_a_stream_panic(
        caller in any_caller(), upstream in any_upstream(),
        datas in prop::collection::vec(prop_oneof![any_bytes(), any::<String>().prop_map(String::into_bytes)], 0..4),
    ) {
        let mut text = Vec::new();
        for data in datas {
            text.extend_from_slice(b"data: ");
            text.extend_from_slice(&data);
            text.extend_from_slice(b"\n\n");
        }
        followed(caller, upstream, &text, &[7]);
    }

    #[test]
    fn the_scanner_gives_no_more_than_it_got_and_keeps_to_its_limit(
        bytes in prop::collection::vec(select(b"data: event:id\n\r\xef\xbb\xbfx\0\xff".to_vec()), 0..400),
        sizes in prop::collection::vec(1usize..30, 1..5), limit in 1usize..64,
    ) {
        let mut scanner = Scanner::with_limit(limit);
        let (mut given, mut failed, mut sizes) = (0, false, sizes.iter().cycle());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            scanner.push(Bytes::copy_from_slice(piece));
            rest = more;
            loop {
                match scanner.next() {
                    Ok(Some(event)) => {
                        prop_assert!(!failed && event.data.len() <= limit);
                        given += event.data.len();
                    }
                    Ok(None) => break,
                    Err(_) => {
                        failed = true;
                        break;
                    }
                }
            }
        }
        prop_assert!(given <= bytes.len());
    }
}

#[test]
fn deep_nesting_is_refused_or_carried_but_never_overflows() {
    for depth in [100, 127, 128, 129, 20_000] {
        let nest = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        ask(nest.as_bytes());
        for (caller, field) in [
            (Caller::Chat, r#""messages":[{"role":"user","content":"x"}]"#),
            (Caller::Responses, r#""input":"x""#),
            (Caller::Messages, r#""max_tokens":9,"messages":[{"role":"user","content":"x"}]"#),
            (Caller::GeminiSse, r#""contents":[{"parts":[{"text":"x"}]}]"#),
        ] {
            for name in ["tools", "metadata", "x"] {
                ask(format!(r#"{{"model":"mine",{field},"{name}":{nest}}}"#).as_bytes());
            }
            let text =
                format!("data: {nest}\n\ndata: {{\"candidates\":{nest},\"choices\":{nest},\"type\":{nest}}}\n\n");
            for upstream in UPSTREAMS {
                followed(caller, upstream, text.as_bytes(), &[4096]);
            }
        }
    }
}
