//! The file as people write it: defaults, examples, faults, secrets.

use std::path::Path;

use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::*;
use crate::config::{Credential, ImageFetch, LimitScope, OnOutage, Owner, RedisUrl, report};
use crate::ids::ConnectionId;
use crate::limit::{Amount, Cycle, Extent};

mod fault_table;
mod schema;

const FULL: &str = include_str!("../../../../deploy/examples/full.yaml");
const SMALL: &str = include_str!("../../../../deploy/examples/small.yaml");

fn env(name: &str) -> Option<String> {
    let value = match name {
        "OPENAI_API_KEY" => "sk-from-env",
        "SEVEN" => "7",
        "TRICK" => "x, rpm: 1}",
        "SECRET" => "sk-very-secret",
        "SPACED" => "two words",
        "EMPTY" => "",
        _ => return None,
    };
    Some(value.to_owned())
}

fn read(text: &str) -> Result<Config, Vec<Fault>> {
    parse(text, Path::new("headgate.yaml"), &env)
}

fn good(text: &str) -> Config {
    read(text).unwrap_or_else(|faults| panic!("{}", report(&faults)))
}

/// `line: field` of every fault.
fn places(text: &str) -> Vec<String> {
    let faults = read(text).expect_err("the text has faults");
    faults.iter().map(|fault| format!("{}: {}", fault.line, fault.field)).collect()
}

