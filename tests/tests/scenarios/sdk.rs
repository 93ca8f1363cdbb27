//! The official SDKs of OpenAI, Anthropic and Google, driven by `tests/sdk/run.py` through two replicas.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use cluster::fake::Fake;
use cluster::harness::{Cluster, secret_of};
use tokio::process::Command;

/// Leaves the suite out where there is no Python or no network.
const SKIP: &str = "HEADGATE_SKIP_SDK";
const INSTALL_WITHIN: Duration = Duration::from_mins(5);
const RUN_WITHIN: Duration = Duration::from_mins(6);

/// What the suite calls an upstream, its provider's fields, and what it calls the models `m-…` and `embed-…`.
const UPSTREAMS: [(&str, &str, &str, &str); 4] = [
    ("openai", "dialect: openai, base_url: \"{FAKE}/v1\"", "gpt-5.6-luna", "text-embedding-3-small"),
    ("anthropic", "dialect: anthropic, base_url: \"{FAKE}\"", "claude-sonnet-4.5", "none"),
    ("gemini", "dialect: gemini, base_url: \"{FAKE}\"", "gemini-3.1-flash-lite", "gemini-embedding-001"),
    ("codeassist", "dialect: code_assist, base_url: \"{FAKE}\"", "gemini-2.5-pro", "none"),
];
/// How many models with a connection of their own each upstream has for checks that break something: one for each such check.
const ONES: usize = 120;
/// The same with the caller's own connections.
const OWN: usize = 10;

#[tokio::test]
async fn the_official_sdks_cannot_tell_which_upstream_answered() {
    if std::env::var_os(SKIP).is_some_and(|skip| skip == "1") {
        println!("skipped: {SKIP}=1");
        return;
    }
    let python = environment().await;
    let fake = Fake::start().await.unwrap();
    let direct = run(&python, &["--direct", "--fake", &fake.url()]).await;
    assert!(direct.status.success(), "the suite and the fake upstream disagree\n{}", failures(&direct));
    let cluster = Cluster::on(configuration()).replicas(2).start().await;
    let [first, second] = [0, 1].map(|place| format!("http://{}", cluster.client(place).address()));
    let arguments = ["--fake", &cluster.fake.url(), "--key", &secret_of("sdk"), "--base", &first, "--base", &second];
    let output = run(&python, &arguments).await;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "the official SDKs were not served as they expect\n{}", failures(&output));
    cluster.assert_clean().await;
}

/// Where the suite is.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk")
}

/// Runs the suite with these arguments.
async fn run(python: &Path, arguments: &[&str]) -> Output {
    let mut suite = Command::new(python);
    suite.arg(folder().join("run.py")).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    ended(suite, RUN_WITHIN, "the suite").await
}

/// The lines that tell of failures, the last one, and what went wrong outside of checks.
fn failures(output: &Output) -> String {
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = told.lines().last().unwrap_or_default();
    let lines = told.lines().filter(|line| line.starts_with("FAIL"));
    lines.chain([last, wrong.trim_end()]).collect::<Vec<_>>().join("\n")
}

/// The Python of a virtual environment with the SDKs; made at the first run, and again when `requirements.txt` changes.
async fn environment() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.ancestors().find(|folder| folder.ends_with("deps"));
    let target = deps.and_then(|deps| deps.ancestors().nth(2)).unwrap();
    let (venv, requirements) = (target.join("sdk-venv"), folder().join("requirements.txt"));
    let (python, note) = (venv.join("bin/python"), venv.join("installed.txt"));
    let wanted = std::fs::read_to_string(&requirements).unwrap();
    if python.is_file() && std::fs::read_to_string(&note).is_ok_and(|installed| installed == wanted) {
        return python;
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&venv);
    prepared(make, "a virtual environment (`python3 -m venv`; python3 3.10 or later with its venv module)").await;
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(&requirements);
    prepared(install, "the official SDKs from PyPI (`pip install -r tests/sdk/requirements.txt`)").await;
    std::fs::write(&note, wanted).unwrap();
    python
}

/// Runs a step of the preparation; panics with what is missing and how to do without.
async fn prepared(command: Command, what: &str) {
    let output = ended(command, INSTALL_WITHIN, what).await;
    assert!(
        output.status.success(),
        "this test needs {what}, which failed; set {SKIP}=1 to leave it out.\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a command to its end; panics if it cannot be started or takes too long.
#[expect(clippy::panic, reason = "what is missing fails the test, in words")]
async fn ended(mut command: Command, within: Duration, what: &str) -> Output {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(within, command.output()).await;
    let output =
        ended.unwrap_or_else(|_| panic!("{what} did not end within {within:?}; {SKIP}=1 leaves this test out"));
    output.unwrap_or_else(|error| panic!("this test needs {what}: {error}; {SKIP}=1 leaves it out"))
}

/// One model for each upstream dialect, models to be broken, and keys to be refused.
fn configuration() -> String {
    let mut text = String::from(
        "listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nredis: {url: \"{REDIS}\", timeout: 1s}\n\
         limits: {body: 1MiB, key_wait: 0s}\n",
    );
    let (mut providers, mut models, mut connections) = (String::new(), String::new(), String::new());
    for (name, fields, model, embedding) in UPSTREAMS {
        // Google's SDK joins the texts for models whose name says Gemini: those would be one embedding.
        let embed = format!("embed-{}", name.replace("gemini", "google"));
        let _ = writeln!(providers, "  {name}: {{{fields}}}");
        let main = format!("models: {{m-{name}: {model}, {embed}: {embedding}}}");
        connect(&mut connections, name, &format!("main-{name}"), &main);
        for public in [format!("m-{name}"), embed.clone()] {
            price(&mut models, name, &public);
        }
        let ones = (1..=ONES).map(|number| (format!("one-{name}-{number}"), ""));
        let own = (1..=OWN).map(|number| (format!("own-{name}-{number}"), ", owner: owner"));
        for (id, owner) in ones.chain(own) {
            connect(&mut connections, name, &id, &format!("group: {id}, models: {{{id}: {model}}}{owner}"));
            price(&mut models, name, &id);
        }
    }
    let _ = write!(text, "providers:\n{providers}models:\n{models}connections:\n{connections}");
    text.push_str("accounts:\n  - {id: acme}\n  - {id: broke, balance: 0}\n  - {id: owner}\nkeys:\n");
    let mut key = |id: &str, account: &str, more: &str| {
        let _ = writeln!(text, "  - {{id: {id}, account: {account}, secret: {}{more}}}", secret_of(id));
    };
    key("sdk", "acme", "");
    key("narrow", "acme", ", models: [m-openai, m-gemini]");
    key("broke", "broke", "");
    key("owner", "owner", "");
    for client in ["chat", "responses", "anthropic", "genai"] {
        key(&format!("rpm-{client}"), "acme", ", rpm: 1");
    }
    text
}

fn connect(connections: &mut String, provider: &str, id: &str, more: &str) {
    let secret = format!("cred-{provider}");
    let credential = match provider {
        "codeassist" => format!(
            "google_oauth: {{refresh_token: {secret}, client_id: id, client_secret: secret, token_url: \"{{FAKE}}/token\"}}"
        ),
        _ => format!("api_key: {secret}"),
    };
    let _ = writeln!(connections, "  - {{id: {id}, provider: {provider}, {credential}, {more}}}");
}

fn price(models: &mut String, provider: &str, name: &str) {
    let _ = writeln!(models, "  {name}: {{provider: {provider}, price: {{input: 1, cached_input: 0.10, output: 10}}}}");
}
