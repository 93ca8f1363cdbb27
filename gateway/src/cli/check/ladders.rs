//! The ladder of a model as a person reads it, one for each kind of caller whose ladder differs.

use std::sync::{Arc, LazyLock};

use shared::config::{Config, Key};
use shared::ids::{AccountId, ModelName};
use shared::money::Rates;

use crate::catalog::prices::Source;
use crate::catalog::{Catalog, Model, Owner, Serving};
use crate::cli::table;
use crate::flow::plan::{Ladder, Means, Order, Peers, Platform, Step, plan};

/// The owner of connections that belong to no account; no account may have this name.
const PLATFORM: &str = "platform";

const HEADER: [&str; 11] = [
    "rung",
    "step",
    "model",
    "owner",
    "group",
    "connection",
    "upstream model",
    "region",
    "priority",
    "weight",
    "limits",
];

/// An account that owns nothing, as none may be called so.
static NOBODY: LazyLock<Option<AccountId>> = LazyLock::new(|| AccountId::parse(PLATFORM).ok());

/// A ladder and the callers it is for.
struct Shown {
    callers: Vec<String>,
    table: String,
}

/// The ladders of a model, each under the callers who climb it.
pub(super) fn of_model(config: &Config, catalog: &Catalog, name: &ModelName) -> String {
    let mut text = format!("{name}{}, {}\n", aliases(config, name), price(catalog.model(name.as_str())));
    let Some(ready) = catalog.model(name.as_str()) else { return text };
    if ready.serving.is_empty() {
        let written = config.connections.values().any(|connection| connection.models.contains_key(name));
        text += if written { "  none of its connections can be called yet\n" } else { "  no connection serves it\n" };
        return text;
    }
    let mut shown: Vec<Shown> = Vec::new();
    for caller in callers(config, name) {
        let table = rungs(config, &plan(catalog, caller.means(), ready, None));
        match shown.iter_mut().find(|other| other.table == table) {
            Some(other) => other.callers.push(caller.name),
            None => shown.push(Shown { callers: vec![caller.name], table }),
        }
    }
    for (index, Shown { callers, table }) in shown.iter().enumerate() {
        // The first ladder is that of everyone who brings no connections; only others are told apart by name.
        let callers = if index == 0 { callers[0].clone() } else { callers.join(", ") };
        text.extend(["  ", &callers, "\n", table]);
    }
    text
}

/// Someone who may ask for the model.
struct Caller<'a> {
    name: String,
    account: &'a AccountId,
    key: Option<&'a Key>,
    /// Patterns of the models the key may use.
    models: Vec<String>,
    residency: Option<&'a str>,
}

impl Caller<'_> {
    fn means(&self) -> Means<'_> {
        let means = Means { models: &self.models, residency: self.residency, ..Means::of(self.account) };
        let Some(key) = self.key else { return means };
        let platform = if key.platform_fallback { Platform::Allowed } else { Platform::Denied };
        let peers = if key.peers { Peers::Allowed } else { Peers::Denied };
        Means { byok: &key.byok, platform, peers, ..means }
    }
}

/// A caller without connections of its own, every key of the file that may use the model, and accounts that have connections
/// but no key in the file: theirs are made at run time.
fn callers<'a>(config: &'a Config, model: &ModelName) -> Vec<Caller<'a>> {
    let mut callers = Vec::new();
    if let Some(nobody) = NOBODY.as_ref() {
        let name = "platform callers".to_owned();
        callers.push(Caller { name, account: nobody, key: None, models: Vec::new(), residency: None });
    }
    let names: Vec<&ModelName> =
        config.aliases.iter().filter(|(_, target)| *target == model).map(|(alias, _)| alias).chain([model]).collect();
    for key in &config.keys {
        let allowed = key
            .models
            .as_ref()
            .is_none_or(|patterns| patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name))));
        if allowed {
            let name = format!("account {}, key {}", key.account, key.id);
            let patterns = key.models.iter().flatten();
            let models = patterns.map(|pattern| pattern.as_str().to_owned()).collect();
            let residency = residency(config, &key.account);
            callers.push(Caller { name, account: &key.account, key: Some(key), models, residency });
        }
    }
    for account in config.accounts.keys().filter(|id| config.keys.iter().all(|key| key.account != **id)) {
        let (name, residency) = (format!("account {account}"), residency(config, account));
        callers.push(Caller { name, account, key: None, models: Vec::new(), residency });
    }
    callers
}

fn residency<'a>(config: &'a Config, account: &AccountId) -> Option<&'a str> {
    config.accounts.get(account)?.residency.as_ref().map(shared::config::Region::as_str)
}

fn aliases(config: &Config, name: &ModelName) -> String {
    let own: Vec<&str> =
        config.aliases.iter().filter(|(_, target)| *target == name).map(|(alias, _)| alias.as_str()).collect();
    if own.is_empty() { String::new() } else { format!(" ({})", own.join(", ")) }
}

