//! How much tokens count towards a limit of tokens per minute.

use crate::money::{Tokens, scaled_decimal};

/// How much a token of one class counts towards a limit of tokens per minute, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

/// How much a token of each class counts towards a limit of tokens per minute. Audio counts as text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenWeights {
    /// Read afresh.
    pub input: Weight,
    /// Read from a cache.
    pub cached_input: Weight,
    /// Written to a cache, however long it lasts.
    pub cache_write: Weight,
    /// Answered, reasoning apart.
    pub output: Weight,
    /// Thought.
    pub reasoning: Weight,
}

/// Tokens as a limit of tokens per minute counts them, in thousandths of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weighed {
    /// Of all classes.
    pub total_milli: u64,
    /// What of them was answered or thought.
    pub output_milli: u64,
}

impl Weight {
    /// Counts in full.
    pub const ONE: Self = Self(1000);
    /// A tenth.
    pub const TENTH: Self = Self(100);
    /// The most a token may count.
    const MAX: i128 = 1_000_000;

    /// Reads a decimal number from 0 to 1000 with at most three decimals, exactly.
    pub fn parse(text: &str) -> Option<Self> {
        let milli =
            scaled_decimal(text, 3).ok().filter(|milli| (0..=Self::MAX).contains(milli) && !text.starts_with('-'))?;
        u32::try_from(milli).ok().map(Self)
    }

    /// What so many tokens count, in thousandths; at most what Lua holds exactly.
    pub fn of(self, tokens: u64) -> u64 {
        tokens.saturating_mul(u64::from(self.0)).min(EXACT_MAX)
    }
}

/// Counters pass through Lua, which holds whole numbers exactly up to here.
const EXACT_MAX: u64 = (1 << 53) - 1;

impl TokenWeights {
    /// What these tokens count.
    pub fn weigh(&self, tokens: &Tokens) -> Weighed {
        let fresh = tokens.input.saturating_add(tokens.input_audio);
        let written = tokens.cache_write.saturating_add(tokens.cache_write_1h);
        let answered = tokens.output.saturating_add(tokens.output_audio);
        let input = self.input.of(fresh) + self.cached_input.of(tokens.cached_input) + self.cache_write.of(written);
        let output = (self.output.of(answered) + self.reasoning.of(tokens.reasoning)).min(EXACT_MAX);
        Weighed { total_milli: (input + output).min(EXACT_MAX), output_milli: output }
    }
}

/// Every class in full, but what was read from a cache a tenth.
impl Default for TokenWeights {
    fn default() -> Self {
        let one = Weight::ONE;
        Self { input: one, cached_input: Weight::TENTH, cache_write: one, output: one, reasoning: one }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_read_from_a_cache_counts_a_tenth_unless_said_otherwise() {
        let (input, cached_input, cache_write) = (5_000, 95_000, 3);
        let tokens = Tokens { input, cached_input, cache_write, output: 7, reasoning: 2, ..Tokens::default() };
        let weighed = TokenWeights::default().weigh(&tokens);
        assert_eq!((weighed.total_milli, weighed.output_milli), (14_512_000, 9_000));
        let other = TokenWeights { output: Weight::parse("5").unwrap(), ..TokenWeights::default() };
        assert_eq!(other.weigh(&tokens).output_milli, 37_000);
        let all = Tokens {
            input: 4_900,
            input_audio: 100,
            cache_write: 1,
            cache_write_1h: 2,
            output: 3,
            output_audio: 4,
            ..tokens
        };
        assert_eq!(TokenWeights::default().weigh(&all), weighed, "audio counts as text, and every written cache alike");
        let most = Tokens { input: u64::MAX, input_audio: 1, output: u64::MAX, ..tokens };
        assert_eq!(TokenWeights::default().weigh(&most).total_milli, EXACT_MAX, "never more than Lua holds");
    }

    #[test]
    fn weights_are_read_exactly_or_refused() {
        for (text, milli) in [("0", 0), ("0.1", 100), ("1", 1_000), ("1.250", 1_250), ("1000", 1_000_000)] {
            assert_eq!(Weight::parse(text), Some(Weight(milli)), "{text}");
        }
        for bad in ["", "-1", "-0", "0.0001", "1000.1", "1e3", ".5", "one"] {
            assert_eq!(Weight::parse(bad), None, "{bad}");
        }
    }
}
