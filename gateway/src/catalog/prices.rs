//! What a model costs where the configuration does not say: the list of crate `genai-prices`, in rates of ours. Offline, pure.
//!
//! The list is asked once, when a configuration is loaded. It calculates with floats; asked for one token at a time it gives the
//! rate of a class, which is then rounded to the nearest nano-dollar per million tokens: no list has finer prices.

use std::fmt;
use std::time::{Duration, SystemTime};

use genai_prices::{Calculator, PriceRequest, Usage, UsageKey};
use shared::ids::ModelName;
use shared::money::{LongContext, NanoDollars, Price, Rate, Rates};

use crate::dialect::Dialect;

/// More input than any model takes in.
const LONGEST: u64 = 1 << 30;
const DAY: u64 = 86_400;
const HOUR: u64 = 3_600;

/// Where a model's price is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The configuration.
    File,
    /// The bundled list.
    List {
        /// The list's name of the provider.
        provider: String,
        /// And of the model.
        model: String,
    },
    /// Nowhere: it has none.
    Nowhere(Unpriced),
}

/// Why the list gives no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpriced {
    /// It does not know the model.
    Unknown,
    /// It says that it is free, or is not charged by tokens. Only the configuration makes a model free.
    NoTokens,
    /// Its price depends on something we do not count: the hour, the requests, pictures.
    Uncounted,
    /// It has more than two prices by length.
    ManyTiers,
    /// Its connections call it by names that cost different things.
    Ambiguous,
}

impl fmt::Display for Unpriced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the bundled list does not know it",
            Self::NoTokens => "the bundled list has no price for its tokens, and only an explicit 0 is free",
            Self::Uncounted => "the bundled list prices what is not counted here (hours, requests or pictures)",
            Self::ManyTiers => "the bundled list has more than two prices by length for it",
            Self::Ambiguous => "its connections call it by names with different prices",
        })
    }
}

/// Who serves a model, as the list may know them.
#[derive(Debug, Clone, Copy)]
pub struct Vendor<'a> {
    /// Where it is called.
    pub url: &'a str,
    /// In which language.
    pub dialect: Dialect,
}

/// The price of a model by what it is called upstream, on the day of `at`.
pub fn listed<'a>(
    vendor: Vendor<'_>,
    names: impl IntoIterator<Item = &'a str>,
    at: SystemTime,
) -> Result<(Price, Source), Unpriced> {
    let mut found: Option<(Price, Source)> = None;
    for name in names {
        let next = Listing::find(vendor, name, at)?.priced()?;
        match &found {
            Some((price, _)) if *price != next.0 => return Err(Unpriced::Ambiguous),
            Some(_) => {}
            None => found = Some(next),
        }
    }
    found.ok_or(Unpriced::Unknown)
}

/// The price of a model, and where it is from.
pub fn price(
    file: Option<Price>,
    vendor: Option<Vendor<'_>>,
    (name, upstream): (&ModelName, &[&str]),
    at: SystemTime,
) -> (Option<Price>, Source) {
    if let Some(price) = file {
        return (Some(price), Source::File);
    }
    let Some(vendor) = vendor else { return (None, Source::Nowhere(Unpriced::Unknown)) };
    let own = [name.as_str()];
    match listed(vendor, if upstream.is_empty() { &own } else { upstream }.iter().copied(), at) {
        Ok((price, source)) => (Some(price), source),
        Err(why) => (None, Source::Nowhere(why)),
    }
}

/// One model of the list on one day.
struct Listing<'a> {
    provider: &'static str,
    model: &'a str,
    day: u64,
}

/// What so many tokens of one class cost, in dollars: of input, of output, and beside both.
struct Dollars {
    input: f64,
    output: f64,
    beside: f64,
    model: String,
}

impl<'a> Listing<'a> {
    fn find(vendor: Vendor<'_>, model: &'a str, at: SystemTime) -> Result<Self, Unpriced> {
        let home = match vendor.dialect {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini | Dialect::CodeAssist => "google",
        };
        let calculator = Calculator::bundled();
        let known = calculator.find_provider(None, Some(vendor.url)).ok().flatten().map(genai_prices::ProviderInfo::id);
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let listing = Self { provider: known.unwrap_or(home), model, day: seconds / DAY * DAY };
        listing.ask(&[(UsageKey::INPUT_TOKENS, 1)], 12).map(|_| listing)
    }

    fn ask(&self, usage: &[(UsageKey, u64)], hour: u64) -> Result<Dollars, Unpriced> {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let usage: Usage = usage.iter().map(|(key, count)| (key.clone(), *count as f64)).collect();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(self.day + hour * HOUR);
        let request = PriceRequest::new(self.model, &usage).with_provider_id(self.provider).with_timestamp(at);
        let said = Calculator::bundled().calculate(&request).map_err(|_| Unpriced::Unknown)?;
        let beside = said.total_price - said.input_price - said.output_price;
        Ok(Dollars { input: said.input_price, output: said.output_price, beside, model: said.model_id })
    }

