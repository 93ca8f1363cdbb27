//! What the URL of the store means. Pure.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo};

use super::{StateError, Topology};

/// Where Sentinels listen unless told otherwise.
const SENTINEL_PORT: u16 = 26379;

/// Where the store is.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// One server.
    Standalone(ConnectionInfo),
    /// The current master of a name, as any of the Sentinels tells.
    Sentinel(SentinelTarget),
    /// Some nodes of a cluster; the others are learnt from them.
    Cluster(Vec<ConnectionInfo>),
}

/// A master behind Sentinel.
#[derive(Debug, Clone)]
pub(super) struct SentinelTarget {
    /// The Sentinels.
    pub(super) sentinels: Vec<ConnectionAddr>,
    /// The name of the master.
    pub(super) master: String,
    /// How to log in at the servers.
    pub(super) server: RedisConnectionInfo,
    /// How to log in at the Sentinels.
    pub(super) sentinel: RedisConnectionInfo,
}

/// The pieces of `scheme://[user:pass@]host,host/path?query`, which is no URL to a URL parser for its several hosts.
struct Pieces<'a> {
    scheme: &'static str,
    credentials: &'a str,
    hosts: Vec<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl Target {
    /// The kind of it.
    pub(super) fn topology(&self) -> Topology {
        match self {
            Self::Standalone(_) => Topology::Standalone,
            Self::Sentinel(_) => Topology::Sentinel,
            Self::Cluster(_) => Topology::Cluster,
        }
    }

    /// Whether the servers are reached over TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        let tls = |address: &ConnectionAddr| matches!(address, ConnectionAddr::TcpTls { .. });
        match self {
            Self::Standalone(info) => tls(info.addr()),
            Self::Sentinel(target) => target.sentinels.iter().any(tls),
            Self::Cluster(nodes) => nodes.iter().any(|node| tls(node.addr())),
        }
    }

    /// What must not show up in any message.
    pub(super) fn secrets(&self) -> Vec<String> {
        let passwords = match self {
            Self::Standalone(info) => vec![info.redis_settings().password()],
            Self::Sentinel(target) => vec![target.server.password(), target.sentinel.password()],
            Self::Cluster(nodes) => vec![nodes.first().and_then(|node| node.redis_settings().password())],
        };
        passwords.into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Reads a URL. The error never repeats it, for it may hold a password.
pub(super) fn parse(text: &str) -> Result<Target, StateError> {
    let text = text.trim();
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(bad("it has no scheme; it looks like redis://host:6379"));
    };
    match scheme {
        "redis+sentinel" => sentinel(&Pieces::of("redis", rest)),
        "rediss+sentinel" => sentinel(&Pieces::of("rediss", rest)),
        "redis+cluster" => cluster(&Pieces::of("redis", rest)),
        "rediss+cluster" => cluster(&Pieces::of("rediss", rest)),
        "redis" | "rediss" => server(text, &["protocol"]).map(Target::Standalone),
        "redis+unix" | "unix" => {
            let known = ["db", "user", "username", "pass", "password", "protocol"];
            server(text, &known).map(Target::Standalone)
        }
        _ => Err(bad("the scheme must be redis, rediss, redis+unix, redis+sentinel or redis+cluster")),
    }
}

impl<'a> Pieces<'a> {
    fn of(scheme: &'static str, rest: &'a str) -> Self {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        Self {
            scheme,
            credentials,
            hosts: hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect(),
            path: path.trim_matches('/'),
            query,
        }
    }

    /// One of the hosts as a server with the credentials and the database.
    fn server(&self, host: &str, database: &str, known: &[&str]) -> Result<ConnectionInfo, StateError> {
        let at = if self.credentials.is_empty() { "" } else { "@" };
        let (scheme, credentials, query) = (self.scheme, self.credentials, self.query);
        server(&format!("{scheme}://{credentials}{at}{host}/{database}?{query}"), known)
    }
}

fn sentinel(pieces: &Pieces<'_>) -> Result<Target, StateError> {
    let known = ["protocol", "sentinel_user", "sentinel_password"];
    let (master, database) = pieces.path.split_once('/').unwrap_or((pieces.path, ""));
    if master.is_empty() {
        return Err(bad("it names no master; it looks like redis+sentinel://host:26379,host:26379/mymaster"));
    }
    let mut servers = Vec::with_capacity(pieces.hosts.len());
    for host in &pieces.hosts {
        servers.push(pieces.server(&with_port(host), database, &known)?);
    }
    let Some(first) = servers.first() else {
        return Err(bad("it names no Sentinel"));
    };
    let server = first.redis_settings().clone();
    let mut sentinel = RedisConnectionInfo::default();
    for (name, value) in parameters(pieces)? {
        match name.as_str() {
            "sentinel_user" => sentinel = sentinel.set_username(value),
            "sentinel_password" => sentinel = sentinel.set_password(value),
            _ => {}
        }
    }
    Ok(Target::Sentinel(SentinelTarget {
        sentinels: servers.iter().map(|info| info.addr().clone()).collect(),
        master: master.to_owned(),
        server,
        sentinel,
    }))
}

