//! The ledger, read from old to new; and the sums of each day, which stay exact when its rows are gone.

use std::collections::{BTreeMap, HashMap};

use super::link::StateError;
use super::records::id;
use super::settlement::LedgerRow;
use super::store::Store;
use crate::ids::{AccountId, KeyId, ModelName};
use crate::money::NanoDollars;

/// A place in an account's ledger; later rows have later places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPlace(String);

/// What one key used of one model on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DaySum {
    /// Rows of the ledger.
    pub requests: u64,
    /// Tokens read, of all classes.
    pub input: u64,
    /// Tokens answered, of all classes.
    pub output: u64,
    /// What was charged.
    pub cost: NanoDollars,
}

/// The sums of one day, by key and model.
pub type DaySums = BTreeMap<(KeyId, ModelName), DaySum>;

impl LedgerPlace {
    /// Before everything that is settled from then on (ms since 1970, by Redis' clock).
    pub fn since(ms: i64) -> Self {
        Self(ms.max(0).to_string())
    }

    /// The place just behind this one.
    fn next(&self) -> String {
        format!("({}", self.0)
    }
}

impl Store {
    /// At most `count` rows from a time on, oldest first, each with its place.
    pub async fn ledger_since(
        &self,
        account: &AccountId,
        since_ms: i64,
        count: usize,
    ) -> Result<Vec<(LedgerPlace, LedgerRow)>, StateError> {
        self.ledger_range(account, &LedgerPlace::since(since_ms).0, count).await
    }

    /// At most `count` rows behind a place, oldest first.
    pub async fn ledger_after(
        &self,
        account: &AccountId,
        place: &LedgerPlace,
        count: usize,
    ) -> Result<Vec<(LedgerPlace, LedgerRow)>, StateError> {
        self.ledger_range(account, &place.next(), count).await
    }

    /// The newest `count` rows, oldest first.
    pub async fn ledger_newest(
        &self,
        account: &AccountId,
        count: usize,
    ) -> Result<Vec<(LedgerPlace, LedgerRow)>, StateError> {
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(self.keys.of_account(account).ledger()).arg("+").arg("-").arg("COUNT").arg(count);
        let mut rows = read(self.link.command(&cmd).await?)?;
        rows.reverse();
        Ok(rows)
    }

    async fn ledger_range(
        &self,
        account: &AccountId,
        from: &str,
        count: usize,
    ) -> Result<Vec<(LedgerPlace, LedgerRow)>, StateError> {
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(self.keys.of_account(account).ledger()).arg(from).arg("+").arg("COUNT").arg(count);
        read(self.link.command(&cmd).await?)
    }

    /// The sums of some days (`2026-11-30`, UTC), in the order asked for.
    pub async fn day_sums(&self, account: &AccountId, days: &[String]) -> Result<Vec<DaySums>, StateError> {
        if days.is_empty() {
            return Ok(Vec::new());
        }
        let slot = self.keys.of_account(account);
        let mut pipeline = redis::pipe();
        for day in days {
            pipeline.hgetall(slot.day(day));
        }
        self.link.pipeline(&pipeline).await?.into_iter().map(sums).collect()
    }
}

fn read(reply: redis::Value) -> Result<Vec<(LedgerPlace, LedgerRow)>, StateError> {
    let rows: Vec<(String, HashMap<String, String>)> =
        redis::from_redis_value(reply).map_err(|error| StateError::Reply(error.to_string()))?;
    Ok(rows.into_iter().map(|(place, fields)| (LedgerPlace(place), LedgerRow { fields })).collect())
}

/// Fields are `KEY:MODEL`, ids hold no colon; each has four numbers.
fn sums(hash: redis::Value) -> Result<DaySums, StateError> {
    let hash: HashMap<String, String> =
        redis::from_redis_value(hash).map_err(|error| StateError::Reply(error.to_string()))?;
    let mut sums = DaySums::new();
    for (field, text) in hash {
        let unreadable = || StateError::Reply(format!("sums of a day that are unreadable: '{field} {text}'"));
        let (key, model) = field.split_once(':').ok_or_else(unreadable)?;
        let numbers: Vec<u64> = text.split(' ').map_while(|number| number.parse().ok()).collect();
        let [requests, input, output, nanos] = numbers[..] else { return Err(unreadable()) };
        let cost = i64::try_from(nanos).ok().and_then(|nanos| NanoDollars::new(nanos).ok()).ok_or_else(unreadable)?;
        let sum = DaySum { requests, input, output, cost };
        sums.insert((id(KeyId::parse(key))?, id(ModelName::parse(model))?), sum);
    }
    Ok(sums)
}