/// What a model costs, and who says so.
fn price(model: Option<&Arc<Model>>) -> String {
    let Some(model) = model else { return "unknown".to_owned() };
    let source = match &model.price_source {
        Source::File => "this file".to_owned(),
        Source::List { provider, model } => format!("the bundled list: {provider}/{model}"),
        Source::Nowhere(why) => return format!("no price: {why} (refused for accounts with money limits)"),
    };
    let Some(price) = &model.price else { return "no price".to_owned() };
    if price.is_free() {
        return format!("free, by {source}");
    }
    let long = price.long_context.as_ref();
    let long =
        long.map_or_else(String::new, |long| format!("; above {} tokens of input {}", long.above, told(&long.rates)));
    format!("{} per million tokens{long}, by {source}", told(&price.rates))
}

/// The rates of the token classes; one that costs the same as the class it stands for says nothing new.
fn told(rates: &Rates) -> String {
    let classes = [
        ("input", rates.input, None),
        ("cached input", rates.cached_input, Some(rates.input)),
        ("cache write", rates.cache_write, Some(rates.input)),
        ("cache write 1 h", rates.cache_write_1h, Some(rates.cache_write)),
        ("output", rates.output, None),
        ("reasoning", rates.reasoning, Some(rates.output)),
        ("audio input", rates.input_audio, Some(rates.input)),
        ("audio output", rates.output_audio, Some(rates.output)),
    ];
    let told = classes.iter().filter(|(_, rate, usual)| usual.is_none_or(|usual| usual != *rate));
    let told: Vec<String> =
        told.map(|(class, rate, _)| format!("{class} {}", dollars(rate.nanos_per_million()))).collect();
    told.join(", ")
}

fn dollars(nanos: u64) -> String {
    let nanos = i64::try_from(nanos).ok().and_then(|nanos| shared::money::NanoDollars::new(nanos).ok());
    nanos.map_or_else(|| "?".to_owned(), |amount| amount.to_string())
}

/// One line a rung, in the order it is tried.
fn rungs(config: &Config, ladder: &Ladder) -> String {
    if ladder.steps.is_empty() {
        return "    no connection serves these callers\n".to_owned();
    }
    let mut rows = Vec::new();
    for (index, step) in ladder.steps.iter().chain(&ladder.larger).enumerate() {
        let only = if index < ladder.steps.len() { "" } else { ", if too long" };
        for serving in ordered(step) {
            rows.push(row(config, step, serving, (rows.len() + 1, format!("{}{only}", index + 1))));
        }
    }
    table::text("   ", HEADER, rows) + &chains(ladder)
}

/// The endpoints of connections that have several, in the order they are tried.
fn chains(ladder: &Ladder) -> String {
    let mut lines: Vec<String> = Vec::new();
    for serving in ladder.rungs().map(|rung| &rung.serving).filter(|serving| serving.endpoints.len() > 1) {
        let names: Vec<&str> = serving.endpoints.iter().map(|endpoint| endpoint.id.as_str()).collect();
        let line = format!("    {} tries {}\n", within(&serving.connection.id, serving), names.join(", then "));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.concat()
}

/// A name, and the pool it is in where there are pools.
fn within(name: &impl std::fmt::Display, serving: &Serving) -> String {
    match &serving.pool {
        Some(pool) => format!("{name} in {}", pool.id),
        None => name.to_string(),
    }
}

/// The rungs of a step in the order they are offered; those that are drawn by weight as the file has them.
fn ordered(step: &Step) -> Vec<&Serving> {
    let mut rungs: Vec<_> = step.rungs.iter().map(|rung| &rung.serving).collect();
    if step.order != Order::Listed {
        rungs.sort_by_key(|serving| serving.connection.priority);
    }
    rungs
}

fn row(config: &Config, step: &Step, serving: &Serving, (rung, number): (usize, String)) -> [String; 11] {
    let connection = &serving.connection;
    let written = config.connections.get(&connection.id);
    let order = match step.order {
        Order::Listed => "as listed",
        Order::Priority => "by priority",
        Order::Spread => "spread",
    };
    let owner = match &step.owner {
        Owner::Platform => PLATFORM.to_owned(),
        Owner::Account(account) => account.to_string(),
    };
    let region = written.and_then(|connection| connection.region.as_ref());
    let tpm = written.and_then(|connection| connection.tpm);
    let limits = [
        connection.max_concurrent.map(|most| format!("{most} at once")),
        connection.rpm.map(|most| format!("{most} requests/min")),
        tpm.map(|most| format!("{most} tokens/min")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    [
        rung.to_string(),
        format!("{number} {order}"),
        step.model.name.to_string(),
        owner,
        step.group.to_string(),
        connection.id.to_string(),
        within(&serving.upstream_model, serving),
        region.map_or_else(|| "-".to_owned(), |region| region.as_str().to_owned()),
        connection.priority.to_string(),
        connection.weight.to_string(),
        if limits.is_empty() { "-".to_owned() } else { limits.join(", ") },
    ]
}
