//! Which models can take the request at all: others are passed over, they would only refuse it.

use super::Walk;
use crate::dialect::wanted::Found;
use crate::flow::plan::{Rung, Step};

impl Walk<'_> {
    /// Whether the steps of a model are worth trying. The model that was asked for always is: its upstream has the last word.
    pub(super) fn fits(&self, run: &[Step]) -> bool {
        let Some(step) = run.first() else { return false };
        if step.model.name == *self.climb.model {
            return true;
        }
        let tokens = self.climb.exchange.wanted.look().estimated_tokens();
        step.model.context.is_none_or(|context| tokens <= context)
            && run.iter().flat_map(|step| &step.rungs).any(|rung| self.can_say(rung))
    }

    /// Whether the request can be put in the words of a rung's upstream. With images that must be fetched first, only the attempt can
    /// tell.
    fn can_say(&self, rung: &Rung) -> bool {
        let exchange = self.climb.exchange;
        let dialect = rung.serving.connection.dialect;
        let (model, id) = (&rung.serving.upstream_model, exchange.request.as_str());
        !exchange.wanted.needs_images(dialect).is_empty()
            || exchange.wanted.call(dialect, model, id, &Found::default()).is_ok()
    }
}
