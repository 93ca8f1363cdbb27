//! Finds a wait in the words of a message.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{Clock, read};

/// What stands before a wait.
const BEFORE_WAIT: &[&str] = &[
    "reset after ",
    "resets after ",
    "reset in ",
    "resets in ",
    "try again in ",
    "try again after ",
    "retry in ",
    "retry after ",
    "please wait ",
];
/// What stands before a time of day.
const BEFORE_TIME: &[&str] = &["regain access on ", "try again at ", "resets at ", "reset at "];
/// As many words as one wait has: `1 hour 20 minutes`.
const MAX_WORDS: usize = 6;

/// The first wait a lower-case message tells.
pub(super) fn wait(text: &str, clock: Clock) -> Option<Duration> {
    let waits = BEFORE_WAIT.iter().flat_map(|phrase| after(text, phrase)).find_map(first_wait);
    waits.or_else(|| BEFORE_TIME.iter().flat_map(|phrase| after(text, phrase)).find_map(|rest| first_time(rest, clock)))
}

/// What follows each occurrence of a phrase, up to the end of the JSON text it may stand in.
fn after<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(phrase).map(move |(at, _)| {
        let rest = &text[at + phrase.len()..];
        rest.split(['"', '\\']).next().unwrap_or(rest)
    })
}

/// The longest run of words at the beginning that is a duration; a bare number is seconds.
fn first_wait(rest: &str) -> Option<Duration> {
    let words: Vec<&str> = rest.split_whitespace().take(MAX_WORDS).collect();
    (1..=words.len())
        .rev()
        .find_map(|count| read::maybe_duration(bare(&words[..count].join(" "))))
        .unwrap_or_else(|| read::seconds(bare(words.first()?), 1.0))
}

/// A date or an RFC 3339 time at the beginning; a date is its midnight in UTC.
fn first_time(rest: &str, clock: Clock) -> Option<Duration> {
    let word = bare(rest.split_whitespace().next()?).to_ascii_uppercase();
    let time: Option<Timestamp> = word.parse().ok();
    let midnight = || Some(word.parse::<Date>().ok()?.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp());
    clock.until(time.or_else(midnight)?)
}

/// A word without the punctuation after it.
fn bare(word: &str) -> &str {
    word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
}
