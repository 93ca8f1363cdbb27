//! What one request has received so far, and so what it costs. Written by the relay, read by the lease keeper.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use shared::ids::{ConnectionId, ModelName};
use shared::limit::{TokenWeights, Weighed};
use shared::money::{NanoDollars, Price, Tokens};
use shared::state::admission::{Bound, Estimate};
use shared::state::settlement::Basis;

use crate::dialect::wanted::Look;

/// Characters per token where nobody counted: the common rule of thumb for mixed text and code.
const CHARS_PER_TOKEN: u64 = 4;
/// What the answer to a request is taken to have that sets no limit, in tokens, where nothing better is known.
const ASSUMED_OUTPUT: u64 = 1_024;
/// More than any model gives, and little enough to be added up everywhere.
const TOKENS_MAX: u64 = 1 << 40;

/// The rung that answers a request.
#[derive(Debug, Clone)]
pub struct Served {
    /// Which connection.
    pub connection: ConnectionId,
    /// Which model, by its public name.
    pub model: ModelName,
    /// What it costs; `None` is free of charge because nobody priced it.
    pub price: Option<Price>,
}

/// A request's cost as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bill {
    /// Tokens by class.
    pub tokens: Tokens,
    /// Their cost, rounded up once.
    pub cost: NanoDollars,
    /// What they count towards the key's tokens per minute.
    pub weighed: Weighed,
    /// Who counted.
    pub basis: Basis,
}

/// The running count of one request.
#[derive(Debug)]
pub struct Tally {
    prompt_chars: u64,
    weights: TokenWeights,
    delivered_chars: AtomicU64,
    served: OnceLock<Served>,
    usage: Mutex<Option<Tokens>>,
}

impl Tally {
    /// Nothing delivered yet.
    pub fn new(prompt_chars: u64, weights: TokenWeights) -> Self {
        let (served, usage) = (OnceLock::new(), Mutex::new(None));
        Self { prompt_chars, weights, delivered_chars: AtomicU64::new(0), served, usage }
    }

    /// This rung answers. The first word counts: nothing is committed twice.
    pub fn commit(&self, served: Served) {
        let _ = self.served.set(served);
    }

    /// The rung that answers, once there is one.
    pub fn served(&self) -> Option<&Served> {
        self.served.get()
    }

    /// So many more characters of output went to the caller.
    pub fn delivered(&self, chars: u64) {
        self.delivered_chars.fetch_add(chars, Relaxed);
    }

    /// The upstream reported usage; the last report counts.
    pub fn report(&self, tokens: Tokens) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokens);
    }

    /// Whether there is anything to charge by now.
    pub fn costs(&self) -> bool {
        self.delivered_chars.load(Relaxed) > 0 || self.reported().is_some()
    }

    fn reported(&self) -> Option<Tokens> {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the request costs if it ended now: reported usage, else input plus delivered output once anything was delivered,
    /// else nothing.
    pub fn bill(&self) -> Bill {
        let (tokens, basis) = match (self.reported(), self.delivered_chars.load(Relaxed)) {
            (Some(tokens), _) => (tokens, Basis::Exact),
            (None, 0) => (Tokens::default(), Basis::Exact),
            (None, chars) => (estimate(self.prompt_chars, chars), Basis::Estimated),
        };
        let price = self.served().and_then(|served| served.price);
        let cost = price.map_or(NanoDollars::ZERO, |price| price.cost(&tokens));
        Bill { tokens, cost, weighed: self.weights.weigh(&tokens), basis }
    }
}

/// The most a request can cost: no text has more tokens than bytes, input may be the dearest kind of input, and reasoning counts
/// within the maximum of the output.
pub fn upper_bound(price: &Price, prompt_bytes: u64, output_tokens: u64) -> NanoDollars {
    let input = [
        Tokens { input: prompt_bytes, ..Tokens::default() },
        Tokens { cached_input: prompt_bytes, ..Tokens::default() },
        Tokens { cache_write: prompt_bytes, ..Tokens::default() },
    ];
    let both = input
        .into_iter()
        .flat_map(|input| [Tokens { output: output_tokens, ..input }, Tokens { reasoning: output_tokens, ..input }]);
    both.map(|tokens| price.cost(&tokens)).max().unwrap_or(NanoDollars::ZERO)
}

