use super::*;

const ROLE: &str = r#"{"model":"up","choices":[{"index":0,"delta":{"role":"assistant"}}]}"#;
const TEXT: &str = r#"{"model":"up","choices":[{"index":0,"delta":{"content":"hé"}}]}"#;
const END: &str = r#"{"model":"up","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"model":"up","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;

fn feed(same: &mut Same, data: &str) -> Fed {
    same.event(None, data.as_bytes()).unwrap()
}

fn mine(data: &str) -> String {
    format!("data: {}\n\n", data.replace("\"up\"", "\"mine\""))
}

#[test]
fn a_stream_is_passed_on_with_the_callers_name_of_the_model() {
    let mut same = Same::new("mine", UsageChunk::Hidden);
    let role = feed(&mut same, ROLE);
    assert_eq!((role.out, role.content), (mine(ROLE).into(), false));
    let text = feed(&mut same, TEXT);
    assert_eq!((text.out, text.content, text.chars, text.done), (mine(TEXT).into(), true, 2, false));
    assert!(!same.is_whole());
    assert_eq!(feed(&mut same, END).out, mine(END));
    assert!(same.is_whole());
    let usage = feed(&mut same, USAGE);
    assert!(usage.out.is_empty() && usage.usage.is_some());
    let done = feed(&mut same, "[DONE]");
    assert_eq!((done.out, done.done), (DONE, true));
    let after = feed(&mut same, TEXT);
    assert!(after.out.is_empty() && after.done);
    assert_eq!(same.end().unwrap(), after);
    assert_eq!(feed(&mut Same::new("mine", UsageChunk::Wanted), USAGE).out, mine(USAGE));
}

#[test]
fn a_whole_answer_without_its_marker_gets_one_and_a_broken_one_does_not() {
    let ended = |data: &[&str]| {
        let mut same = Same::new("mine", UsageChunk::Hidden);
        for data in data {
            feed(&mut same, data);
        }
        same.end().map(|fed| fed.out).map_err(|error| error.signals.transport)
    };
    assert_eq!(ended(&[TEXT, END]), Ok(DONE));
    assert_eq!(ended(&[END]), Ok(DONE));
    assert_eq!(ended(&[TEXT]), Err(Some(Transport::Truncated)));
    assert_eq!(ended(&[ROLE]), Err(Some(Transport::Empty)));
    assert_eq!(ended(&[]), Err(Some(Transport::Empty)));
    let done = |data: &[&str]| {
        let mut same = Same::new("mine", UsageChunk::Hidden);
        for data in data {
            feed(&mut same, data);
        }
        same.event(None, b"[DONE]").map(|fed| fed.done).map_err(|error| error.signals.transport)
    };
    assert_eq!(done(&[TEXT]), Ok(true));
    assert_eq!(done(&[ROLE]), Err(Some(Transport::Empty)));
}
