//! `headgate serve` where it cannot start: a clear message and an exit code, never a hang.

use std::time::{Duration, Instant};

use shared::state::managed::{AppendOnly, ManagedOptions, ManagedRedis};

use crate::support::{Outcome, command, file, free_address, run};

/// Serves over a Redis at this URL.
async fn serve(redis: &str) -> Outcome {
    let text = format!(
        "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {{url: \"{redis}\"}}\n\
         providers: {{o: {{dialect: openai, base_url: http://127.0.0.1:1}}}}\n\
         connections: [{{id: a, provider: o, api_key: k, models: [m]}}]\nkeys: [{{id: k, secret: hg-1}}]\n"
    );
    let (_dir, path) = file(&text);
    run(command(&["serve", "--config", &path])).await
}

#[tokio::test]
async fn without_redis_a_replica_says_where_it_looked_and_ends_within_5_s() {
    let nobody = free_address();
    let began = Instant::now();
    let outcome = serve(&format!("redis://{nobody}/0")).await;
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(outcome.err.contains("Redis") && outcome.err.contains(&nobody.to_string()), "{}", outcome.err);
}

#[tokio::test]
async fn a_wrong_password_is_said_at_once_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_address().port();
    let options = ManagedOptions {
        port: Some(port),
        appendonly: AppendOnly::Off,
        extra: vec!["--requirepass".to_owned(), "right-one".to_owned()],
        ..ManagedOptions::new(dir.path())
    };
    let redis = ManagedRedis::start(options).await.unwrap();
    for login in ["", ":wr0ng-one@"] {
        let began = Instant::now();
        let outcome = serve(&format!("redis://{login}127.0.0.1:{port}/0")).await;
        assert_eq!(outcome.code, Some(3), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(outcome.err.contains(&format!("127.0.0.1:{port}")), "{}", outcome.err);
        assert!(!outcome.err.contains("wr0ng"), "the password is shown: {}", outcome.err);
    }
    redis.stop().await.unwrap();
}

#[tokio::test]
async fn a_bad_configuration_is_refused_with_its_faults() {
    let (_dir, path) = file("listen: here\n");
    let outcome = run(command(&["serve", "--config", &path])).await;
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains(&format!("{path}:1:9: listen: ")), "{}", outcome.err);
}
