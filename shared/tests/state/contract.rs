//! The header of each script is a contract: it is read here against the body.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use shared::state::scripts;

const SNIPPETS: [&str; 11] =
    ["clock", "window", "line", "turns", "ring", "tokens", "quotas", "closures", "health", "told", "pins"];

struct Script {
    name: &'static str,
    flags: &'static str,
    sent: &'static str,
}

const SCRIPTS: [Script; 12] = [
    Script { name: "admit", flags: "", sent: scripts::ADMIT },
    Script { name: "acquire", flags: "", sent: scripts::ACQUIRE },
    Script { name: "leave", flags: " flags=allow-oom", sent: scripts::LEAVE },
    Script { name: "record", flags: " flags=allow-oom", sent: scripts::RECORD },
    Script { name: "renew", flags: " flags=allow-oom", sent: scripts::RENEW },
    Script { name: "settle", flags: " flags=allow-oom", sent: scripts::SETTLE },
    Script { name: "credit", flags: "", sent: scripts::CREDIT },
    Script { name: "declare", flags: "", sent: scripts::DECLARE },
    Script { name: "amend", flags: "", sent: scripts::AMEND },
    Script { name: "open_account", flags: "", sent: scripts::OPEN_ACCOUNT },
    Script { name: "survey", flags: " flags=no-writes", sent: scripts::SURVEY },
    Script { name: "explain", flags: " flags=no-writes", sent: scripts::EXPLAIN },
];

fn repo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn lua(path: &str) -> String {
    fs::read_to_string(repo().join("lua").join(path)).unwrap()
}

/// Header and body of a script.
fn parts(script: &Script) -> (String, String) {
    let text = lua(&format!("{}.lua", script.name));
    let start = text.find("local function").unwrap();
    (text[..start].to_owned(), text[start..].to_owned())
}

/// What a header says under `word`, over several lines.
fn section(header: &str, word: &str) -> String {
    let mut found = String::new();
    let mut inside = false;
    for line in header.lines().map(|line| line.trim_start_matches("--")) {
        if line.starts_with(' ') && !line.starts_with("  ") {
            inside = line.trim().split(' ').next() == Some(word);
        }
        if inside {
            found.push_str(line.trim().trim_start_matches(word));
            found.push(' ');
        }
    }
    assert!(!found.trim().is_empty(), "no '{word}' in\n{header}");
    found.trim().to_owned()
}

/// The texts between the brackets of `name[..]`, without spaces.
fn indices(name: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(&format!(r"\b{name}\[([^\]]+)\]")).unwrap();
    pattern.captures_iter(text).map(|found| found[1].replace(' ', "")).collect()
}

fn tags(text: &str) -> BTreeSet<String> {
    Regex::new(r"\{'([a-z_]+)'").unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn a_header_names_exactly_the_keys_and_arguments_the_body_uses() {
    // Where a body walks through several candidates, these are not arguments of their own.
    let walked = ["k+i", "i", "e+i", "e+endpoint+1", "10+index*4"];
    for script in &SCRIPTS {
        let (header, body) = parts(script);
        for name in ["KEYS", "ARGV"] {
            let named = indices(name, &header);
            let mut used = indices(name, &body);
            used.retain(|index| named.contains(index) || !walked.contains(&index.as_str()));
            // `KEYS[i + 1]` after `KEYS[i]` looks one lease ahead.
            used.retain(|index| named.contains(index) || script.name != "renew" || index != "i+1");
            assert_eq!(named, used, "{name} of {}", script.name);
        }
    }
}

#[test]
fn a_header_names_exactly_the_answers_the_body_gives() {
    for script in &SCRIPTS {
        let (header, body) = parts(script);
        assert_eq!(tags(&section(&header, "returns")), tags(&body), "{}", script.name);
    }
}

#[test]
fn a_script_is_sent_with_exactly_the_snippets_its_header_names_and_each_is_called() {
    let functions = Regex::new(r"local function (\w+)").unwrap();
    for script in &SCRIPTS {
        let (header, body) = parts(script);
        let uses = section(&header, "uses");
        let named: BTreeSet<&str> = uses.split(", ").filter(|word| *word != "nothing").collect();
        let sent: BTreeSet<&str> =
            SNIPPETS.into_iter().filter(|name| script.sent.contains(&lua(&format!("shared/{name}.lua")))).collect();
        assert_eq!(named, sent, "{}", script.name);
        for snippet in &named {
            let text = lua(&format!("shared/{snippet}.lua"));
            // One may be there for another.
            let others = named.iter().filter(|other| *other != snippet);
            let body: String = others.map(|other| lua(&format!("shared/{other}.lua"))).chain([body.clone()]).collect();
            let mut names = functions.captures_iter(&text).map(|found| format!("{}(", &found[1]));
            assert!(names.any(|call| body.contains(&call)), "{} does not call {snippet}", script.name);
        }
    }
}

#[test]
fn a_script_begins_with_its_flags_and_ends_with_the_call_of_its_decision() {
    for script in &SCRIPTS {
        assert!(script.sent.starts_with(&format!("#!lua{}\n", script.flags)), "{}", script.name);
        assert!(script.sent.ends_with(&format!("return {}(KEYS, ARGV)\n", script.name)), "{}", script.name);
        let (header, body) = parts(script);
        assert!(header.starts_with(&format!("-- {}: ", script.name)), "{}", script.name);
        assert!(body.starts_with(&format!("local function {}(KEYS, ARGV)\n", script.name)), "{}", script.name);
    }
}

#[test]
fn a_header_names_the_file_that_calls_the_script() {
    for script in &SCRIPTS {
        let (header, _) = parts(script);
        let caller = fs::read_to_string(repo().join(section(&header, "caller"))).unwrap();
        assert!(caller.contains(&format!("scripts.{}", script.name)), "{}", script.name);
    }
}

#[test]
fn no_key_is_glued_or_searched_and_no_clock_but_the_snippets_is_read() {
    for script in &SCRIPTS {
        let (_, body) = parts(script);
        for forbidden in ["'SCAN'", "'KEYS'", "'TIME'", "cjson", "KEYS[1] ..", "os."] {
            assert!(!body.contains(forbidden), "{} uses {forbidden}", script.name);
        }
        // All that is glued is what stands in a line, and the field of a day's sums.
        let glued = body.lines().filter(|line| line.contains("..") && !line.trim().starts_with("--"));
        for line in glued {
            assert!(line.contains("local member =") || line.contains("local day_field ="), "{}: {line}", script.name);
        }
    }
}

#[test]
fn the_readme_lists_every_script_and_every_snippet() {
    let readme = lua("README.md");
    for name in SCRIPTS.iter().map(|script| script.name).chain(SNIPPETS) {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
    let files = fs::read_dir(repo().join("lua"))
        .unwrap()
        .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "lua"));
    assert_eq!(files.count(), SCRIPTS.len(), "a script that no test reads");
}
