//! `headgate health`: does the replica here answer? For health checks of containers, whose images hold no curl.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use http::StatusCode;

use super::{exit_code, in_runtime};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where a replica listens whose configuration says nothing else, or cannot be read from here.
const DEFAULT_PORT: u16 = 8080;

/// Ask the replica on this machine whether it is alive.
#[derive(Debug, clap::Args)]
pub(super) struct Health {
    /// What to ask [default: /healthz on the address that the configuration listens on, else on port 8080].
    #[arg(long)]
    url: Option<String>,
    /// The configuration of the replica.
    #[arg(long, env = "HEADGATE_CONFIG", default_value = "headgate.yaml", value_name = "FILE")]
    config: PathBuf,
}

impl Health {
    /// 0 when it answers 200 within 2 s, else 1.
    pub(super) fn run(self) -> ExitCode {
        let url = self.url.unwrap_or_else(|| {
            let listen = shared::config::load(&self.config).ok().map(|config| config.listen);
            format!("http://{}/healthz", reachable(listen))
        });
        exit_code(in_runtime(ask(&url)))
    }
}

/// The address by which a listener is reached from the same machine.
fn reachable(listen: Option<SocketAddr>) -> SocketAddr {
    let listen = listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT)));
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn ask(url: &str) -> anyhow::Result<()> {
    // A proxy of the environment would answer for a replica that is gone.
    let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build()?;
    let answer = client.get(url).send().await.with_context(|| format!("{url} does not answer"))?;
    anyhow::ensure!(answer.status() == StatusCode::OK, "{url} answers {}", answer.status());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_from_the_same_machine() {
        let reached = |listen: &str| reachable(Some(listen.parse().unwrap())).to_string();
        assert_eq!(reached("0.0.0.0:9000"), "127.0.0.1:9000");
        assert_eq!(reached("[::]:9000"), "[::1]:9000");
        assert_eq!(reached("10.1.2.3:80"), "10.1.2.3:80");
        assert_eq!(reachable(None).to_string(), "127.0.0.1:8080");
    }
}
