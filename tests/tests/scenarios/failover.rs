//! Failing over before anything was sent to the client. Connection 1 is preferred, connection 2 stands behind it.

use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, SECRET};
use serde_json::json;

/// Two connections, the first preferred, on two replicas.
async fn two() -> Cluster {
    let config = Config::connections(2).connection(2, "priority: 1").more("timeouts: {first_token: 1s}");
    Cluster::builder(&config).replicas(2).start().await
}

#[tokio::test]
async fn whatever_breaks_one_connection_another_answers_and_the_trail_tells() {
    for rule in [
        Rule::any().fails(500),
        Rule::any().fails(503),
        Rule::any().fails(529),
        Rule::any().fails(408),
        Rule { reset_before_headers: true, ..Rule::any() },
        Rule { cut_after_bytes: Some(20), ..Rule::any() },
        Rule { empty_body: true, ..Rule::any() },
        Rule { content_type: Some("text/html".into()), ..Rule::any().body("<html>busy</html>") },
        Rule::any().body(json!({"error": {"message": "late", "code": 502}})),
        Rule::any().delays_headers(Duration::from_mins(1)),
    ] {
        let cluster = two().await;
        cluster.fake.script([Rule { credential: "cred-1".into(), ..rule.clone() }]);
        let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!((answer.status, answer.said().as_str()), (200, "You said: hi"), "{rule:?}");
        assert_eq!(answer.header("x-headgate-connection"), "conn-2");
        let trail: Vec<&str> = answer.header("x-headgate-attempts").split(", ").collect();
        assert!(trail[0].starts_with("conn-1/m1:") && trail.last().unwrap().starts_with("conn-2/m1:"), "{trail:?}");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn a_clients_own_fault_reaches_it_as_the_upstream_said_and_is_tried_once() {
    for status in [400, 413, 422] {
        let cluster = two().await;
        let body = json!({"error": {"message": "bad temperature", "type": "invalid_request_error", "param": null, "code": null}});
        cluster.fake.script([Rule::any().fails(status).body(body)]);
        let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
        assert_eq!(answer.status, status);
        assert!(answer.body.contains("bad temperature"), "{}", answer.body);
        assert_eq!(answer.header("x-headgate-refusal"), "", "it is not ours");
        assert_eq!(cluster.fake.calls().len(), 1);
        cluster.fake.heal();
        let next = cluster.client(1).chat(SECRET, "m1", "hi").await;
        assert_eq!(next.header("x-headgate-connection"), "conn-1", "a client's fault cools nothing");
    }
}

#[tokio::test]
async fn when_all_fail_the_caller_gets_502_with_the_reason_of_the_preferred_one() {
    let cluster = two().await;
    let body = |text: &str| json!({"error": {"message": text, "type": "server_error", "param": null, "code": null}});
    cluster.fake.script([
        Rule::on("cred-1", "*").fails(500).body(body("first broke")),
        Rule::on("cred-2", "*").fails(500).body(body("second broke")),
    ]);
    let answer = cluster.client(0).chat(SECRET, "m1", "hi").await;
    assert_eq!((answer.status, answer.error_code().as_str()), (502, "upstream_error"));
    assert!(answer.body.contains("first broke") && !answer.body.contains("cred-"), "{}", answer.body);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn at_most_three_attempts_are_made_in_one_group() {
    let cluster = Cluster::builder(&Config::connections(6)).start().await;
    cluster.fake.script([Rule::any().fails(500)]);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 502);
    assert_eq!(cluster.fake.calls().len(), 3);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn nothing_of_the_clients_credential_goes_upstream_and_the_body_goes_as_it_came() {
    let cluster = two().await;
    let body = r#"{"temperature":1.0, "model":"m1","x_unknown":{"z":1,"a":12345678901234567890},"messages":[{"role":"user","content":"hi"}]}"#;
    let secret = format!("Bearer {SECRET}");
    let headers = [("authorization", secret.as_str()), ("cookie", "canary=1"), ("x-internal-secret", "canary")];
    let answer = cluster.client(0).send(http::Method::POST, "/v1/chat/completions", &headers, body).await.unwrap();
    assert_eq!(answer.status, 200);
    let call = &cluster.fake.calls()[0];
    assert_eq!((call.credential.as_str(), call.body.as_str()), ("cred-1", body));
    let told = format!("{:?} {}", call.headers, call.path);
    assert!(!told.contains(SECRET) && !told.contains("canary"), "{told}");
}
