//! `headgate ledger`: what requests cost, row by row or day by day, straight from Redis.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use shared::ids::{AccountId, KeyId};
use shared::money::NanoDollars;
use shared::state::Store;
use shared::state::settlement::LedgerRow;

use super::{ConfigFile, Shape, print, store, table, within};
use crate::manage::ledger::{Daily, From, More, Wanted, daily_json, moment, row_json};
use crate::manage::{self, ManageError};

/// How often new rows are looked for.
const EVERY: Duration = Duration::from_millis(300);
/// So many of the newest rows are shown where no time is given.
const NEWEST: usize = 100;

/// Show what requests cost.
#[derive(Debug, clap::Args)]
pub(super) struct Ledger {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    shape: Shape,
    /// Whose.
    #[arg(long)]
    account: AccountId,
    /// Only what this key did.
    #[arg(long)]
    key: Option<KeyId>,
    /// From when on: a time (RFC 3339), a date (UTC) or how long ago (`24h`, `7d`) [default: the newest 100 rows].
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Go on with new rows as they are settled, until interrupted.
    #[arg(long, conflicts_with = "daily")]
    follow: bool,
    /// The sums of each day (UTC), key and model instead: 40 days are kept, whatever became of the rows.
    #[arg(long)]
    daily: bool,
}

fn since(text: &str) -> Result<Timestamp, String> {
    moment(text, Timestamp::now()).ok_or_else(|| "a time, a date or how long ago, as `24h`".to_owned())
}

impl Ledger {
    /// 0 done, 1 there is no such account, 3 no Redis. With `--json` each row is a line.
    pub(super) fn run(self) -> ExitCode {
        within(&self.file.clone(), async move {
            let store = store::open(&self.file).await?;
            manage::account(&store, &self.account).await?;
            let wanted = Wanted { account: self.account.clone(), key: self.key.clone() };
            if self.daily { self.daily(&store, &wanted).await } else { self.rows(&store, &wanted).await }
        })
    }

    async fn daily(&self, store: &Store, wanted: &Wanted) -> anyhow::Result<()> {
        let since = self.since.unwrap_or(Timestamp::UNIX_EPOCH);
        let sums = wanted.daily(store, since, Timestamp::now()).await.map_err(ManageError::from)?;
        if self.shape.json {
            let lines: Vec<String> = sums.iter().map(|daily| format!("{}\n", daily_json(daily))).collect();
            return print(&lines.concat());
        }
        let header = ["day (UTC)", "key", "model", "requests", "in", "out", "cost"];
        print(&table::text("", header, sums.iter().map(day_row).collect()))
    }

    async fn rows(&self, store: &Store, wanted: &Wanted) -> anyhow::Result<()> {
        let mut from = if let Some(since) = self.since {
            self.show(&[], Head::Yes)?;
            From::Time(since.as_millisecond())
        } else {
            let (rows, behind) = wanted.newest(store, NEWEST).await.map_err(ManageError::from)?;
            self.show(&rows, Head::Yes)?;
            behind
        };
        loop {
            let (rows, next, more) = wanted.page(store, &from).await.map_err(ManageError::from)?;
            self.show(&rows, Head::No)?;
            from = next;
            match more {
                More::Perhaps => {}
                More::No if self.follow => tokio::time::sleep(EVERY).await,
                More::No => return Ok(()),
            }
        }
    }

    fn show(&self, rows: &[LedgerRow], head: Head) -> anyhow::Result<()> {
        let mut text = String::new();
        if head == Head::Yes && !self.shape.json {
            text += &line(&HEADER.map(|(name, _)| name.to_owned()));
        }
        let shown = |row| if self.shape.json { format!("{}\n", row_json(row)) } else { line(&cells(row)) };
        text.extend(rows.iter().map(shown));
        print(&text).context("the rows cannot be written")
    }
}

/// Whether the names of the columns come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Yes,
    No,
}

/// Columns of fixed width: rows are shown as they come, before the widest is known.
const HEADER: [(&str, usize); 10] = [
    ("settled (UTC)", 19),
    ("key", 14),
    ("model", 22),
    ("connection", 16),
    ("in", 8),
    ("cached", 8),
    ("out", 8),
    ("cost", 13),
    ("basis", 9),
    ("outcome", 0),
];

fn line(cells: &[String; 10]) -> String {
    let cells = cells.iter().zip(HEADER).map(|(cell, (_, width))| format!("{cell:width$}"));
    format!("{}\n", cells.collect::<Vec<_>>().join(" ").trim_end())
}

fn cells(row: &LedgerRow) -> [String; 10] {
    let field = |name: &str| row.fields.get(name).map_or("", String::as_str).to_owned();
    let number = |name: &str| field(name).parse::<i64>().unwrap_or(0);
    let sum = |names: &[&str]| names.iter().map(|name| number(name)).sum::<i64>().to_string();
    let at = Timestamp::from_millisecond(number("at")).unwrap_or_default();
    [
        at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        field("key"),
        if field("served_model").is_empty() { field("model") } else { field("served_model") },
        field("connection"),
        sum(&["input", "cached_input", "cache_write", "cache_write_1h", "input_audio"]),
        field("cached_input"),
        sum(&["output", "reasoning", "output_audio"]),
        NanoDollars::new(number("cost")).unwrap_or_default().to_string(),
        field("basis"),
        field("outcome"),
    ]
}

fn day_row(daily: &Daily) -> [String; 7] {
    let Daily { day, key, model, sum } = daily;
    [
        day.to_string(),
        key.to_string(),
        model.clone(),
        sum.requests.to_string(),
        sum.input.to_string(),
        sum.output.to_string(),
        sum.cost.to_string(),
    ]
}
