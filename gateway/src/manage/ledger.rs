//! Rows of the ledger and sums of its days, picked and as JSON.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use serde_json::{Map, Value as Json, json};
use shared::ids::{AccountId, KeyId};
use shared::state::ledger::{DaySum, LedgerPlace};
use shared::state::settlement::LedgerRow;
use shared::state::{StateError, Store};

use super::terms::usd;

/// Rows of the ledger that are read in one call.
const PAGE: usize = 500;
/// The days that sums are kept for, the last one included.
pub const DAYS: i64 = 40;

/// What is wanted of an account's ledger.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The account.
    pub account: AccountId,
    /// Only this key's rows.
    pub key: Option<KeyId>,
}

/// What one key used of one model on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daily {
    /// The day (UTC).
    pub day: civil::Date,
    /// The client key.
    pub key: KeyId,
    /// The model that answered.
    pub model: String,
    /// The sums.
    pub sum: DaySum,
}

impl Wanted {
    fn is(&self, key: &str) -> bool {
        self.key.as_ref().is_none_or(|wanted| wanted.as_str() == key)
    }

    fn picked(&self, rows: Vec<(LedgerPlace, LedgerRow)>) -> Vec<LedgerRow> {
        let rows = rows.into_iter().map(|(_, row)| row);
        rows.filter(|row| self.is(row.fields.get("key").map_or("", String::as_str))).collect()
    }

    /// One page of rows from a time or place on, and the place to go on from.
    pub async fn page(&self, store: &Store, from: &From) -> Result<(Vec<LedgerRow>, From, More), StateError> {
        let rows = match from {
            From::Time(ms) => store.ledger_since(&self.account, *ms, PAGE).await?,
            From::Behind(place) => store.ledger_after(&self.account, place, PAGE).await?,
        };
        let more = if rows.len() < PAGE { More::No } else { More::Perhaps };
        let next = rows.last().map_or_else(|| from.clone(), |(place, _)| From::Behind(place.clone()));
        Ok((self.picked(rows), next, more))
    }

    /// The newest rows, and the place behind them.
    pub async fn newest(&self, store: &Store, count: usize) -> Result<(Vec<LedgerRow>, From), StateError> {
        // With one key wanted, its rows may lie far back: then all are looked through.
        let looked = if self.key.is_some() { usize::try_from(i64::MAX).unwrap_or(usize::MAX) } else { count };
        let rows = store.ledger_newest(&self.account, looked).await?;
        let next = rows.last().map_or(From::Time(0), |(place, _)| From::Behind(place.clone()));
        let mut rows = self.picked(rows);
        let rows = rows.split_off(rows.len().saturating_sub(count));
        Ok((rows, next))
    }

    /// The sums of the days since a moment, as far as they are kept, oldest first.
    pub async fn daily(&self, store: &Store, since: Timestamp, now: Timestamp) -> Result<Vec<Daily>, StateError> {
        let today = now.to_zoned_datetime(TimeZone::UTC).date();
        let oldest = today.saturating_sub(SignedDuration::from_hours(24 * (DAYS - 1)));
        let first = since.to_zoned_datetime(TimeZone::UTC).date().max(oldest);
        let days: Vec<civil::Date> = first.series(jiff::Span::new().days(1)).take_while(|day| *day <= today).collect();
        let names: Vec<String> = days.iter().map(ToString::to_string).collect();
        let sums = store.day_sums(&self.account, &names).await?;
        let mut all = Vec::new();
        for (day, sums) in days.into_iter().zip(sums) {
            let own = sums.into_iter().filter(|((key, _), _)| self.is(key.as_str()));
            all.extend(own.map(|((key, model), sum)| Daily { day, key, model: model.to_string(), sum }));
        }
        Ok(all)
    }
}

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// At a moment of Redis' clock (Unix ms).
    Time(i64),
    /// Behind a row.
    Behind(LedgerPlace),
}

/// Whether there is another page by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// There is none.
    No,
    /// There may be.
    Perhaps,
}

/// A row as it stands in Redis, counts as numbers.
pub fn row_json(row: &LedgerRow) -> Json {
    const FIRST: [&str; 6] = ["id", "at", "key", "model", "served_model", "connection"];
    let mut names: Vec<&String> = row.fields.keys().collect();
    names.sort_by_key(|name| (FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()), name.as_str()));
    let mut shown = Map::new();
    for name in names {
        let text = &row.fields[name];
        let is_text = ["id", "key", "model", "served_model", "connection", "basis", "outcome"].contains(&name.as_str());
        let value = text.parse::<i64>().ok().filter(|_| !is_text).map_or_else(|| text.as_str().into(), Json::from);
        shown.insert(name.clone(), value);
    }
    shown.into()
}

/// A day's sums of one key and model.
pub fn daily_json(daily: &Daily) -> Json {
    let Daily { day, key, model, sum } = daily;
    json!({
        "day": day.to_string(), "key": key, "model": model, "requests": sum.requests, "input": sum.input,
        "output": sum.output, "cost": sum.cost.nanos(), "cost_usd": usd(sum.cost),
    })
}

/// A moment as people write it: RFC 3339, a date (UTC), or how long ago: `24h`, `30m`, `7d`.
pub fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    if let Ok(date) = text.parse::<civil::Date>() {
        return Some(date.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp());
    }
    let ago = text.parse::<jiff::Span>().ok()?;
    Some(now.to_zoned_datetime(TimeZone::UTC).checked_sub(ago).ok()?.timestamp()).filter(|moment| *moment <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_a_date_or_how_long_ago() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let at = |text| moment(text, now).map(|moment| moment.to_string());
        assert_eq!(at("2026-11-30T10:00:00+01:00").as_deref(), Some("2026-11-30T09:00:00Z"));
        assert_eq!(at("2026-11-01").as_deref(), Some("2026-11-01T00:00:00Z"));
        assert_eq!(at("90m").as_deref(), Some("2026-11-30T10:30:00Z"));
        assert_eq!(at("7d").as_deref(), Some("2026-11-23T12:00:00Z"));
        for bad in ["", "yesterday", "-1h", "24"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_row_is_shown_with_counts_as_numbers_and_names_as_texts() {
        let fields = [("id", "7"), ("at", "1796040139572"), ("key", "42"), ("cost", "45000"), ("basis", "exact")];
        let row = LedgerRow { fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into() };
        let shown = r#"{"id":"7","at":1796040139572,"key":"42","basis":"exact","cost":45000}"#;
        assert_eq!(row_json(&row).to_string(), shown);
    }
}