/// A good file; tests put one wrong line into it or take one out.
const BASE: &str = "\
providers:
  openai: {dialect: openai, base_url: https://up.example/v1}
connections:
  - id: a
    provider: openai
    api_key: sk-a
models:
  m: {provider: openai}
keys:
  - id: k
    secret: hg-k
";

#[test]
fn the_smallest_file_works_and_everything_else_has_its_default() {
    let config = good(SMALL);
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    assert_eq!(config.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:9090");
    assert!(matches!(&config.redis.url, RedisUrl::Url(url) if url.expose_secret() == "redis://127.0.0.1:6379/0"));
    assert_eq!((config.redis.prefix.as_str(), config.redis.on_outage), ("hg", OnOutage::Deny));
    assert_eq!(config.redis.timeout, Duration::from_millis(250));
    assert_eq!(config.drain_timeout, Duration::from_secs(30));
    assert_eq!(config.limits.key_wait, Duration::from_secs(2));
    assert_eq!(config.limits.capacity_wait, Duration::from_secs(10));
    assert_eq!((config.limits.attempts.group.get(), config.limits.attempts.request.get()), (3, 6));
    assert_eq!(config.limits.max_lock, Duration::from_mins(15));
    assert_eq!(config.limits.body.0, 32 << 20);
    assert_eq!(config.timeouts.connect, Duration::from_secs(5));
    assert_eq!(config.timeouts.total, Duration::from_mins(15));
    assert_eq!((config.images.fetch, config.images.size.0), (ImageFetch::Off, 10 << 20));
    let connection = &config.connections["openai-a"];
    assert!(matches!(&connection.credential, Credential::ApiKey(key) if key.expose_secret() == "sk-from-env"));
    assert_eq!((&connection.owner, connection.group.as_str()), (&Owner::Platform, "openai"));
    assert_eq!((connection.priority, connection.weight.get()), (0, 1));
    assert!(matches!(connection.limit_scope, LimitScope::Model));
    assert_eq!(config.models["gpt-5.6-luna"].provider.as_str(), "openai");
    assert_eq!(config.groups["openai"].pin_patience, Duration::from_secs(1));
    assert_eq!(config.providers["openai"].cooldown, Duration::from_mins(1));
    let key = &config.keys[0];
    assert_eq!(key.secret, crate::ids::SecretHash::of("hg-local"));
    assert_eq!((key.account.as_str(), key.platform_fallback, key.peers), ("default", true, true));
    assert!(config.accounts["default"].balance.is_none());
    assert_eq!(config.version, crate::ids::SecretHash::of(SMALL).to_hex()[..12]);
}

#[test]
fn the_full_example_is_read_without_a_notice() {
    let config = good(FULL);
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let order: Vec<&str> = config.connections.keys().map(ConnectionId::as_str).collect();
    assert_eq!(order, ["openai-a", "openai-b", "acme-openai", "anthropic-a", "google-a", "assist-a"]);
    let groups: Vec<&str> = config.groups.keys().map(GroupId::as_str).collect();
    assert_eq!(groups, ["openai", "acme", "anthropic", "google", "code-assist"]);
    assert_eq!(config.connections["openai-b"].models["gpt-5.6-luna"].as_str(), "luna-deployment");
    let served: Vec<&str> = config.connections["acme-openai"].models.keys().map(ModelName::as_str).collect();
    assert_eq!(served, ["gpt-5.6-luna", "gpt-5.6-terra", "gpt-audio"]);
    let price = config.models["gpt-5.6-luna"].price.unwrap().rates;
    assert_eq!((price.input.nanos_per_million(), price.cached_input.nanos_per_million()), (50_000_000, 5_000_000));
    assert_eq!((price.cache_write, price.cache_write_1h, price.input_audio), (price.input, price.input, price.input));
    assert_eq!((price.reasoning, price.output_audio), (price.output, price.output));
    let terra = config.models["gpt-5.6-terra"].price.unwrap().long_context.unwrap();
    assert_eq!((terra.above, terra.rates.cached_input), (272_000, terra.rates.input));
    let sonnet = config.models["claude-sonnet-4.5"].price.unwrap().rates;
    assert_eq!(sonnet.cache_write_1h.nanos_per_million(), 6_000_000_000);
    let assist = &config.providers["code-assist"];
    assert_eq!(assist.endpoints.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["daily", "autopush", "prod"]);
    assert_eq!(assist.pools["antigravity"].first.as_ref().unwrap().as_str(), "daily");
    assert_eq!(config.accounts["acme"].balance.unwrap().nanos(), 25_000_000_000);
    let key = &config.keys[0];
    assert_eq!(key.spend_limit.as_ref().unwrap().period.cycle, Cycle::Month);
    assert!(matches!(key.quotas[1].amount, Amount::Tokens(n) if n.get() == 2_000_000));
    assert_eq!(key.quotas[1].extent, Extent::Sliding(Duration::from_hours(24)));
    assert_eq!(config.keys[1].secret, crate::ids::SecretHash::of("hg-example-lab"));
    assert_eq!(config.tiers["standard"].len(), 2);
    assert_eq!(config.models["claude-sonnet-4.5"].tier.as_ref().unwrap().as_str(), "standard");
}

#[test]
fn one_pass_finds_every_fault_in_the_order_of_the_file() {
    let text = "\
listen: nowhere
redis: {urll: managed}
providers:
  openai: {dialect: klingon, base_url: https://up.example/v1}
connections:
  - id: a
    provider: opanai
    rpm: zero
  - {id: b, provider: openai, api_key: '${NOT_SET}', wieght: 2}
  - {id: b, provider: openai, api_key: x, models: [m, nothing]}
models:
  m: {provider: openai, larger: n, tier: lite}
  n: {provider: openai, larger: m}
aliases: {m: n}
keys:
  - id: k
    byok: [c]
";
    assert_eq!(
        places(text),
        [
            "1: listen",
            "2: redis.urll",
            "4: providers.openai.dialect",
            "6: connections[0].api_key",
            "7: connections[0].provider",
            "8: connections[0].rpm",
            "9: connections[1].api_key",
            "9: connections[1].wieght",
            "10: connections[2].id",
            "10: connections[2].models[1]",
            "12: models.m.larger",
            "14: aliases.m",
            "16: keys[0].secret",
            "17: keys[0].byok[0]",
        ]
    );
}

#[test]
fn a_text_that_is_no_yaml_is_refused_at_its_line() {
    for (text, line) in [
        ("a: b: c\n", 1),
        ("a: 1\nb: [1\n", 2),
        ("a: 1\n  b: 2\n", 2),
        ("a: *unknown\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: !tag 1\n", 1),
        ("? [a]\n: 1\n", 1),
        (&"[".repeat(40), 1),
    ] {
        let faults = read(text).expect_err(text);
        assert_eq!((faults.len(), faults[0].line), (1, line), "{text}\n{}", report(&faults));
        assert!(faults[0].message.starts_with("no YAML"), "{}", faults[0]);
    }
    let faults = read("a: {b: ${C}}\n").unwrap_err();
    assert!(faults[0].expected.contains("quotes around ${NAME}"), "{}", faults[0]);
}

#[test]
fn an_empty_file_and_a_list_are_no_configuration() {
    for text in ["", "# nothing\n", "- a\n", "text\n"] {
        let faults = read(text).expect_err(text);
        assert_eq!((faults.len(), faults[0].line), (1, 1), "{text:?}\n{}", report(&faults));
    }
    assert_eq!(places("listen: 1.2.3.4:5\n"), ["1: providers", "1: connections"]);
}

#[test]
fn variables_are_put_into_texts_and_numbers_but_never_become_yaml() {
    let config = good(&BASE.replace("hg-k", "${UNSET:-hg-}${SEVEN}\n    rpm: ${SEVEN}\n    tpm: \"${SEVEN}0\""));
    assert_eq!(config.keys[0].secret, crate::ids::SecretHash::of("hg-7"));
    assert_eq!(config.keys[0].rpm.unwrap().get(), 7);
    assert_eq!(config.keys[0].tpm.unwrap().get(), 70);
    let text = BASE.replace("id: k", "id: ${TRICK}");
    assert_eq!(places(&text), ["10: keys[0].id"]);
    // A key that looks like a number is still a text when it comes from the environment.
    let config = good(&BASE.replace("sk-a", "${SEVEN}"));
    assert!(matches!(&config.connections["a"].credential, Credential::ApiKey(key) if key.expose_secret() == "7"));
}

#[test]
fn no_fault_shows_a_secret_or_a_value_from_the_environment() {
    let secrets = "\
listen: ${SECRET}
redis: {url: \"http://:sk-very-secret@h\", prefix: \"${SECRET}!\"}
providers:
  openai: {dialect: \"${SECRET}\", base_url: \"https://sk-very-secret@h\"}
connections:
  - {id: a, provider: \"${SECRET}\", api_key: \"sk-very-secret \", owner: \"${SECRET}\", rpm: \"${SECRET}\"}
keys:
  - {id: a, secret: \"sk-very-secret \", secret_sha256: sk-very-secret, account: \"${SECRET}\", byok: [\"${SECRET}\"]}
";
    let shown = report(&read(secrets).expect_err("all of it is wrong"));
    assert!(shown.lines().count() >= 12, "{shown}");
    assert!(!shown.contains("very-secret"), "{shown}");
    let debug = format!("{:?}", good(&BASE.replace("sk-a", "${SECRET}")));
    assert!(!debug.contains("very-secret") && !debug.contains("hg-k"), "{debug}");
}

#[test]
fn a_key_file_is_read_beside_the_configuration_and_trimmed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "\n  sk-file \n").unwrap();
    std::fs::write(folder.path().join("empty"), "\n").unwrap();
    let file = folder.path().join("headgate.yaml");
    std::fs::write(&file, BASE.replace("api_key: sk-a", "api_key_file: key")).unwrap();
    let config = load(&file).unwrap();
    assert!(matches!(&config.connections["a"].credential, Credential::ApiKey(key) if key.expose_secret() == "sk-file"));
    std::fs::write(&file, BASE.replace("api_key: sk-a", "api_key_file: empty")).unwrap();
    let faults = load(&file).unwrap_err();
    assert_eq!((faults[0].line, faults[0].field.as_str()), (6, "connections[0].api_key_file"));
    let faults = load(&folder.path().join("none.yaml")).unwrap_err();
    assert!(faults[0].to_string().contains("none.yaml: the file cannot be read"), "{}", faults[0]);
}

#[test]
fn faults_are_printed_one_a_line_with_file_line_column_and_field() {
    let shown = report(&read(&BASE.replace("provider: openai\n", "provider: opanai\n")).unwrap_err());
    assert_eq!(
        shown,
        "headgate.yaml:5:15: connections[0].provider: no provider is named \"opanai\", did you mean openai?, \
         expected a provider of this file\n"
    );
}

#[test]
fn what_is_odd_but_allowed_is_a_notice() {
    let text =
        BASE.replace("  m: {", "  unserved: {provider: openai}\n  m: {").replace("sk-a", "sk-a\n    models: [m]")
            + "    models: [\"gpt-*\"]\n    platform_fallback: false\naccounts: [{id: default, overdraft: none}]\n";
    let notices: Vec<String> =
        good(&text).notices.iter().map(|notice| format!("{}: {}", notice.line, notice.field)).collect();
    assert_eq!(
        notices,
        ["9: models.unserved", "14: keys[0].models[0]", "15: keys[0].platform_fallback", "16: accounts[0].overdraft"]
    );
    let text = BASE.replace("models:\n  m: {provider: openai}\n", "");
    assert_eq!(
        good(&text).notices[0].to_string(),
        "headgate.yaml:4:5: connections[0]: notice: serves no model: its provider has none and it lists none"
    );
}

#[test]
fn tiers_join_what_lists_and_models_say() {
    let text = BASE.replace("  m: {provider: openai}", "  m: {provider: openai, tier: lite}\n  n: {provider: openai}")
        + "tiers: {lite: [n]}\n";
    let config = good(&text);
    let lite: Vec<&str> = config.tiers["lite"].iter().map(ModelName::as_str).collect();
    assert_eq!(lite, ["n", "m"]);
    assert_eq!(config.models["n"].tier, config.models["m"].tier);
    let config = good(&BASE.replace("{provider: openai}", "{provider: openai, tier: pro}"));
    assert_eq!(config.tiers["pro"].len(), 1);
    assert_eq!(
        places(&(BASE.replace("{provider: openai}", "{provider: openai, tier: pro}") + "tiers: {lite: []}\n")),
        ["8: models.m.tier"]
    );
}

#[test]
fn anchors_are_allowed_and_point_to_where_they_are_used() {
    let text = BASE.replace(
        "secret: hg-k",
        "secret: hg-k\n    spend_limit: &limit {usd: 1}\n  - id: l\n    secret: hg-l\n    spend_limit: *limit",
    );
    assert_eq!(good(&text).keys[1].spend_limit, good(&text).keys[0].spend_limit);
    assert_eq!(places(&text.replace("spend_limit: *limit", "rpm: *limit")), ["15: keys[1].rpm"]);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        let _ = read(&text);
    }

    #[test]
    fn no_broken_example_makes_the_reader_panic(
        cut in 0..FULL.len(),
        length in 0_usize..40,
        new in "[\\[\\]{}:,&*!|>'\"%@`#\\- \n\ta-z0-9$.]{0,12}",
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        let end = (cut + length).min(bytes.len());
        bytes.splice(cut..end, new.bytes());
        if let Err(faults) = read(&String::from_utf8_lossy(&bytes)) {
            prop_assert!(!faults.is_empty());
        }
    }
}
