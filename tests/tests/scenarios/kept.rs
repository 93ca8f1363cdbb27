//! Requests that go on from what an upstream keeps: to the connection that made it, or nowhere.

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Response, SECRET};
use http::Method;
use serde_json::{Value, json};

fn credential(connection: &str) -> String {
    connection.replace("conn", "cred")
}

async fn respond(cluster: &Cluster, place: usize, body: Value) -> Response {
    let headers = [("authorization", format!("Bearer {SECRET}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    cluster.client(place).send(Method::POST, "/v1/responses", &headers, body.to_string()).await.unwrap()
}

#[tokio::test]
async fn what_goes_on_from_a_stored_answer_goes_to_the_connection_that_made_it_through_any_replica() {
    let cluster = Cluster::of_three(&Config::connections(3)).await;
    for number in 0..4 {
        let first = respond(&cluster, number % 3, json!({"model": "m1", "input": format!("hi {number}")})).await;
        let home = first.header("x-headgate-connection").to_owned();
        let mut id = first.json()["id"].as_str().unwrap().to_owned();
        for turn in 0..6 {
            let body = json!({"model": "m1", "input": "and?", "previous_response_id": id});
            let next = respond(&cluster, turn % 3, body).await;
            assert_eq!((next.status, next.header("x-headgate-connection")), (200, home.as_str()), "{}", next.body);
            id = next.json()["id"].as_str().unwrap().to_owned();
        }
    }
}

#[tokio::test]
async fn a_streamed_answer_can_be_gone_on_from_like_any() {
    let cluster = Cluster::of_three(&Config::connections(3)).await;
    let bearer = format!("Bearer {SECRET}");
    let body = json!({"model": "m1", "input": "hi", "stream": true}).to_string();
    let stream = cluster.client(0).stream("/v1/responses", &[("authorization", &bearer)], body).await.unwrap();
    let home = stream.header("x-headgate-connection").to_owned();
    let (events, ended) = stream.rest().await;
    ended.unwrap();
    let created: Value = serde_json::from_str(&events[0].data).unwrap();
    let id = created["response"]["id"].as_str().unwrap();
    for place in 0..3 {
        let next = respond(&cluster, place, json!({"model": "m1", "input": "and?", "previous_response_id": id})).await;
        assert_eq!((next.status, next.header("x-headgate-connection")), (200, home.as_str()), "{}", next.body);
    }
}

#[tokio::test]
async fn what_only_a_failing_connection_keeps_is_taken_to_no_other() {
    let cluster = Cluster::of_three(&Config::connections(3)).await;
    let first = respond(&cluster, 0, json!({"model": "m1", "input": "hi"})).await;
    let home = credential(first.header("x-headgate-connection"));
    cluster.fake.script([Rule::on(&home, "*").fails(503)]);
    cluster.fake.clear_calls();
    let body = json!({"model": "m1", "input": "and?", "previous_response_id": first.json()["id"]});
    let next = respond(&cluster, 1, body).await;
    assert_eq!(next.status, 502, "{}", next.body);
    let calls = cluster.fake.calls();
    assert!(!calls.is_empty() && calls.iter().all(|call| call.credential == home), "{calls:?}");
}

#[tokio::test]
async fn an_id_that_no_connection_is_known_to_keep_is_a_404_that_names_the_field() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    for (field, value) in [("previous_response_id", json!("resp_x")), ("conversation", json!({"id": "conv_x"}))] {
        let mut body = json!({"model": "m1", "input": "and?"});
        body[field] = value;
        let answer = respond(&cluster, 0, body).await;
        assert_eq!((answer.status, answer.header("x-headgate-refusal")), (404, "not_kept"), "{}", answer.body);
        assert_eq!(answer.json().pointer("/error/param").unwrap(), field);
    }
    let unkept = respond(&cluster, 0, json!({"model": "m1", "input": "hi", "store": false})).await;
    let body = json!({"model": "m1", "input": "and?", "previous_response_id": unkept.json()["id"]});
    assert_eq!(respond(&cluster, 0, body).await.status, 404);
    assert_eq!(cluster.fake.calls().len(), 1, "nothing goes upstream but the one answer");
}

const GEMINI: &str = "
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
redis: {url: \"{REDIS}\", timeout: 1s}
providers: {google: {dialect: gemini, base_url: \"{FAKE}\"}}
models: {two: {provider: google}, one: {provider: google}}
connections:
  - {id: g1, provider: google, api_key: cred-1}
  - {id: g2, provider: google, api_key: cred-2, models: [two]}
accounts: [{id: acme}]
keys: [{id: ci, account: acme, secret: hg-ci-secret}]
";

#[tokio::test]
async fn geminis_caches_go_to_the_one_connection_that_can_keep_them_or_nowhere() {
    let cluster = Cluster::on(GEMINI).start().await;
    for (field, value) in [("cachedContent", "cachedContents/x"), ("continuationToken", "t")] {
        let ask = async |model: &str| {
            let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
            body[field] = json!(value);
            let path = format!("/v1beta/models/{model}:generateContent");
            let headers = [("x-goog-api-key", SECRET)];
            cluster.client(0).send(Method::POST, &path, &headers, body.to_string()).await.unwrap()
        };
        let refused = ask("two").await;
        assert_eq!((refused.status, refused.header("x-headgate-refusal")), (404, "not_kept"), "{}", refused.body);
        let error = refused.json()["error"].clone();
        assert_eq!(error["status"], "NOT_FOUND");
        assert!(error["message"].as_str().unwrap().contains(field), "{error}");
        let served = ask("one").await;
        assert_eq!((served.status, served.header("x-headgate-connection")), (200, "g1"), "{}", served.body);
    }
}
