//! Which connection made an answer that its upstream keeps, by the answer's id: who goes on from it must go there. Kept for a day
//! since it was last asked for, found by every replica.

use std::time::Duration;

use super::link::StateError;
use super::store::Store;
use crate::ids::{AccountId, ConnectionId};

/// How long it is known who made an answer, since somebody last went on from it.
pub const KNOWN: Duration = Duration::from_hours(24);

/// Who was given an answer, and who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    /// The account that asked for it.
    pub account: AccountId,
    /// The connection that made it.
    pub connection: ConnectionId,
}

impl Store {
    /// Remembers who made the answer with this id.
    pub async fn remember_maker(&self, id: &str, maker: &Maker) -> Result<(), StateError> {
        let value = format!("{} {}", maker.account, maker.connection);
        let key = self.keys.made(id);
        let mut command = redis::cmd("SET");
        self.link.command(command.arg(key).arg(value).arg("EX").arg(KNOWN.as_secs())).await.map(drop)
    }

    /// Who made the answer with this id, if that is known; it is for another day.
    pub async fn maker(&self, id: &str) -> Result<Option<Maker>, StateError> {
        let mut command = redis::cmd("GETEX");
        let value = self.link.command(command.arg(self.keys.made(id)).arg("EX").arg(KNOWN.as_secs())).await?;
        let odd = || StateError::Reply("the maker of an answer is neither nil nor two ids".into());
        let value: Option<String> = redis::from_redis_value(value).map_err(|_| odd())?;
        let Some(value) = value else { return Ok(None) };
        let (account, connection) = value.split_once(' ').ok_or_else(odd)?;
        let parsed = (AccountId::parse(account), ConnectionId::parse(connection));
        let (Ok(account), Ok(connection)) = parsed else { return Err(odd()) };
        Ok(Some(Maker { account, connection }))
    }
}
