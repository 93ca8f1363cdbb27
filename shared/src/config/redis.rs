//! Where the shared state lives, and what happens without it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value as Json;
use url::Url;

use super::limits::above_zero;
use super::reader::Reader;
use super::scalar::{Scalar, text_schema, words};
use super::section::section;

words! {
    /// Whether requests pass while Redis does not answer.
    pub enum OnOutage {
        /// None: 503.
        Deny = "deny",
        /// Those of client keys without money limits.
        Allow = "allow",
    }
}

/// Where Redis is. A URL may hold a password, so it is kept secret.
#[derive(Debug, Clone)]
pub enum RedisUrl {
    /// A private redis-server child process, for one machine.
    Managed,
    /// A URL of one of the schemes `redis`, `rediss`, `redis+unix`, `redis+sentinel`, `rediss+sentinel`, `redis+cluster`,
    /// `rediss+cluster`.
    Url(SecretString),
}

/// The first part of every Redis key: 1 to 40 letters, digits, `.`, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

section! {
    /// The shared state.
    pub struct Redis, draft RedisDraft, check check {
        /// Where Redis is: `redis://host:port/db`, `rediss://` (TLS), `redis+unix:///path`, `redis+sentinel://h1,h2/master`,
        /// `redis+cluster://h1,h2`, or `managed` for a private child process.
        url: RedisUrl = "redis://127.0.0.1:6379/0",
        /// First part of every key.
        prefix: Prefix = "hg",
        /// Time limit of one script call, waiting for a pooled connection included.
        timeout: Duration = "250ms",
        /// Whether requests pass while Redis does not answer.
        on_outage: OnOutage = "deny",
    }
}

fn check(draft: &RedisDraft, reader: &mut Reader<'_>) {
    above_zero(&draft.timeout, reader);
}

impl Prefix {
    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Scalar for Prefix {
    fn expected() -> Cow<'static, str> {
        "1 to 40 letters, digits, '.', '_' or '-'".into()
    }
    fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        (plain && (1..=40).contains(&text.len())).then(|| Self(text.into()))
    }
    fn schema() -> Json {
        text_schema("^[A-Za-z0-9._-]{1,40}$", "letters, digits, '.', '_' or '-'")
    }
}

impl Scalar for RedisUrl {
    const SHOWN: bool = false;
    fn expected() -> Cow<'static, str> {
        "managed, or a URL: redis://host:port/db, rediss://host:port/db, redis+unix:///path, \
         redis+sentinel://host,host/master or redis+cluster://host,host"
            .into()
    }
    fn parse(text: &str) -> Option<Self> {
        if text == "managed" {
            return Some(Self::Managed);
        }
        let (scheme, rest) = text.split_once("://")?;
        let location = rest.split_once('?').map_or(rest, |(location, _)| location);
        let (authority, path) = location.split_once('/').unwrap_or((location, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let reachable = || {
            hosts.split(',').all(|host| Url::parse(&format!("redis://{login}@{host}")).is_ok_and(|url| url.has_host()))
        };
        let usable = match scheme {
            "redis" | "rediss" => {
                !hosts.contains(',') && reachable() && path.trim_end_matches('/').bytes().all(|b| b.is_ascii_digit())
            }
            "redis+unix" => authority.is_empty() && !path.is_empty(),
            "redis+sentinel" | "rediss+sentinel" => reachable() && !path.trim_matches('/').is_empty(),
            "redis+cluster" | "rediss+cluster" => reachable() && path.is_empty(),
            _ => false,
        };
        usable.then(|| Self::Url(text.into()))
    }
    fn schema() -> Json {
        text_schema(
            r"^managed$|^rediss?://.+$|^redis\+unix:///.+$|^rediss?\+sentinel://.+/.+$|^rediss?\+cluster://.+$",
            "managed or a URL",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_every_kind_of_redis_are_known_and_others_refused() {
        for good in [
            "managed",
            "redis://127.0.0.1:6379/0",
            "redis://localhost",
            "redis://[::1]:6379/",
            "rediss://user:p%40ss@redis.example:6380/2?protocol=resp3",
            "redis://:password@h/",
            "redis+unix:///run/redis.sock?db=1",
            "redis+sentinel://h1:26379,h2/master",
            "redis+sentinel://user:pass@h1,h2/master/1",
            "rediss+sentinel://h1/master",
            "redis+cluster://h1:7000,h2:7001",
            "rediss+cluster://:pass@h1",
        ] {
            assert!(RedisUrl::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "Managed",
            "localhost:6379",
            "http://h",
            "redis://",
            "redis://h1,h2/0",
            "redis://h/first",
            "redis://h:port",
            "redis+unix://run/redis.sock",
            "redis+unix://",
            "redis+sentinel://h1,h2",
            "redis+sentinel://h1,,h2/master",
            "redis+cluster://h1/0",
            "redis+cluster://",
        ] {
            assert!(RedisUrl::parse(bad).is_none(), "{bad}");
        }
    }
}
