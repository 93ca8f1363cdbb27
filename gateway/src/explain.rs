//! What a client key would meet if it asked for a model now: its limits, and each rung with whether it would be taken. Writes nothing.

use std::time::Duration;

use shared::ids::{AccountId, GroupId, KeyId, ModelName, PoolId};
use shared::state::capacity::Candidate;
use shared::state::explain::RungView;
use shared::state::records::{CallerRecord, OnRecord};
use shared::state::survey::{AccountView, KeyQuery};
use shared::state::{StateError, Store};

use crate::catalog::{Catalog, Named};
use crate::error::Refusal;
use crate::flow::climb::candidate;
use crate::flow::plan::{Ladder, Means, Rung, plan};

mod json;
mod limits;
mod rungs;
mod words;

pub use limits::{Admission, Amount, Limit, Resets};
pub use rungs::{Fate, Part, Walked};
pub use words::length;

/// The period of a spend limit can end between two looks; not that often in a row.
const LOOKS_MAX: u32 = 3;

/// What is to be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The client key.
    pub key: KeyName,
    /// The model, as a caller would write it.
    pub model: String,
}

/// A client key by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyName {
    /// Its account; `None`: the only one that has a key of this name.
    pub account: Option<AccountId>,
    /// Its id.
    pub key: KeyId,
}

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// There is no such client key.
    #[error("no client key is named {0}")]
    NoKey(KeyName),
    /// Several accounts have a key of this name.
    #[error("several accounts have a client key {key}: name it as ACCOUNT/{key}, with one of {}", names(.accounts))]
    Ambiguous {
        /// The key.
        key: KeyId,
        /// Who has one.
        accounts: Vec<AccountId>,
    },
    /// No model is called so.
    #[error("no model, alias or name with a pool's marker is '{0}'")]
    NoModel(String),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StateError),
}

/// What a request would meet now that begins a conversation; one that goes on may prefer another connection of a step. What the
/// request itself says, such as its length, is not known: it may fit fewer models.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Whose key.
    pub account: AccountId,
    /// The client key.
    pub key: KeyId,
    /// The model as it was written.
    pub asked: String,
    /// The model that stands for.
    pub model: ModelName,
    /// The pool that was named.
    pub pool: Option<PoolId>,
    /// The key's limits and what is used of them.
    pub limits: Vec<Limit>,
    /// What the key's limits and rights say.
    pub admission: Admission,
    /// The rungs in the order they are tried, those of larger models last.
    pub rungs: Vec<ExplainedRung>,
    /// What the ladder says, if the request is admitted.
    pub walked: Walked,
}

/// One rung of a ladder.
#[derive(Debug, Clone)]
pub struct ExplainedRung {
    /// The rung.
    pub rung: Rung,
    /// Its step, counted from 1: rungs of one step are equals.
    pub step: usize,
    /// When it is tried at all.
    pub part: Part,
    /// How it stands.
    pub view: RungView,
    /// What would become of it.
    pub fate: Fate,
}

/// Explains what a request of this key for this model would meet now. The rungs of one group are looked at in one moment.
pub async fn explain(store: &Store, catalog: &Catalog, question: &Question) -> Result<Explained, ExplainError> {
    let named = catalog.find(&question.model).ok_or_else(|| ExplainError::NoModel(question.model.clone()))?;
    let (found, usable) = match find(store, &question.key).await? {
        OnRecord::Active(caller) => (caller, limits::Usable::Yes),
        OnRecord::Inactive(caller) => (caller, limits::Usable::No),
        OnRecord::Missing => return Err(ExplainError::NoKey(question.key.clone())),
    };
    let ladder = plan(catalog, Means::of_caller(&found), &named.model, named.pool.as_ref());
    let view = survey(store, &found).await?;
    let key = limits::Standing { caller: &found, usable, view: &view };
    let mut rungs = rungs::in_order(&ladder, look(store, &ladder_rungs(&ladder), catalog.limits.max_lock).await?);
    let walked = rungs::walk(&ladder, catalog, &mut rungs);
    Ok(Explained {
        admission: key.admission(catalog, &ladder, &asked(&named, question)),
        limits: key.limits(),
        account: found.account.clone(),
        key: found.key.clone(),
        asked: question.model.clone(),
        model: named.model.name.clone(),
        pool: named.pool,
        rungs,
        walked,
    })
}

