//! Bad input: the right status in the OpenAI envelope, nothing charged, nothing held, no upstream call.

use std::time::Duration;

use cluster::harness::{Cluster, Config, Durability, Redis, Response, SECRET, eventually, headgate, secret_of};
use http::Method;

const CHAT: &str = "/v1/chat/completions";
const SOON: Duration = Duration::from_secs(5);
const GOOD: &str = r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#;

async fn small() -> Cluster {
    let config = Config::connections(1).account("balance: 1.00").more("limits: {body: 64KiB}");
    Cluster::builder(&config).start().await
}

/// The envelope is OpenAI's, and nothing else happened.
async fn refused(cluster: &Cluster, answer: &Response, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.body);
    let error = &answer.json()["error"];
    assert!(error["message"].is_string() && error["type"].is_string(), "{what}: {}", answer.body);
    assert_eq!(answer.header("content-type"), "application/json", "{what}");
    assert!(!answer.header("x-headgate-request-id").is_empty(), "{what}");
    assert!(cluster.fake.calls().is_empty(), "{what}: an upstream was called");
    assert!(cluster.redis.ledger("acme").await.is_empty(), "{what}: something was charged");
}

#[tokio::test]
async fn a_body_that_is_not_a_chat_request_is_refused_with_400() {
    let cluster = small().await;
    let secret = format!("Bearer {SECRET}");
    for body in [
        "",
        "{",
        "[]",
        "null",
        r#"{"model":"m1""#,
        "\u{0}",
        r#"{"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"model":7,"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"model":"","messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"model":"m1"}"#,
        r#"{"model":"m1","messages":"hi"}"#,
        r#"{"model":"m1","messages":[]}"#,
        r#"{"model":"m1","messages":[7]}"#,
        r#"{"model":"m1","stream":"yes","messages":[{"role":"user","content":"hi"}]}"#,
    ] {
        let answer = cluster.client(0).send(Method::POST, CHAT, &[("authorization", &secret)], body).await.unwrap();
        refused(&cluster, &answer, 400, body).await;
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error", "{body}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn an_unknown_model_is_404_and_a_forbidden_one_403() {
    let config = Config::connections(1).key("narrow", "models: [m2]");
    let cluster = Cluster::builder(&config).start().await;
    let unknown = cluster.client(0).chat(SECRET, "M1", "hi").await;
    refused(&cluster, &unknown, 404, "unknown model").await;
    assert_eq!(unknown.error_code(), "model_not_found");
    let forbidden = cluster.client(0).chat(&secret_of("narrow"), "m1", "hi").await;
    refused(&cluster, &forbidden, 403, "forbidden model").await;
    assert_eq!(forbidden.error_code(), "model_not_allowed");
    for answer in [unknown, forbidden] {
        assert!(!answer.header("x-headgate-refusal").is_empty());
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_not_a_reset() {
    let cluster = small().await;
    let long = "x".repeat(65 << 10);
    let answer = cluster.client(0).chat(SECRET, "m1", &long).await;
    refused(&cluster, &answer, 413, "too long").await;
    assert_eq!(answer.error_code(), "request_too_large");
    let fits = "x".repeat(60 << 10);
    assert_eq!(cluster.client(0).chat(SECRET, "m1", &fits).await.status, 200);
}

#[tokio::test]
async fn a_wrong_path_or_method_is_told_in_the_envelope() {
    let cluster = small().await;
    let secret = format!("Bearer {SECRET}");
    for (method, path, status) in [
        (Method::GET, CHAT, 405),
        (Method::DELETE, CHAT, 405),
        (Method::POST, "/v1/chat/completion", 404),
        (Method::POST, "/v1/chat/completions/", 404),
        (Method::GET, "/", 404),
        (Method::GET, "/metrics", 404),
        (Method::GET, "/admin/v1/accounts", 404),
    ] {
        let what = format!("{method} {path}");
        let answer = cluster.client(0).send(method, path, &[("authorization", &secret)], GOOD).await.unwrap();
        refused(&cluster, &answer, status, &what).await;
    }
}

#[tokio::test]
async fn an_absent_unknown_or_garbled_key_is_401() {
    let cluster = small().await;
    let long = format!("Bearer {}", "x".repeat(4000));
    for headers in [
        vec![],
        vec![("authorization", "Bearer hg-unknown")],
        vec![("authorization", "Bearer ")],
        vec![("authorization", "Bearer")],
        vec![("authorization", SECRET)],
        vec![("authorization", "Basic aGctY2k6eA==")],
        vec![("authorization", long.as_str())],
        vec![("authorization", "Bearer hg:{a}*\u{e9}")],
        vec![("x-api-key", "")],
        vec![("authorization", "Bearer hg-unknown"), ("x-api-key", "hg-unknown-too")],
    ] {
        let what = format!("{headers:?}");
        let answer = cluster.client(0).send(Method::POST, CHAT, &headers, GOOD).await.unwrap();
        refused(&cluster, &answer, 401, &what).await;
        assert_eq!(answer.error_code(), "invalid_api_key", "{what}");
        assert!(!answer.header("x-headgate-refusal").is_empty(), "{what}");
    }
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_key_is_taken_from_any_of_the_places_clients_put_it() {
    let cluster = small().await;
    let bearer = format!("Bearer {SECRET}");
    let lower = format!("bearer {SECRET}");
    for header in [
        ("authorization", bearer.as_str()),
        ("authorization", &lower),
        ("x-api-key", SECRET),
        ("x-goog-api-key", SECRET),
    ] {
        let answer = cluster.client(0).send(Method::POST, CHAT, &[header], GOOD).await.unwrap();
        assert_eq!(answer.status, 200, "{}", header.0);
    }
    let path = format!("{CHAT}?key={SECRET}");
    assert_eq!(cluster.client(0).send(Method::POST, &path, &[], GOOD).await.unwrap().status, 200);
    assert!(cluster.fake.calls().iter().all(|call| !call.path.contains(SECRET)));
}

#[tokio::test]
async fn a_key_removed_from_the_file_is_refused_on_every_replica() {
    let with = Config::connections(1).key("leaver", "");
    let cluster = Cluster::of_three(&with).await;
    let secret = secret_of("leaver");
    assert_eq!(cluster.client(0).chat(&secret, "m1", "hi").await.status, 200);
    cluster.reconfigure(&Config::connections(1));
    cluster.replica(0).hang_up();
    for place in 0..3 {
        let client = cluster.client(place);
        eventually(SOON, "the key is refused", async || client.chat(&secret, "m1", "hi").await.status == 401).await;
        assert_eq!(client.chat(SECRET, "m1", "hi").await.status, 200, "the other key stays");
    }
}

#[tokio::test]
async fn a_changed_file_is_loaded_without_a_signal_and_a_bad_one_leaves_the_old_one_in_use() {
    let cluster = Cluster::builder(&Config::connections(1)).start().await;
    cluster.reconfigure(&Config::connections(1).more("nonsense: true"));
    let refused = async || cluster.replica(0).log().contains("the changed configuration is refused");
    eventually(SOON, "the bad file is refused", refused).await;
    assert_eq!(cluster.client(0).chat(SECRET, "m1", "hi").await.status, 200, "the old one stays");
    cluster.reconfigure(&Config::connections(1).key("joiner", ""));
    let secret = secret_of("joiner");
    eventually(SOON, "the new key works", async || cluster.client(0).chat(&secret, "m1", "hi").await.status == 200)
        .await;
}

/// Writes a configuration for a command line.
fn file(folder: &tempfile::TempDir, yaml: &str) -> String {
    let path = folder.path().join("headgate.yaml");
    std::fs::write(&path, yaml).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_absent_or_misconfigured_redis_at_start_is_told_with_exit_code_3_and_not_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start_on_tcp(Durability::Memory).await;
    redis.cli(&["CONFIG", "SET", "requirepass", "right"]).await;
    let wrong_password = redis.url().replace("redis://", "redis://:wrong@");
    for url in ["redis://127.0.0.1:1", "redis+unix:///nonexistent/redis.sock", &wrong_password] {
        let yaml = Config::connections(1).yaml().replace("{REDIS}", url).replace("{FAKE}", "http://127.0.0.1:1");
        let exit = headgate(&["serve", "--config", &file(&folder, &yaml)]).await;
        assert_eq!(exit.code, Some(3), "{url}: {exit:?}");
        assert!(exit.stderr.to_lowercase().contains("redis"), "{exit:?}");
        assert!(!exit.stderr.contains("wrong@") && !exit.stderr.contains("panicked"), "{exit:?}");
    }
}

#[tokio::test]
async fn a_faulty_file_is_refused_with_exit_code_2_naming_line_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = Config::connections(1).ci("rpm: many").more("limit: {}").yaml();
    let yaml = yaml.replace("{REDIS}", "redis://127.0.0.1:1").replace("{FAKE}", "http://127.0.0.1:1");
    let path = file(&folder, &yaml);
    for command in ["serve", "check"] {
        let exit = headgate(&[command, "--config", &path]).await;
        assert_eq!(exit.code, Some(2), "{command}: {exit:?}");
        let told = format!("{}{}", exit.stdout, exit.stderr);
        assert!(told.contains("rpm") && told.contains("limit") && told.contains("headgate.yaml:"), "{command}: {told}");
    }
}
