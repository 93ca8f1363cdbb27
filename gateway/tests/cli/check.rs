//! `headgate check`.

use crate::support::{command, file, run};

const GOOD: &str = "\
providers:
  openai: {dialect: openai, base_url: https://api.openai.com/v1}
  anthropic: {dialect: anthropic, base_url: https://api.anthropic.com}
connections:
  - {id: second, provider: openai, api_key: sk-one, priority: 5, region: us, max_concurrent: 32, rpm: 500}
  - {id: first, provider: openai, api_key: sk-two, weight: 3, quota: [{bucket: luna, tokens: 9, period: day}], tpm: 9000}
  - {id: acme-own, provider: openai, api_key: sk-three, owner: acme, models: {luna: luna-upstream}}
models:
  luna: {provider: openai, price: {input: 0.05, cached_input: 0.005, output: 0.40}}
  terra: {provider: openai}
aliases: {fast: luna}
accounts: [{id: acme, residency: eu}, {id: other}]
keys:
  - {id: acme-ci, account: acme, secret: hg-1, byok: [acme-own]}
  - {id: acme-own-only, account: acme, secret: hg-2, platform_fallback: false, models: [fast]}
  - {id: plain, account: other, secret: hg-3, quotas: [{requests: 10, period: day}]}
";

/// The connections of each ladder of a report, under the line that says whose it is.
fn ladders(report: &str) -> Vec<(String, Vec<String>)> {
    let mut ladders: Vec<(String, Vec<String>)> = Vec::new();
    for line in report.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first().and_then(|word| word.parse::<usize>().ok()) {
            Some(_) => {
                let connection = words.iter().find(|word| ["first", "second", "acme-own"].contains(word)).unwrap();
                ladders.last_mut().unwrap().1.push((*connection).to_owned());
            }
            None if line.starts_with("  ") && words.first() != Some(&"rung") => {
                ladders.push((line.trim().to_owned(), Vec::new()));
            }
            None => {}
        }
    }
    ladders
}

#[tokio::test]
async fn a_good_file_prints_the_ladder_of_everyone_whose_ladder_differs() {
    let (_dir, path) = file(GOOD);
    let outcome = run(command(&["check", "--config", &path])).await;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.err, "");
    let report = &outcome.out;
    let ladders = ladders(report);
    let ladders: Vec<(&str, Vec<&str>)> =
        ladders.iter().map(|(callers, rungs)| (callers.as_str(), rungs.iter().map(String::as_str).collect())).collect();
    assert_eq!(
        ladders,
        [
            ("platform callers", vec!["first", "second"]),
            // `second` is not where the account must stay.
            ("account acme, key acme-ci", vec!["acme-own", "first"]),
            ("account acme, key acme-own-only", vec!["acme-own"]),
            ("platform callers", vec!["first", "second"]),
            ("account acme, key acme-ci", vec!["first"]),
        ],
        "{report}"
    );
    let luna = "\nluna (fast), input $0.05, cached input $0.005, output $0.40 per million tokens, by this file\n";
    assert!(report.contains(luna), "{report}");
    let terra = "\nterra, no price: the bundled list does not know it (refused for accounts with money limits)\n";
    assert!(report.contains(terra), "{report}");
    assert!(report.contains("luna-upstream") && report.contains("32 at once, 500 requests/min"), "{report}");
    assert!(!report.contains("sk-") && !report.contains("hg-"), "a secret is shown:\n{report}");
}

