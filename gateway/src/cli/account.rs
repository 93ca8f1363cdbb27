//! `headgate account`: make accounts, look at them, credit money.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use shared::ids::{AccountId, RequestId};
use shared::money::NanoDollars;
use shared::state::records::MoneyLimit;
use shared::state::roster::AccountEntry;
use shared::state::{StateError, Store};

use super::{ConfigFile, Shape, print, store, table, within};
use crate::manage::terms::usd;
use crate::manage::{self, ManageError, shown};

/// Make accounts, look at them, credit money.
#[derive(Debug, clap::Args)]
pub(super) struct Account {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    shape: Shape,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make an account.
    Create {
        /// Its name.
        account: AccountId,
        /// Opening balance in US dollars; without it the account has no money limit.
        #[arg(long, value_name = "USD", allow_hyphen_values = true)]
        balance: Option<String>,
        /// Whether its balance may dip below zero: soft or none.
        #[arg(long)]
        overdraft: Option<String>,
        /// The only region whose connections may stand in for a model.
        #[arg(long, value_name = "REGION")]
        residency: Option<String>,
    },
    /// Show an account: its money, its keys.
    Show {
        /// Its name.
        account: AccountId,
    },
    /// Add money, once per receipt: the same again changes nothing.
    Credit {
        /// The account.
        account: AccountId,
        /// How much, in US dollars; a negative amount is taken off.
        #[arg(value_name = "USD", allow_hyphen_values = true)]
        amount: NanoDollars,
        /// What proves it, an invoice or payment id: letters, digits, '.', '_', '-'.
        #[arg(long, value_name = "ID")]
        receipt: RequestId,
    },
}

impl Account {
    /// 0 done; 1 not done: there is no such account, or there is one already; 2 impossible terms; 3 no Redis.
    pub(super) fn run(self) -> ExitCode {
        let Self { file, shape, action } = self;
        within(&file.clone(), async move {
            let store = store::open(&file).await?;
            match action {
                Action::Create { account, balance, overdraft, residency } => {
                    let terms = [("balance", balance), ("overdraft", overdraft), ("residency", residency)];
                    let terms = terms
                        .into_iter()
                        .filter_map(|(name, text)| Some((name.to_owned(), serde_json::Value::from(text?))));
                    let entry = manage::create_account(&store, &account, &terms.collect()).await?;
                    show(&store, entry, shape).await
                }
                Action::Show { account } => {
                    let entry = manage::account(&store, &account).await?;
                    show(&store, entry, shape).await
                }
                Action::Credit { account, amount, receipt } => credit(&store, (account, amount, receipt), shape).await,
            }
        })
    }
}

async fn show(store: &Store, entry: AccountEntry, shape: Shape) -> anyhow::Result<()> {
    let (view, keys) = look(store, &entry).await.map_err(ManageError::from)?;
    if shape.json {
        return print(&format!("{}\n", shown::account(&entry, &view, &keys)));
    }
    let balance = match entry.money {
        MoneyLimit::Unlimited => "no money limit".to_owned(),
        MoneyLimit::Limited => view.balance.map_or_else(|| "lost".to_owned(), |balance| balance.to_string()),
    };
    let row = [
        entry.id.to_string(),
        balance,
        view.reserved.to_string(),
        shown::overdraft(entry.overdraft).to_owned(),
        entry.residency.clone().unwrap_or_else(|| "-".to_owned()),
        entry.source.as_str().to_owned(),
    ];
    let account = table::text("", ["account", "balance", "held", "overdraft", "residency", "source"], vec![row]);
    print(&format!("{account}\n{}", super::key::list(&keys)))
}

async fn look(
    store: &Store,
    entry: &AccountEntry,
) -> Result<(shared::state::survey::AccountView, Vec<shared::state::roster::KeyEntry>), StateError> {
    Ok((store.survey_account(&entry.id, &[]).await?, store.key_entries(&entry.id).await?))
}

async fn credit(
    store: &Store,
    (account, amount, receipt): (AccountId, NanoDollars, RequestId),
    shape: Shape,
) -> anyhow::Result<()> {
    let credited = manage::credit(store, &account, amount, &receipt).await?;
    if shape.json {
        let shown = json!({
            "account": account, "receipt": receipt, "amount_usd": usd(amount), "credited_now": credited.now,
            "balance_usd": usd(credited.balance), "balance_nanodollars": credited.balance.nanos(),
        });
        return print(&format!("{shown}\n"));
    }
    let done = if credited.now { "credited" } else { "was credited before" };
    print(&format!("{amount} {done} to {account} (receipt {receipt}); balance {}\n", credited.balance))
}
