//! The text of a configuration file, from what a scenario cares about.

use std::fmt::Write as _;

/// The secret of the client key `ci` of account `acme`, which every configuration has.
pub const SECRET: &str = "hg-ci-secret";
/// What the admin plane of every replica asks for.
pub const ADMIN_TOKEN: &str = "test-admin-token";

/// The secret of any other key that was added with [`Config::key`].
pub fn secret_of(key: &str) -> String {
    format!("hg-{key}-secret")
}

/// A configuration: one OpenAI provider (the fake upstream) with connections `conn-1`, `conn-2`, … whose credentials are
/// `cred-1`, `cred-2`, …; models `m1` and `m2` at $1 input, $0.10 cached input, $10 output per million tokens; account `acme`
/// with key `ci`. `{REDIS}` and `{FAKE}` stand for the two URLs until a cluster is started.
#[derive(Debug, Clone, Default)]
pub struct Config {
    connections: Vec<String>,
    every_connection: String,
    account: String,
    accounts: String,
    ci: String,
    keys: String,
    providers: String,
    models: String,
    others: String,
    more: String,
}

impl Config {
    /// With this many connections of equal standing, without limits.
    pub fn connections(count: usize) -> Self {
        Self { connections: vec![String::new(); count], ..Self::default() }
    }

    /// A field of every connection, e.g. `max_concurrent: 4`.
    #[must_use]
    pub fn each(mut self, field: &str) -> Self {
        self.every_connection.extend([", ", field]);
        self
    }

    /// A field of one connection, counted from 1.
    #[must_use]
    pub fn connection(mut self, number: usize, field: &str) -> Self {
        let _ = write!(self.connections[number - 1], ", {field}");
        self
    }

    /// A field of account `acme`, e.g. `balance: 25.00`.
    #[must_use]
    pub fn account(mut self, field: &str) -> Self {
        self.account.extend([", ", field]);
        self
    }

    /// A field of key `ci`, e.g. `rpm: 10`.
    #[must_use]
    pub fn ci(mut self, field: &str) -> Self {
        self.ci.extend([", ", field]);
        self
    }

    /// One more key of account `acme`; its secret is [`secret_of`] its id. `fields` may be empty.
    #[must_use]
    pub fn key(mut self, id: &str, fields: &str) -> Self {
        let fields = if fields.is_empty() { String::new() } else { format!(", {fields}") };
        let _ = writeln!(self.keys, "  - {{id: {id}, account: acme, secret: {}{fields}}}", secret_of(id));
        self
    }

    /// Another account, with one key of the same id; the key's secret is [`secret_of`] it. `fields` of the key may be empty.
    #[must_use]
    pub fn caller(mut self, account: &str, fields: &str) -> Self {
        let fields = if fields.is_empty() { String::new() } else { format!(", {fields}") };
        let _ = writeln!(self.accounts, "  - {{id: {account}}}");
        let secret = secret_of(account);
        let _ = writeln!(self.keys, "  - {{id: {account}, account: {account}, secret: {secret}{fields}}}");
        self
    }

    /// One more provider, e.g. `ca: {dialect: code_assist, endpoints: [{name: daily, url: "{FAKE}/daily"}]}`.
    #[must_use]
    pub fn provider(mut self, line: &str) -> Self {
        let _ = writeln!(self.providers, "  {line}");
        self
    }

    /// One more model, e.g. `m3: {provider: ca}`.
    #[must_use]
    pub fn model(mut self, line: &str) -> Self {
        let _ = writeln!(self.models, "  {line}");
        self
    }

    /// One more connection, e.g. `id: ca-1, provider: ca, api_key: cred-ca`.
    #[must_use]
    pub fn also(mut self, fields: &str) -> Self {
        let _ = writeln!(self.others, "  - {{{fields}}}");
        self
    }

    /// More top-level sections, as they are, e.g. `limits: {key_wait: 0s}`.
    #[must_use]
    pub fn more(mut self, yaml: &str) -> Self {
        self.more.push_str(yaml);
        self.more.push('\n');
        self
    }

    /// The file's text. The places for `listen` and `admin_listen` are ports the OS chooses.
    pub fn yaml(&self) -> String {
        let mut text = String::from(
            "listen: 127.0.0.1:0\n\
             admin_listen: 127.0.0.1:0\n\
             redis: {url: \"{REDIS}\", timeout: 1s}\n\
             providers:\n  fake: {dialect: openai, base_url: \"{FAKE}/v1\"}\n",
        );
        text.push_str(&self.providers);
        text.push_str(
            "models:\n\
             \x20 m1: {provider: fake, price: {input: 1, cached_input: 0.10, output: 10}}\n\
             \x20 m2: {provider: fake, price: {input: 1, cached_input: 0.10, output: 10}}\n",
        );
        text.push_str(&self.models);
        text.push_str("connections:\n");
        let shared = &self.every_connection;
        for (place, own) in self.connections.iter().enumerate() {
            let number = place + 1;
            let _ = writeln!(text, "  - {{id: conn-{number}, provider: fake, api_key: cred-{number}{shared}{own}}}");
        }
        text.push_str(&self.others);
        let _ = writeln!(text, "accounts:\n  - {{id: acme{}}}", self.account);
        text.push_str(&self.accounts);
        let _ = writeln!(text, "keys:\n  - {{id: ci, account: acme, secret: {SECRET}{}}}", self.ci);
        text.push_str(&self.keys);
        text.push_str(&self.more);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_holds_what_was_asked_for() {
        let config =
            Config::connections(2).each("max_concurrent: 4").connection(2, "priority: 1").ci("rpm: 10").key("b", "");
        let yaml = config.yaml();
        assert!(
            yaml.contains("{id: conn-2, provider: fake, api_key: cred-2, max_concurrent: 4, priority: 1}"),
            "{yaml}"
        );
        assert!(yaml.contains("{id: ci, account: acme, secret: hg-ci-secret, rpm: 10}"), "{yaml}");
        assert!(yaml.contains("{id: b, account: acme, secret: hg-b-secret}"), "{yaml}");
    }
}