/// What a request is expected to use: its characters a quarter token each, and as much output as it may have. One that does not
/// say how much is taken to want 1,024 tokens of each choice.
pub fn expected(look: &Look, weights: &TokenWeights) -> Estimate {
    let input = estimate(look.prompt_chars, 0).input;
    let output = look.max_output_tokens.unwrap_or(ASSUMED_OUTPUT).saturating_mul(look.choices);
    Estimate {
        bound: if look.max_output_tokens.is_some() { Bound::Stated } else { Bound::Assumed },
        tokens: input.saturating_add(output).min(TOKENS_MAX),
        input_milli: weights.input.of(input),
        output_milli: weights.output.max(weights.reasoning).of(output),
    }
}

/// Characters as tokens, a quarter each, rounded up.
pub fn estimate(prompt_chars: u64, output_chars: u64) -> Tokens {
    Tokens {
        input: prompt_chars.div_ceil(CHARS_PER_TOKEN),
        output: output_chars.div_ceil(CHARS_PER_TOKEN),
        ..Tokens::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Answer;
    use shared::limit::Weight;
    use shared::money::Rate;

    fn tally() -> Tally {
        let rate = |usd: &str| Rate::per_million(usd.parse().unwrap()).unwrap();
        let price = Price {
            input: rate("1"),
            cached_input: rate("1"),
            cache_write: rate("1"),
            output: rate("10"),
            reasoning: rate("10"),
        };
        let tally = Tally::new(400, TokenWeights::default());
        tally.commit(Served { connection: "c".parse().unwrap(), model: "m".parse().unwrap(), price: Some(price) });
        tally
    }

    #[test]
    fn nothing_delivered_costs_nothing() {
        assert_eq!(
            tally().bill(),
            Bill {
                tokens: Tokens::default(),
                cost: NanoDollars::ZERO,
                weighed: Weighed::default(),
                basis: Basis::Exact
            }
        );
    }

    #[test]
    fn delivered_output_without_usage_is_estimated_with_its_input() {
        let tally = tally();
        tally.delivered(9);
        let bill = tally.bill();
        assert_eq!((bill.tokens.input, bill.tokens.output, bill.basis), (100, 3, Basis::Estimated));
        assert_eq!(bill.cost.nanos(), 100 * 1_000 + 3 * 10_000);
    }

    #[test]
    fn an_upper_bound_takes_the_dearest_kind_of_input_and_of_output() {
        let rate = |usd: &str| Rate::per_million(usd.parse().unwrap()).unwrap();
        let price = Price {
            input: rate("1"),
            cached_input: rate("0.1"),
            cache_write: rate("1.25"),
            output: rate("10"),
            reasoning: rate("12"),
        };
        assert_eq!(upper_bound(&price, 400, 100).nanos(), 400 * 1_250 + 100 * 12_000);
    }

    #[test]
    fn what_is_expected_is_a_quarter_of_the_characters_and_the_most_output_of_every_choice() {
        let look = |max_output_tokens| Look {
            model: "m".into(),
            answer: Answer::Whole,
            max_output_tokens,
            choices: 2,
            prompt_chars: 9,
        };
        let weights = TokenWeights { input: Weight::TENTH, ..TokenWeights::default() };
        let stated = expected(&look(Some(50)), &weights);
        let known = Estimate { bound: Bound::Stated, tokens: 103, input_milli: 300, output_milli: 100_000 };
        assert_eq!(stated, known);
        let assumed = expected(&look(None), &weights);
        assert_eq!((assumed.bound, assumed.tokens), (Bound::Assumed, 3 + 2 * 1_024));
        assert!(expected(&look(Some(u64::MAX)), &weights).tokens <= TOKENS_MAX, "too much is still a number");
    }

    #[test]
    fn the_last_reported_usage_outranks_every_estimate() {
        let tally = tally();
        tally.delivered(1_000);
        tally.report(Tokens { input: 5, ..Tokens::default() });
        tally.report(Tokens { input: 5, output: 2, ..Tokens::default() });
        let bill = tally.bill();
        assert_eq!((bill.tokens.output, bill.basis, bill.cost.nanos()), (2, Basis::Exact, 25_000));
    }
}
