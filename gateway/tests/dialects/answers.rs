//! What each upstream's answer becomes for each caller, whole and streamed, however the stream is cut.

use std::fmt::Write as _;

use gateway::dialect::Dialect;
use gateway::dialect::wanted::Wanted;
use serde_json::json;

use super::callers::{Caller, REQUEST};
use super::golden::compare;
use super::said::{self, Said};
use super::upstreams::{ANSWERS, Followed, UPSTREAMS, follow, scanned, stream, values, whole};

fn followed<'a>(wanted: &Wanted, upstream: Dialect, pieces: impl IntoIterator<Item = &'a [u8]>) -> Followed {
    follow(wanted.stream(upstream, REQUEST), pieces)
}

fn every_pair() -> impl Iterator<Item = (Caller, Dialect)> {
    Caller::ALL.into_iter().flat_map(|caller| UPSTREAMS.map(|upstream| (caller, upstream)))
}

#[test]
fn every_answer_becomes_what_it_did_for_every_caller() {
    for (caller, upstream) in every_pair() {
        let wanted = caller.wanted("tools");
        let mut text = String::new();
        for answer in ANSWERS {
            let body = whole(caller, upstream, answer);
            let body = wanted.whole(upstream, Some("application/json"), &body, REQUEST).unwrap().body;
            let body = std::str::from_utf8(&body).unwrap();
            let stream = followed(&wanted, upstream, [stream(caller, upstream, answer).as_bytes()]);
            writeln!(text, "== {answer}, whole\n{body}\n== {answer}, streamed\n{}", stream.text()).unwrap();
        }
        compare(&format!("answers/{}_from_{}.txt", caller.name(), upstream.as_str()), &text);
    }
}

/// What every caller must understand of an answer, whoever gave it.
fn meant(answer: &str) -> Said {
    let said = |text: &str, finish: &str| Said { text: text.into(), finish: finish.into(), ..Said::default() };
    match answer {
        "text" => said("Grüße 😀, \"quoted\"\n\\back", "stop"),
        "length" => said("One, two, ", "length"),
        _ => Said {
            thought: "Two calls…".into(),
            calls: vec![("weather".into(), json!({"city": "Köln", "days": 2})), ("now".into(), json!({}))],
            ..said("Let me look.", "tool_calls")
        },
    }
}

#[test]
fn every_caller_understands_the_same_from_every_upstream_whole_and_streamed() {
    for (caller, upstream) in every_pair() {
        for answer in ANSWERS {
            let wanted = caller.wanted("tools");
            let body = wanted.whole(upstream, None, &whole(caller, upstream, answer), REQUEST).unwrap();
            assert_eq!(said::whole(caller, &body.body), meant(answer), "{caller:?} from {upstream:?}, whole");
            let stream = followed(&wanted, upstream, [stream(caller, upstream, answer).as_bytes()]);
            let events = values(caller, stream.text());
            assert_eq!(said::streamed(caller, &events), meant(answer), "{caller:?} from {upstream:?}, streamed");
            assert_eq!(body.usage, stream.usage, "{caller:?} from {upstream:?}, {answer}");
        }
    }
}

/// A stream of text cut in two at every byte. The longer streams are cut so for the scanner alone, below: a translation sees nothing but
/// the events.
fn cut_at_every_byte(caller: Caller) {
    for upstream in UPSTREAMS {
        let wanted = caller.wanted("tools");
        let text = stream(caller, upstream, "text");
        let expected = followed(&wanted, upstream, [text.as_bytes()]);
        for at in 1..text.len() {
            let (before, after) = text.as_bytes().split_at(at);
            let found = followed(&wanted, upstream, [before, after]);
            assert_eq!((found.text(), found.usage), (expected.text(), expected.usage), "{upstream:?} cut at {at}");
        }
    }
}

