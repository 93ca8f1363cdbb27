use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};
use proptest::prelude::*;

use super::*;

fn events_of(scanner: &mut Scanner) -> Vec<Event> {
    std::iter::from_fn(|| scanner.next().unwrap()).collect()
}

fn event(name: &str, data: &str) -> Event {
    let name = Some(Bytes::copy_from_slice(name.as_bytes())).filter(|name| !name.is_empty());
    Event { name, data: Bytes::copy_from_slice(data.as_bytes()) }
}

fn scan(text: &str) -> Vec<Event> {
    let mut scanner = Scanner::new();
    scanner.push(Bytes::copy_from_slice(text.as_bytes()));
    events_of(&mut scanner)
}

#[test]
fn the_forms_of_the_standard_are_read() {
    for (text, expected) in [
        ("data: a\n\n", vec![event("", "a")]),
        ("data:a\n\n", vec![event("", "a")]),
        ("data:  a \n\n", vec![event("", " a ")]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", vec![event("", "a"), event("", "b")]),
        ("data: a\r\rdata: b\r\r", vec![event("", "a"), event("", "b")]),
        ("data: a\ndata: b\n\n", vec![event("", "a\nb")]),
        ("data: a\ndata\ndata: c\n\n", vec![event("", "a\n\nc")]),
        ("event: error\ndata: a\n\ndata: b\n\n", vec![event("error", "a"), event("", "b")]),
        ("event: x\nevent: y\ndata: a\n\n", vec![event("y", "a")]),
        ("\u{feff}data: a\n\n", vec![event("", "a")]),
        (": keep-alive\n\ndata: a\n\n", vec![event("", "a")]),
        ("event: ping\n\ndata: a\n\n", vec![event("", "a")]),
        ("id: 7\nretry: 10\nfoo: bar\ndata: a\n\n", vec![event("", "a")]),
        ("datum: a\n\ndata : b\n\n", vec![]),
        ("data\n\n", vec![event("", "")]),
        ("\n\n\n", vec![]),
        ("data: a\n\ndata: b\n", vec![event("", "a")]),
    ] {
        assert_eq!(scan(text), expected, "{text:?}");
    }
}

#[test]
fn a_cut_off_end_is_noticed_and_not_given_as_an_event() {
    for (text, partial) in [
        ("data: a\n\n", false),
        ("data: a\n\n: keep-al", false),
        ("data: a\n\n\n", false),
        ("data: a", true),
        ("data: a\n", true),
        ("event: x\n", true),
    ] {
        let mut scanner = Scanner::new();
        scanner.push(Bytes::copy_from_slice(text.as_bytes()));
        events_of(&mut scanner);
        assert_eq!(scanner.has_partial(), partial, "{text:?}");
    }
}

#[test]
fn data_within_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"data: {\"a\":1}\n\n");
    let mut scanner = Scanner::new();
    scanner.push(chunk.clone());
    let event = scanner.next().unwrap().unwrap();
    assert_eq!(event.data.as_ptr(), chunk[6..].as_ptr());
}

#[test]
fn bytes_that_are_no_utf8_pass_as_they_are() {
    let mut scanner = Scanner::new();
    scanner.push(Bytes::from_static(b"data: \xff\xfe\xc3"));
    scanner.push(Bytes::from_static(b"\xa9\n\n"));
    assert_eq!(scanner.next().unwrap().unwrap().data, &b"\xff\xfe\xc3\xa9"[..]);
}

#[test]
fn a_line_without_end_is_refused_and_its_memory_given_back() {
    let mut scanner = Scanner::with_limit(1000);
    let mut held = 0;
    let refused = (0..100).any(|_| {
        scanner.push(Bytes::from_static(&[b'x'; 100]));
        held = held.max(scanner.partial.len());
        scanner.next().is_err()
    });
    assert!(refused);
    assert!(held <= 1000);
    assert!(scanner.partial.is_empty());
    scanner.push(Bytes::from_static(b"\n\ndata: a\n\n"));
    assert_eq!(scanner.next(), Err(SseError::LineTooLong { limit: 1000 }));
}

#[test]
fn an_event_of_endless_lines_is_refused() {
    let mut scanner = Scanner::with_limit(1000);
    let refused = (0..2000).any(|_| {
        scanner.push(Bytes::from_static(b"data: x\n"));
        scanner.next().is_err()
    });
    assert!(refused);
    let mut whole = Scanner::with_limit(10);
    whole.push(Bytes::from_static(b"data: 0123456789\n\n"));
    assert!(whole.next().is_err());
}

/// Cuts bytes at the given places.
fn pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&bytes[pair[0]..pair[1]])).collect()
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "data: ?[a-zäé{}\":, ]{1,12}",
        1 => Just("data:".to_owned()),
        1 => "event: ?[a-z]{1,8}",
        1 => ":[a-z ]{0,8}",
        1 => "(id|retry|foo): ?[0-9]{0,3}",
        1 => "[a-z]{1,6}",
        3 => Just(String::new()),
    ]
}

fn by_oracle(text: &str) -> Vec<Event> {
    let whole = stream::iter([Ok::<_, std::convert::Infallible>(text.as_bytes().to_vec())]);
    whole
        .eventsource()
        .map(|found| found.unwrap())
        .map(|found| event(if found.event == "message" { "" } else { &found.event }, &found.data))
        .collect::<Vec<_>>()
        .now_or_never()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_split_and_any_line_end_give_the_same_events(
        lines in prop::collection::vec(line(), 0..20),
        ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r"]), 20),
        bom in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        eager in any::<bool>(),
    ) {
        let plain: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let expected = scan(&plain);
        let mut text = String::from(if bom { "\u{feff}" } else { "" });
        for (line, end) in lines.iter().zip(&ends) {
            text.push_str(line);
            text.push_str(end);
        }
        prop_assume!(!mixes(&lines, &ends));
        let mut scanner = Scanner::new();
        let mut found = Vec::new();
        for piece in pieces(text.as_bytes(), &cuts) {
            scanner.push(piece);
            if eager {
                found.extend(events_of(&mut scanner));
            }
        }
        found.extend(events_of(&mut scanner));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn an_independent_parser_finds_the_same_events(lines in prop::collection::vec(line(), 0..20)) {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        // The oracle drops events whose data is empty; the standard gives them.
        let found: Vec<Event> = scan(&text).into_iter().filter(|event| !event.data.is_empty()).collect();
        let oracle: Vec<Event> = by_oracle(&text).into_iter().filter(|event| !event.data.is_empty()).collect();
        prop_assert_eq!(found, oracle);
    }
}

/// True when a line that ends with CR is followed by an empty one that ends with LF: together they are one line end.
fn mixes(lines: &[String], ends: &[&str]) -> bool {
    (1..lines.len()).any(|at| ends[at - 1] == "\r" && lines[at].is_empty() && ends[at] == "\n")
}