fn cluster(pieces: &Pieces<'_>) -> Result<Target, StateError> {
    if !pieces.path.is_empty() {
        return Err(bad("a cluster has no numbered databases"));
    }
    let nodes =
        pieces.hosts.iter().map(|host| pieces.server(host, "", &["protocol"])).collect::<Result<Vec<_>, _>>()?;
    if nodes.is_empty() {
        return Err(bad("it names no node of the cluster"));
    }
    Ok(Target::Cluster(nodes))
}

/// One server. RESP3 unless the URL says otherwise: with it the client library tells when a connection closes.
fn server(text: &str, known: &[&str]) -> Result<ConnectionInfo, StateError> {
    let url = redis::parse_redis_url(text).ok_or_else(|| bad("host or port is malformed"))?;
    let parameters: Vec<(String, String)> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    if url.fragment().is_some() {
        return Err(bad(
            "it has a fragment (#); certificates are always checked, and a # in a password is written %23",
        ));
    }
    let info = url.into_connection_info().map_err(|error| bad(&error.to_string()))?;
    let mut settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    for (name, value) in &parameters {
        if !known.contains(&name.as_str()) {
            return Err(bad(&format!("unknown parameter {name}")));
        }
        match (name.as_str(), value.as_str()) {
            ("username", user) => settings = settings.set_username(user),
            ("password", password) => settings = settings.set_password(password),
            ("protocol", "2" | "resp2") => settings = settings.set_protocol(ProtocolVersion::RESP2),
            _ => {}
        }
    }
    Ok(info.set_redis_settings(settings))
}

/// The query, decoded, by way of the URL parser.
fn parameters(pieces: &Pieces<'_>) -> Result<Vec<(String, String)>, StateError> {
    let url =
        redis::parse_redis_url(&format!("redis://host/?{}", pieces.query)).ok_or_else(|| bad("malformed query"))?;
    Ok(url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

/// A Sentinel's address with its port spelled out.
fn with_port(host: &str) -> String {
    let after_bracket = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
    if after_bracket.contains(':') { host.to_owned() } else { format!("{host}:{SENTINEL_PORT}") }
}

fn bad(detail: &str) -> StateError {
    StateError::BadUrl(detail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standalone(url: &str) -> ConnectionInfo {
        match parse(url).unwrap() {
            Target::Standalone(info) => info,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_by_host_port_credentials_and_database() {
        let info = standalone("redis://app:p%40ss@redis.internal:6380/3");
        assert_eq!(info.addr(), &ConnectionAddr::Tcp("redis.internal".into(), 6380));
        assert_eq!(info.redis_settings().username(), Some("app"));
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(info.redis_settings().protocol(), ProtocolVersion::RESP3);
        let old = standalone("redis://h?protocol=resp2");
        assert_eq!(old.redis_settings().protocol(), ProtocolVersion::RESP2);
        assert!(matches!(standalone("rediss://h").addr(), ConnectionAddr::TcpTls { insecure: false, .. }));
    }

    #[test]
    fn a_unix_socket_with_its_settings_in_the_query() {
        let info = standalone("redis+unix:///run/redis.sock?db=2&username=u&password=p%26q");
        assert_eq!(info.addr(), &ConnectionAddr::Unix("/run/redis.sock".into()));
        assert_eq!(info.redis_settings().db(), 2);
        assert_eq!(info.redis_settings().username(), Some("u"));
        assert_eq!(info.redis_settings().password(), Some("p&q"));
    }

    #[test]
    fn sentinels_with_a_master_a_database_and_their_own_password() {
        let url = "redis+sentinel://app:secret@s1,s2:5000,[::1]/main/4?sentinel_password=guard";
        let Target::Sentinel(target) = parse(url).unwrap() else { panic!() };
        let addresses: Vec<String> = target.sentinels.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["s1:26379", "s2:5000", "::1:26379"]);
        assert_eq!((target.master.as_str(), target.server.db()), ("main", 4));
        assert_eq!(target.server.password(), Some("secret"));
        assert_eq!((target.sentinel.username(), target.sentinel.password()), (None, Some("guard")));
    }

    #[test]
    fn nodes_of_a_cluster_share_the_credentials_and_tls() {
        let Target::Cluster(nodes) = parse("rediss+cluster://u:p@a:1,b:2").unwrap() else { panic!() };
        assert_eq!(nodes.len(), 2);
        for node in nodes {
            assert!(matches!(node.addr(), ConnectionAddr::TcpTls { .. }));
            assert_eq!(node.redis_settings().password(), Some("p"));
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in [
            "localhost:6379",
            "http://u:hunter2@h",
            "redis://u:hunter2@h:99999",
            "redis://u:hunter2@h/x",
            "redis://u:hunter2@h?pasword=1",
            "redis://u:hunt#er2@h",
            "rediss://u:hunter2@h#insecure",
            "redis+sentinel://u:hunter2@h",
            "redis+sentinel:///main",
            "redis+cluster://u:hunter2@h/1",
            "redis+cluster://",
            "redis+unix:///s?password=hunter2&db=x",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, StateError::BadUrl(_)), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
