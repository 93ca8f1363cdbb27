//! One Lua script and the arguments it is called with.

use std::fmt;

use redis::{Cmd, RedisWrite, ToRedisArgs};

/// One Lua script: its name for logs and metrics, its source, and the SHA-1 Redis knows it by.
///
/// Made once (the hash is computed in `new`) and shared for the life of the process.
#[derive(Clone)]
pub struct Script {
    name: &'static str,
    source: &'static str,
    inner: redis::Script,
}

/// One argument of a script, borrowed from the caller so that a call allocates one buffer only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg<'a> {
    /// Text, sent as it is.
    Text(&'a str),
    /// An integer, sent in decimal.
    Int(i64),
    /// Bytes, sent as they are.
    Bytes(&'a [u8]),
}

/// How a script is named to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `EVALSHA`: the hash only.
    Hash,
    /// `EVAL`: the whole source, which Redis keeps for the next `EVALSHA`.
    Source,
}

impl Script {
    /// A script and its hash.
    pub fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, inner: redis::Script::new(source) }
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The Lua text.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// SHA-1 of the source in lower-case hex, as `EVALSHA` wants it.
    pub fn sha(&self) -> &str {
        self.inner.get_hash()
    }

    /// The command that runs this script, in one buffer of the right size.
    pub(crate) fn command<K: AsRef<[u8]>>(&self, form: Form, keys: &[K], args: &[Arg<'_>]) -> Cmd {
        let (verb, body) = match form {
            Form::Hash => ("EVALSHA", self.sha()),
            Form::Source => ("EVAL", self.source),
        };
        let size = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
            + args.iter().map(Arg::size).sum::<usize>()
            + verb.len()
            + body.len()
            + 4;
        let mut cmd = Cmd::with_capacity(3 + keys.len() + args.len(), size);
        cmd.arg(verb).arg(body).arg(keys.len());
        for key in keys {
            cmd.arg(key.as_ref());
        }
        for arg in args {
            cmd.arg(arg);
        }
        cmd
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.name).field("sha", &self.sha()).finish_non_exhaustive()
    }
}

impl Arg<'_> {
    /// Bytes it takes on the wire, at most.
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Int(_) => 20,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl ToRedisArgs for Arg<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Text(text) => out.write_arg(text.as_bytes()),
            Self::Int(number) => number.write_redis_args(out),
            Self::Bytes(bytes) => out.write_arg(bytes),
        }
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_sends_the_hash_the_number_of_keys_the_keys_and_the_arguments() {
        let script = Script::new("echo", "return ARGV[1]");
        let args = [Arg::Text("a"), Arg::Int(-7), Arg::Bytes(b"\x00\xff")];
        let packed = script.command(Form::Hash, &["k1", "k2"], &args).get_packed_command();
        let expected = format!(
            "*8\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$1\r\na\r\n$2\r\n-7\r\n$2\r\n",
            script.sha()
        );
        let mut expected = expected.into_bytes();
        expected.extend_from_slice(b"\x00\xff\r\n");
        assert_eq!(packed, expected);
    }

    #[test]
    fn the_hash_is_the_one_redis_computes() {
        // From `redis-cli SCRIPT LOAD 'return 1'`.
        let script = Script::new("one", "return 1");
        assert_eq!(script.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
