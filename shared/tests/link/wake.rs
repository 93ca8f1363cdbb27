//! Waiters and their messages.

use std::time::{Duration, Instant};

use shared::state::wake::{Waker, Woken};

use crate::harness::{SOON, Server, eventually, words};

const CHANNEL: &str = "hg:wake:replica-1";

async fn publish(server: &Server, request: &str) {
    server.admin(&format!("PUBLISH {CHANNEL} {request}")).await;
}

/// How many subscribers the channel has.
async fn subscribers(server: &Server) -> u64 {
    let reply = server.admin(&format!("PUBSUB NUMSUB {CHANNEL}")).await;
    let (_, count): (String, u64) = redis::from_redis_value(reply).unwrap();
    count
}

#[tokio::test]
async fn a_message_wakes_its_request_within_milliseconds_and_no_other() {
    let server = Server::start().await;
    let link = server.link();
    let waker = Waker::start(link.clone(), CHANNEL);
    waker.listening(SOON).await.unwrap();
    let (mine, other) = (waker.place("req-1"), waker.place("req-2"));
    let mut best = SOON;
    for _ in 0..5 {
        let started = Instant::now();
        link.command(&words(&format!("PUBLISH {CHANNEL} req-1"))).await.unwrap();
        assert_eq!(mine.woken(SOON).await, Woken::ByMessage);
        best = best.min(started.elapsed());
    }
    assert!(best < Duration::from_millis(20), "{best:?}");
    let fallback = Duration::from_millis(20);
    assert_eq!(other.woken(fallback).await, Woken::ByTime);
}

#[tokio::test]
async fn a_message_that_comes_before_the_wait_is_not_lost() {
    let server = Server::start().await;
    let waker = Waker::start(server.link(), CHANNEL);
    waker.listening(SOON).await.unwrap();
    let (first, second) = (waker.place("req"), waker.place("req"));
    publish(&server, "req").await;
    // The second wait begins after the message was surely heard.
    assert_eq!(first.woken(SOON).await, Woken::ByMessage);
    assert_eq!(second.woken(Duration::ZERO).await, Woken::ByMessage);
}

#[tokio::test]
async fn a_killed_subscription_is_made_again() {
    let server = Server::start().await;
    let waker = Waker::start(server.link(), CHANNEL);
    waker.listening(SOON).await.unwrap();
    server.admin("CLIENT KILL TYPE pubsub").await;
    eventually(SOON, async || subscribers(&server).await == 0).await;
    let within = Duration::from_secs(2);
    eventually(within, async || subscribers(&server).await == 1).await;
    waker.listening(SOON).await.unwrap();
    let place = waker.place("req");
    publish(&server, "req").await;
    assert_eq!(place.woken(SOON).await, Woken::ByMessage);
}

#[tokio::test]
async fn a_stopped_waker_leaves_no_subscription() {
    let server = Server::start().await;
    let waker = Waker::start(server.link(), CHANNEL);
    waker.listening(SOON).await.unwrap();
    assert_eq!(subscribers(&server).await, 1);
    waker.stop().await;
    eventually(SOON, async || subscribers(&server).await == 0).await;
}

#[tokio::test]
async fn a_dropped_waker_leaves_no_subscription() {
    let server = Server::start().await;
    let waker = Waker::start(server.link(), CHANNEL);
    waker.listening(SOON).await.unwrap();
    drop(waker);
    eventually(SOON, async || subscribers(&server).await == 0).await;
}
