//! Tokens of one request in disjoint classes, and what a model takes for each class.

use super::{NanoDollars, Rate};

/// One value for each token class; no token is in two of them.
macro_rules! classes {
    ($( $(#[doc = $doc:literal])* $class:ident, )*) => {
        /// Tokens of one request in disjoint classes: no token is in two of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Tokens {
            $( $(#[doc = $doc])* pub $class: u64, )*
        }

        /// What a model takes for each token class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Rates {
            $( $(#[doc = $doc])* pub $class: Rate, )*
        }

        impl Tokens {
            /// All classes by their names in the ledger, in its order.
            pub fn by_name(&self) -> [(&'static str, u64); 8] {
                [$( (stringify!($class), self.$class), )*]
            }
        }

        impl Rates {
            /// All classes by their names in the configuration, in its order.
            pub fn by_name(&self) -> [(&'static str, Rate); 8] {
                [$( (stringify!($class), self.$class), )*]
            }
        }
    };
}

classes! {
    /// Read afresh, but for audio.
    input,
    /// Read from a cache, whatever kind of input it is.
    cached_input,
    /// Written to a cache that lasts for minutes.
    cache_write,
    /// Written to a cache that lasts for an hour or longer.
    cache_write_1h,
    /// Answered, but for reasoning and audio.
    output,
    /// Thought.
    reasoning,
    /// Audio read afresh.
    input_audio,
    /// Audio answered.
    output_audio,
}

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// By token class.
    pub rates: Rates,
    /// What it costs when the input is long.
    pub long_context: Option<LongContext>,
}

/// Other rates for all of a request whose input is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongContext {
    /// Tokens of input, of all classes together, that still count as usual.
    pub above: u64,
    /// What holds beyond them, for the whole request.
    pub rates: Rates,
}

impl Tokens {
    /// All that was read or written to a cache.
    pub fn all_input(&self) -> u64 {
        [self.input, self.cached_input, self.cache_write, self.cache_write_1h, self.input_audio].iter().sum()
    }

    /// All that was answered or thought.
    pub fn all_output(&self) -> u64 {
        self.output + self.reasoning + self.output_audio
    }

    /// All that was written to caches.
    pub fn all_cache_writes(&self) -> u64 {
        self.cache_write + self.cache_write_1h
    }
}

impl Rates {
    fn dearest_input(&self) -> Rate {
        let others = [self.cached_input, self.cache_write, self.cache_write_1h, self.input_audio];
        others.into_iter().fold(self.input, Rate::max)
    }

    fn dearest_output(&self) -> Rate {
        self.output.max(self.reasoning).max(self.output_audio)
    }

    fn is_free(&self) -> bool {
        self.by_name().iter().all(|(_, rate)| *rate == Rate::FREE)
    }
}

impl Price {
    /// A price that does not depend on the length of the input.
    pub fn flat(rates: Rates) -> Self {
        Self { rates, long_context: None }
    }

    /// True when every class is free, however long the input.
    pub fn is_free(&self) -> bool {
        self.rates.is_free() && self.long_context.is_none_or(|long| long.rates.is_free())
    }

    /// The cost of these tokens, rounded up once to the next nano-dollar and capped at [`NanoDollars::MAX`].
    pub fn cost(&self, tokens: &Tokens) -> NanoDollars {
        let long = self.long_context.filter(|long| tokens.all_input() > long.above);
        let rates = long.map_or(self.rates, |long| long.rates);
        let counted = tokens.by_name().into_iter().zip(rates.by_name());
        rounded_up(counted.map(|((_, count), (_, rate))| (count, rate)))
    }

    /// The most that so many tokens can cost, whatever classes they are in.
    pub fn most(&self, input: u64, output: u64) -> NanoDollars {
        let long = self.long_context.filter(|long| input > long.above).map(|long| long.rates);
        let most = |rates: Rates| rounded_up([(input, rates.dearest_input()), (output, rates.dearest_output())]);
        // Less input than the most may be dearer, where long input is cheaper.
        long.map_or(most(self.rates), |long| most(long).max(most(self.rates)))
    }
}

/// Rates are per million tokens; the sum is rounded once.
fn rounded_up(counted: impl IntoIterator<Item = (u64, Rate)>) -> NanoDollars {
    let millionths: u128 =
        counted.into_iter().map(|(count, rate)| u128::from(count) * u128::from(rate.nanos_per_million())).sum();
    let nanos = i64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(i64::MAX);
    NanoDollars(nanos.min(NanoDollars::MAX.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        Rate::per_million(text.parse().unwrap()).unwrap()
    }

    fn rates() -> Rates {
        Rates {
            input: rate("1"),
            cached_input: rate("0.1"),
            cache_write: rate("1.25"),
            cache_write_1h: rate("2"),
            output: rate("10"),
            reasoning: rate("12"),
            input_audio: rate("3"),
            output_audio: rate("20"),
        }
    }

    #[test]
    fn a_cost_is_rounded_up_once_over_all_classes() {
        let cents =
            Rates { input: rate("0.0004"), cached_input: rate("0.0004"), output: rate("10"), ..Rates::default() };
        let price = Price::flat(Rates { reasoning: rate("10"), ..cents });
        // 0.4 + 0.4 nano-dollars are one nano-dollar, not two.
        assert_eq!(price.cost(&Tokens { input: 1, cached_input: 1, ..Tokens::default() }).nanos(), 1);
        assert_eq!(price.cost(&Tokens { output: 3, reasoning: 2, ..Tokens::default() }).nanos(), 50_000);
        assert_eq!(price.cost(&Tokens { output: u64::MAX, ..Tokens::default() }), NanoDollars::MAX);
        assert_eq!(price.cost(&Tokens::default()), NanoDollars::ZERO);
    }

    #[test]
    fn every_class_has_its_own_rate() {
        let price = Price::flat(rates());
        let tokens = Tokens {
            input: 1,
            cached_input: 10,
            cache_write: 100,
            cache_write_1h: 1_000,
            output: 2,
            reasoning: 20,
            input_audio: 200,
            output_audio: 2_000,
        };
        let expected = 1_000 + 10 * 100 + 100 * 1_250 + 1_000 * 2_000 + 2 * 10_000 + 20 * 12_000 + 200 * 3_000;
        assert_eq!(price.cost(&tokens).nanos(), expected + 2_000 * 20_000);
        assert_eq!((tokens.all_input(), tokens.all_output(), tokens.all_cache_writes()), (1_311, 2_022, 1_100));
    }

    #[test]
    fn input_of_all_classes_above_the_threshold_puts_the_whole_request_on_the_other_rates() {
        let long = Rates { input: rate("2"), cached_input: rate("0.2"), output: rate("15"), ..rates() };
        let price = Price { rates: rates(), long_context: Some(LongContext { above: 200_000, rates: long }) };
        let at = Tokens { input: 110_000, cached_input: 90_000, output: 10, ..Tokens::default() };
        assert_eq!(price.cost(&at).nanos(), 110_000 * 1_000 + 90_000 * 100 + 10 * 10_000);
        let above = Tokens { input: 110_001, ..at };
        assert_eq!(price.cost(&above).nanos(), 110_001 * 2_000 + 90_000 * 200 + 10 * 15_000);
    }

    #[test]
    fn the_most_takes_the_dearest_class_and_the_dearest_length() {
        let flat = Price::flat(rates());
        assert_eq!(flat.most(400, 100).nanos(), 400 * 3_000 + 100 * 20_000);
        let cheap = Rates { input: rate("0.5"), output: rate("1"), ..Rates::default() };
        let dear = Rates { input: rate("5"), output: rate("30"), ..Rates::default() };
        let with = |rates| Price { long_context: Some(LongContext { above: 399, rates }), ..flat };
        assert_eq!(with(cheap).most(400, 100), flat.most(400, 100));
        assert_eq!(with(dear).most(400, 100).nanos(), 400 * 5_000 + 100 * 30_000);
        assert_eq!(with(dear).most(399, 100), flat.most(399, 100), "the threshold is not passed");
    }

    #[test]
    fn free_is_free_at_any_length() {
        let free = Price::flat(Rates::default());
        assert!(free.is_free() && !Price::flat(rates()).is_free());
        let long = LongContext { above: 1, rates: rates() };
        assert!(!Price { long_context: Some(long), ..free }.is_free());
    }
}
