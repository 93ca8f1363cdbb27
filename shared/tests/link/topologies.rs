//! A master behind a real Sentinel, and a real cluster of three masters.

use std::{process::Stdio, time::Duration};

use shared::state::{
    link::{Link, StateError, Topology},
    script::{Arg, Script},
    wake::{Waker, Woken},
};
use tokio::process::{Child, Command};

use rustix::process::Signal;

use crate::harness::{SLACK, SOON, Server, TIMEOUT, eventually, free_port, link, signal, text, timed, words};

/// A Sentinel that takes a master for dead after half a second. Its folder must outlive it.
fn sentinel(dir: &tempfile::TempDir, port: u16, master: u16) -> Child {
    let config = dir.path().join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\n\
         sentinel monitor main 127.0.0.1 {master} 1\n\
         sentinel down-after-milliseconds main 500\n\
         sentinel failover-timeout main 2000\n",
        dir.path().display()
    );
    std::fs::write(&config, text).unwrap();
    Command::new("redis-server")
        .arg(&config)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_link_through_sentinel_follows_the_failover_from_a_frozen_master() {
    let (master_port, replica_port, sentinel_port) = (free_port(), free_port(), free_port());
    let master = Server::with(Some(master_port), &[]).await;
    let of = format!("127.0.0.1 {master_port}");
    let replica = Server::with(Some(replica_port), &["--replicaof", &of]).await;
    let dir = tempfile::tempdir().unwrap();
    let sentinel = sentinel(&dir, sentinel_port, master_port);
    let link = link(&format!("redis+sentinel://127.0.0.1:{sentinel_port}/main"));
    assert_eq!(link.topology(), Topology::Sentinel);
    eventually(SOON, async || link.ping().await.is_ok()).await;
    let watch = link_to_sentinel(sentinel_port);
    eventually(SOON, async || knows_a_replica(&watch).await).await;

    master.freeze();
    let set = words("SET after failover");
    eventually(2 * SOON, async || link.command(&set).await.is_ok()).await;
    let role = text(replica.admin("INFO replication").await);
    assert!(role.contains("role:master"), "{role}");
    assert_eq!(text(replica.admin("GET after").await), "failover");

    // With the new master and the Sentinel frozen too, asking for a master takes for ever; a call does not.
    replica.freeze();
    signal(sentinel.id().unwrap(), Signal::STOP);
    for _ in 0..2 {
        eventually(SOON, async || timed(link.ping()).await.1 >= TIMEOUT).await;
        let (result, took) = timed(link.ping()).await;
        assert!(result.unwrap_err().is_transient());
        assert!(took < TIMEOUT + SLACK, "{took:?}");
    }
}

fn link_to_sentinel(port: u16) -> Link {
    link(&format!("redis://127.0.0.1:{port}"))
}

async fn knows_a_replica(sentinel: &Link) -> bool {
    let reply = sentinel.command(&words("INFO sentinel")).await;
    reply.is_ok_and(|reply| text(reply).contains("slaves=1"))
}

/// Three masters that know each other and own a third of the slots each.
async fn cluster() -> (Vec<Server>, Vec<u16>) {
    let mut servers = Vec::new();
    let mut ports = Vec::new();
    let mut buses = Vec::new();
    for slots in ["0 5460", "5461 10922", "10923 16383"] {
        let (port, bus) = (free_port(), free_port());
        let bus_text = bus.to_string();
        let extra = ["--cluster-enabled", "yes", "--cluster-port", &bus_text, "--cluster-node-timeout", "5000"];
        let server = Server::with(Some(port), &extra).await;
        server.admin(&format!("CLUSTER ADDSLOTSRANGE {slots}")).await;
        servers.push(server);
        ports.push(port);
        buses.push(bus);
    }
    for (port, bus) in ports.iter().zip(&buses).skip(1) {
        servers[0].admin(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}")).await;
    }
    for server in &servers {
        eventually(2 * SOON, async || {
            let info = text(server.admin("CLUSTER INFO").await);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
        .await;
    }
    (servers, ports)
}

/// Counts up at the tag's own key and answers the count.
async fn count(link: &Link, script: &Script, tag: u32) -> Result<i64, StateError> {
    let keys = [format!("hg:{{a:{tag}}}:n"), format!("hg:{{a:{tag}}}:log")];
    let reply = link.run(script, &keys, &[Arg::Int(1)]).await?;
    Ok(redis::from_redis_value(reply).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_runs_a_script_on_whichever_node_owns_its_keys() {
    let (servers, ports) = cluster().await;
    let link = link(&format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]));
    assert!(link.is_cluster());
    assert_eq!(link.server_info().await.unwrap().run_id.len(), 40);
    let script = Script::new(
        "count",
        "#!lua\nredis.call('RPUSH', KEYS[2], ARGV[1])\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])",
    );
    eventually(SOON, async || link.ping().await.is_ok()).await;
    for round in 1..=2 {
        for tag in 0..40 {
            assert_eq!(count(&link, &script, tag).await.unwrap(), round, "{tag}");
        }
        link.command(&words("SCRIPT FLUSH")).await.unwrap();
    }
    for server in &servers {
        let keys: i64 = redis::from_redis_value(server.admin("DBSIZE").await).unwrap();
        assert!(keys > 0);
    }
    let crossed = link.run(&script, &["{a}:n", "{b}:log"], &[Arg::Int(1)]).await;
    assert!(matches!(crossed, Err(StateError::Refused(_))), "{crossed:?}");
    a_message_from_any_node_wakes(&servers, &link).await;
    a_frozen_node_delays_only_its_own_slots(&servers[2], &link, &script).await;
}

async fn a_message_from_any_node_wakes(servers: &[Server], link: &Link) {
    let waker = Waker::start(link.clone(), "hg:wake:r");
    waker.listening(SOON).await.unwrap();
    for server in servers {
        let place = waker.place("req");
        server.admin("PUBLISH hg:wake:r req").await;
        assert_eq!(place.woken(SOON).await, Woken::ByMessage);
    }
    waker.stop().await;
}

async fn a_frozen_node_delays_only_its_own_slots(frozen: &Server, link: &Link, script: &Script) {
    let mut others = Vec::new();
    let mut own = Vec::new();
    for tag in 0..40 {
        let slot = text_slot(link, tag).await;
        if slot > 10_922 { own.push(tag) } else { others.push(tag) }
    }
    frozen.freeze();
    let mut served = 0;
    for tag in others.iter().take(6) {
        assert!(count(link, script, own[0]).await.unwrap_err().is_transient());
        served += u32::from(count(link, script, *tag).await.is_ok());
    }
    frozen.thaw();
    assert_eq!(served, 6);
    let back = eventually(SOON, async || count(link, script, own[0]).await.is_ok()).await;
    assert!(back < Duration::from_secs(2), "{back:?}");
}

async fn text_slot(link: &Link, tag: u32) -> i64 {
    let reply = link.command(&words(&format!("CLUSTER KEYSLOT hg:{{a:{tag}}}:n"))).await;
    redis::from_redis_value(reply.unwrap()).unwrap()
}
