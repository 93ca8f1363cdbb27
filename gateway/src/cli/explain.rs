//! `headgate explain`: what a client key would meet if it asked for a model now. Writes nothing.

use std::io::Write as _;
use std::process::ExitCode;

use jiff::Timestamp;
use shared::config;

use super::{ConfigFile, Unknown, exit_code, in_runtime, store, table};
use crate::catalog::{Catalog, Owner};
use crate::error::Refusal;
use crate::explain::{
    Admission, Amount, ExplainError, Explained, ExplainedRung, KeyName, Limit, Part, Question, Resets, Walked, explain,
    length,
};
use crate::startup::StartError;

/// Say what a client key would meet if it asked for a model now. Looks only: nothing is sent upstream and nothing written.
#[derive(Debug, clap::Args)]
pub(super) struct Explain {
    #[command(flatten)]
    file: ConfigFile,
    /// The client key, by its name.
    #[arg(long, value_name = "ACCOUNT/KEY|KEY")]
    key: KeyName,
    /// The model, as a caller would write it: aliases and pool markers included.
    #[arg(long)]
    model: String,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// 0 when explained, whatever the answer; 2 for a bad file or an unknown key or model; 3 when Redis does not answer.
    pub(super) fn run(self) -> ExitCode {
        exit_code(in_runtime(self.told()))
    }

    async fn told(self) -> anyhow::Result<()> {
        let config = config::load(&self.file.config).map_err(|faults| StartError::Config(config::report(&faults)))?;
        let catalog = Catalog::new(&config)?;
        let store = store::of(&config).await?;
        let question = Question { key: self.key, model: self.model };
        let explained = explain(&store, &catalog, &question).await.map_err(|error| match error {
            ExplainError::Store(source) => StartError::Redis { at: "explaining".to_owned(), source }.into(),
            unknown => anyhow::Error::from(Unknown(unknown.to_string())),
        })?;
        let text = if self.json { format!("{:#}\n", explained.json()) } else { text(&explained) };
        // A reader that went away (`| head`) is no failure of ours.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(())
    }
}

/// All of it for people.
fn text(explained: &Explained) -> String {
    let Explained { account, key, asked, model, pool, .. } = explained;
    let model = if *asked == model.as_str() { asked.clone() } else { format!("{asked}, which is {model}") };
    let pool = pool.as_ref().map_or_else(String::new, |pool| format!(" in pool {pool}"));
    let head = format!("key {key} of account {account}, model {model}{pool}\n");
    let limits = table::text("", ["limit", "used", "most", "free again"], explained.limits.iter().map(limit).collect());
    let header = ["rung", "step", "model", "owner", "group", "connection", "now", "state"];
    let rows = explained.rungs.iter().enumerate().map(|(index, rung)| row(index + 1, rung));
    let rungs = table::text("", header, rows.collect());
    format!("{head}\n{limits}\n{rungs}\n{}\n", verdict(explained))
}

fn limit(limit: &Limit) -> [String; 4] {
    let what = match (limit.what, &limit.period) {
        ("rpm", _) => "requests a minute".to_owned(),
        ("tpm", _) => "tokens a minute".to_owned(),
        ("concurrency", _) => "requests at once".to_owned(),
        ("waiting", _) => "requests in line".to_owned(),
        ("balance", _) => "balance, of it held".to_owned(),
        ("quota", Some(name)) => format!("quota {name}"),
        ("spend_limit", Some(period)) => format!("spent, period {period}"),
        (what, _) => what.to_owned(),
    };
    let amount = |amount: Amount| match amount {
        Amount::Count(count) => count.to_string(),
        Amount::Money(amount) => amount.to_string(),
    };
    let free = match limit.resets {
        Resets::Unknown => "-".to_owned(),
        Resets::In(wait) => format!("in {}", length(wait)),
        Resets::At(at) => Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |time| time.to_string()),
    };
    let used = limit.used.map_or_else(|| "not told".to_owned(), amount);
    [what, used, limit.limit.map_or_else(|| "-".to_owned(), amount), free]
}

fn row(number: usize, explained: &ExplainedRung) -> [String; 8] {
    let serving = &explained.rung.serving;
    let owner = match &serving.connection.owner {
        Owner::Platform => "platform".to_owned(),
        Owner::Account(account) => account.to_string(),
    };
    let model = &explained.rung.model.name;
    let model = serving.pool.as_ref().map_or_else(|| model.to_string(), |pool| format!("{model} in {}", pool.id));
    let now = match explained.part {
        Part::Ladder => explained.fate.shown(),
        Part::IfTooLong => "only if too long",
    };
    [
        number.to_string(),
        explained.step.to_string(),
        model,
        owner,
        serving.connection.group.to_string(),
        serving.connection.id.to_string(),
        now.to_owned(),
        explained.reason(),
    ]
}

/// What a request would meet, in a sentence or two.
fn verdict(explained: &Explained) -> String {
    let ladder = match &explained.walked {
        Walked::Taken => "takes the rung marked taken".to_owned(),
        Walked::Waits { most } => format!("stands in line for the rungs marked waited for, at most {}", length(*most)),
        Walked::Opens { most } => format!("waits for a rung to open, at most {}", length(*most)),
        Walked::LastResort => "tries one rung whose endpoints all rest, as nothing else is left".to_owned(),
        Walked::Refused(refusal) => refused(refusal),
    };
    match &explained.admission {
        Admission::Admitted => format!("A request now {ladder}."),
        Admission::Waits(refusal) => {
            format!("A request now waits for the key's limit ({}); once admitted it {ladder}.", refusal.word())
        }
        Admission::Refused(refusal) => format!("A request now {}.", refused(refusal)),
    }
}

fn refused(refusal: &Refusal) -> String {
    let fault = refusal.fault();
    let again = fault.retry_after.map_or_else(String::new, |seconds| format!(", retry-after {seconds}"));
    format!("is refused: {} {}{again} ({})", fault.status.as_u16(), refusal.word(), fault.message.trim_end_matches('.'))
}
