//! Remembers for an account what proves an upstream's thoughts, where its callers cannot, and who made the answers that upstreams
//! keep: any replica finds it again. When Redis is away the request goes on without.

use shared::ids::AccountId;
use shared::state::Store;

use crate::catalog::Connection;
use crate::dialect::thoughts::{Kept, Maker, Thoughts};
use crate::dialect::wanted::Wanted;

/// The memory of one account.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Store,
    account: AccountId,
}

impl Memory {
    /// Of this account.
    pub fn new(store: Store, account: AccountId) -> Self {
        Self { store, account }
    }

    /// What is known of the calls of a conversation that goes to this connection.
    pub async fn recall(&self, wanted: &Wanted, connection: &Connection) -> Thoughts {
        let mut thoughts = Thoughts::default();
        let calls = wanted.needs_thoughts(connection.dialect);
        if calls.is_empty() {
            return thoughts;
        }
        match self.store.thoughts(&self.account, &calls).await {
            Ok(found) => {
                for (call, proof) in calls.iter().zip(found) {
                    if let Some(proof) = proof {
                        thoughts.add(call, &proof, maker(connection));
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "earlier thoughts could not be looked up"),
        }
        thoughts
    }

    /// Remembers that this connection made the answer its upstream keeps under this id.
    pub async fn made(&self, id: &str, connection: &Connection) {
        let maker = shared::state::made::Maker { account: self.account.clone(), connection: connection.id.clone() };
        if let Err(error) = self.store.remember_maker(id, &maker).await {
            tracing::debug!(%error, "who made an answer could not be remembered");
        }
    }

    /// Keeps what this connection's answer brought.
    pub async fn keep(&self, kept: &[Kept], connection: &Connection) {
        let at_rest = |kept: &Kept| Some((kept.call_id.clone(), kept.at_rest(maker(connection))?));
        let proofs: Vec<(String, Vec<u8>)> = kept.iter().filter_map(at_rest).collect();
        let proofs = proofs.iter().map(|(call, proof)| (call.as_str(), proof.as_slice()));
        if let Err(error) = self.store.keep_thoughts(&self.account, proofs).await {
            tracing::debug!(%error, "thoughts could not be kept");
        }
    }
}

fn maker(connection: &Connection) -> Maker<'_> {
    Maker { dialect: connection.dialect, provider: &connection.provider }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::app::tests::app;
    use crate::catalog::tests::catalog;
    use crate::dialect::Api;
    use crate::dialect::wanted::Entry;
    use crate::flow::plan::{Means, plan};

    const FILE: &str = "providers: {p: {dialect: anthropic, base_url: http://localhost:1}}\nmodels: {m: {provider: p}}\n\
                        connections: [{id: c, provider: p, api_key: k}]\n";
    const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"a",
        "type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"ok"}]}"#;
    const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"x",
        "signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{}}],"stop_reason":"tool_use","usage":{}}"#;

    #[tokio::test]
    async fn without_redis_nothing_is_remembered_and_nothing_fails() {
        let (app, catalog) = (app("redis://127.0.0.1:1"), catalog(FILE));
        let account: AccountId = "acme".parse().unwrap();
        let means = Means::of(&account);
        let connection =
            Arc::clone(&plan(&catalog, means, catalog.model("m").unwrap(), None).steps[0].rungs[0].serving.connection);
        let wanted = Wanted::read(Entry::at(Api::Chat), Bytes::from_static(BODY.as_bytes())).unwrap();
        let body = Bytes::from_static(ANSWER.as_bytes());
        let kept = wanted.whole(connection.dialect, None, &body, "r").unwrap().kept;
        assert_eq!((kept.len(), wanted.needs_thoughts(connection.dialect).len()), (1, 1));

        let memory = Memory::new(app.store.clone(), account);
        memory.keep(&kept, &connection).await;
        assert_eq!(memory.recall(&wanted, &connection).await, Thoughts::default());
    }
}
