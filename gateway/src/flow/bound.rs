//! Requests that go on from what an upstream keeps: to the connection that made it, or nowhere.

use std::collections::HashSet;

use shared::ids::{AccountId, ConnectionId};
use shared::state::StateError;
use shared::state::Store;

use super::plan::Ladder;
use crate::dialect::wanted::Wanted;
use crate::error::Refusal;

/// Which connections may serve a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tie {
    /// Any.
    None,
    /// The one that made what it goes on from.
    Made {
        /// The caller's field that names it.
        field: &'static str,
        /// Who made it.
        by: ConnectionId,
    },
    /// It was made for another account.
    Foreign {
        /// The caller's field that names it.
        field: &'static str,
    },
    /// Who made it is not known here.
    Unknown {
        /// The caller's field that names it.
        field: &'static str,
    },
}

/// Looks up who made what a request goes on from; most go on from nothing.
pub async fn tie(store: &Store, wanted: &Wanted, account: &AccountId) -> Result<Tie, StateError> {
    let Some(bound) = wanted.bound_to() else { return Ok(Tie::None) };
    let field = bound.field;
    Ok(match store.maker(&bound.id).await? {
        Some(maker) if maker.account == *account => Tie::Made { field, by: maker.connection },
        Some(_) => Tie::Foreign { field },
        None => Tie::Unknown { field },
    })
}

impl Tie {
    /// The rungs of a ladder that may serve the request. What nobody here made goes on only where a single connection could have
    /// made it: its upstream then says whether it did. Upstreams of other dialects say themselves that they cannot.
    pub fn hold(&self, ladder: Ladder, wanted: &Wanted) -> Result<Ladder, Refusal> {
        let (field, maker) = match self {
            Self::None => return Ok(ladder),
            Self::Foreign { field } => return Err(Refusal::NotKept { field }),
            Self::Made { field, by } => (*field, by.clone()),
            Self::Unknown { field } => {
                let able =
                    ladder.rungs().map(|rung| &rung.serving.connection).filter(|one| wanted.bound_within(one.dialect));
                let able: HashSet<&ConnectionId> = able.map(|connection| &connection.id).collect();
                match able.into_iter().collect::<Vec<_>>().as_slice() {
                    [] => return Ok(ladder),
                    [only] => (*field, (*only).clone()),
                    _ => return Err(Refusal::NotKept { field }),
                }
            }
        };
        let held = ladder.only(&maker);
        if held.steps.is_empty() { Err(Refusal::NotKept { field }) } else { Ok(held) }
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
providers: {o: {dialect: openai, base_url: http://localhost:1}, a: {dialect: anthropic, base_url: http://localhost:1}}
models: {two: {provider: o}, one: {provider: o}, none: {provider: a}}
connections:
  - {id: o1, provider: o, api_key: k}
  - {id: o2, provider: o, api_key: k, models: [two], group: other}
  - {id: a1, provider: a, api_key: k}
";

    /// The connections that are left, or the refused field.
    fn left(tie: &Tie, model: &str) -> Result<Vec<String>, &'static str> {
        let catalog = catalog(FILE);
        let account = "acme".parse().unwrap();
        let body = r#"{"model":"m","input":"hi","previous_response_id":"resp_1"}"#;
        let wanted = Wanted::read(Entry::at(Api::Responses), Bytes::from_static(body.as_bytes())).unwrap();
        let ladder = plan(&catalog, Means::of(&account), catalog.model(model).unwrap(), None);
        match tie.hold(ladder, &wanted) {
            Ok(ladder) => {
                let rungs = ladder.steps.iter().flat_map(|step| &step.rungs);
                Ok(rungs.map(|rung| rung.serving.connection.id.as_str().to_owned()).collect())
            }
            Err(Refusal::NotKept { field }) => Err(field),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_connection_that_made_it_is_left_of_the_ladder() {
        let field = "previous_response_id";
        let made = |by: &str| Tie::Made { field, by: by.parse().unwrap() };
        assert_eq!(left(&Tie::None, "two"), Ok(vec!["o1".into(), "o2".into()]));
        assert_eq!(left(&made("o2"), "two"), Ok(vec!["o2".into()]));
        assert_eq!(left(&made("o2"), "one"), Err(field), "it does not serve this model");
        assert_eq!(left(&made("gone"), "two"), Err(field));
        assert_eq!(left(&Tie::Foreign { field }, "one"), Err(field));
    }

    #[test]
    fn what_nobody_here_made_goes_on_only_where_a_single_connection_could_have_made_it() {
        let unknown = Tie::Unknown { field: "previous_response_id" };
        assert_eq!(left(&unknown, "two"), Err("previous_response_id"));
        assert_eq!(left(&unknown, "one"), Ok(vec!["o1".into()]));
        assert_eq!(left(&unknown, "none"), Ok(vec!["a1".into()]), "which says that it cannot");
    }
}
