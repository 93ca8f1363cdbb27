//! Requests per minute, over all replicas.

use cluster::harness::{Cluster, Config, Response, SECRET, secret_of};

/// The answers that were admitted, and the others.
fn parted(answers: Vec<Response>) -> (Vec<Response>, Vec<Response>) {
    answers.into_iter().partition(|answer| answer.status == 200)
}

#[tokio::test]
async fn rpm_10_over_three_replicas_admits_exactly_10_of_30() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("rpm: 10")).await;
    let (admitted, refused) = parted(cluster.burst(30, SECRET, "m1").await);
    assert_eq!((admitted.len(), refused.len()), (10, 20), "{refused:?}");
    for answer in &refused {
        assert_eq!((answer.status, answer.error_code().as_str()), (429, "rate_limit_exceeded"));
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        assert!(!answer.header("x-headgate-refusal").is_empty());
    }
    assert_eq!(cluster.fake.calls().len(), 10, "a refusal reaches no upstream");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_the_window() {
    let cluster = Cluster::of_three(&Config::connections(1).ci("rpm: 3")).await;
    let (admitted, _) = parted(cluster.burst(9, SECRET, "m1").await);
    assert_eq!(admitted.len(), 3);
    let hits: i64 = cluster.redis.ask(&["LLEN", "hg:{a:acme}:key:ci:rpm"]).await;
    assert_eq!(hits, 3);
}

#[tokio::test]
async fn one_keys_full_window_leaves_another_key_of_the_account_alone() {
    let config = Config::connections(1).ci("rpm: 1").key("other", "rpm: 2");
    let cluster = Cluster::of_three(&config).await;
    assert_eq!(parted(cluster.burst(4, SECRET, "m1").await).0.len(), 1);
    assert_eq!(parted(cluster.burst(4, &secret_of("other"), "m1").await).0.len(), 2);
}

#[tokio::test]
async fn a_connections_rpm_holds_over_all_replicas_and_keys() {
    let config = Config::connections(1).each("rpm: 5").key("other", "").more("limits: {capacity_wait: 0s}");
    let cluster = Cluster::of_three(&config).await;
    let other = secret_of("other");
    let (ours, theirs) = tokio::join!(cluster.burst(9, SECRET, "m1"), cluster.burst(9, &other, "m1"));
    let (admitted, refused) = parted(ours.into_iter().chain(theirs).collect());
    assert_eq!((admitted.len(), cluster.fake.peak("cred-1").total), (5, 5));
    assert!(refused.iter().all(|answer| answer.status == 429 && !answer.header("retry-after").is_empty()));
    cluster.assert_clean().await;
}