    fn priced(&self) -> Result<(Price, Source), Unpriced> {
        let rates = self.rates(1)?;
        if rates.input == Rate::FREE && rates.output == Rate::FREE {
            return Err(Unpriced::NoTokens);
        }
        if self.depends_on_more(&rates)? {
            return Err(Unpriced::Uncounted);
        }
        let long_context = self.long_context(rates)?;
        let said = self.ask(&[(UsageKey::INPUT_TOKENS, 1)], 12)?;
        Ok((Price { rates, long_context }, Source::List { provider: self.provider.to_owned(), model: said.model }))
    }

    /// The rates of a request with so much input.
    fn rates(&self, input: u64) -> Result<Rates, Unpriced> {
        let read = |class: UsageKey| self.input_rate(class, input);
        let written = |class: UsageKey| self.output_rate(class, input);
        Ok(Rates {
            input: read(UsageKey::INPUT_TOKENS)?,
            cached_input: read(UsageKey::CACHE_READ_TOKENS)?,
            cache_write: read(UsageKey::CACHE_WRITE_TOKENS)?,
            cache_write_1h: self.long_write_rate(input)?,
            output: written(UsageKey::OUTPUT_TOKENS)?,
            reasoning: written(UsageKey::OUTPUT_REASONING_TOKENS)?,
            input_audio: read(UsageKey::INPUT_AUDIO_TOKENS)?,
            output_audio: written(UsageKey::OUTPUT_AUDIO_TOKENS)?,
        })
    }

    fn input_rate(&self, class: UsageKey, input: u64) -> Result<Rate, Unpriced> {
        rate(self.ask(&[(UsageKey::INPUT_TOKENS, input), (class, input)], 12)?.input, input)
    }

    fn long_write_rate(&self, input: u64) -> Result<Rate, Unpriced> {
        let usage = [UsageKey::INPUT_TOKENS, UsageKey::CACHE_WRITE_TOKENS, UsageKey::CACHE_WRITE_1H_TOKENS];
        rate(self.ask(&usage.map(|class| (class, input)), 12)?.input, input)
    }

    fn output_rate(&self, class: UsageKey, input: u64) -> Result<Rate, Unpriced> {
        let usage = [(UsageKey::INPUT_TOKENS, input), (UsageKey::OUTPUT_TOKENS, 1), (class, 1)];
        rate(self.ask(&usage, 12)?.output, 1)
    }

    /// Whether its price changes in the course of the day, or something costs more that we count as text.
    fn depends_on_more(&self, rates: &Rates) -> Result<bool, Unpriced> {
        let nothing = self.ask(&[], 12)?;
        let pictures = [
            self.input_rate(UsageKey::INPUT_IMAGE_TOKENS, 1)? > rates.input,
            self.input_rate(UsageKey::INPUT_VIDEO_TOKENS, 1)? > rates.input,
            self.output_rate(UsageKey::OUTPUT_IMAGE_TOKENS, 1)? > rates.output,
            self.output_rate(UsageKey::OUTPUT_VIDEO_TOKENS, 1)? > rates.output,
        ];
        let both = [(UsageKey::INPUT_TOKENS, 1), (UsageKey::OUTPUT_TOKENS, 1)];
        let mut by_the_hour = false;
        for hour in 0..24 {
            let said = self.ask(&both, hour)?;
            by_the_hour |= rate(said.input, 1)? != rates.input || rate(said.output, 1)? != rates.output;
        }
        Ok(by_the_hour || nothing.beside > 0.0 || pictures.contains(&true))
    }

    /// The rates of long requests and where they begin. The list knows a threshold only by what it charges, so it is searched for.
    fn long_context(&self, usual: Rates) -> Result<Option<LongContext>, Unpriced> {
        let long = self.rates(LONGEST)?;
        if long == usual {
            return Ok(None);
        }
        let (mut above, mut beyond) = (1, LONGEST);
        while above + 1 < beyond {
            let middle = u64::midpoint(above, beyond);
            if self.rates(middle)? == usual { above = middle } else { beyond = middle }
        }
        if self.rates(beyond)? != long {
            return Err(Unpriced::ManyTiers);
        }
        Ok(Some(LongContext { above, rates: long }))
    }
}

/// Dollars for so many tokens as a rate.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "bounded, and checked to be finite")]
fn rate(dollars: f64, tokens: u64) -> Result<Rate, Unpriced> {
    let nanos = (dollars / tokens as f64 * 1e15).round();
    if !(0.0..=9e15).contains(&nanos) {
        return Err(Unpriced::Uncounted);
    }
    NanoDollars::new(nanos as i64).and_then(Rate::per_million).map_err(|_| Unpriced::Uncounted)
}

#[cfg(test)]
mod tests;
