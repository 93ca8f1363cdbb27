//! Conversations stay where they are, as long as that is good for them.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::fake::Rule;
use cluster::harness::{Cluster, Config, Response, SECRET, Stream, eventually};
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

/// A conversation in the words of one API, told by nothing but what is said in it, or by a header.
struct Talk {
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    turns: Vec<Value>,
    name: String,
}

impl Talk {
    fn new(number: usize) -> Self {
        let path =
            ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m1:generateContent"][number % 4];
        Self {
            path,
            headers: vec![("x-api-key", SECRET.to_owned())],
            turns: Vec::new(),
            name: format!("talk {number}"),
        }
    }

    /// Told by a header.
    fn named(number: usize) -> Self {
        let mut talk = Self::new(number);
        talk.headers.push(("session_id", talk.name.clone()));
        talk
    }

    fn body(&self) -> Value {
        let system = format!("You are kind. It is 10:{:02}.", self.turns.len());
        match self.path {
            "/v1/responses" => json!({"model": "m1", "instructions": system, "input": self.turns, "store": false}),
            "/v1/messages" => json!({"model": "m1", "system": system, "messages": self.turns, "max_tokens": 100}),
            "/v1/chat/completions" => json!({"model": "m1", "messages": self.turns}),
            _ => json!({"systemInstruction": {"parts": [{"text": system}]}, "contents": self.turns}),
        }
    }

    fn say(&mut self, role: &str, text: &str) {
        let gemini = self.path.starts_with("/v1beta");
        let role = if gemini && role == "assistant" { "model" } else { role };
        let turn = json!({"role": role, "content": text});
        self.turns.push(if gemini { json!({"role": role, "parts": [{"text": text}]}) } else { turn });
    }

    /// One turn at a replica; the answer.
    async fn ask(&mut self, cluster: &Cluster, place: usize) -> Response {
        self.say("user", &format!("{}, turn {}", self.name, self.turns.len()));
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let sent = cluster.client(place).send(Method::POST, self.path, &headers, self.body().to_string());
        let answer = sent.await.unwrap();
        self.say("assistant", "Well.");
        answer
    }

    /// One turn at a replica; who answered.
    async fn turn(&mut self, cluster: &Cluster, place: usize) -> String {
        let answer = self.ask(cluster, place).await;
        assert_eq!(answer.status, 200, "{}: {}", self.path, answer.body);
        answer.header("x-headgate-connection").to_owned()
    }
}

/// Waits until what was answered is on record, however busy the machine.
async fn recorded(cluster: &Cluster) {
    eventually(SOON, "all is on record", async || cluster.redis.held().await.is_empty()).await;
}

/// How many of these a connection answered.
fn counts(connections: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for connection in connections {
        *counts.entry(connection).or_default() += 1;
    }
    counts
}

/// So many new conversations at once, replicas in turn: who answered how many.
async fn newcomers(cluster: &Cluster, count: usize) -> BTreeMap<String, usize> {
    let answers = cluster.burst(count, SECRET, "m1").await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    counts(answers.iter().map(|answer| answer.header("x-headgate-connection").to_owned()))
}

fn credential(connection: &str) -> String {
    connection.replace("conn", "cred")
}

fn other(connection: &str) -> &'static str {
    if connection == "conn-1" { "conn-2" } else { "conn-1" }
}

#[tokio::test]
async fn of_fifty_conversations_of_ten_turns_over_three_replicas_95_percent_of_the_turns_stay_on_one_connection() {
    for talk in [Talk::new as fn(usize) -> Talk, Talk::named] {
        let cluster = Cluster::of_three(&Config::connections(3)).await;
        let all = join_all((0..50).map(|number| {
            let cluster = &cluster;
            async move {
                let mut talk = talk(number);
                let mut connections = Vec::new();
                for turn in 0..10 {
                    connections.push(talk.turn(cluster, (number + turn) % 3).await);
                }
                counts(connections)
            }
        }));
        let all = all.await;
        let stayed: usize = all.iter().map(|counts| counts.values().max().unwrap()).sum();
        assert!(stayed >= 475, "{stayed} of 500: {all:?}");
        // Each is taken by a third of them; three is more than four standard deviations below.
        let homes = counts(all.iter().map(|one| one.iter().max_by_key(|(_, turns)| **turns).unwrap().0.clone()));
        assert!(homes.len() == 3 && homes.values().all(|home| *home >= 3), "{homes:?}");
        cluster.assert_clean().await;
    }
}

