//! Scripts by their hash, healed by their source.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use redis::Value;
use shared::state::{
    link::{Link, Observer, StateError},
    script::{Arg, Script},
};

use crate::harness::{SOON, Server, TIMEOUT, link, text, words};

const ECHO: &str = "#!lua\nreturn {KEYS[1], ARGV[1], ARGV[2]}";

async fn echo(link: &Link, script: &Script) -> Result<(String, String, String), StateError> {
    let reply = link.run(script, &["{a}:k"], &[Arg::Text("x"), Arg::Int(-7)]).await?;
    Ok(redis::from_redis_value(reply).unwrap())
}

/// How often the server ran `command` since it started.
async fn calls(server: &Server, command: &str) -> u64 {
    let stats = text(server.admin("INFO commandstats").await);
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_script_is_sent_whole_once_and_again_only_after_a_flush() {
    let server = Server::start().await;
    let link = server.link();
    let script = Script::new("echo", ECHO);
    let expected = ("{a}:k".to_owned(), "x".to_owned(), "-7".to_owned());
    for round in 1..=2 {
        for _ in 0..3 {
            assert_eq!(echo(&link, &script).await.unwrap(), expected);
        }
        assert_eq!(calls(&server, "eval").await, round);
        link.command(&words("SCRIPT FLUSH")).await.unwrap();
    }
    assert_eq!(calls(&server, "script|load").await, 0);
}

#[tokio::test]
async fn a_user_without_the_script_commands_can_run_scripts() {
    let server = Server::start().await;
    server.admin("ACL SETUSER app on >pw ~* &* +@all -script").await;
    let link = link(&format!("{}?user=app&password=pw", server.redis.url()));
    let refused = link.command(&words("SCRIPT FLUSH")).await.unwrap_err();
    assert!(matches!(refused, StateError::Refused(_)), "{refused}");
    assert!(echo(&link, &Script::new("echo", ECHO)).await.is_ok());
}

#[tokio::test]
async fn a_faulty_script_is_refused_and_named_by_the_server() {
    let server = Server::start().await;
    let script = Script::new("faulty", "#!lua\nreturn nothing.at.all");
    let error = server.link().run(&script, &["k"], &[]).await.unwrap_err();
    assert!(matches!(&error, StateError::Refused(_)), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_pipeline_answers_one_value_each_and_an_atomic_one_too() {
    let server = Server::start().await;
    let link = server.link();
    let mut plain = redis::pipe();
    plain.set("a", 1).incr("a", 1);
    let replies = link.pipeline(&plain).await.unwrap();
    assert_eq!(replies, [Value::Okay, Value::Int(2)]);
    let mut atomic = redis::pipe();
    atomic.atomic().incr("a", 1).incr("a", 1);
    let replies = link.pipeline(&atomic).await.unwrap();
    assert_eq!(replies, [Value::Int(3), Value::Int(4)]);
}

#[tokio::test]
async fn the_server_tells_its_version_and_identity() {
    let server = Server::start().await;
    let info = server.link().server_info().await.unwrap();
    assert!(info.version.starts_with(char::is_numeric), "{info:?}");
    assert_eq!(info.run_id.len(), 40);
}

#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, Option<StateError>)>>);

impl Observer for Seen {
    fn called(&self, name: &'static str, took: Duration, result: Result<(), &StateError>) {
        assert!(took < SOON);
        self.0.lock().unwrap().push((name, result.err().cloned()));
    }
}

#[tokio::test]
async fn an_observer_is_told_of_every_call_by_name_with_its_result() {
    let server = Server::start().await;
    let link = server.link();
    let seen = Arc::new(Seen::default());
    link.observe(Arc::clone(&seen) as Arc<dyn Observer>);
    echo(&link, &Script::new("echo", ECHO)).await.unwrap();
    server.freeze();
    link.ping().await.unwrap_err();
    server.thaw();
    let seen = seen.0.lock().unwrap().clone();
    assert_eq!(seen, [("echo", None), ("ping", Some(StateError::Timeout))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_given_up_half_way_leave_no_reply_to_the_next_ones() {
    let server = Server::start().await;
    let link = server.link();
    let script = Script::new("echo", ECHO);
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..200_i64 {
        let (link, script) = (link.clone(), script.clone());
        callers.spawn(async move {
            let args = [Arg::Int(caller), Arg::Text("")];
            let patience = Duration::from_micros(u64::try_from(caller).unwrap() * 20);
            let call = link.run(&script, &["k"], &args);
            let reply = tokio::time::timeout(patience, call).await.ok()?.unwrap();
            let (_, mine, _): (String, i64, String) = redis::from_redis_value(reply).unwrap();
            assert_eq!(mine, caller);
            Some(())
        });
    }
    let _ = callers.join_all().await;
    let args = [Arg::Int(1), Arg::Text("last")];
    let reply = link.run(&script, &["k"], &args).await.unwrap();
    let (_, _, last): (String, i64, String) = redis::from_redis_value(reply).unwrap();
    assert_eq!(last, "last");
    assert_eq!(link.timeout(), TIMEOUT);
}
