//! `credit`: money for an account, once per receipt.

use super::link::StateError;
use super::reply::Reply;
use super::script::Arg;
use super::store::Store;
use crate::ids::{AccountId, RequestId};
use crate::money::NanoDollars;

/// What `credit` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credit {
    /// Added now.
    Credited {
        /// What the account has.
        balance: NanoDollars,
    },
    /// This receipt was credited before.
    Already {
        /// What the account has.
        balance: NanoDollars,
    },
    /// The balance would pass what is kept exactly ([`NanoDollars::MAX`]): nothing was added.
    TooLarge {
        /// What the account has.
        balance: NanoDollars,
    },
}

impl Store {
    /// Adds `amount` (or takes it off, if negative), once per receipt.
    pub async fn credit(
        &self,
        account: &AccountId,
        receipt: &RequestId,
        amount: NanoDollars,
    ) -> Result<Credit, StateError> {
        let slot = self.keys.of_account(account);
        let keys = [slot.balance(), slot.credit(receipt)];
        let args = [Arg::Int(amount.nanos())];
        let (tag, mut reply) = Reply::open("credit", self.link.run(&self.scripts.credit, &keys, &args).await?)?;
        match tag.as_str() {
            "credited" => Ok(Credit::Credited { balance: reply.money()? }),
            "already" => Ok(Credit::Already { balance: reply.money()? }),
            "too_large" => Ok(Credit::TooLarge { balance: reply.money()? }),
            _ => Err(reply.unknown(&tag)),
        }
    }
}
