//! Single values: numbers, durations, sizes, money, names, words.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use jiff::{SignedDuration, tz::TimeZone};
use regex::{Regex, RegexBuilder};
use schemars::{JsonSchema, SchemaGenerator};
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::reader::{Reader, Value};
use super::section::plain_json;
use super::yaml::Node;
use crate::ids::{
    AccountId, BucketName, ConnectionId, EndpointId, GroupId, KeyId, ModelName, PoolId, ProviderId, SecretHash, TierId,
};
use crate::limit::{Priority, Weight};
use crate::money::{NanoDollars, Rate};

/// How a scalar may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A text. Unquoted it must not look like a number, a truth value or nothing.
    Text,
    /// A number or truth value: never quoted, though `"${NAME}"` may be.
    Plain,
    /// Either way; the characters are what counts.
    Any,
}

/// A value written as one scalar.
pub(super) trait Scalar: Sized {
    const FORM: Form = Form::Text;
    /// False where a fault must not repeat the value.
    const SHOWN: bool = true;
    /// What was expected, for people.
    fn expected() -> Cow<'static, str>;
    fn parse(text: &str) -> Option<Self>;
    fn schema() -> Json;
    /// The schema of a name in a map: names are taken as they stand, so no variable is allowed for.
    fn name_schema() -> Json {
        json!({})
    }
}

impl<T: Scalar> Value for T {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let expected = T::expected();
        let text = reader.text(node, &expected)?;
        let well_formed = match T::FORM {
            _ if text.from_env => true,
            Form::Text => !text.plain || plain_json(&text.value).is_none(),
            Form::Plain => text.plain,
            Form::Any => true,
        };
        let value = T::parse(&text.value);
        if well_formed && value.is_some() {
            return value;
        }
        let message = if T::SHOWN { text.shown() } else { "the value does not fit".to_owned() };
        let quotes = if well_formed || value.is_none() { "" } else { quotes(T::FORM) };
        reader.fault_here(node.at, message, format!("{expected}{quotes}"));
        None
    }

    fn schema() -> Json {
        <T as Scalar>::schema()
    }
}

fn quotes(form: Form) -> &'static str {
    if form == Form::Plain { ", without quotes" } else { ", in quotes because it looks like something else" }
}

/// A text that holds a `${...}`: what it becomes is checked when the file is read.
pub(super) const VARIABLE: &str = r"\$\{";

/// A text of this pattern, or one with a variable.
pub(super) fn text_schema(pattern: &str, description: &str) -> Json {
    json!({"type": "string", "minLength": 1, "pattern": format!("({pattern})|{VARIABLE}"), "description": description})
}

/// Any text but the empty one.
pub(super) fn any_text_schema(description: &str) -> Json {
    json!({"type": "string", "minLength": 1, "description": description})
}

/// A number of this JSON type, or a text with a variable.
fn number_schema(kind: &str, minimum: i64, maximum: Option<u64>) -> Json {
    let mut schema = json!({"type": [kind, "string"], "minimum": minimum, "pattern": VARIABLE});
    if let Some(maximum) = maximum {
        schema["maximum"] = maximum.into();
    }
    schema
}

/// One of these words, or a text with a variable.
pub(super) fn words_schema(words: &[&str], description: &str) -> Json {
    json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": VARIABLE}], "description": description})
}

macro_rules! number {
    ($($type:ty, $expected:literal, $minimum:expr, $maximum:expr;)*) => { $(
        impl Scalar for $type {
            const FORM: Form = Form::Plain;
            fn expected() -> Cow<'static, str> {
                $expected.into()
            }
            fn parse(text: &str) -> Option<Self> {
                let digits = text.strip_prefix('-').unwrap_or(text);
                digits.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
            }
            fn schema() -> Json {
                number_schema("integer", $minimum, $maximum)
            }
        }
    )* };
}

/// Counters pass through Lua, which holds whole numbers exactly up to here.
const EXACT_MAX: u64 = (1 << 53) - 1;

number! {
    u16, "a whole number from 0 to 65535", 0, Some(65_535);
    NonZeroU32, "a whole number from 1 to 4294967295", 1, Some(4_294_967_295);
    i32, "a whole number from -2147483648 to 2147483647", -2_147_483_648, Some(2_147_483_647);
}

impl Scalar for NonZeroU64 {
    const FORM: Form = Form::Plain;
    fn expected() -> Cow<'static, str> {
        "a whole number from 1 to 9007199254740991".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<Self>().ok().filter(|number| digits && number.get() <= EXACT_MAX)
    }
    fn schema() -> Json {
        number_schema("integer", 1, Some(EXACT_MAX))
    }
}