#[tokio::test]
async fn two_equal_connections_get_equal_shares_of_what_three_replicas_send() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    let mut shares: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..30 {
        for (connection, count) in newcomers(&cluster, 20).await {
            *shares.entry(connection).or_default() += count;
        }
    }
    let chi_square: usize = shares.values().map(|count| count.abs_diff(300).pow(2)).sum::<usize>() / 300;
    // One in two million draws is further from equal.
    assert!(shares.len() == 2 && chi_square < 25, "{shares:?}");
}

#[tokio::test]
async fn a_locked_connection_loses_its_conversation_at_once_and_does_not_get_it_back() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    for number in 0..4 {
        let mut talk = Talk::new(number);
        let home = talk.turn(&cluster, 0).await;
        recorded(&cluster).await;
        assert_eq!(talk.turn(&cluster, 1).await, home);
        recorded(&cluster).await;
        cluster.fake.script([Rule::on(&credential(&home), "*").fails(429).header("retry-after", "300").times(1)]);
        let moved = talk.ask(&cluster, 2).await;
        assert!(moved.header("x-headgate-attempts").starts_with(&format!("{home}/m1:rate_limited")), "{moved:?}");
        recorded(&cluster).await;
        assert_eq!(talk.turn(&cluster, 0).await, other(&home));
        recorded(&cluster).await;
        let lock = format!("hg:{{g:fake}}:conn:{home}:bucket:m1:lock");
        assert_eq!(cluster.redis.ask::<u64>(&["DEL", &lock]).await, 1);
        for place in 0..3 {
            assert_eq!(talk.turn(&cluster, place).await, other(&home), "it has another home now");
        }
    }
    cluster.assert_clean().await;
}

/// A cluster whose two connections take one call at a time, a conversation at home on one of them, and a stream that holds that one.
async fn full_home(pin_patience: &str) -> (Cluster, Talk, String, Stream) {
    let group = format!("groups: {{fake: {{pin_patience: {pin_patience}}}}}");
    let cluster = Cluster::of_three(&Config::connections(2).each("max_concurrent: 1").more(&group)).await;
    let mut talk = Talk::new(0);
    let home = talk.turn(&cluster, 0).await;
    recorded(&cluster).await;
    cluster.fake.script([Rule { stall_after_chunks: Some(1), ..Rule::on(&credential(&home), "*").times(1) }]);
    // It may go to the other one first, which does not stall.
    let stream = loop {
        let mut stream = cluster.client(1).chat_stream(SECRET, "m1", "hold").await;
        stream.read_content(1).await;
        if stream.header("x-headgate-connection") == home {
            break stream;
        }
        stream.rest().await.1.unwrap();
    };
    (cluster, talk, home, stream)
}

#[tokio::test]
async fn a_full_home_is_waited_for_no_longer_than_the_patience_of_its_group() {
    let (cluster, mut talk, home, stream) = full_home("300ms").await;
    let answer = talk.ask(&cluster, 2).await;
    assert_eq!(answer.header("x-headgate-connection"), other(&home), "{answer:?}");
    let queued: u64 = answer.header("x-headgate-queued-ms").parse().unwrap();
    assert!((300..10_000).contains(&queued), "{queued}");
    drop(stream);
    recorded(&cluster).await;
    assert_eq!(talk.turn(&cluster, 0).await, other(&home), "it has moved");
    cluster.assert_clean().await;
}

#[tokio::test]
async fn a_conversation_goes_on_at_home_when_that_frees_within_the_patience() {
    let (cluster, mut talk, home, stream) = full_home("30s").await;
    let line = format!("hg:{{g:fake}}:conn:{home}:waiters");
    let (connection, ()) = tokio::join!(talk.turn(&cluster, 2), async {
        eventually(SOON, "it stands in the line of its home", async || {
            cluster.redis.ask::<u64>(&["ZCARD", &line]).await == 1
        })
        .await;
        drop(stream);
    });
    assert_eq!(connection, home);
    cluster.assert_clean().await;
}

