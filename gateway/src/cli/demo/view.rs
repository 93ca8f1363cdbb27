//! What the demo prints: what to try, and a screen of what happens, drawn again every second.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use shared::config::{Config, Key};
use shared::money::NanoDollars;
use shared::state::settlement::LedgerRow;
use shared::state::survey::{Closure, ConnectionView, KeyView};
use tokio::time::MissedTickBehavior;

use super::scene::{Scene, Snapshot};
use super::{Live, config};
use crate::cli::table;

/// How often the screen is drawn.
const EVERY: Duration = Duration::from_secs(1);
/// How many rows of the ledger are shown.
const LEDGER_ROWS: usize = 8;

/// Another screen, no cursor, no wrapped lines.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// Back to how it was.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Says what to try; then stays, drawing the screen if it is live. Never ends well by itself.
pub(super) async fn show(scene: &Scene, live: Live) -> anyhow::Result<()> {
    let head = head(scene);
    if live == Live::Off {
        print(&head);
        return std::future::pending().await;
    }
    let screen = Screen::enter();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let body = match scene.look(LEDGER_ROWS).await {
            Ok(snapshot) => body(&scene.config, &snapshot),
            Err(error) => format!("{error}\n"),
        };
        screen.draw(&format!("{head}\n{body}"));
    }
}

/// Says what is left of the demo.
pub(super) fn farewell(data: &Path) {
    print(&format!(
        "The demo has ended. Locks, balances and logs are in {}: the next start finds them.\n",
        data.display()
    ));
}

/// A terminal that closes sends SIGHUP; a line that cannot be written is no trouble beside that.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The screen while it is ours; what was there comes back when this is dropped.
struct Screen;

impl Screen {
    fn enter() -> Self {
        print(ENTER);
        Self
    }

    /// Draws as many lines as there is room for.
    #[expect(clippy::unused_self, reason = "only who holds the screen may draw on it")]
    fn draw(&self, text: &str) {
        let rows = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows = if rows == 0 { usize::MAX } else { rows };
        let lines: Vec<String> = text.lines().take(rows).map(|line| format!("{line}{CLEAR_LINE}")).collect();
        print(&format!("{HOME}{}{CLEAR_BELOW}", lines.join("\n")));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print(LEAVE);
    }
}

