//! `headgate key`: make client keys, look at them, change and revoke them.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Map, Value as Json, json};
use shared::ids::{AccountId, KeyId};
use shared::limit::{Amount, Cycle, Extent, Quota, length};
use shared::state::roster::KeyEntry;
use shared::state::{StateError, Store};

use super::{ConfigFile, Shape, flag, print, store, table, within};
use crate::manage::usage::{Holder, Usage, time, usage, whole_tokens};
use crate::manage::{self, ManageError, shown};

/// Make client keys, look at them, change and revoke them. Every replica sees a change at once.
#[derive(Debug, clap::Args)]
pub(super) struct Key {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    shape: Shape,
    /// Whose keys.
    #[arg(long, global = true, default_value = "default")]
    account: AccountId,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key. Its secret is shown once, here.
    Create {
        /// Its name; it stands in the ledger.
        key: KeyId,
        #[command(flatten)]
        terms: Box<Terms>,
    },
    /// List the account's keys.
    List,
    /// Show a key, its limits and what is used of them.
    Show {
        /// Its name.
        key: KeyId,
    },
    /// Change limits and rights; those not named stay, `none` takes one away.
    Update {
        /// Its name.
        key: KeyId,
        #[command(flatten)]
        terms: Box<Terms>,
    },
    /// End a key for ever: nothing is admitted with it any more. Requests that run, run on.
    Revoke {
        /// Its name.
        key: KeyId,
    },
}

/// Limits and rights, as in the configuration.
#[derive(Debug, clap::Args)]
struct Terms {
    /// Requests in any 60 s.
    #[arg(long, allow_hyphen_values = true)]
    rpm: Option<String>,
    /// Tokens in any 60 s.
    #[arg(long, allow_hyphen_values = true)]
    tpm: Option<String>,
    /// Requests at a time.
    #[arg(long, allow_hyphen_values = true)]
    max_concurrent: Option<String>,
    /// Money in a period: total (the default), hour, day, week or month, of a time zone. `10`, `10/month`, `10/day@Europe/Berlin`.
    #[arg(long, value_name = "USD[/PERIOD[@ZONE]]", allow_hyphen_values = true)]
    spend_limit: Option<String>,
    /// How soon it is served where requests wait: 0 before 9.
    #[arg(long, value_name = "0…9", allow_hyphen_values = true)]
    priority: Option<String>,
    /// Requests, tokens or money in a period (as above) or in any time of a length. `requests=1000/day@Europe/Berlin`,
    /// `tokens=2000000/24h`, `usd=5/month`. These are all it has then.
    #[arg(long, value_delimiter = ',', value_name = "WHAT=MOST/TIME[@ZONE],…")]
    quota: Option<Vec<String>>,
    /// The models it may use, `*` for any characters.
    #[arg(long, value_delimiter = ',', value_name = "PATTERN,…")]
    models: Option<Vec<String>>,
    /// The account's own connections in the order they are tried.
    #[arg(long, value_delimiter = ',', value_name = "CONNECTION,…")]
    byok: Option<Vec<String>>,
    /// Whether the platform's connections serve what the account's own cannot.
    #[arg(long, value_name = "true|false")]
    platform_fallback: Option<String>,
    /// Whether a model's peers may stand in.
    #[arg(long, value_name = "true|false")]
    peers: Option<String>,
}