#[test]
fn every_stream_has_the_same_events_wherever_it_is_cut_and_however_its_lines_end() {
    for (caller, upstream) in [
        (Caller::Chat, Dialect::OpenAi),
        (Caller::Responses, Dialect::OpenAi),
        (Caller::Chat, Dialect::Anthropic),
        (Caller::Chat, Dialect::Gemini),
        (Caller::Chat, Dialect::CodeAssist),
    ] {
        let text = stream(caller, upstream, "tools");
        let expected = scanned(&[text.as_bytes()]);
        for line_end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', line_end);
            for at in 0..=text.len() {
                let (before, after) = text.as_bytes().split_at(at);
                assert!(scanned(&[before, after]) == expected, "{upstream:?} cut at {at}, {line_end:?}");
            }
        }
    }
}

#[test]
fn a_chat_stream_is_the_same_wherever_it_is_cut() {
    cut_at_every_byte(Caller::Chat);
}

#[test]
fn a_responses_stream_is_the_same_wherever_it_is_cut() {
    cut_at_every_byte(Caller::Responses);
}

#[test]
fn a_messages_stream_is_the_same_wherever_it_is_cut() {
    cut_at_every_byte(Caller::Messages);
}

#[test]
fn a_gemini_stream_of_events_is_the_same_wherever_it_is_cut() {
    cut_at_every_byte(Caller::GeminiSse);
}

#[test]
fn a_gemini_stream_as_an_array_is_the_same_wherever_it_is_cut() {
    cut_at_every_byte(Caller::GeminiArray);
}

#[test]
fn line_ends_comments_and_a_byte_order_mark_make_no_difference() {
    for (caller, upstream) in every_pair() {
        for answer in ANSWERS {
            let wanted = caller.wanted("tools");
            let plain = stream(caller, upstream, answer);
            let expected = followed(&wanted, upstream, [plain.as_bytes()]);
            let dressed = format!("\u{feff}: hello\n\n{}", plain.replace("\n\n", "\nid: 7\n: comment\n\n\n"));
            for line_end in ["\n", "\r\n", "\r"] {
                let text = dressed.replace('\n', line_end);
                for size in [1, 2, 3, 7, 64, text.len()] {
                    let found = followed(&wanted, upstream, text.as_bytes().chunks(size));
                    assert_eq!(found.text(), expected.text(), "{caller:?} from {upstream:?} by {size}");
                }
            }
        }
    }
}

#[test]
fn a_stream_that_breaks_off_anywhere_never_looks_complete() {
    for (caller, upstream) in every_pair() {
        let wanted = caller.wanted("tools");
        let text = stream(caller, upstream, "tools");
        let events: Vec<&str> = text.split_inclusive("\n\n").collect();
        let complete = followed(&wanted, upstream, [text.as_bytes()]);
        for kept in 0..events.len() {
            let found = followed(&wanted, upstream, events[..kept].iter().map(|event| event.as_bytes()));
            // Only what comes after the finish may be missing, such as a marker of the end.
            let finished = events[kept..].iter().all(|event| is_afterword(event));
            assert_eq!(found.error.is_none(), finished, "{caller:?} from {upstream:?}, {kept} events");
            assert!(found.error.is_none() || !ends_alike(caller, &found.out, &complete.out));
        }
    }
}

/// Usage and the marker of the end: the answer is whole without them.
fn is_afterword(event: &str) -> bool {
    event.contains("[DONE]") || event.contains("message_stop") || event.contains(r#""choices":[]"#)
}

fn ends_alike(caller: Caller, one: &[u8], other: &[u8]) -> bool {
    let tail: &[u8] = match caller {
        Caller::Chat => b"data: [DONE]\n\n",
        Caller::GeminiArray => b"]",
        _ => {
            let last = |text: &[u8]| String::from_utf8_lossy(text).trim_end().rsplit("\n\n").next().map(str::to_owned);
            return !one.is_empty() && last(one) == last(other);
        }
    };
    one.ends_with(tail) && other.ends_with(tail)
}
