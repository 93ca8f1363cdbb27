//! Accounts: opening balance, residency, overdraft.

use super::scalar::words;
use super::section::section;
use super::text::Region;
use crate::ids::AccountId;
use crate::money::NanoDollars;

words! {
    /// Whether a balance may dip below zero.
    pub enum Overdraft {
        /// A request that starts with money runs to its end: the balance dips by what was in flight.
        Soft = "soft",
        /// An upper bound is reserved at admission: the balance never dips.
        None = "none",
    }
}

section! {
    /// Holds a balance and owns client keys and BYOK connections.
    pub struct Account, draft AccountDraft, check check {
        /// Its name.
        id: AccountId = required,
        /// Opening balance in US dollars, credited once, however often the file is loaded. Without it the account has no money limit.
        balance: Option<NanoDollars> = optional,
        /// The only region whose connections may stand in for a model (peers); anywhere when absent.
        residency: Option<Region> = optional,
        /// Whether its balance may dip below zero.
        overdraft: Overdraft = "soft",
    }
}

fn check(draft: &AccountDraft, reader: &mut super::reader::Reader<'_>) {
    if draft.overdraft.value == Some(Overdraft::None) && !draft.balance.given {
        reader.notice(&draft.overdraft.place, "has no effect on an account without a balance");
    }
    let Some(id) = &draft.id.value else { return };
    reader.must_be_new("account id", id.as_str(), &draft.id.place);
    if id.as_str() == "platform" {
        reader.fault(&draft.id.place, "`platform` is the owner of connections that belong to no account", "another id");
    }
}
