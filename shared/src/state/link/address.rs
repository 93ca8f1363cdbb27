//! What the URL of the store means. Pure.

use redis::{ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion};

use super::{StateError, Topology};

/// Where the store is.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// One server.
    Standalone(ConnectionInfo),
}

impl Target {
    pub(crate) fn topology(&self) -> Topology {
        match self {
            Self::Standalone(_) => Topology::Standalone,
        }
    }

    /// The password of the servers.
    pub(crate) fn password(&self) -> Option<&str> {
        match self {
            Self::Standalone(info) => info.redis_settings().password(),
        }
    }
}

/// Reads a URL. The error never repeats it.
pub(crate) fn parse(text: &str) -> Result<Target, StateError> {
    let url = redis::parse_redis_url(text).ok_or_else(|| {
        StateError::BadUrl("not a redis url (redis://host:port, rediss://, redis+unix:///path)".into())
    })?;
    let asks_resp2 = url.query_pairs().any(|(name, value)| name == "protocol" && matches!(&*value, "2" | "resp2"));
    let info = url.into_connection_info().map_err(|error| StateError::BadUrl(error.to_string()))?;
    let protocol = if asks_resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 };
    let settings = info.redis_settings().clone().set_protocol(protocol);
    Ok(Target::Standalone(info.set_redis_settings(settings)))
}
