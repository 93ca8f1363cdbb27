//! The connection layer against a real redis-server: every promise of `state::link` once.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::time::Duration;

use redis::Value;
use shared::state::{
    link::Link,
    managed::{AppendOnly, ManagedOptions, ManagedRedis},
    script::{Arg, Script},
};

const TIMEOUT: Duration = Duration::from_millis(300);
const ECHO: &str = "#!lua\nreturn {KEYS[1], ARGV[1], ARGV[2]}";

/// A server of this test alone, and its folder, which goes with it.
async fn server() -> (ManagedRedis, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = ManagedOptions::new(dir.path());
    options.appendonly = AppendOnly::Off;
    (ManagedRedis::start(options).await.unwrap(), dir)
}

fn link(server: &ManagedRedis) -> Link {
    Link::open(&server.url(), TIMEOUT, 2).unwrap()
}

#[tokio::test]
async fn a_script_runs_on_a_server_that_never_saw_it_and_again_after_a_flush() {
    let (server, _dir) = server().await;
    let link = link(&server);
    let script = Script::new("echo", ECHO);
    for _ in 0..2 {
        let (link2, script2) = (link.clone(), script.clone());
        let reply = tokio::spawn(async move { link2.run(&script2, &["{a}:k"], &[Arg::Text("x"), Arg::Int(-7)]).await })
            .await
            .unwrap()
            .unwrap();
        let (key, text, number): (String, String, String) = redis::from_redis_value(reply).unwrap();
        assert_eq!((&*key, &*text, &*number), ("{a}:k", "x", "-7"));
        link.command(redis::cmd("SCRIPT").arg("FLUSH")).await.unwrap();
    }
}

#[tokio::test]
async fn a_managed_server_that_keeps_an_append_only_file_finds_its_data_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let first = ManagedRedis::start(ManagedOptions::new(dir.path())).await.unwrap();
    link(&first).command(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    first.stop().await.unwrap();
    let second = ManagedRedis::start(ManagedOptions::new(dir.path())).await.unwrap();
    let value = link(&second).command(redis::cmd("GET").arg("k")).await.unwrap();
    assert_eq!(value, Value::BulkString(b"v".to_vec()));
    second.stop().await.unwrap();
}