#[tokio::test]
async fn a_models_price_is_told_with_where_it_is_from_and_what_long_input_costs() {
    let (_dir, path) = file(
        "providers: {a: {dialect: anthropic, base_url: https://api.anthropic.com}}\n\
         connections: [{id: c, provider: a, api_key: k, models: {sonnet: claude-sonnet-4-5, none: x, own: y}}]\n\
         models:\n  sonnet: {provider: a}\n  none: {provider: a, price: {input: 0, output: 0}}\n\
         \x20 own: {provider: a, price: {input: 1, cache_write: 1.25, cache_write_1h: 2, output: 5, output_audio: 9, \
         long_context: {above: 200000, input: 2, output: 7.5}}}\n",
    );
    let outcome = run(command(&["check", "--config", &path])).await;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for line in [
        "sonnet, input $3.00, cached input $0.30, cache write $3.75, cache write 1 h $6.00, output $15.00 per million \
         tokens; above 200000 tokens of input input $6.00, cached input $0.60, cache write $7.50, cache write 1 h $12.00, \
         output $22.50, by the bundled list: anthropic/claude-sonnet-4-5",
        "none, free, by this file",
        "own, input $1.00, cache write $1.25, cache write 1 h $2.00, output $5.00, audio output $9.00 per million tokens; \
         above 200000 tokens of input input $2.00, output $7.50, by this file",
    ] {
        assert!(outcome.out.contains(&format!("\n{line}\n")), "{line}\n{}", outcome.out);
    }
}

#[tokio::test]
async fn what_is_not_enforced_yet_is_named_once_each_and_only_if_the_file_uses_it() {
    let (_dir, path) = file(GOOD);
    let report = run(command(&["check", "--config", &path])).await.out;
    let notices: Vec<&str> = report.lines().filter(|line| line.ends_with("not enforced yet")).collect();
    assert_eq!(notices, ["notice: quota (connection first) is read and checked, not enforced yet"]);
    let plain = "{providers: {o: {dialect: openai, base_url: http://127.0.0.1:1}}, \
        connections: [{id: a, provider: o, api_key: k, models: [m]}]}";
    let (_dir, path) = file(plain);
    let outcome = run(command(&["check", "--config", &path])).await;
    assert_eq!(outcome.code, Some(0));
    assert!(!outcome.out.contains("not enforced"), "{}", outcome.out);
}

#[tokio::test]
async fn every_fault_is_a_line_with_its_place_field_and_what_was_expected() {
    let bad = GOOD.replace("weight: 3", "weight: zero").replace("fast: luna", "fast: lunar");
    let (_dir, path) = file(&bad);
    let outcome = run(command(&["check", "--config", &path])).await;
    assert_eq!(outcome.code, Some(2));
    assert_eq!(outcome.out, "");
    let lines: Vec<&str> = outcome.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", outcome.err);
    assert!(lines[0].starts_with(&format!("{path}:6:")), "{}", lines[0]);
    assert!(lines[0].contains(": connections[1].weight: ") && lines[0].contains(", expected "), "{}", lines[0]);
    assert!(lines[1].starts_with(&format!("{path}:11:")), "{}", lines[1]);
    assert!(lines[1].contains(": aliases.fast: ") && lines[1].contains(", expected "), "{}", lines[1]);
}

#[tokio::test]
async fn a_file_that_is_not_there_is_a_fault_too() {
    let outcome = run(command(&["check", "--config", "no/such.yaml"])).await;
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.starts_with("no/such.yaml: ") && outcome.err.lines().count() == 1, "{}", outcome.err);
    let mut by_environment = command(&["check"]);
    by_environment.env("HEADGATE_CONFIG", "no/other.yaml");
    assert!(run(by_environment).await.err.starts_with("no/other.yaml: "));
}

#[tokio::test]
async fn the_schema_knows_every_field_of_the_file_and_no_other() {
    let outcome = run(command(&["check", "--schema"])).await;
    assert_eq!(outcome.code, Some(0));
    let schema: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    let fields: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "listen",
            "admin_listen",
            "redis",
            "providers",
            "connections",
            "models",
            "aliases",
            "tiers",
            "groups",
            "drain_timeout",
            "limits",
            "timeouts",
            "images",
            "accounts",
            "keys"
        ]
    );
    assert_eq!(schema["additionalProperties"], false);
}
