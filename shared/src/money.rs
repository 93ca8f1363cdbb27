//! Money in integer nano-dollars. No float touches it; a cost is rounded up once per request.

use std::fmt;
use std::str::FromStr;

mod price;

pub use price::{LongContext, Price, Rates, Tokens};

/// An amount of money in nano-dollars (10⁻⁹ US dollars), between −2⁵³ and 2⁵³ (about nine million dollars): what Lua's
/// numbers hold exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NanoDollars(i64);

/// A text that is not an amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an amount in US dollars with at most 9 decimals, up to 9000000")]
pub struct MoneyError;

const NANOS_PER_DOLLAR: i128 = 1_000_000_000;

impl NanoDollars {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount that is kept exactly everywhere.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// An amount in nano-dollars; refused beyond ±[`Self::MAX`].
    pub fn new(nanos: i64) -> Result<Self, MoneyError> {
        if nanos.unsigned_abs() <= Self::MAX.0.unsigned_abs() { Ok(Self(nanos)) } else { Err(MoneyError) }
    }

    /// The amount in nano-dollars.
    pub fn nanos(self) -> i64 {
        self.0
    }
}

/// Reads US dollars in decimal notation, exactly.
impl FromStr for NanoDollars {
    type Err = MoneyError;
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let nanos = i64::try_from(scaled_decimal(text, 9)?).map_err(|_| MoneyError)?;
        Self::new(nanos)
    }
}

/// US dollars with two to nine decimals, for people.
impl fmt::Display for NanoDollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = i128::from(self.0).abs();
        let fraction = format!("{:09}", magnitude % NANOS_PER_DOLLAR);
        let shown = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{sign}${}.{}", magnitude / NANOS_PER_DOLLAR, &fraction[..shown])
    }
}

/// Reads a decimal number times 10^`decimals` without a float; more decimals than that are refused unless they are zeros.
pub(crate) fn scaled_decimal(text: &str, decimals: usize) -> Result<i128, MoneyError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || !all_digits(whole) || !all_digits(fraction) || digits.ends_with('.') {
        return Err(MoneyError);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > decimals {
        return Err(MoneyError);
    }
    let joined: i128 = format!("{whole}{fraction:0<decimals$}").parse().map_err(|_| MoneyError)?;
    Ok(if negative { -joined } else { joined })
}

/// The price of one token class: nano-dollars per million tokens, so that a price list in dollars per million tokens with up
/// to nine decimals is held exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rate(u64);

impl Rate {
    /// A price in nano-dollars per million tokens.
    pub fn per_million(price: NanoDollars) -> Result<Self, MoneyError> {
        u64::try_from(price.nanos()).map(Self).map_err(|_| MoneyError)
    }

    /// Nothing.
    pub const FREE: Self = Self(0);

    /// Nano-dollars per million tokens.
    pub fn nanos_per_million(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dollars_are_read_exactly_or_refused() {
        for (text, nanos) in [
            ("0", 0),
            ("25.00", 25_000_000_000),
            ("0.000000001", 1),
            ("-1.5", -1_500_000_000),
            ("0.1000000000000", 100_000_000),
        ] {
            assert_eq!(text.parse::<NanoDollars>().unwrap().nanos(), nanos, "{text}");
        }
        for bad in [
            "",
            ".",
            "1.",
            ".5",
            "1e3",
            "NaN",
            "+1",
            "1,5",
            "0.0000000001",
            "9007199.254740992",
            "99999999999999999999",
            "--1",
            "1.-5",
        ] {
            assert!(bad.parse::<NanoDollars>().is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_dollars() {
        for (nanos, text) in [(0, "$0.00"), (1, "$0.000000001"), (25_000_000_000, "$25.00"), (-1_500_000_000, "-$1.50")]
        {
            assert_eq!(NanoDollars::new(nanos).unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(nanos in -NanoDollars::MAX.nanos()..=NanoDollars::MAX.nanos()) {
            let money = NanoDollars::new(nanos).unwrap();
            prop_assert_eq!(money.to_string().replace('$', "").parse::<NanoDollars>().unwrap(), money);
        }
    }
}
