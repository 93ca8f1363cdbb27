//! What one request has received so far, and so what it costs. Written by the relay, read by the lease keeper.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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
    delivered: AtomicBool,
    weights: TokenWeights,
    delivered_chars: AtomicU64,
    served: OnceLock<Served>,
    usage: Mutex<Option<Report>>,
}

/// What the upstream said was used, and how far the answer had come then.
#[derive(Debug, Clone, Copy)]
struct Report {
    tokens: Tokens,
    delivered_chars: u64,
}

impl Tally {
    /// Nothing delivered yet.
    pub fn new(prompt_chars: u64, weights: TokenWeights) -> Self {
        Self {
            prompt_chars,
            weights,
            delivered: AtomicBool::new(false),
            delivered_chars: AtomicU64::new(0),
            served: OnceLock::new(),
            usage: Mutex::new(None),
        }
    }

    /// This rung answers. The first word counts: nothing is committed twice.
    pub fn commit(&self, served: Served) {
        let _ = self.served.set(served);
    }

    /// The rung that answers, once there is one.
    pub fn served(&self) -> Option<&Served> {
        self.served.get()
    }

    /// So many more characters of output went to the caller. None is delivery, too: of vectors, pictures, or an empty answer.
    pub fn delivered(&self, chars: u64) {
        self.delivered_chars.fetch_add(chars, Relaxed);
        self.delivered.store(true, Relaxed);
    }

    /// The upstream reported usage for all that was delivered before; the last report counts.
    pub fn report(&self, tokens: Tokens) {
        let report = Report { tokens, delivered_chars: self.delivered_chars.load(Relaxed) };
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// Whether there is anything to charge by now.
    pub fn costs(&self) -> bool {
        self.delivered.load(Relaxed) || self.reported().is_some()
    }

    fn reported(&self) -> Option<Report> {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the request costs if it ended now: reported usage and an estimate of what was delivered after the report; without a
    /// report input plus delivered output, both estimated, once anything was delivered; else nothing.
    pub fn bill(&self) -> Bill {
        let delivered = self.delivered_chars.load(Relaxed);
        let (tokens, basis) = match self.reported() {
            Some(report) if report.delivered_chars >= delivered => (report.tokens, Basis::Exact),
            Some(report) => (report.and_after(delivered), Basis::Estimated),
            None if !self.delivered.load(Relaxed) => (Tokens::default(), Basis::Exact),
            None => (estimate(self.prompt_chars, delivered), Basis::Estimated),
        };
        let price = self.served().and_then(|served| served.price);
        let cost = price.map_or(NanoDollars::ZERO, |price| price.cost(&tokens));
        Bill { tokens, cost, weighed: self.weights.weigh(&tokens), basis }
    }
}

impl Report {
    /// Some upstreams report as they go. What came after the last report was counted by nobody.
    fn and_after(self, delivered_chars: u64) -> Tokens {
        let unreported = estimate(0, delivered_chars.saturating_sub(self.delivered_chars)).output;
        Tokens { output: self.tokens.output.saturating_add(unreported), ..self.tokens }
    }
}

/// The most a request can cost: no text has more tokens than bytes, input may be the dearest kind of input, and reasoning counts
/// within the maximum of the output.
pub fn upper_bound(price: &Price, prompt_bytes: u64, output_tokens: u64) -> NanoDollars {
    price.most(prompt_bytes, output_tokens)
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
    use shared::money::{Rate, Rates};

    fn tally() -> Tally {
        let rate = |usd: &str| Rate::per_million(usd.parse().unwrap()).unwrap();
        let price =
            Price::flat(Rates { input: rate("1"), output: rate("10"), reasoning: rate("10"), ..Rates::default() });
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
    fn an_answer_without_text_and_without_usage_still_costs_its_input() {
        let tally = tally();
        tally.delivered(0);
        let bill = tally.bill();
        assert_eq!((bill.tokens.input, bill.cost.nanos(), bill.basis), (100, 100_000, Basis::Estimated));
    }

    #[test]
    fn what_is_delivered_after_a_running_report_is_estimated_on_top() {
        let tally = tally();
        tally.delivered(10);
        tally.report(Tokens { input: 7, output: 2, ..Tokens::default() });
        assert_eq!((tally.bill().cost.nanos(), tally.bill().basis), (7_000 + 2 * 10_000, Basis::Exact));
        tally.delivered(9);
        assert_eq!((tally.bill().cost.nanos(), tally.bill().basis), (7_000 + 5 * 10_000, Basis::Estimated));
        tally.report(Tokens { input: 7, output: 4, ..Tokens::default() });
        assert_eq!((tally.bill().cost.nanos(), tally.bill().basis), (7_000 + 4 * 10_000, Basis::Exact));
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
