//! The server run as a child.

use shared::state::managed::{ManagedError, ManagedOptions, ManagedRedis};

use crate::harness::{link, options, text, words};

#[tokio::test]
async fn an_append_only_server_finds_its_data_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || ManagedRedis::start(ManagedOptions::new(dir.path()));
    let first = start().await.unwrap();
    let set = words("SET k v");
    link(&first.url()).command(&set).await.unwrap();
    first.stop().await.unwrap();
    let second = start().await.unwrap();
    let value = link(&second.url()).command(&words("GET k")).await.unwrap();
    assert_eq!(text(value), "v");
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let error = ManagedRedis::start(options(&dir, None, &["--no-such-setting", "1"])).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ManagedError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[tokio::test]
async fn a_server_with_a_password_starts_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, None, &["--requirepass", "pw"]);
    let server = ManagedRedis::start(options).await.unwrap();
    assert!(server.pid().is_some());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_server_in_the_same_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = ManagedRedis::start(options(&dir, None, &[])).await.unwrap();
    let second = ManagedRedis::start(options(&dir, None, &[])).await;
    assert!(matches!(second, Err(ManagedError::InUse(_))), "{second:?}");
    link(&first.url()).ping().await.unwrap();
}

#[tokio::test]
async fn a_dropped_server_is_gone_and_its_folder_free() {
    let dir = tempfile::tempdir().unwrap();
    let start = || ManagedRedis::start(options(&dir, None, &[]));
    let first = start().await.unwrap();
    let old = link(&first.url());
    let set = words("SET k v");
    old.command(&set).await.unwrap();
    drop(first);
    let second = start().await.unwrap();
    let value = link(&second.url()).command(&words("EXISTS k")).await;
    assert_eq!(value.unwrap(), redis::Value::Int(0));
}
