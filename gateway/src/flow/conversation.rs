//! The conversation of one request, as far as it decides where that goes: looked at only where there is a choice.

use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};
use shared::ids::{AccountId, ConversationHash, ModelName};

use super::plan::Step;
use crate::dialect::conversation::Stage;
use crate::dialect::wanted::Wanted;

/// The conversation of one request, of one account and model: another account's or model's is another one, whatever they say.
#[derive(Debug)]
pub struct Conversation<'a> {
    wanted: &'a Wanted,
    account: &'a AccountId,
    model: &'a ModelName,
    known: OnceLock<Option<Known>>,
}

/// A conversation that was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name in Redis.
    pub hash: ConversationHash,
    /// Where in it the request stands.
    pub stage: Stage,
}

impl<'a> Conversation<'a> {
    /// Nothing is looked at yet.
    pub fn new(wanted: &'a Wanted, account: &'a AccountId, model: &'a ModelName) -> Self {
        Self { wanted, account, model, known: OnceLock::new() }
    }

    /// The conversation, if it makes a difference among the rungs of this step.
    pub fn among(&self, step: &Step) -> Option<Known> {
        if step.rungs.len() < 2 {
            return None;
        }
        *self.known.get_or_init(|| self.wanted.conversation().map(|shown| self.known(shown.mark, shown.stage)))
    }

    fn known(&self, mark: [u8; 32], stage: Stage) -> Known {
        let mut hash = Sha256::new();
        for id in [self.account.as_str(), self.model.as_str()] {
            hash.update(id.len().to_le_bytes());
            hash.update(id);
        }
        hash.update(mark);
        Known { hash: ConversationHash::of(hash.finalize().into()), stage }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::catalog::tests::catalog;
    use crate::dialect::Api;
    use crate::dialect::wanted::Entry;
    use crate::flow::plan::{Means, plan};

    const FILE: &str = "
providers: {p: {dialect: openai, base_url: http://localhost:1}}
models: {one: {provider: p}, two: {provider: p}}
connections: [{id: a, provider: p, api_key: k}, {id: b, provider: p, api_key: k, models: [two]}]
";

    fn known(account: &str, model: &str, api: Api) -> Option<Known> {
        let catalog = catalog(FILE);
        let account = account.parse().unwrap();
        let body = r#"{"model":"two","prompt_cache_key":"k","input":"hi","messages":[{"role":"user","content":"hi"}]}"#;
        let wanted = Wanted::read(Entry::at(api), Bytes::from_static(body.as_bytes())).unwrap();
        let model = catalog.model(model).unwrap();
        let ladder = plan(&catalog, Means::of(&account), model, None);
        Conversation::new(&wanted, &account, &model.name).among(&ladder.steps[0])
    }

    #[test]
    fn a_conversation_belongs_to_one_account_and_model_and_counts_only_where_there_is_a_choice() {
        let here = known("acme", "two", Api::Chat).unwrap();
        assert_eq!(known("acme", "two", Api::Chat), Some(here));
        assert_ne!(known("other", "two", Api::Chat), Some(here));
        assert_eq!(known("acme", "one", Api::Chat), None, "one connection serves it");
        assert_eq!(known("acme", "two", Api::Embeddings), None, "embeddings are no conversation");
    }
}