/// Where the replicas are, the client key, and what to try.
fn head(scene: &Scene) -> String {
    let [first, second] = &scene.replicas;
    let remarks: Vec<String> = scene.remarks.iter().map(|remark| format!("  note        {remark}\n")).collect();
    [
        "Headgate demo: two replicas, one Redis, two healthy connections and a failing one. Ctrl-C ends it.\n\n",
        &format!("  base URLs   {first}/v1  {second}/v1\n"),
        &format!("  client key  {}\n", config::SECRET),
        &format!("  metrics     {}\n", scene.metrics.join("  ")),
        &format!("  data, logs  {}\n", scene.data.display()),
        &format!("  state       redis-cli -s {}\n", scene.redis_socket().display()),
        &remarks.concat(),
        "\nA normal call:\n",
        &curl("-s", first, config::STEADY, ""),
        "A stream, at the other replica:\n",
        &curl("-sN", second, config::STEADY, r#""stream":true,"#),
        &format!("A call that fails over (the failing connection is then locked for {} s, ", config::RETRY_AFTER_S),
        "on both replicas, and skipped):\n",
        &curl("-si", first, config::FLAKY, ""),
    ]
    .concat()
}

/// A call as it is typed into a shell.
fn curl(flags: &str, replica: &str, model: &str, more: &str) -> String {
    let message = r#"{"role":"user","content":"Hello"}"#;
    format!(
        "  curl {flags} {replica}/v1/chat/completions -H 'authorization: Bearer {}' \\\n    \
         -d '{{\"model\":\"{model}\",{more}\"messages\":[{message}]}}'\n",
        config::SECRET,
    )
}

/// Redis at one moment.
fn body(config: &Config, snapshot: &Snapshot) -> String {
    let connections = snapshot.connections.iter().map(|view| connection_row(config, view)).collect();
    let pairs = snapshot.account.keys.iter().zip(&config.keys);
    let balance = snapshot.account.balance.map_or_else(|| "unlimited".to_owned(), |balance| balance.to_string());
    let keys = pairs.map(|(view, key)| key_row(view, key, &balance)).collect();
    let rows = snapshot.ledger.iter().map(ledger_row).collect();
    [
        table::text("", ["connection", "leases", "waiting", "last 60 s", "closed"], connections),
        table::text("", ["client key", "requests", "waiting", "last 60 s", "spent", "balance of its account"], keys),
        table::text("", ["ledger (UTC)", "model", "connection", "in", "out", "cost", "basis", "outcome"], rows),
    ]
    .join("\n")
}

fn connection_row(config: &Config, view: &ConnectionView) -> [String; 5] {
    let written = config.connections.get(&view.connection);
    [
        view.connection.to_string(),
        of(view.live, written.and_then(|connection| connection.max_concurrent).map(u32::from)),
        view.waiting.to_string(),
        rate(view.rate_used, written.and_then(|connection| connection.rpm).map(u32::from)),
        closures(view),
    ]
}

fn key_row(view: &KeyView, key: &Key, balance: &str) -> [String; 6] {
    let spent = match &key.spend_limit {
        Some(limit) => format!("{} of {} per {}", view.spent, limit.amount, limit.period.cycle.as_str()),
        None => view.spent.to_string(),
    };
    [
        view.key.to_string(),
        of(view.live, key.max_concurrent.map(u32::from)),
        view.waiting.to_string(),
        rate(view.rate_used, key.rpm.map(u32::from)),
        spent,
        balance.to_owned(),
    ]
}

fn ledger_row(row: &LedgerRow) -> [String; 8] {
    let field = |name: &str| row.fields.get(name).map_or("", String::as_str);
    let number = |name: &str| field(name).parse::<i64>().unwrap_or(0);
    let at = jiff::Timestamp::from_millisecond(number("at")).unwrap_or_default();
    let cost = NanoDollars::new(number("cost")).unwrap_or_default();
    [
        at.strftime("%H:%M:%S").to_string(),
        field("model").to_owned(),
        field("connection").to_owned(),
        (number("input") + number("cached_input") + number("cache_write") + number("input_audio")).to_string(),
        (number("output") + number("reasoning") + number("output_audio")).to_string(),
        cost.to_string(),
        field("basis").to_owned(),
        field("outcome").to_owned(),
    ]
}

fn of(used: u32, most: Option<u32>) -> String {
    most.map_or_else(|| used.to_string(), |most| format!("{used}/{most}"))
}

/// Only what has a limit is counted.
fn rate(used: u32, most: Option<u32>) -> String {
    most.map_or_else(|| "-".to_owned(), |most| of(used, Some(most)))
}

/// Everything that is closed of a connection, with the time left.
fn closures(view: &ConnectionView) -> String {
    let whole = closure(&view.lock).map(|state| format!("all: {state}"));
    let buckets = view.buckets.iter().filter_map(|(bucket, lock)| Some(format!("{bucket}: {}", closure(lock)?)));
    let models = view.cooldowns.iter().filter_map(|(model, rest)| Some(format!("{model}: {}", closure(rest)?)));
    let closed: Vec<String> = whole.into_iter().chain(buckets).chain(models).collect();
    if closed.is_empty() { "-".to_owned() } else { closed.join(", ") }
}

fn closure(closure: &Closure) -> Option<String> {
    let left = |wait: &Duration| format!("{} s", wait.as_millis().div_ceil(1000));
    match closure {
        Closure::Open => None,
        Closure::Closed { cause: None, wait } => Some(format!("cooling {}", left(wait))),
        Closure::Closed { cause: Some(cause), wait } => Some(format!("locked {} ({})", left(wait), cause.as_str())),
        Closure::Probing { wait, .. } => Some(format!("probing {}", left(wait))),
        Closure::ProbeDue => Some("next call probes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use shared::state::capacity::LockCause;

    use super::*;

    #[test]
    fn what_is_closed_is_told_with_its_reason_and_the_time_left() {
        let wait = Duration::from_millis(1_500);
        let told = |state| closure(&state).unwrap_or_default();
        assert_eq!(told(Closure::Open), "");
        assert_eq!(told(Closure::Closed { cause: None, wait }), "cooling 2 s");
        assert_eq!(told(Closure::Closed { cause: Some(LockCause::Auth), wait }), "locked 2 s (auth)");
        assert_eq!(told(Closure::Probing { cause: None, wait: Duration::ZERO }), "probing 0 s");
        assert_eq!(told(Closure::ProbeDue), "next call probes");
    }

    #[test]
    fn a_call_is_printed_as_a_shell_takes_it() {
        let text = curl("-s", "http://127.0.0.1:1", "m", r#""stream":true,"#);
        let body = text.split('\'').nth(3).unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["model"], "m");
        assert_eq!(body["stream"], true);
        assert!(text.contains(" \\\n"), "{text}");
    }
}
