//! `headgate demo`, from its first line to the last of its processes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use reqwest::Response;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use shared::ids::{AccountId, ReplicaId};
use shared::money::NanoDollars;
use shared::state::Store;
use shared::state::link::Link;

use crate::support::{command, eventually, fake_upstream, run};

/// How long the demo may take to stand, and to be gone.
const SOON: Duration = Duration::from_secs(30);

/// A running demo. However the test ends, it is asked to end in order, so that its own processes go too.
struct Demo {
    child: Child,
    calls: Vec<Call>,
    errors: std::path::PathBuf,
}

/// A `curl` line of the demo.
struct Call {
    url: String,
    key: String,
    body: String,
}

impl Demo {
    /// Starts it and waits until it has said what to try.
    fn start(data: &Path) -> Self {
        fake_upstream();
        let errors = data.with_extension("err");
        let mut command = command(&["demo", "--once", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
        let child = command
            .as_std_mut()
            .env("http_proxy", "http://127.0.0.1:1")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let mut demo = Self { child, calls: Vec::new(), errors };
        let mut lines = BufReader::new(demo.child.stdout.take().unwrap()).lines();
        while demo.calls.len() < 3 {
            let Some(line) = lines.next() else { panic!("the demo ended: {}", demo.errors()) };
            let line = line.unwrap();
            if line.trim_start().starts_with("curl ") {
                let rest = lines.next().unwrap().unwrap();
                demo.calls.push(Call::read(&format!("{} {rest}", line.trim_end_matches('\\'))));
            }
        }
        // The farewell still has to find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        demo
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits until it ends.
    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the demo does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks it to end, and waits.
    fn stop(&mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.ended()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(self.pid(), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

impl Call {
    fn read(line: &str) -> Self {
        let quoted: Vec<&str> = line.split('\'').collect();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let key = quoted[1].strip_prefix("authorization: Bearer ").unwrap();
        Self { url: url.to_owned(), key: key.to_owned(), body: quoted[3].to_owned() }
    }

    async fn make(&self) -> Response {
        let client = reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap();
        client.post(&self.url).bearer_auth(&self.key).body(self.body.clone()).send().await.unwrap()
    }
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap().to_str().unwrap()
}

/// The processes whose parent is this one.
#[cfg(target_os = "linux")]
fn children(parent: Pid) -> Vec<(Pid, String)> {
    let parent = parent.as_raw_nonzero().to_string();
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        // PID (NAME) STATE PARENT ...; a process may end while we read.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let (Some((pid, rest)), Some((_, after))) = (stat.split_once(" ("), stat.rsplit_once(") ")) else { continue };
        if after.split(' ').nth(1) == Some(parent.as_str()) {
            let name = rest.rsplit_once(") ").unwrap().0;
            children.push((Pid::from_raw(pid.parse().unwrap()).unwrap(), name.to_owned()));
        }
    }
    children
}

#[cfg(not(target_os = "linux"))]
fn children(_: Pid) -> Vec<(Pid, String)> {
    Vec::new()
}

/// What the demo's account holds once so many requests are settled.
async fn balance(data: &Path, settled: usize) -> NanoDollars {
    let url = format!("redis+unix://{}", data.join("redis/redis.sock").display());
    let store = Store::new(Link::open(&url, Duration::from_secs(2), 1).unwrap(), "hg", ReplicaId::fresh());
    let account = AccountId::parse("demo").unwrap();
    eventually(SOON, async || match store.ledger(&account, 100).await {
        Ok(rows) if rows.len() == settled => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    store.survey_account(&account, &[]).await.unwrap().balance.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_answers_streams_fails_over_and_leaves_nothing_but_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("d");
    let mut demo = Demo::start(&data);

    let normal = demo.calls[0].make().await;
    assert_eq!(normal.status(), 200);
    assert!(header(&normal, "x-headgate-connection").starts_with("healthy-"));
    let answer: Value = serde_json::from_slice(&normal.bytes().await.unwrap()).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "You said: Hello");

    let stream = demo.calls[1].make().await;
    assert_eq!(header(&stream, "content-type").split(';').next(), Some("text/event-stream"));
    let events = stream.text().await.unwrap();
    assert!(events.matches("chat.completion.chunk").count() > 3, "{events}");
    assert!(events.trim_end().ends_with("data: [DONE]"), "{events}");

    let over = demo.calls[2].make().await;
    assert_eq!(over.status(), 200);
    let trail = header(&over, "x-headgate-attempts").to_owned();
    assert!(trail.starts_with("failing/failover:rate_limited, healthy-") && trail.ends_with(":ok"), "{trail}");

    let left = balance(&data, 3).await;
    assert!(left < "5.00".parse().unwrap(), "nothing was charged: {left}");
    let processes = children(demo.pid());
    assert_eq!(demo.stop().code(), Some(0), "{}", demo.errors());
    assert_eq!(demo.errors(), "");
    for (pid, name) in &processes {
        assert!(test_kill_process(*pid).is_err(), "{name} is still there");
    }
    if cfg!(target_os = "linux") {
        assert_eq!(processes.len(), 4, "{processes:?}");
    }
    assert!(!data.join("redis/redis.pid").exists(), "Redis did not end in order");

    let mut again = Demo::start(&data);
    assert_eq!(balance(&data, 3).await, left);
    let locked = again.calls[2].make().await;
    let trail = header(&locked, "x-headgate-attempts");
    assert!(!trail.contains("failing"), "the lock is forgotten: {trail}");
    assert_eq!(again.stop().code(), Some(0), "{}", again.errors());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_says_which_of_its_processes_ended_and_takes_the_others_down() {
    for (program, said) in
        [("redis-server", "Redis ended"), ("fake-upstream", "fake-upstream ended"), ("headgate", "replica ")]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut demo = Demo::start(&dir.path().join("d"));
        let processes = children(demo.pid());
        let victim =
            processes.iter().find(|(_, name)| name == program || said.starts_with("Redis") && name == "valkey-server");
        kill_process(victim.unwrap().0, Signal::KILL).unwrap();
        assert_eq!(demo.ended().code(), Some(1));
        assert!(demo.errors().contains(said), "{}", demo.errors());
        for (pid, name) in processes {
            assert!(test_kill_process(pid).is_err(), "{name} is still there");
        }
    }
}

#[tokio::test]
async fn without_a_redis_server_the_demo_says_what_to_install() {
    let (empty, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = command(&["demo", "--once", "--data", data.path().to_str().unwrap()]);
    command.env("PATH", empty.path());
    let outcome = run(command).await;
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for told in ["redis-server", "valkey-server", "apt-get install redis-server", "brew install redis"] {
        assert!(outcome.err.contains(told), "{}", outcome.err);
    }
    assert_eq!(outcome.out, "");
}

#[tokio::test]
async fn the_demo_refuses_to_listen_for_others() {
    let outcome = run(command(&["demo", "--once", "--listen", "0.0.0.0:0"])).await;
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains("this machine only"), "{}", outcome.err);
}

#[tokio::test]
async fn without_its_upstream_the_demo_names_the_program_and_stops_redis() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nowhere/fake-upstream");
    let args = ["demo", "--once", "--data", dir.path().to_str().unwrap(), "--fake-upstream", missing.to_str().unwrap()];
    let outcome = run(command(&args)).await;
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.err.contains(missing.to_str().unwrap()), "{}", outcome.err);
    let socket = dir.path().join("redis/redis.sock");
    eventually(SOON, async || match std::os::unix::net::UnixStream::connect(&socket) {
        Ok(_) => Err("Redis still answers".to_owned()),
        Err(_) => Ok(()),
    })
    .await;
}
