//! The table of results, and which bounds are broken.

use std::fmt::Write as _;
use std::time::Duration;

/// Most a measured value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// CPU time.
    Time(Duration),
    /// Memory.
    Bytes(u64),
}

impl Bound {
    pub(crate) fn time(most: Duration) -> Self {
        Self::Time(most)
    }

    pub(crate) fn bytes(most: u64) -> Self {
        Self::Bytes(most)
    }
}

/// Rows in the order they were measured.
#[derive(Debug)]
pub(crate) struct Report {
    lines: Vec<String>,
    broken: u32,
}

impl Report {
    /// Nothing measured yet: the facts of the machine.
    pub(crate) fn begin() -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or("?").to_owned();
        let build = if cfg!(debug_assertions) { "debug build: the bounds do not apply" } else { "optimized build" };
        Self { lines: vec![format!("{cores} cores, load {load} at start, {build}")], broken: 0 }
    }

    /// A headline.
    pub(crate) fn part(&mut self, text: &str) {
        self.lines.push(format!("\n{text}"));
    }

    /// A row of free text.
    pub(crate) fn line(&mut self, name: &str, value: &str) {
        self.lines.push(format!("  {name:<36} {value:>12}"));
    }

    /// The median of some rounds, their range, and the bound.
    pub(crate) fn times(&mut self, name: &str, rounds: &[Duration], bound: Option<Bound>) {
        let value = median(rounds);
        let mut text = micros(value);
        let (least, most) = (rounds.iter().min(), rounds.iter().max());
        if let (true, Some(least), Some(most)) = (rounds.len() > 1, least, most) {
            let _ = write!(text, "   ({} to {})", micros(*least), micros(*most));
        }
        let verdict = match bound {
            Some(Bound::Time(most)) => self.verdict(value <= most, &micros(most)),
            _ => String::new(),
        };
        self.lines.push(format!("  {name:<36} {text:<40} {verdict}").trim_end().to_owned());
    }

    /// A size and its bound.
    pub(crate) fn bytes(&mut self, name: &str, value: u64, bound: Option<Bound>) {
        let verdict = match bound {
            Some(Bound::Bytes(most)) => self.verdict(value <= most, &size(most)),
            _ => String::new(),
        };
        self.lines.push(format!("  {name:<36} {:<40} {verdict}", size(value)).trim_end().to_owned());
    }

    /// How many times one is the other.
    pub(crate) fn ratio(&mut self, name: &str, value: f64) {
        self.line(name, &format!("{value:.2}×"));
    }

    fn verdict(&mut self, holds: bool, most: &str) -> String {
        self.broken += u32::from(!holds);
        format!("at most {most}: {}", if holds { "ok" } else { "BROKEN" })
    }

    /// Prints it.
    pub(crate) fn print(&self) {
        for line in &self.lines {
            println!("{line}");
        }
        println!(
            "\n{}",
            if self.broken == 0 { "all bounds hold".to_owned() } else { format!("{} broken", self.broken) }
        );
    }

    /// Whether a bound is broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken > 0
    }
}

/// A share of a time.
pub(crate) fn per(all: Duration, count: u64) -> Duration {
    Duration::from_nanos(u64::try_from(all.as_nanos()).unwrap_or(u64::MAX) / count.max(1))
}

/// The middle one; of an even number the lower of the two.
pub(crate) fn median(rounds: &[Duration]) -> Duration {
    let mut sorted = rounds.to_vec();
    sorted.sort();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

fn micros(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn size(bytes: u64) -> String {
    if bytes < 1_000_000 { format!("{:.1} kB", bytes as f64 / 1e3) } else { format!("{:.1} MB", bytes as f64 / 1e6) }
}
