//! Why the store did not answer, and what an error says about the connection it came over.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The store did not answer as asked. A refusal by one of our scripts is a reply, not this.
///
/// No message holds a password: those of a URL never get in, and what a server says back is scrubbed of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// No answer within the budget of the call. What was sent may still run.
    #[error("redis did not answer in time")]
    Timeout,
    /// No server that could serve the call: away, still loading, demoted, out of connections or memory.
    #[error("redis cannot be reached: {0}")]
    Unreachable(String),
    /// A server answered and said no: credentials, rights, database, or a command it cannot run. Trying again does not help.
    #[error("redis refused: {0}")]
    Refused(String),
    /// The URL of the store is not one we understand.
    #[error("redis url: {0}")]
    BadUrl(String),
    /// The reply had not the shape it must have.
    #[error("unexpected reply from redis: {0}")]
    Reply(String),
}

/// What to do with the connection an error came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It works; the error was about the command.
    Keep,
    /// It is broken: open another one when needed.
    Replace,
    /// It leads to a server that will not do for a while: open another one, but not in a hurry.
    ReplaceLater,
}

impl StateError {
    /// Whether the same call may succeed a little later with nothing changed on our side.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable(_))
    }

    /// The error as ours.
    pub(super) fn of(error: &RedisError) -> Self {
        if error.is_timeout() {
            return Self::Timeout;
        }
        let detail = error.to_string();
        match error.kind() {
            ErrorKind::Io
            | ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel
            | ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ReadOnly,
            ) => Self::Unreachable(detail),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::Reply(detail),
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => {
                Self::Refused(format!("{detail} (is this a Redis Cluster? then the url starts with redis+cluster://)"))
            }
            _ if is_passing(error) => Self::Unreachable(detail),
            _ => Self::Refused(detail),
        }
    }

    /// The same error with every occurrence of a secret taken out.
    pub(super) fn scrubbed(self, secrets: &[String]) -> Self {
        let scrub = |text: String| {
            let secrets = secrets.iter().filter(|secret| !secret.is_empty());
            secrets.fold(text, |text, secret| text.replace(secret.as_str(), "***"))
        };
        match self {
            Self::Timeout => Self::Timeout,
            Self::Unreachable(text) => Self::Unreachable(scrub(text)),
            Self::Refused(text) => Self::Refused(scrub(text)),
            Self::BadUrl(text) => Self::BadUrl(scrub(text)),
            Self::Reply(text) => Self::Reply(scrub(text)),
        }
    }
}

impl Verdict {
    /// The verdict of an error reply or an I/O error. (A timeout of ours has its own.)
    pub(super) fn on(error: &RedisError) -> Self {
        if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) {
            return Self::ReplaceLater;
        }
        match error.kind() {
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => Self::Replace,
            // A demoted master answers for ever: only a new look at Sentinel, DNS or the slots finds the new one.
            ErrorKind::AuthenticationFailed
            | ErrorKind::Server(
                ServerErrorKind::ReadOnly
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::ClusterDown,
            ) => Self::ReplaceLater,
            _ => Self::Keep,
        }
    }
}

/// Whether a server that says this will say something else by and by, with nothing changed on our side.
fn is_passing(error: &RedisError) -> bool {
    match error.code() {
        // OOM and MISCONF (a full disk) are the server's trouble, NOREPLICAS a failover's, BUSY a long script's.
        Some("OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "UNBLOCKED") => true,
        _ => error.detail().is_some_and(|detail| detail.contains("max number of clients")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> RedisError {
        redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn a_demoted_master_is_unreachable_and_its_connection_goes() {
        let error = reply("READONLY You can't write against a read only replica.");
        assert!(matches!(StateError::of(&error), StateError::Unreachable(_)));
        assert_eq!(Verdict::on(&error), Verdict::ReplaceLater);
    }

    #[test]
    fn a_script_error_is_a_refusal_and_the_connection_stays() {
        let error = reply("ERR user_script:1: Script attempted to access nonexistent global variable");
        assert!(matches!(StateError::of(&error), StateError::Refused(_)));
        assert_eq!(Verdict::on(&error), Verdict::Keep);
    }

    #[test]
    fn trouble_that_passes_is_transient_and_bad_credentials_are_not() {
        for text in [
            "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "NOREPLICAS Not enough good replicas to write.",
            "ERR max number of clients reached",
            "CLUSTERDOWN The cluster is down",
        ] {
            assert!(StateError::of(&reply(text)).is_transient(), "{text}");
        }
        for text in [
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'eval' command",
            "ERR DB index is out of range",
        ] {
            assert!(!StateError::of(&reply(text)).is_transient(), "{text}");
        }
    }

    #[test]
    fn a_password_that_a_server_echoes_is_scrubbed() {
        let error =
            StateError::of(&reply("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'hunter2'"));
        assert!(!error.scrubbed(&["hunter2".into()]).to_string().contains("hunter2"));
    }
}
