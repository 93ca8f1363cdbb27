//! Models: provider, tier, price, pools, the larger one.

use std::num::NonZeroU64;

use crate::ids::{ModelName, PoolId, ProviderId, TierId};
use crate::money::Price;

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
