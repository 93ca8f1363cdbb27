//! The processes of the demo: brought up in order, watched, taken down in the reverse order.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use shared::state::managed::{ManagedOptions, ManagedRedis, Signals};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::children::{FakeUpstream, Process};
use super::scene::Scene;
use super::{Demo, Live, config, view};

/// How long a replica may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long a replica may take to drain: the demo's `drain_timeout` and the rest of an orderly end.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);
/// How long the fake upstream may take to end.
const FAKE_WITHIN: Duration = Duration::from_secs(3);

/// Everything that runs.
pub(super) struct Stage {
    redis: ManagedRedis,
    fake: FakeUpstream,
    replicas: Vec<Process>,
    scene: Scene,
}

impl Stage {
    /// Starts Redis, the fake upstream and both replicas, and returns once all are ready. Whatever was started ends if not.
    pub(super) async fn set(demo: &Demo) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&demo.data).with_context(|| format!("cannot make {}", demo.data.display()))?;
        let redis = ManagedOptions { signals: Signals::Shielded, ..ManagedOptions::new(demo.data.join("redis")) };
        let redis = ManagedRedis::start(redis).await?;
        let fake = FakeUpstream::start(demo.fake_upstream.as_deref(), &demo.data).await?;
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build()?;
        script(&client, fake.address).await?;
        let file = demo.data.join("headgate.yaml");
        std::fs::write(&file, config::text(&redis.socket_url(), fake.address))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let (places, remarks) = Places::find(demo.listen)?;
        let scene = Scene::open(&file, &redis, &places, remarks)?;
        let replicas = places.replicas().map(|(name, data, admin)| replica(name, &file, data, admin, &demo.data));
        let mut stage = Self { redis, fake, replicas: replicas.collect::<Result<_, _>>()?, scene };
        for (process, address) in stage.replicas.iter_mut().zip(places.data) {
            tokio::select! {
                ready = ready(&client, address) => ready?,
                error = process.ended() => return Err(error),
            }
        }
        Ok(stage)
    }

    /// Says what to try, and shows what happens, until a process ends by itself.
    pub(super) async fn play(&mut self, live: Live) -> anyhow::Result<()> {
        let Self { redis, fake, replicas, scene } = self;
        let [first, second] = replicas.as_mut_slice() else { anyhow::bail!("the demo has two replicas") };
        tokio::select! {
            error = first.ended() => Err(error),
            error = second.ended() => Err(error),
            error = fake.process.ended() => Err(error),
            ended = redis.ended() => {
                Err(anyhow::anyhow!("Redis ended ({}); its log is {}", ended?, scene.redis_log().display()))
            }
            outcome = view::show(scene, live) => outcome,
        }
    }

    /// Stops everything in order: the replicas drain while the upstream and Redis are still there.
    pub(super) async fn strike(self) -> anyhow::Result<()> {
        let Self { redis, fake, replicas, .. } = self;
        let drained = futures_util::future::join_all(replicas.into_iter().map(|one| one.stop(DRAIN_WITHIN))).await;
        let fake = fake.process.stop(FAKE_WITHIN).await;
        redis.stop().await?;
        drained.into_iter().chain([fake]).collect()
    }
}

/// Where the replicas listen.
pub(super) struct Places {
    pub(super) data: [SocketAddr; 2],
    pub(super) admin: [SocketAddr; 2],
}

impl Places {
    /// Ports that are free now, and what to say where they are not those asked for. The listeners are held until all are
    /// found, so that no port is given out twice.
    fn find(listen: SocketAddr) -> anyhow::Result<(Self, Vec<String>)> {
        let mut held = Vec::new();
        let mut remarks = Vec::new();
        let mut place = |port: u16| -> anyhow::Result<SocketAddr> {
            let listener = match TcpListener::bind((listen.ip(), port)) {
                Ok(listener) => listener,
                Err(error) => {
                    let other = TcpListener::bind((listen.ip(), 0)).context("no port of this machine is free")?;
                    let port = format!("port {port} cannot be used ({error})");
                    remarks.push(format!("{port}: the demo takes {} instead", other.local_addr()?.port()));
                    other
                }
            };
            let address = listener.local_addr()?;
            held.push(listener);
            Ok(address)
        };
        let next = if listen.port() == 0 { 0 } else { listen.port().checked_add(1).unwrap_or(0) };
        let data = [place(listen.port())?, place(next)?];
        let admin = [place(0)?, place(0)?];
        Ok((Self { data, admin }, remarks))
    }

    fn replicas(&self) -> impl Iterator<Item = (&'static str, SocketAddr, SocketAddr)> {
        let [first, second] = self.data;
        let [first_admin, second_admin] = self.admin;
        [("replica 1", first, first_admin), ("replica 2", second, second_admin)].into_iter()
    }
}

/// This program again, as a replica.
fn replica(name: &str, file: &Path, data: SocketAddr, admin: SocketAddr, dir: &Path) -> anyhow::Result<Process> {
    let own: PathBuf = std::env::current_exe().context("this program does not know its own path")?;
    let mut command = Command::new(own);
    command
        .arg("serve")
        .arg("--config")
        .arg(file)
        .env(config::LISTEN, data.to_string())
        .env(config::ADMIN_LISTEN, admin.to_string())
        // The upstream is on this machine: a proxy of the environment would not find it.
        .env("NO_PROXY", "127.0.0.1,::1,localhost")
        .stdout(std::process::Stdio::null());
    Process::start(name, command, dir)
}

async fn script(client: &reqwest::Client, fake: SocketAddr) -> anyhow::Result<()> {
    let answer = client.post(format!("http://{fake}/__fake/rules")).json(&config::upstream_script()).send().await?;
    answer.error_for_status().context("the fake upstream refuses its script")?;
    Ok(())
}

/// Waits until a replica says that it is ready.
async fn ready(client: &reqwest::Client, address: SocketAddr) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    let url = format!("http://{address}/readyz");
    loop {
        if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "the replica on {address} is not ready after {READY_WITHIN:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_replaced_and_the_demo_says_so() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = taken.local_addr().unwrap();
        let (places, remarks) = Places::find(asked).unwrap();
        assert_ne!(places.data[0], asked);
        assert!(places.data.iter().chain(&places.admin).all(|place| place.ip().is_loopback()));
        assert!(remarks[0].contains(&asked.port().to_string()), "{remarks:?}");
        let mut ports: Vec<u16> = places.data.iter().chain(&places.admin).map(SocketAddr::port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 4);
    }
}
