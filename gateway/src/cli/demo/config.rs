//! What the demo says to its replicas and to its upstream: the configuration file and the script of failures.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// The client key of the demo.
pub(super) const SECRET: &str = "hg-demo-key";
/// The model that always works.
pub(super) const STEADY: &str = "demo";
/// The model whose preferred connection always fails.
pub(super) const FLAKY: &str = "failover";
/// Where a replica listens is told to it apart: the file is the same for both.
pub(super) const LISTEN: &str = "HEADGATE_LISTEN";
/// The same for the admin plane.
pub(super) const ADMIN_LISTEN: &str = "HEADGATE_ADMIN_LISTEN";
/// For so many seconds the failing upstream asks to be left alone.
pub(super) const RETRY_AFTER_S: u32 = 60;

const TEMPLATE: &str = r#"# The configuration of `headgate demo`, written anew at each start. Both replicas read this one file.
listen: ${HEADGATE_LISTEN:-127.0.0.1:8080}
admin_listen: ${HEADGATE_ADMIN_LISTEN:-127.0.0.1:9090}
drain_timeout: 5s

# The demo's own server: a unix socket, an append-only file beside it.
redis: {url: "@REDIS@", timeout: 1s}

providers:
  fake: {dialect: openai, base_url: "http://@UPSTREAM@/v1"}

connections:
  # Two that work.
  - id: healthy-a
    provider: fake
    api_key: demo-healthy-a
    priority: 1
    max_concurrent: 4
    rpm: 120
    models: [demo, failover]
  - id: healthy-b
    provider: fake
    api_key: demo-healthy-b
    priority: 1
    max_concurrent: 4
    rpm: 120
    models: [demo, failover]
  # One whose upstream always answers 429. It is preferred, so each request for failover begins there unless it is locked.
  - id: failing
    provider: fake
    api_key: demo-failing
    priority: 0
    max_concurrent: 4
    rpm: 120
    models: [failover]

models:
  demo:     {provider: fake, price: {input: 2.50, cached_input: 0.25, output: 10.00}}   # dollars per million tokens
  failover: {provider: fake, price: {input: 2.50, cached_input: 0.25, output: 10.00}}

accounts:
  - {id: demo, balance: 5.00}   # credited once, however often the demo is started

keys:
  - id: demo-app
    account: demo
    secret: hg-demo-key
    rpm: 60
    max_concurrent: 8
    spend_limit: {usd: 2, period: day}
"#;

/// The configuration file.
pub(super) fn text(redis_url: &str, upstream: SocketAddr) -> String {
    TEMPLATE.replace("@REDIS@", redis_url).replace("@UPSTREAM@", &upstream.to_string())
}

/// How the fake upstream fails, and that its streams are slow enough to be watched.
pub(super) fn upstream_script() -> Value {
    json!([
        {"credential": "demo-failing", "status": 429, "headers": {"retry-after": RETRY_AFTER_S.to_string()}},
        {"chunks": 12, "delay_between_ms": 80},
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_the_demo_is_good_and_says_what_the_demo_prints() {
        let text = text("redis+unix:///tmp/a%20b/redis.sock", "127.0.0.1:9100".parse().unwrap());
        let env = |name: &str| (name == LISTEN).then(|| "127.0.0.1:18080".to_owned());
        let config = shared::config::parse(&text, "headgate.yaml".as_ref(), &env).unwrap();
        assert_eq!(config.notices, []);
        assert_eq!(config.listen.port(), 18080);
        assert_eq!(config.admin_listen.to_string(), "127.0.0.1:9090");
        assert_eq!(config.keys[0].secret, shared::ids::SecretHash::of(SECRET));
        let names: Vec<&str> = config.models.keys().map(shared::ids::ModelName::as_str).collect();
        assert_eq!(names, [STEADY, FLAKY]);
        crate::catalog::Catalog::new(&config).unwrap();
    }
}