impl Terms {
    /// As the configuration would write them; null for what is to be taken away.
    fn json(self) -> Json {
        let list = |names: Vec<String>| if names == ["none"] { Json::Null } else { json!(names) };
        let terms = [
            ("rpm", self.rpm.as_deref().map(flag)),
            ("tpm", self.tpm.as_deref().map(flag)),
            ("max_concurrent", self.max_concurrent.as_deref().map(flag)),
            ("spend_limit", self.spend_limit.as_deref().map(spend_limit)),
            ("priority", self.priority.as_deref().map(flag)),
            ("quotas", self.quota.map(|quotas| quotas_of(&quotas))),
            ("models", self.models.map(list)),
            ("byok", self.byok.map(list)),
            ("platform_fallback", self.platform_fallback.as_deref().map(flag)),
            ("peers", self.peers.as_deref().map(flag)),
        ];
        terms.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// `10/month@Europe/Berlin` as the configuration writes it.
fn spend_limit(text: &str) -> Json {
    if text == "none" {
        return Json::Null;
    }
    let (usd, period) = text.split_once('/').map_or((text, None), |(usd, period)| (usd, Some(period)));
    // A text, for no JSON number is as exact.
    let mut limit = Map::from_iter([("usd".to_owned(), usd.into())]);
    if let Some(period) = period {
        let (period, zone) = period.split_once('@').map_or((period, None), |(period, zone)| (period, Some(zone)));
        limit.insert("period".to_owned(), period.into());
        limit.extend(zone.map(|zone| ("time_zone".to_owned(), zone.into())));
    }
    limit.into()
}

/// `requests=1000/day@Europe/Berlin` as the configuration writes it, each.
fn quotas_of(texts: &[String]) -> Json {
    if texts == ["none"] { Json::Null } else { texts.iter().map(|text| quota_of(text)).collect() }
}

/// What cannot be told apart is left for the reader of the configuration to refuse.
fn quota_of(text: &str) -> Json {
    let Some(((what, most), time)) = text.split_once('/').and_then(|(of, time)| Some((of.split_once('=')?, time)))
    else {
        return text.into();
    };
    let mut quota = Map::from_iter([(what.to_owned(), if what == "usd" { most.into() } else { flag(most) })]);
    let (time, zone) = time.split_once('@').map_or((time, None), |(time, zone)| (time, Some(zone)));
    let field = if time.starts_with(|first: char| first.is_ascii_digit()) { "window" } else { "period" };
    quota.insert(field.to_owned(), time.into());
    quota.extend(zone.map(|zone| ("time_zone".to_owned(), zone.into())));
    quota.into()
}

impl Key {
    /// 0 done; 1 not done: no such key or account, its name is taken, it is one of the file; 2 impossible terms; 3 no Redis.
    pub(super) fn run(self) -> ExitCode {
        let Self { file, shape, account, action } = self;
        within(&file.clone(), async move {
            let store = store::open(&file).await?;
            match action {
                Action::Create { key, terms } => create(&store, (&account, &key), terms.json(), shape).await,
                Action::List => {
                    let keys = manage::keys(&store, &account).await?;
                    let shown: Json = keys.iter().map(|entry| shown::key(&account, entry)).collect();
                    if shape.json { print(&format!("{shown}\n")) } else { print(&list(&keys)) }
                }
                Action::Show { key } => {
                    let entry = manage::key(&store, &account, &key).await?;
                    show(&store, &account, &entry, shape).await
                }
                Action::Update { key, terms } => {
                    let entry = manage::update_key(&store, &account, &key, &terms.json()).await?;
                    told(&account, &entry, shape)
                }
                Action::Revoke { key } => {
                    let entry = manage::revoke_key(&store, &account, &key).await?;
                    told(&account, &entry, shape)
                }
            }
        })
    }
}

async fn create(store: &Store, (account, key): (&AccountId, &KeyId), terms: Json, shape: Shape) -> anyhow::Result<()> {
    // A term that is taken away was never there.
    let terms = manage::terms::patched(json!({}), &terms);
    let made = manage::create_key(store, account, key, &terms).await?;
    if shape.json {
        let mut shown = shown::key(account, &made.entry);
        shown["secret"] = made.secret.into();
        return print(&format!("{shown}\n"));
    }
    print(&format!("{}\nThe secret, shown this once:\n{}\n", list(&[made.entry]), made.secret))
}

fn told(account: &AccountId, entry: &KeyEntry, shape: Shape) -> anyhow::Result<()> {
    if shape.json {
        return print(&format!("{}\n", shown::key(account, entry)));
    }
    print(&list(std::slice::from_ref(entry)))
}

async fn show(store: &Store, account: &AccountId, entry: &KeyEntry, shape: Shape) -> anyhow::Result<()> {
    let owner = manage::account(store, account).await?;
    let (money, overdraft) = (owner.money, owner.overdraft);
    let holder = Holder { account, key: &entry.id, rights: &entry.rights, money, overdraft };
    let usage = usage(store, holder).await.map_err(|error: StateError| ManageError::from(error))?;
    if shape.json {
        let mut shown = shown::key(account, entry);
        shown["usage"] = usage.json(holder);
        return print(&format!("{shown}\n"));
    }
    print(&format!("{}\n{}", list(std::slice::from_ref(entry)), used(entry, &usage)))
}

/// What is used of each limit, one a line.
fn used(entry: &KeyEntry, usage: &Usage) -> String {
    let Some(view) = usage.key() else { return String::new() };
    let rights = &entry.rights;
    let row = |name: &str, used: String, limit: Option<String>, resets: String| {
        [name.to_owned(), used, limit.unwrap_or_else(|| "-".to_owned()), resets]
    };
    let count = |limit: Option<u32>| limit.map(|limit| limit.to_string());
    let resets = usage.span.as_ref().and_then(|span| span.end_ms).map_or_else(|| "-".to_owned(), time);
    let tokens = [view.tokens.used, view.tokens.held].map(whole_tokens);
    let mut rows = vec![
        row("requests in the last 60 s", view.rate_used.to_string(), count(rights.rpm), "-".to_owned()),
        row("tokens in the last 60 s", with_held(tokens), count(rights.tpm), "-".to_owned()),
        row("requests now", view.live.to_string(), count(rights.max_concurrent), "-".to_owned()),
        row("waiting", view.waiting.to_string(), None, "-".to_owned()),
        row("spent", view.spent.to_string(), rights.spend.as_ref().map(|spend| spend.limit.to_string()), resets),
    ];
    for quota in &usage.quotas {
        let (what, [most, used, held]) = quota.amounts();
        let held = if held.trim_matches(['0', '.']).is_empty() { String::new() } else { format!(" + {held} held") };
        let money = if what == "cost" { "$" } else { "" };
        let resets = quota.resets_ms.map_or_else(|| "-".to_owned(), time);
        let name = format!("{what} {}", per(&quota.quota.extent));
        rows.push(row(&name, format!("{money}{used}{held}"), Some(format!("{money}{most}")), resets));
    }
    table::text("", ["what", "used", "limit", "resets"], rows)
}

/// What is used, and what open requests hold.
fn with_held([used, held]: [i64; 2]) -> String {
    if held == 0 { used.to_string() } else { format!("{used} + {held} held") }
}

/// The time of a quota for people.
fn per(extent: &Extent) -> String {
    match extent {
        Extent::Calendar(period) if period.cycle == Cycle::Total => "in all".to_owned(),
        Extent::Calendar(period) => format!("per {}", period.cycle.as_str()),
        Extent::Sliding(window) => format!("in {}", length(*window)),
    }
}

/// Its quotas for people.
fn quotas(quotas: &[Quota]) -> String {
    let shown = quotas.iter().map(|quota| match quota.amount {
        Amount::Requests(most) => format!("{most} requests {}", per(&quota.extent)),
        Amount::Tokens(most) => format!("{most} tokens {}", per(&quota.extent)),
        Amount::Cost(most) => format!("{most} {}", per(&quota.extent)),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Keys for people, one a line.
pub(super) fn list(keys: &[KeyEntry]) -> String {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows = keys.iter().map(|entry| {
        let rights = &entry.rights;
        [
            entry.id.to_string(),
            entry.status.as_str().to_owned(),
            entry.source.as_str().to_owned(),
            dash(rights.rpm.map(|count| count.to_string())),
            dash(rights.tpm.map(|count| count.to_string())),
            dash(rights.max_concurrent.map(|count| count.to_string())),
            dash(rights.spend.as_ref().map(|spend| format!("{} per {}", spend.limit, spend.period))),
            if rights.quotas.is_empty() { "-".to_owned() } else { quotas(&rights.quotas) },
            rights.priority.get().to_string(),
            if rights.models.is_empty() { "all".to_owned() } else { rights.models.join(", ") },
            dash(entry.created_ms.map(time)),
        ]
    });
    let header =
        ["key", "status", "source", "rpm", "tpm", "at once", "spend limit", "quotas", "priority", "models", "created"];
    table::text("", header, rows.collect())
}
