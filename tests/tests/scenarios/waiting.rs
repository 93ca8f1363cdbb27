//! A ladder that is closed altogether is waited for if it opens soon, else told at once; and its probe is one for all who wait.

use std::time::{Duration, Instant};

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET, eventually};

const SOON: Duration = Duration::from_secs(15);

fn limited(seconds: &str) -> Rule {
    Rule::any().fails(429).header("retry-after", seconds)
}

#[tokio::test]
async fn a_request_that_finds_all_closed_for_two_seconds_waits_and_is_served_when_they_are_over() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    cluster.fake.script([limited("2").times(2)]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429, "who tried has its answer");
    assert_eq!(cluster.fake.calls().len(), 2);
    let answer = cluster.client(1).chat(SECRET, "m1", "hi").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let queued: u64 = answer.header("x-headgate-queued-ms").parse().unwrap();
    assert!((1..10_000).contains(&queued), "{queued}");
    assert!(!answer.header("x-headgate-attempts").contains("rate_limited"), "nobody asked too soon");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_request_that_would_wait_longer_than_it_may_is_told_at_once_and_exactly() {
    let cluster = Cluster::of_three(&Config::connections(2).more("limits: {capacity_wait: 5s}")).await;
    cluster.fake.script([limited("60")]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    let asked = Instant::now();
    let answer = cluster.client(1).chat(SECRET, "m1", "hi").await;
    assert_eq!((answer.status, answer.header("x-headgate-refusal")), (429, "locked"));
    assert_eq!(answer.header("x-headgate-queued-ms"), "0");
    let told: u64 = answer.header("retry-after").parse().unwrap();
    assert!(told <= 60 && told + asked.elapsed().as_secs() + 10 >= 60, "{told}");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_hundred_who_wait_for_a_lock_send_one_probe_and_are_served_when_it_succeeds() {
    let cluster = Cluster::of_three(&Config::connections(1)).await;
    cluster.fake.script([limited("3").times(1)]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    // The probe takes a while, so that all who do not wait for it would be seen.
    let slow = Rule::any().delays_headers(Duration::from_secs(2));
    cluster.fake.script([slow.times(1)]);
    cluster.fake.clear_calls();
    cluster.fake.clear_peaks();
    let probed = async {
        eventually(SOON, "the probe is upstream", async || cluster.fake.open() > 0).await;
        let mut most = 0;
        while cluster.fake.calls().iter().all(|call| call.status.is_none()) {
            most = most.max(cluster.fake.calls().len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        most
    };
    let (answers, most) = tokio::join!(cluster.burst(100, SECRET, "m1"), probed);
    assert_eq!(most, 1, "one call until its verdict is known");
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(served, 100, "{:?}", answers.iter().find(|answer| answer.status != 200));
    assert_eq!(cluster.fake.calls().len(), 100);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_probe_that_fails_sends_all_who_waited_away_with_the_new_wait_and_no_second_probe() {
    let cluster = Cluster::of_three(&Config::connections(1)).await;
    cluster.fake.script([limited("2").times(1), limited("300")]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    let answers = cluster.burst(40, SECRET, "m1").await;
    for answer in answers {
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert_eq!(answer.status, 429);
        assert!((280..=300).contains(&wait), "{wait}");
    }
    assert_eq!(cluster.fake.calls().len(), 2, "the first call, and one probe for all");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn whoever_opens_a_lock_by_hand_frees_those_who_wait_for_it() {
    let cluster = Cluster::of_three(&Config::connections(1).more("limits: {capacity_wait: 50s}")).await;
    cluster.fake.script([limited("45").times(1)]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 429);
    let waiting = cluster.burst(10, SECRET, "m1");
    let unlock = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.redis.cli(&["DEL", "hg:{g:fake}:conn:conn-1:bucket:m1:lock"]).await;
        Instant::now()
    };
    let (answers, opened) = tokio::join!(waiting, unlock);
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert!(opened.elapsed() < Duration::from_secs(20), "nobody waited for the lock's own end");
    cluster.assert_clean().await;
}
