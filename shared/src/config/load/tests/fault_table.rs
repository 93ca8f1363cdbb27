//! One wrong line each, and where it is found.

use super::*;

/// Every row replaces one text of [`BASE`] and says where the fault is and part of what it says.
#[test]
fn each_fault_names_its_line_and_field() {
    good(BASE);
    let mut wrong = Vec::new();
    for (old, new, place, said) in TABLE {
        assert!(BASE.contains(old), "{old}");
        let text = BASE.replacen(old, new, 1);
        let faults = read(&text).err().unwrap_or_default();
        let seen: Vec<String> = faults.iter().map(|f| format!("{}:{} {}", f.line, f.column, f.field)).collect();
        if seen != [*place] || !faults[0].to_string().contains(said) {
            wrong.push(format!("{new}\n  wanted {place} saying {said}\n{}", report(&faults)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is replaced, by what, the only fault's place, part of its text.
pub(super) const TABLE: &[(&str, &str, &str, &str)] = &[
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    quota:\n      - requests: 5\n        window: 6h\n        bucket: x\n",
        "10:17 connections[0].quota[0].bucket",
        "no bucket",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    google_oauth: {refresh_token: r, client_id: c, client_secret: s}\n",
        "7:5 connections[0].google_oauth",
        "one too many",
    ),
    // Unknown, missing, repeated and empty fields.
    (
        "    provider: openai\n",
        "    provder: openai\n    provider: openai\n",
        "5:5 connections[0].provder",
        "did you mean provider?",
    ),
    ("    provider: openai\n", "", "4:5 connections[0].provider", "missing"),
    ("dialect: openai, ", "", "2:11 providers.openai.dialect", "missing"),
    ("providers:", "provider: {}\nproviders:", "1:1 provider", "did you mean providers?"),
    ("  - id: k\n    secret", "  - secret", "10:5 keys[0].id", "missing"),
    ("    api_key: sk-a\n", "    api_key: sk-a\n    api_key: sk-b\n", "7:5 connections[0].api_key", "second time"),
    ("keys:", "limits:\nkeys:", "9:7 limits", "has no value"),
    ("    secret: hg-k", "    secret: hg-k\n    rpm: null", "12:10 keys[0].rpm", "has no value"),
    // Wrong types.
    ("    secret: hg-k", "    secret: hg-k\n    rpm: many", "12:10 keys[0].rpm", "a whole number from 1"),
    ("    secret: hg-k", "    secret: hg-k\n    rpm: \"60\"", "12:10 keys[0].rpm", "without quotes"),
    ("    secret: hg-k", "    secret: hg-k\n    rpm: 1.5", "12:10 keys[0].rpm", "a whole number"),
    ("    secret: hg-k", "    secret: hg-k\n    rpm: 0", "12:10 keys[0].rpm", "from 1"),
    ("    secret: hg-k", "    secret: hg-k\n    rpm: -1", "12:10 keys[0].rpm", "from 1"),
    ("    secret: hg-k", "    secret: hg-k\n    tpm: 99999999999", "12:10 keys[0].tpm", "to 4294967295"),
    ("    secret: hg-k", "    secret: hg-k\n    peers: yes", "12:12 keys[0].peers", "true or false"),
    ("    secret: hg-k", "    secret: hg-k\n    rpm:\n      a: 1", "12:5 keys[0].rpm", "found a map"),
    ("    secret: hg-k", "    secret: hg-k\n    byok: a", "12:11 keys[0].byok", "expected a list"),
    ("    secret: hg-k", "    secret: 1234", "11:13 keys[0].secret", "in quotes"),
    ("connections:\n  - id: a", "connections:\n  - id: 1e3", "4:9 connections[0].id", "in quotes"),
    ("  m: {provider: openai}", "  m: {provider: openai, context: big}", "8:34 models.m.context", "a whole number"),
    ("  m: {provider: openai}", "  a:b: {provider: openai}", "8:3 models.a:b", "a model name"),
    ("keys:\n", "keys:\n  - nonsense\n", "10:5 keys[0]", "a map of fields"),
    // Times, sizes, money, addresses.
    ("keys:", "drain_timeout: 5\nkeys:", "9:16 drain_timeout", "a duration"),
    ("keys:", "drain_timeout: -5s\nkeys:", "9:16 drain_timeout", "a duration"),
    ("keys:", "drain_timeout: 1 day\nkeys:", "9:16 drain_timeout", "a duration"),
    ("keys:", "timeouts: {connect: 0s}\nkeys:", "9:21 timeouts.connect", "above zero"),
    ("keys:", "images: {timeout: 0s}\nkeys:", "9:19 images.timeout", "above zero"),
    ("keys:", "timeouts: {first_token: 16m}\nkeys:", "9:25 timeouts.first_token", "no part longer than total"),
    ("keys:", "limits: {body: 32MB}\nkeys:", "9:16 limits.body", "32MiB"),
    ("keys:", "limits: {attempts: {group: 7}}\nkeys:", "9:28 limits.attempts.group", "group <= request"),
    ("keys:", "listen: localhost\nkeys:", "9:9 listen", "an address and port"),
    ("keys:", "listen: 127.0.0.1:9090\nkeys:", "9:9 listen", "both planes"),
    ("keys:", "redis: {url: http://x}\nkeys:", "9:14 redis.url", "redis://host:port/db"),
    ("keys:", "redis: {url: redis+sentinel://h}\nkeys:", "9:14 redis.url", "redis+sentinel://host,host/master"),
    ("keys:", "redis: {prefix: \"a:b\"}\nkeys:", "9:17 redis.prefix", "letters"),
    ("keys:", "redis: {timeout: 0s}\nkeys:", "9:18 redis.timeout", "above zero"),
    (
        "{provider: openai}",
        "{provider: openai, price: {input: 1e3, output: 1}}",
        "8:40 models.m.price.input",
        "a price",
    ),
    ("{provider: openai}", "{provider: openai, price: {input: 1}}", "8:32 models.m.price.output", "missing"),
    ("keys:", "accounts: [{id: default, balance: -1}]\nkeys:", "9:35 accounts[0].balance", "from 0"),
    ("keys:", "accounts: [{id: default, balance: 1.0000000001}]\nkeys:", "9:35 accounts[0].balance", "9 decimals"),
    // Providers.
    ("dialect: openai", "dialect: opanai", "2:21 providers.openai.dialect", "one of openai anthropic"),
    ("https://up.example/v1", "ftp://up.example", "2:39 providers.openai.base_url", "an http or https URL"),
    ("https://up.example/v1", "https://u:p@up.example", "2:39 providers.openai.base_url", "without user"),
    ("https://up.example/v1", "https://up.example?key=1", "2:39 providers.openai.base_url", "query"),
    ("base_url: https://up.example/v1", "endpoints: []", "2:29 providers.openai.endpoints", "at least one"),
    (
        "https://up.example/v1",
        "https://up.example, endpoints: [{name: a, url: http://b}]",
        "2:59 providers.openai.endpoints",
        "one too many",
    ),
    (
        "base_url: https://up.example/v1",
        "endpoints: [{name: a, url: http://a}, {name: a, url: http://b}]",
        "2:74 providers.openai.endpoints[1].name",
        "already given",
    ),
    (
        "https://up.example/v1",
        "http://u, pools: {antigravity: {first: b}, gemini-cli: {}}",
        "2:78 providers.openai.pools.antigravity.first",
        "no endpoint",
    ),
    (
        "https://up.example/v1",
        "http://u, pools: {p: {}}, pool_rules: [{match: \"(\", pool: p}]",
        "2:86 providers.openai.pool_rules[0].match",
        "a regular expression",
    ),
    (
        "https://up.example/v1",
        "http://u, pools: {p: {}}, pool_rules: [{match: a, pool: q}]",
        "2:95 providers.openai.pool_rules[0].pool",
        "no pool",
    ),
    ("https://up.example/v1", "http://u, pools: {antigravity: {}}", "2:49 providers.openai.pools", "gemini-cli"),
    (
        "https://up.example/v1",
        "http://u, errors: [{status: 400, class: unavailble}]",
        "2:79 providers.openai.errors[0].class",
        "rate_limited capacity unavailable",
    ),
    (
        "https://up.example/v1",
        "http://u, errors: [{class: capacity}]",
        "2:58 providers.openai.errors[0].status",
        "status, contains or both",
    ),
    (
        "https://up.example/v1",
        "http://u, errors: [{status: 42, class: capacity}]",
        "2:67 providers.openai.errors[0].status",
        "100 to 599",
    ),
    // Connections.
    ("    provider: openai\n", "    provider: opanai\n", "5:15 connections[0].provider", "did you mean openai?"),
    ("    api_key: sk-a\n", "    api_key: \"\"\n", "6:14 connections[0].api_key", "a credential"),
    (
        "    api_key: sk-a\n",
        "    api_key_file: /nowhere/at/all\n",
        "6:19 connections[0].api_key_file",
        "cannot be read",
    ),
    (
        "    api_key: sk-a\n",
        "    rpm: 1\n",
        "4:5 connections[0].api_key",
        "exactly one of api_key, api_key_file, google_oauth",
    ),
    (
        "    api_key: sk-a\n",
        "    google_oauth: {refresh_token: r, client_id: c}\n",
        "6:19 connections[0].google_oauth.client_secret",
        "missing",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    owner: acme\n",
        "7:12 connections[0].owner",
        "no account is named \"acme\"",
    ),
    ("    api_key: sk-a\n", "    api_key: sk-a\n    weight: 0\n", "7:13 connections[0].weight", "from 1"),
    ("    api_key: sk-a\n", "    api_key: sk-a\n    region: US\n", "7:13 connections[0].region", "a region"),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    models: [m, x]\n",
        "7:17 connections[0].models[1]",
        "no model is named \"x\"",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    models: [m, m]\n",
        "7:17 connections[0].models[1]",
        "already given",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    models: {x: m}\n",
        "7:17 connections[0].models.x",
        "no model is named \"x\"",
    ),
    ("    api_key: sk-a\n", "    api_key: sk-a\n    models: []\n", "7:5 connections[0].models", "not empty"),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    limit_scope: buckets\n",
        "7:18 connections[0].limit_scope",
        "at least one entry",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    buckets: [{name: x, match: y}]\n",
        "7:5 connections[0].buckets",
        "limit_scope: buckets",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    limit_scope: buckets\n    buckets: [{name: x, match: '['}]\n",
        "8:32 connections[0].buckets[0].match",
        "a regular expression",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    quota: [{bucket: x, window: 6h, requests: 5}]\n",
        "7:22 connections[0].quota[0].bucket",
        "no bucket",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    quota: [{bucket: m, window: 6h}]\n",
        "7:13 connections[0].quota[0].requests",
        "exactly one of requests, tokens, usd",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    quota: [{bucket: m, period: day, window: 6h, usd: 5}]\n",
        "7:46 connections[0].quota[0].window",
        "exactly one of period, window",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n    quota: [{bucket: m, window: 6h, usd: 5, reserve: 150%}]\n",
        "7:54 connections[0].quota[0].reserve",
        "0% to 100%",
    ),
    (
        "    api_key: sk-a\n",
        "    api_key: sk-a\n  - {id: a, provider: openai, api_key: b}\n",
        "7:10 connections[1].id",
        "already given",
    ),
    // Models, aliases, tiers, groups.
    ("{provider: openai}", "{provider: nobody}", "8:17 models.m.provider", "no provider is named \"nobody\""),
    ("{provider: openai}", "{provider: openai, larger: mm}", "8:33 models.m.larger", "did you mean m?"),
    ("{provider: openai}", "{provider: openai, larger: m}", "8:33 models.m.larger", "leads back"),
    ("{provider: openai}", "{provider: openai, pools: [p]}", "8:33 models.m.pools[0]", "no pool"),
    ("keys:", "aliases: {m: m}\nkeys:", "9:11 aliases.m", "a model has this name"),
    ("keys:", "aliases: {a: m, b: a}\nkeys:", "9:20 aliases.b", "\"a\" is an alias"),
    ("keys:", "tiers: {lite: [x]}\nkeys:", "9:16 tiers.lite[0]", "no model is named \"x\""),
    ("keys:", "tiers: {lite: [m], pro: [m]}\nkeys:", "9:26 tiers.pro[0]", "already in a tier"),
    ("keys:", "groups: {openia: {}}\nkeys:", "9:10 groups.openia", "did you mean openai?"),
    (
        "keys:",
        "groups: {openai: {strategy: random}}\nkeys:",
        "9:29 groups.openai.strategy",
        "one of spread priority earliest_reset",
    ),
    // Accounts and keys.
    ("keys:", "accounts: [{id: acme}]\nkeys:", "11:5 keys[0].account", "no account is named \"default\""),
    ("keys:", "accounts: [{id: default}, {id: default}]\nkeys:", "9:32 accounts[1].id", "already given"),
    ("keys:", "accounts: [{id: default}, {id: platform}]\nkeys:", "9:32 accounts[1].id", "another id"),
    ("    secret: hg-k\n", "    rpm: 1\n", "10:5 keys[0].secret", "exactly one of secret, secret_sha256"),
    ("    secret: hg-k\n", "    secret_sha256: 3f0a\n", "11:20 keys[0].secret_sha256", "64 hexadecimal digits"),
    ("    secret: hg-k\n", "    secret: hg-k\n  - {id: k, secret: hg-l}\n", "12:10 keys[1].id", "already given"),
    ("    secret: hg-k\n", "    secret: hg-k\n  - {id: l, secret: hg-k}\n", "12:21 keys[1].secret", "already given"),
    (
        "    secret: hg-k\n",
        "    secret: hg-k\n    byok: [b]\n",
        "12:12 keys[0].byok[0]",
        "no connection is named \"b\"",
    ),
    ("    secret: hg-k\n", "    secret: hg-k\n    byok: [a]\n", "12:12 keys[0].byok[0]", "another owner"),
    ("    secret: hg-k\n", "    secret: hg-k\n    models: []\n", "12:5 keys[0].models", "at least one"),
    (
        "    secret: hg-k\n",
        "    secret: hg-k\n    spend_limit: {usd: 1, period: year}\n",
        "12:35 keys[0].spend_limit.period",
        "one of total hour day week month",
    ),
    (
        "    secret: hg-k\n",
        "    secret: hg-k\n    spend_limit: {usd: 1, time_zone: Europe/Berln}\n",
        "12:38 keys[0].spend_limit.time_zone",
        "IANA",
    ),
    (
        "    secret: hg-k\n",
        "    secret: hg-k\n    quotas: [{tokens: 5, window: 1h, time_zone: UTC}]\n",
        "12:49 keys[0].quotas[0].time_zone",
        "beside a period",
    ),
    (
        "    secret: hg-k\n",
        "    secret: hg-k\n    quotas: [{tokens: 5, window: 1h}, {tokens: 6, window: 60m}]\n",
        "12:39 keys[0].quotas[1]",
        "counts the same",
    ),
    ("  - id: k\n", "  - id: k\n    account: platform\n", "11:14 keys[0].account", "is no account"),
    // The environment.
    ("    api_key: sk-a\n", "    api_key: ${NOT_SET}\n", "6:14 connections[0].api_key", "NOT_SET is not set"),
    ("    api_key: sk-a\n", "    api_key: \"${NOT_SET}\"\n", "6:14 connections[0].api_key", "NOT_SET is not set"),
    ("    api_key: sk-a\n", "    api_key: ${EMPTY}\n", "6:14 connections[0].api_key", "a credential"),
    ("    api_key: sk-a\n", "    api_key: ${SPACED}\n", "6:14 connections[0].api_key", "without spaces"),
    ("    api_key: sk-a\n", "    api_key: \"${1}\"\n", "6:14 connections[0].api_key", "names no variable"),
    ("    secret: hg-k\n", "    secret: hg-k\n    rpm: ${SECRET}\n", "12:10 keys[0].rpm", "a whole number"),
];