#[tokio::test]
async fn with_a_patience_of_0s_a_full_home_is_not_waited_for() {
    let (cluster, mut talk, home, stream) = full_home("0s").await;
    let answer = talk.ask(&cluster, 2).await;
    assert_eq!((answer.header("x-headgate-connection"), answer.header("x-headgate-queued-ms")), (other(&home), "0"));
    drop(stream);
}

#[tokio::test]
async fn a_slow_connection_loses_its_conversations_and_new_ones_and_regains_new_ones_once_it_is_well() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    // Enough to know what is usual.
    for _ in 0..4 {
        newcomers(&cluster, 20).await;
    }
    let mut talk = Talk::named(0);
    let home = talk.turn(&cluster, 0).await;
    cluster.fake.script([Rule::on(&credential(&home), "*").delays_headers(Duration::from_secs(1))]);
    // Of 40 a twentieth goes there once it is known: 2 or so, 8 is more than four standard deviations above.
    let lost = async || newcomers(&cluster, 40).await.get(&home).is_none_or(|count| *count <= 8);
    eventually(Duration::from_secs(30), "new conversations go elsewhere", lost).await;
    eventually(SOON, "its own conversation leaves it", async || talk.turn(&cluster, 1).await != home).await;

    cluster.fake.heal();
    // What was noted is made old, as five minutes would.
    let health = format!("hg:{{g:fake}}:conn:{home}");
    cluster.redis.ask::<i64>(&["HINCRBY", &health, "at", "-300000"]).await;
    let regained = async || newcomers(&cluster, 40).await.get(&home).is_some_and(|count| *count >= 9);
    eventually(Duration::from_secs(90), "new conversations come back", regained).await;
}

#[tokio::test]
async fn a_failing_connection_loses_new_conversations_and_regains_them_without_help() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    cluster.fake.script([Rule::on("cred-1", "*").fails(503)]);
    newcomers(&cluster, 40).await;
    cluster.fake.clear_calls();
    newcomers(&cluster, 40).await;
    assert!(cluster.fake.calls_of("cred-1").len() <= 1, "at most a probe");
    cluster.fake.heal();
    // The first cooldown is 10 s.
    let regained = async || newcomers(&cluster, 40).await.get("conn-1").is_some_and(|count| *count >= 3);
    eventually(Duration::from_secs(90), "new conversations come back", regained).await;
}

#[tokio::test]
async fn new_conversations_stay_evenly_spread_while_a_heavy_one_runs() {
    let cluster = Cluster::of_three(&Config::connections(2)).await;
    cluster.fake.script([Rule::any().delays_headers(Duration::from_millis(20))]);
    let home = Talk::named(7).turn(&cluster, 0).await;
    recorded(&cluster).await;
    let heavy = async {
        let mut connections = Vec::new();
        for wave in 0..12 {
            let turns = (0..10).map(async |n| Talk::named(7).turn(&cluster, (wave + n) % 3).await);
            connections.extend(join_all(turns).await);
        }
        counts(connections)
    };
    let light = async {
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..10 {
            for (connection, count) in newcomers(&cluster, 10).await {
                *shares.entry(connection).or_default() += count;
            }
        }
        shares
    };
    let (heavy, light) = tokio::join!(heavy, light);
    assert!(heavy[&home] >= 114, "{heavy:?}");
    // 50 each, five standard deviations are 25.
    assert!(light.len() == 2 && light.values().all(|count| (25..=75).contains(count)), "{light:?}");
}

#[tokio::test]
async fn conversations_outlive_all_replicas() {
    let mut cluster = Cluster::of_three(&Config::connections(3)).await;
    let mut talks: Vec<Talk> = (0..8).map(Talk::new).collect();
    let mut homes = Vec::new();
    for (place, talk) in talks.iter_mut().enumerate() {
        homes.push(talk.turn(&cluster, place % 3).await);
    }
    recorded(&cluster).await;
    cluster.replace_all().await;
    for (place, talk) in talks.iter_mut().enumerate() {
        assert_eq!(talk.turn(&cluster, place % 3).await, homes[place]);
    }
}
