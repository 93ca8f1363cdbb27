//! Models: provider, tier, price, pools, the larger one.

use std::num::NonZeroU64;

use serde_json::Value as Json;

use super::names::Kind;
use super::reader::{At, Reader, Value};
use super::section::draft;
use super::yaml::Node;
use crate::ids::{ModelName, PoolId, ProviderId, TierId};
use crate::money::{LongContext, Price, Rate, Rates};

/// A model that callers may name.
#[derive(Debug, Clone)]
pub struct Model {
    /// Whose model it is.
    pub provider: ProviderId,
    /// Its tier, whether the model or the list of tiers says so.
    pub tier: Option<TierId>,
    /// What it costs; `None` leaves it to the bundled price list.
    pub price: Option<Price>,
    /// The most tokens it takes in.
    pub context: Option<NonZeroU64>,
    /// Where a request goes that is too long for it. Following it never leads back.
    pub larger: Option<ModelName>,
    /// The pools it may be served from; empty for any. The pool that the rules choose comes first, the others are lower rungs.
    pub pools: Vec<PoolId>,
}

draft! {
    /// What a model costs, in US dollars per million tokens.
    struct PriceDraft {
        /// Fresh input.
        input: Rate = required,
        /// Input read from a cache; as `input` when absent.
        cached_input: Option<Rate> = optional,
        /// Input written to a cache that lasts for minutes; as `input` when absent.
        cache_write: Option<Rate> = optional,
        /// Input written to a cache that lasts for an hour or longer; as `cache_write` when absent.
        cache_write_1h: Option<Rate> = optional,
        /// Output.
        output: Rate = required,
        /// Reasoning; as `output` when absent.
        reasoning: Option<Rate> = optional,
        /// Audio in the input; as `input` when absent.
        input_audio: Option<Rate> = optional,
        /// Audio in the output; as `output` when absent.
        output_audio: Option<Rate> = optional,
        /// Other rates for all of a request with much input.
        long_context: Option<LongContext> = optional,
    }
}

draft! {
    /// What all of a request costs whose input is long, in US dollars per million tokens.
    struct LongContextDraft {
        /// So many tokens of input, cached ones included, still cost the usual.
        above: NonZeroU64 = required,
        /// Fresh input.
        input: Rate = required,
        /// Input read from a cache; as `input` when absent.
        cached_input: Option<Rate> = optional,
        /// Input written to a cache that lasts for minutes; as `input` when absent.
        cache_write: Option<Rate> = optional,
        /// Input written to a cache that lasts for an hour or longer; as `cache_write` when absent.
        cache_write_1h: Option<Rate> = optional,
        /// Output.
        output: Rate = required,
        /// Reasoning; as `output` when absent.
        reasoning: Option<Rate> = optional,
        /// Audio in the input; as `input` when absent.
        input_audio: Option<Rate> = optional,
        /// Audio in the output; as `output` when absent.
        output_audio: Option<Rate> = optional,
    }
}

/// The rates of a draft; a class that is not given costs as much as the one it stands for.
macro_rules! rates {
    ($draft:expr) => {{
        let (input, output) = ($draft.input.value?, $draft.output.value?);
        let cache_write = $draft.cache_write.value?.unwrap_or(input);
        Rates {
            input,
            cached_input: $draft.cached_input.value?.unwrap_or(input),
            cache_write,
            cache_write_1h: $draft.cache_write_1h.value?.unwrap_or(cache_write),
            output,
            reasoning: $draft.reasoning.value?.unwrap_or(output),
            input_audio: $draft.input_audio.value?.unwrap_or(input),
            output_audio: $draft.output_audio.value?.unwrap_or(output),
        }
    }};
}

draft! {
    /// A model that callers may name.
    struct ModelDraft {
        /// Whose model it is.
        provider: ProviderId = required,
        /// Its tier: models of one tier at different providers are peers.
        tier: Option<TierId> = optional,
        /// What it costs; from the bundled price list when absent.
        price: Option<Price> = optional,
        /// The most tokens it takes in.
        context: Option<NonZeroU64> = optional,
        /// The model that takes a request which is too long for this one.
        larger: Option<ModelName> = optional,
        /// The pools it may be served from: the pool that the rules choose comes first, the others are lower rungs.
        pools: Vec<At<PoolId>> = optional,
    }
}

impl Value for Price {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = PriceDraft::read(node, reader)?;
        Some(Self { rates: rates!(draft), long_context: draft.long_context.value? })
    }
    fn schema() -> Json {
        PriceDraft::schema()
    }
}

impl Value for LongContext {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = LongContextDraft::read(node, reader)?;
        Some(Self { above: draft.above.value?.get(), rates: rates!(draft) })
    }
    fn schema() -> Json {
        LongContextDraft::schema()
    }
}

impl Value for Model {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let draft = ModelDraft::read(node, reader)?;
        if let Some(provider) = &draft.provider.value {
            reader.must_exist(Kind::Provider, provider.as_str(), &draft.provider.place);
        }
        if let Some(Some(tier)) = &draft.tier.value {
            reader.must_exist(Kind::Tier, tier.as_str(), &draft.tier.place);
        }
        if let Some(Some(larger)) = &draft.larger.value {
            reader.must_exist(Kind::Model, larger.as_str(), &draft.larger.place);
        }
        check_pools(&draft, reader);
        Some(Self {
            provider: draft.provider.value?,
            tier: draft.tier.value?,
            price: draft.price.value?,
            context: draft.context.value?,
            larger: draft.larger.value?,
            pools: draft.pools.value?.into_iter().map(|pool| pool.value).collect(),
        })
    }
    fn schema() -> Json {
        ModelDraft::schema()
    }
}

/// A model's pools are pools of its provider, each once.
fn check_pools(draft: &ModelDraft, reader: &mut Reader<'_>) {
    let provider = draft.provider.value.as_ref().and_then(|provider| reader.names.providers.get(provider.as_str()));
    let Some(known) = provider.map(|provider| provider.pools.clone()) else { return };
    let pools = draft.pools.value.as_deref().unwrap_or_default();
    for (index, pool) in pools.iter().enumerate() {
        if !known.contains(pool.value.as_str()) {
            let message = format!("no pool of the model's provider is named {}", reader.shown(pool.value.as_str()));
            reader.fault(&pool.place, message, "a name from the provider's pools");
        }
        if pools[..index].iter().any(|other| other.value == pool.value) {
            reader.fault(&pool.place, "already given above", "each pool once");
        }
    }
}
