//! What a link does when Redis is frozen, killed, demoted, locked or not there.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use redis::Value;
use shared::state::{
    link::{Link, StateError},
    managed::ManagedRedis,
};

use crate::harness::{Log, SLACK, SOON, Server, TIMEOUT, eventually, free_port, link, options, text, timed, words};

/// The server's name for the connection a call goes over.
async fn connection_id(link: &Link) -> Value {
    link.command(&words("CLIENT ID")).await.unwrap()
}

#[tokio::test]
async fn every_call_to_a_frozen_server_ends_in_time_and_the_first_after_the_thaw_succeeds_soon() {
    let server = Server::with(Some(free_port()), &[]).await;
    let link = server.link();
    link.ping().await.unwrap();
    server.freeze();
    // The first calls wait for a reply, the later ones for a connection that a frozen server accepts but does not greet. Between
    // them is a moment in which a failed dial is remembered and calls fail at once.
    for _ in 0..3 {
        eventually(SOON, async || timed(link.ping()).await.1 >= TIMEOUT).await;
        let calls = (0..50).map(|_| timed(link.ping()));
        for (result, took) in futures_util::future::join_all(calls).await {
            assert!(result.unwrap_err().is_transient());
            assert!(took < TIMEOUT + SLACK, "{took:?}");
        }
    }
    assert!(link.is_away());
    server.thaw();
    let back = eventually(SOON, async || link.ping().await.is_ok()).await;
    assert!(back < Duration::from_secs(1), "{back:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_costs_no_call_after_it_is_back() {
    let port = free_port();
    let server = Server::with(Some(port), &[]).await;
    let link = server.link();
    link.ping().await.unwrap();
    server.redis.kill().await.unwrap();
    let (result, took) = timed(link.ping()).await;
    assert!(matches!(result, Err(StateError::Unreachable(_))), "{result:?}");
    assert!(took < Duration::from_millis(100), "{took:?}");
    let again = ManagedRedis::start(options(&server.dir, Some(port), &[])).await;
    let _again = again.unwrap();
    let back = eventually(SOON, async || link.ping().await.is_ok()).await;
    assert!(back < Duration::from_millis(500), "{back:?}");
    for _ in 0..20 {
        link.ping().await.unwrap();
    }
}

#[tokio::test]
async fn an_idle_link_survives_a_restart_without_a_failed_call() {
    let server = Server::start().await;
    let link = server.link();
    link.ping().await.unwrap();
    server.redis.stop().await.unwrap();
    let again = ManagedRedis::start(options(&server.dir, None, &[])).await;
    let _again = again.unwrap();
    link.ping().await.unwrap();
}

#[tokio::test]
async fn a_demoted_master_loses_its_connection_and_a_promoted_one_is_found() {
    let server = Server::with(Some(free_port()), &[]).await;
    let link = server.link();
    let set = words("SET k v");
    link.command(&set).await.unwrap();
    let before = connection_id(&link).await;
    server.admin(&format!("REPLICAOF 127.0.0.1 {}", free_port())).await;
    let error = link.command(&set).await.unwrap_err();
    assert!(
        matches!(&error, StateError::Unreachable(text) if text.contains("READONLY") || text.contains("read only")),
        "{error}"
    );
    server.admin("REPLICAOF NO ONE").await;
    let back = eventually(SOON, async || link.command(&set).await.is_ok()).await;
    assert!(back < Duration::from_secs(1), "{back:?}");
    assert_ne!(connection_id(&link).await, before);
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_one_are_told_quickly_and_clearly() {
    let server = Server::with(None, &["--requirepass", "right"]).await;
    let url = server.redis.url();
    for wrong in [url.clone(), format!("{url}?password=hunter2")] {
        let (result, took) = timed(link(&wrong).ping()).await;
        let error = result.unwrap_err();
        assert!(matches!(error, StateError::Refused(_)), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(took < TIMEOUT + SLACK, "{took:?}");
    }
    link(&format!("{url}?password=right")).ping().await.unwrap();
}

#[tokio::test]
async fn a_port_where_nobody_listens_and_a_database_that_is_not_there_are_told_quickly() {
    let server = Server::start().await;
    let nobody = link(&format!("redis://127.0.0.1:{}", free_port()));
    let missing = link(&format!("{}?db=99", server.redis.url()));
    let (nobody, took) = timed(nobody.ping()).await;
    assert!(matches!(nobody, Err(StateError::Unreachable(_))), "{nobody:?}");
    assert!(took < TIMEOUT + SLACK, "{took:?}");
    let missing = missing.ping().await.unwrap_err();
    assert!(matches!(missing, StateError::Refused(_)), "{missing}");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_told_quickly() {
    let port = free_port();
    let _server = Server::with(Some(port), &[]).await;
    let (result, took) = timed(link(&format!("rediss://127.0.0.1:{port}")).ping()).await;
    assert!(result.is_err());
    assert!(took < TIMEOUT + SLACK, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_callers_use_no_more_connections_than_the_pool_has() {
    let server = Server::with(None, &["--maxclients", "5"]).await;
    let link = server.link();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let link = link.clone();
        callers.spawn(async move { link.ping().await });
    }
    for result in callers.join_all().await {
        result.unwrap();
    }
    let clients = text(link.command(&words("INFO clients")).await.unwrap());
    let connected = clients.lines().find_map(|line| line.strip_prefix("connected_clients:")).unwrap();
    assert!(["1", "2"].contains(&connected), "{connected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_free_connection_is_transient_trouble() {
    let server = Server::with(None, &["--maxclients", "1"]).await;
    let first = server.link();
    eventually(SOON, async || first.ping().await.is_ok()).await;
    let error = server.link().ping().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_callers_of_a_broken_server_dial_a_few_times_only() {
    // Accepts and hangs up, as a server does that is going down.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let dialled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&dialled);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    let link = link(&format!("redis://127.0.0.1:{port}"));
    let started = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let link = link.clone();
        callers.spawn(async move {
            for _ in 0..3 {
                let (result, took) = timed(link.ping()).await;
                assert!(result.unwrap_err().is_transient());
                assert!(took < TIMEOUT + SLACK, "{took:?}");
            }
        });
    }
    let _ = callers.join_all().await;
    // At most the pool's two connections for each time a failure is remembered (75 ms at least), and the two of the start.
    let allowed = 2 * (started.elapsed().as_millis() / 75 + 2);
    let dialled = dialled.load(Ordering::Relaxed);
    assert!(u128::try_from(dialled).unwrap() <= allowed, "{dialled} > {allowed}");
}

#[tokio::test]
async fn the_log_has_one_line_when_redis_goes_and_one_when_it_returns() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = Server::start().await;
    let link = server.link();
    link.ping().await.unwrap();
    server.redis.stop().await.unwrap();
    for _ in 0..100 {
        link.ping().await.unwrap_err();
    }
    let again = ManagedRedis::start(options(&server.dir, None, &[])).await;
    let _again = again.unwrap();
    eventually(SOON, async || link.ping().await.is_ok() && !link.is_away()).await;
    assert_eq!(log.lines(), ["redis is away", "redis is back"]);
}
