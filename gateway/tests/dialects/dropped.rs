//! The list of what is left out between dialects, for people to read, is the one that the code goes by.

use std::fmt::Write as _;
use std::path::PathBuf;

use gateway::dialect::{anthropic, gemini, openai, openai_responses};

use super::golden::compare_file;

type Table = &'static [(&'static str, &'static str)];

const HEAD: &str = "# What is left out between dialects

Between a caller and an upstream that speak alike nothing is left out: the bytes pass. On the way to another dialect, what cannot
be said there is refused with status 400 and the name of the field. The exceptions stand here, each with the reason why leaving it
out does no harm. This list is written by `HEADGATE_BLESS=1` and the test `dialects`, from the tables the code goes by.
";

const TABLES: [(&str, Table); 9] = [
    ("From OpenAI chat completions: fields of the body", openai::request::DROPPED),
    ("From OpenAI chat completions: fields of messages, their parts, and tools", openai::request::DROPPED_IN_MESSAGES),
    ("From OpenAI responses: fields of the body", openai_responses::request::DROPPED),
    ("From OpenAI responses: fields of input items", openai_responses::request::DROPPED_IN_ITEMS),
    ("From Anthropic messages", anthropic::request::DROPPED),
    ("From Gemini", gemini::request::DROPPED),
    ("To OpenAI chat completions", openai::request::DROPPED_INTO),
    ("To Anthropic messages", anthropic::request::DROPPED_INTO),
    ("To Gemini and Code Assist", gemini::request::DROPPED_INTO),
];

#[test]
fn what_is_left_out_is_what_people_are_told() {
    let mut text = HEAD.to_owned();
    let embeddings = ("From OpenAI embeddings", openai::embeddings::request::DROPPED);
    for (title, table) in TABLES.into_iter().chain([embeddings]) {
        write!(text, "\n## {title}\n\n| Left out | Why that does no harm |\n| --- | --- |\n").unwrap();
        for (field, why) in table {
            writeln!(text, "| `{field}` | {why} |").unwrap();
        }
    }
    compare_file(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/dialect/DROPPED.md"), &text);
}