impl Scalar for Priority {
    const FORM: Form = Form::Plain;
    fn expected() -> Cow<'static, str> {
        "a whole number from 0 to 9".into()
    }
    fn parse(text: &str) -> Option<Self> {
        <u16 as Scalar>::parse(text).and_then(|number| Self::new(u8::try_from(number).ok()?))
    }
    fn schema() -> Json {
        number_schema("integer", 0, Some(Self::MAX.into()))
    }
}

impl Scalar for bool {
    const FORM: Form = Form::Plain;
    fn expected() -> Cow<'static, str> {
        "true or false".into()
    }
    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
    fn schema() -> Json {
        json!({"type": ["boolean", "string"], "pattern": VARIABLE})
    }
}

/// The longest duration: ten years, so that sums of a few stay in range everywhere.
const LONGEST: Duration = Duration::from_hours(10 * 366 * 24);

impl Scalar for Duration {
    const FORM: Form = Form::Any;
    fn expected() -> Cow<'static, str> {
        "a duration of hours, minutes, seconds and milliseconds such as 250ms, 2s or 1h30m".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let units = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'h' | b'm' | b's'));
        let duration: SignedDuration = text.parse().ok().filter(|_| units)?;
        Self::try_from(duration).ok().filter(|duration| *duration <= LONGEST)
    }
    fn schema() -> Json {
        text_schema("^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", "a duration such as 250ms, 2s, 15m or 1h30m")
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl Scalar for ByteSize {
    fn expected() -> Cow<'static, str> {
        "a size from 1B to 1GiB such as 512KiB or 32MiB".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let split = text.find(|c: char| !c.is_ascii_digit())?;
        let (digits, unit) = text.split_at(split);
        let factor = match unit {
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        let bytes = digits.parse::<u64>().ok()?.checked_mul(factor)?;
        (1..=1 << 30).contains(&bytes).then_some(Self(bytes))
    }
    fn schema() -> Json {
        text_schema("^[0-9]+(B|KiB|MiB|GiB)$", "a size such as 512KiB or 32MiB")
    }
}

/// A share in whole percent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

impl Scalar for Percent {
    fn expected() -> Cow<'static, str> {
        "a share from 0% to 100%".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse().ok().filter(|share| *share <= 100).map(Self)
    }
    fn schema() -> Json {
        text_schema("^(100|[0-9]{1,2})%$", "a share such as 50%")
    }
}

/// Money and prices are read from their characters, never through a float.
fn dollars_schema(minimum: i64) -> Json {
    json!({
        "type": ["number", "string"],
        "minimum": minimum,
        "pattern": format!(r"(^[0-9]+(\.[0-9]+)?$)|{VARIABLE}"),
        "description": "US dollars with at most 9 decimals",
    })
}

impl Scalar for NanoDollars {
    const FORM: Form = Form::Any;
    fn expected() -> Cow<'static, str> {
        "an amount from 0 to 9000000 US dollars with at most 9 decimals".into()
    }
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|amount| *amount >= Self::ZERO && !text.starts_with('-'))
    }
    fn schema() -> Json {
        dollars_schema(0)
    }
}

impl Scalar for Rate {
    const FORM: Form = Form::Any;
    fn expected() -> Cow<'static, str> {
        "a price from 0 in US dollars per million tokens with at most 9 decimals".into()
    }
    fn parse(text: &str) -> Option<Self> {
        <NanoDollars as Scalar>::parse(text).and_then(|price| Self::per_million(price).ok())
    }
    fn schema() -> Json {
        dollars_schema(0)
    }
}

impl Scalar for Weight {
    const FORM: Form = Form::Plain;
    fn expected() -> Cow<'static, str> {
        "a number from 0 to 1000 with at most three decimals".into()
    }
    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }
    fn schema() -> Json {
        let mut schema = number_schema("number", 0, Some(1_000));
        schema["description"] = Self::expected().into();
        schema
    }
}

impl Scalar for SocketAddr {
    fn expected() -> Cow<'static, str> {
        "an address and port such as 0.0.0.0:8080 or [::]:8080".into()
    }
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn schema() -> Json {
        text_schema(r"^(\[[0-9A-Fa-f:.%]+\]|[0-9.]+):[0-9]{1,5}$", "an address and port such as 0.0.0.0:8080")
    }
}

impl Scalar for Regex {
    fn expected() -> Cow<'static, str> {
        "a regular expression".into()
    }
    fn parse(text: &str) -> Option<Self> {
        RegexBuilder::new(text).size_limit(1 << 20).build().ok().filter(|_| !text.is_empty())
    }
    fn schema() -> Json {
        json!({"type": "string", "minLength": 1, "format": "regex", "description": "a regular expression"})
    }
}

impl Scalar for TimeZone {
    fn expected() -> Cow<'static, str> {
        "an IANA time zone name such as UTC or Europe/Berlin".into()
    }
    fn parse(text: &str) -> Option<Self> {
        Self::get(text).ok()
    }
    fn schema() -> Json {
        text_schema("^[A-Za-z0-9_+/-]+$", "an IANA time zone name")
    }
}

