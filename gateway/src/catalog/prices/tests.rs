use proptest::prelude::*;
use shared::money::Tokens;

use super::*;

/// Noon of 2026-11-30.
const AT: Duration = Duration::from_hours(498_900);

const OPENAI: Vendor<'_> = Vendor { url: "https://api.openai.com/v1", dialect: Dialect::OpenAi };
const ANTHROPIC: Vendor<'_> = Vendor { url: "https://api.anthropic.com", dialect: Dialect::Anthropic };
const GOOGLE: Vendor<'_> = Vendor { url: "https://generativelanguage.googleapis.com", dialect: Dialect::Gemini };
/// An upstream that no list knows by its URL.
const LOCAL: Vendor<'_> = Vendor { url: "http://127.0.0.1:1/v1", dialect: Dialect::OpenAi };

fn on_that_day(vendor: Vendor<'_>, names: &[&'static str]) -> Result<(Price, Source), Unpriced> {
    listed(vendor, names.iter().copied(), SystemTime::UNIX_EPOCH + AT)
}

/// Input, cached input, cache write, the same for an hour, output, reasoning, audio in and out; in dollars per million.
fn usd(prices: [&str; 8]) -> Rates {
    let [input, cached_input, cache_write, cache_write_1h, output, reasoning, input_audio, output_audio] =
        prices.map(|text| Rate::per_million(text.parse().unwrap()).unwrap());
    Rates { input, cached_input, cache_write, cache_write_1h, output, reasoning, input_audio, output_audio }
}

fn source(provider: &str, model: &str) -> Source {
    Source::List { provider: provider.to_owned(), model: model.to_owned() }
}

/// Copied from the vendors' own pages by way of the list.
#[test]
fn the_bundled_list_is_read_to_the_last_digit_with_every_class_and_the_tier_of_long_input() {
    let luna = usd(["0.2", "0.02", "0.25", "0.25", "1.2", "1.2", "0.2", "1.2"]);
    let long = usd(["0.4", "0.04", "0.5", "0.5", "1.8", "1.8", "0.4", "1.8"]);
    let price = Price { rates: luna, long_context: Some(LongContext { above: 272_000, rates: long }) };
    assert_eq!(on_that_day(OPENAI, &["gpt-5.6-luna"]), Ok((price, source("openai", "gpt-5.6-luna"))));

    let sonnet = usd(["3", "0.3", "3.75", "6", "15", "15", "3", "15"]);
    let long = usd(["6", "0.6", "7.5", "12", "22.5", "22.5", "6", "22.5"]);
    let price = Price { rates: sonnet, long_context: Some(LongContext { above: 200_000, rates: long }) };
    let dated = on_that_day(ANTHROPIC, &["claude-sonnet-4-5-20250929"]);
    assert_eq!(dated, Ok((price, source("anthropic", "claude-sonnet-4-5"))));

    let flash = Price::flat(usd(["0.3", "0.03", "0.3", "0.3", "2.5", "2.5", "1", "2.5"]));
    assert_eq!(on_that_day(GOOGLE, &["gemini-2.5-flash"]), Ok((flash, source("google", "gemini-2.5-flash"))));

    let audio = Price::flat(usd(["2.5", "2.5", "2.5", "2.5", "10", "10", "32", "64"]));
    assert_eq!(on_that_day(OPENAI, &["gpt-audio"]), Ok((audio, source("openai", "gpt-audio"))));
}

#[test]
fn a_vendor_is_known_by_its_url_or_else_by_its_dialect() {
    let found = |vendor, model| on_that_day(vendor, &[model]).map(|(_, source)| source);
    assert_eq!(found(LOCAL, "gpt-4o"), Ok(source("openai", "gpt-4o")));
    let azure = Vendor { url: "https://mine.openai.azure.com/openai/v1", ..LOCAL };
    assert!(matches!(found(azure, "gpt-4o"), Ok(Source::List { provider, .. }) if provider == "azure"));
    let assist = Vendor { url: "https://cloudcode-pa.googleapis.com", dialect: Dialect::CodeAssist };
    assert!(matches!(found(assist, "claude-sonnet-4-5"), Ok(Source::List { provider, .. }) if provider == "google"));
}

