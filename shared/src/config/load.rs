//! A file's text to a configuration, or to everything that is wrong with it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::accounts::Account;
use super::connections::ConnectionSpec;
use super::fault::Fault;
use super::groups::Group;
use super::images::Images;
use super::keys::Key;
use super::limits::{Limits, Timeouts};
use super::models::Model;
use super::names::Names;
use super::providers::Provider;
use super::reader::{At, Reader};
use super::redis::Redis;
use super::section::draft;
use super::yaml::{self, Node, SyntaxError};
use super::{Config, whole};
use crate::ids::{GroupId, ModelName, ProviderId, TierId};

draft! {
    /// The configuration of Headgate: one file, the same for every replica. `${NAME}` and `${NAME:-default}` are taken from the
    /// environment in any text.
    struct FileDraft {
        /// Where clients are served.
        listen: SocketAddr = "0.0.0.0:8080",
        /// Where metrics, the admin API and the status page are served.
        admin_listen: SocketAddr = "127.0.0.1:9090",
        /// The shared state.
        redis: Redis = "{}",
        /// Upstream services, by name.
        providers: IndexMap<ProviderId, Provider> = required,
        /// Credentials at the providers.
        connections: Vec<ConnectionSpec> = required,
        /// Models, by the name that callers use. In a file without this field the models that connections list exist, each at
        /// the provider of the first connection that lists it.
        models: IndexMap<ModelName, Model> = optional,
        /// Other names of models.
        aliases: IndexMap<ModelName, At<ModelName>> = optional,
        /// Models of equal capability, in order: each is a peer of those of other providers. In a file without this field the
        /// tiers that models name exist.
        tiers: IndexMap<TierId, Vec<At<ModelName>>> = optional,
        /// Channel groups that connections are in; one that is not listed has the defaults.
        groups: IndexMap<GroupId, Group> = optional,
        /// How long requests in flight may go on after the signal to stop.
        drain_timeout: Duration = "30s",
        /// Waits, attempts and sizes.
        limits: Limits = "{}",
        /// Time limits of one upstream call.
        timeouts: Timeouts = "{}",
        /// Images behind a URL.
        images: Images = "{}",
        /// Accounts. In a file without this field those that keys name exist, without a money limit.
        accounts: Vec<Account> = optional,
        /// Client keys under version control; others are made at run time.
        keys: Vec<Key> = optional,
    }
}

/// Reads a file and checks it whole; variables come from this process's environment. Every fault is in the answer, in the
/// order of the file; a file that is no YAML ends at the first.
pub fn load(path: &Path) -> Result<Config, Vec<Fault>> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("the file cannot be read ({})", error.kind());
        vec![whole_file(path, message)]
    })?;
    parse(&text, path, &|name| std::env::var(name).ok())
}

/// As [`load`], from a text. `file` names it in faults, and relative paths in it begin at its folder.
pub fn parse(text: &str, file: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Vec<Fault>> {
    let name = file.display().to_string();
    let root = yaml::parse(text).map_err(|error| vec![no_yaml(text, file, &error)])?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut reader = Reader::new(&name, folder, env, Names::gather(&root, env));
    let config = FileDraft::read(&root, &mut reader).and_then(|draft| build(draft, &root, &mut reader));
    let Reader { mut faults, mut notices, .. } = reader;
    faults.sort_by_key(|fault| (fault.line, fault.column));
    notices.sort_by_key(|notice| (notice.line, notice.column));
    match config {
        Some(config) if faults.is_empty() => Ok(Config { version: version(text), notices, ..config }),
        None if faults.is_empty() => {
            Err(vec![whole_file(file, "cannot be read, for a reason that is a bug".to_owned())])
        }
        _ => Err(faults),
    }
}

/// The JSON Schema (draft 2020-12) of the file: every field with its meaning and default, nothing else allowed. It is made from
/// the description that the file is read by.
pub fn schema() -> Json {
    let mut schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Headgate"});
    if let (Json::Object(schema), Json::Object(file)) = (&mut schema, FileDraft::schema()) {
        schema.extend(file);
    }
    schema
}

fn whole_file(file: &Path, message: String) -> Fault {
    Fault {
        file: file.display().to_string(),
        line: 0,
        column: 0,
        field: String::new(),
        message,
        expected: String::new(),
    }
}

/// The fault of a text that is no YAML. The most likely mistake has its hint.
fn no_yaml(text: &str, file: &Path, error: &SyntaxError) -> Fault {
    let line = text.lines().nth(error.at.line - 1).unwrap_or_default();
    let hint = if line.contains("${") { "quotes around ${NAME} inside {...} and [...]" } else { "" };
    Fault {
        line: error.at.line,
        column: error.at.column,
        expected: hint.to_owned(),
        ..whole_file(file, format!("no YAML: {}", error.message))
    }
}

/// The first 12 digits of the SHA-256 of the text.
fn version(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().take(6).fold(String::with_capacity(12), |mut version, byte| {
        let _ = write!(version, "{byte:02x}");
        version
    })
}

/// Checks what the parts say together, then puts them together. Checks come first: they find what they can whatever is missing.
fn build(draft: FileDraft, root: &Node, reader: &mut Reader<'_>) -> Option<Config> {
    if let (Some(listen), Some(admin)) = (draft.listen.value, draft.admin_listen.value)
        && listen == admin
        && listen.port() != 0
    {
        let place = if draft.admin_listen.given { &draft.admin_listen.place } else { &draft.listen.place };
        reader.fault(place, "both planes listen here", "two addresses");
    }
    whole::check_declared(root, reader);
    let aliases = draft.aliases.value.map(|aliases| whole::aliases(aliases, reader));
    let specs = draft.connections.value.unwrap_or_default();
    let mut models = whole::models(draft.models.value.unwrap_or_default(), &specs, root);
    let tiers = draft.tiers.value.map(|tiers| whole::tiers(tiers, &mut models, reader));
    if !reader.faults.is_empty() {
        return None;
    }
    let connections = whole::connections(specs, &models);
    whole::notice_unserved(&models, &connections, root, reader);
    let keys = draft.keys.value?;
    Some(Config {
        listen: draft.listen.value?,
        admin_listen: draft.admin_listen.value?,
        redis: draft.redis.value?,
        providers: draft.providers.value?,
        groups: whole::groups(&draft.groups.value?, &connections, reader)?,
        connections,
        models,
        aliases: aliases?,
        tiers: tiers?,
        drain_timeout: draft.drain_timeout.value?,
        limits: draft.limits.value?,
        timeouts: draft.timeouts.value?,
        images: draft.images.value?,
        accounts: whole::accounts(draft.accounts.value?, &keys, root),
        keys,
        version: String::new(),
        notices: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