/// A credential: printable ASCII without spaces, so that it fits a header as it is.
impl Scalar for SecretString {
    const SHOWN: bool = false;
    fn expected() -> Cow<'static, str> {
        "a credential of at least one character: printable ASCII without spaces or line breaks".into()
    }
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())).then(|| text.into())
    }
    fn schema() -> Json {
        any_text_schema("a credential; take it from the environment")
    }
}

impl Scalar for SecretHash {
    const SHOWN: bool = false;
    const FORM: Form = Form::Any;
    fn expected() -> Cow<'static, str> {
        "a SHA-256: 64 hexadecimal digits".into()
    }
    fn parse(text: &str) -> Option<Self> {
        Self::from_hex(text).ok()
    }
    fn schema() -> Json {
        text_schema("^[0-9A-Fa-f]{64}$", "64 hexadecimal digits")
    }
}

/// A text that is used as it stands.
impl Scalar for String {
    fn expected() -> Cow<'static, str> {
        "a text of at least one character".into()
    }
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }
    fn schema() -> Json {
        any_text_schema("a text")
    }
}

/// The pattern and description of a name, as `ids` has them.
fn id_schema<T: JsonSchema>() -> (String, String) {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    let part = |name: &str| schema.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    (part("pattern"), part("description"))
}

macro_rules! ids {
    ($($id:ty),*) => { $(
        impl Scalar for $id {
            fn expected() -> Cow<'static, str> {
                id_schema::<Self>().1.into()
            }
            fn parse(text: &str) -> Option<Self> {
                Self::parse(text).ok()
            }
            fn schema() -> Json {
                let (pattern, description) = id_schema::<Self>();
                text_schema(&pattern, &description)
            }
            fn name_schema() -> Json {
                let (pattern, description) = id_schema::<Self>();
                json!({"pattern": pattern, "description": description})
            }
        }
    )* };
}

ids!(AccountId, BucketName, ConnectionId, EndpointId, GroupId, KeyId, ModelName, PoolId, ProviderId, TierId);

/// A closed set of words, each meaning one variant.
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident { $( $(#[doc = $word_doc:literal])* $variant:ident = $word:literal, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $name {
            $( $(#[doc = $word_doc])* $variant, )*
        }

        impl $name {
            /// The word for it in the file.
            $vis fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        impl $crate::config::scalar::Scalar for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                concat!("one of" $(, " ", $word)*).into()
            }
            fn parse(text: &str) -> Option<Self> {
                [$( Self::$variant ),*].into_iter().find(|word| word.as_str() == text)
            }
            fn schema() -> serde_json::Value {
                let meanings = [$( format!("{}: {}", $word, concat!($($word_doc),*).trim()) ),*].join(" ");
                $crate::config::scalar::words_schema(&[$($word),*], &meanings)
            }
        }
    };
}

pub(super) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_hours_minutes_seconds_and_milliseconds() {
        for (text, ms) in [
            ("250ms", 250),
            ("0s", 0),
            ("2s", 2_000),
            ("15m", 900_000),
            ("24h", 86_400_000),
            ("1m30s", 90_000),
            ("1h1ms", 3_600_001),
        ] {
            assert_eq!(<Duration as Scalar>::parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "5", "s", "-2s", "1.5s", "1d", "1s1m", "2 s", "2sec", "1us", "PT2S", "99999999999h", "1s ago"] {
            assert_eq!(<Duration as Scalar>::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_and_shares_are_whole_and_bounded() {
        assert_eq!(ByteSize::parse("32MiB"), Some(ByteSize(32 << 20)));
        assert_eq!(ByteSize::parse("1GiB"), Some(ByteSize(1 << 30)));
        for bad in ["", "32", "MiB", "32MB", "32mib", "0B", "2GiB", "1.5MiB", "-1B", "99999999999999999999B"] {
            assert_eq!(ByteSize::parse(bad), None, "{bad}");
        }
        assert_eq!((Percent::parse("0%"), Percent::parse("100%")), (Some(Percent(0)), Some(Percent(100))));
        for bad in ["", "%", "50", "101%", "-1%", "+5%", "0.5%"] {
            assert_eq!(Percent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers_take_no_sign_point_or_exponent_that_yaml_might_read_otherwise() {
        assert_eq!(<NonZeroU32 as Scalar>::parse("60").map(NonZeroU32::get), Some(60));
        assert_eq!(<i32 as Scalar>::parse("-5"), Some(-5));
        for bad in ["", "+5", "0x10", "0o7", "1_000", "1e3", "5.0", "0", "-5", "4294967296"] {
            assert_eq!(<NonZeroU32 as Scalar>::parse(bad), None, "{bad}");
        }
        assert_eq!(<NonZeroU64 as Scalar>::parse("9007199254740992"), None);
    }
}