#[test]
fn what_the_list_cannot_tell_for_certain_is_no_price() {
    assert_eq!(on_that_day(OPENAI, &["nobody-knows-it"]), Err(Unpriced::Unknown));
    assert_eq!(on_that_day(OPENAI, &["whisper-1"]), Err(Unpriced::NoTokens), "charged by the minute");
    assert_eq!(on_that_day(GOOGLE, &["gemini-2.5-flash-image"]), Err(Unpriced::Uncounted), "pictures cost more");
    let deepseek = Vendor { url: "https://api.deepseek.com", ..LOCAL };
    assert_eq!(on_that_day(deepseek, &["deepseek-chat"]), Err(Unpriced::Uncounted), "cheaper at night");
    let router = Vendor { url: "https://openrouter.ai/api/v1", ..LOCAL };
    assert_eq!(on_that_day(router, &["qwen/qwen3-coder-flash"]), Err(Unpriced::ManyTiers));
    assert_eq!(on_that_day(OPENAI, &["gpt-5.6-luna", "gpt-4o"]), Err(Unpriced::Ambiguous));
    assert!(on_that_day(OPENAI, &["gpt-5.6-luna", "gpt-5-6-luna"]).is_ok(), "two names of one model");
}

#[test]
fn the_file_outranks_the_list_and_upstream_names_outrank_the_public_one() {
    let at = SystemTime::UNIX_EPOCH + AT;
    let own = Price::flat(usd(["1", "1", "1", "1", "2", "2", "1", "2"]));
    let name: ModelName = "gpt-4o".parse().unwrap();
    assert_eq!(price(Some(own), Some(OPENAI), (&name, &[]), at), (Some(own), Source::File));
    assert_eq!(price(None, Some(OPENAI), (&name, &[]), at).1, source("openai", "gpt-4o"));
    assert_eq!(price(None, Some(OPENAI), (&name, &["gpt-5.6-luna"]), at).1, source("openai", "gpt-5.6-luna"));
    assert_eq!(price(None, None, (&name, &[]), at), (None, Source::Nowhere(Unpriced::Unknown)));
}

fn any_tokens() -> impl Strategy<Value = Tokens> {
    let figure = || prop_oneof![2 => Just(0), 3 => 1u64..50, 3 => 1u64..300_000];
    prop::array::uniform6(figure()).prop_map(|[input, cached_input, cache_write, cache_write_1h, output, reasoning]| {
        Tokens { input, cached_input, cache_write, cache_write_1h, output, reasoning, ..Tokens::default() }
    })
}

proptest! {
    /// The list's own calculation is the oracle; it is in floats and rounds nothing.
    #[test]
    fn our_integers_cost_what_the_lists_floats_do_rounded_up_once(
        tokens in any_tokens(),
        (vendor, name) in prop::sample::select(vec![
            (OPENAI, "gpt-5.6-terra"), (ANTHROPIC, "claude-sonnet-4-5"), (ANTHROPIC, "claude-sonnet-5-5"),
            (GOOGLE, "gemini-2.5-pro"),
        ]),
    ) {
        let (price, from) = on_that_day(vendor, &[name]).unwrap();
        let Source::List { provider, .. } = from else { panic!("{from:?}") };
        let usage: Usage = [
            (UsageKey::INPUT_TOKENS, tokens.all_input()),
            (UsageKey::CACHE_READ_TOKENS, tokens.cached_input),
            (UsageKey::CACHE_WRITE_TOKENS, tokens.all_cache_writes()),
            (UsageKey::CACHE_WRITE_1H_TOKENS, tokens.cache_write_1h),
            (UsageKey::OUTPUT_TOKENS, tokens.all_output()),
            (UsageKey::OUTPUT_REASONING_TOKENS, tokens.reasoning),
        ].into_iter().map(|(key, count)| (key, f64::from(u32::try_from(count).unwrap()))).collect();
        let request = PriceRequest::new(name, &usage).with_provider_id(&provider);
        let at = SystemTime::UNIX_EPOCH + AT;
        let dollars = Calculator::bundled().calculate(&request.with_timestamp(at)).unwrap().total_price;
        let ours = f64::from(u32::try_from(price.cost(&tokens).nanos() / 1_000).unwrap());
        // Micro-dollars, as a float is not exact to the nano-dollar here.
        prop_assert!((ours - dollars * 1e6).abs() <= 1.0, "{ours} µ$, the list says {}", dollars * 1e6);
    }
}