/// A name a caller wrote, and what it stands for.
struct Asked<'a> {
    named: &'a Named,
    text: &'a str,
}

fn asked<'a>(named: &'a Named, question: &'a Question) -> Asked<'a> {
    Asked { named, text: &question.model }
}

/// The key of this name.
async fn find(store: &Store, name: &KeyName) -> Result<OnRecord, ExplainError> {
    if let Some(account) = &name.account {
        return Ok(store.on_record(account, &name.key).await?);
    }
    let mut found = Vec::new();
    for account in store.accounts().await? {
        if store.keys_of(&account).await?.contains(&name.key) {
            found.push(account);
        }
    }
    match found.as_slice() {
        [] => Ok(OnRecord::Missing),
        [account] => Ok(store.on_record(account, &name.key).await?),
        _ => Err(ExplainError::Ambiguous { key: name.key.clone(), accounts: found }),
    }
}

/// The account and the key as they stand, in the period that the store's clock says.
async fn survey(store: &Store, caller: &CallerRecord) -> Result<AccountView, StateError> {
    let mut now_ms = jiff::Timestamp::now().as_millisecond();
    let mut looks = 0;
    loop {
        let label = limits::span(caller, now_ms).map(|span| span.label);
        let quotas = limits::turns(caller, now_ms);
        let query = KeyQuery { key: caller.key.clone(), label: label.clone(), quotas: quotas.clone() };
        let view = store.survey_account(&caller.account, &[query]).await?;
        looks += 1;
        let same = limits::span(caller, view.now_ms).map(|span| span.label) == label;
        if looks == LOOKS_MAX || (same && limits::turns(caller, view.now_ms) == quotas) {
            return Ok(view);
        }
        now_ms = view.now_ms;
    }
}

/// The rungs of a ladder and the groups their state lives in, steps in their order.
fn ladder_rungs(ladder: &Ladder) -> Vec<(&GroupId, &Rung)> {
    let steps = ladder.steps.iter().chain(&ladder.larger);
    steps.flat_map(|step| rungs::ordered(step).into_iter().map(|rung| (&step.group, rung))).collect()
}

/// How each rung stands, in the same order.
async fn look(store: &Store, rungs: &[(&GroupId, &Rung)], max_lock: Duration) -> Result<Vec<RungView>, StateError> {
    let mut views: Vec<Option<RungView>> = vec![None; rungs.len()];
    let mut groups: Vec<&GroupId> = Vec::new();
    for (group, _) in rungs {
        if groups.contains(group) {
            continue;
        }
        groups.push(group);
        let places: Vec<usize> = (0..rungs.len()).filter(|place| rungs[*place].0 == *group).collect();
        let candidates: Vec<Candidate> = places.iter().map(|place| candidate(rungs[*place].1)).collect();
        for (place, view) in places.into_iter().zip(store.explain(group, &candidates, max_lock).await?) {
            views[place] = Some(view);
        }
    }
    Ok(views.into_iter().flatten().collect())
}

impl std::fmt::Display for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.account {
            Some(account) => write!(f, "{account}/{}", self.key),
            None => write!(f, "{}", self.key),
        }
    }
}

impl std::str::FromStr for KeyName {
    type Err = shared::ids::IdError;

    /// `ACCOUNT/KEY` or `KEY`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('/') {
            Some((account, key)) => Self { account: Some(AccountId::parse(account)?), key: KeyId::parse(key)? },
            None => Self { account: None, key: KeyId::parse(text)? },
        })
    }
}

fn names(accounts: &[AccountId]) -> String {
    accounts.iter().map(AccountId::as_str).collect::<Vec<_>>().join(", ")
}

impl Explained {
    /// What the next request would be refused with, by its key or by its ladder.
    pub fn refusal(&self) -> Option<&Refusal> {
        match (&self.admission, &self.walked) {
            (Admission::Refused(refusal), _) | (_, Walked::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
