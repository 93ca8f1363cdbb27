//! The command line of the benchmark.

use anyhow::bail;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// CPU of whole answers.
    Unary,
    /// CPU of relayed events.
    Streaming,
    /// Memory of idle streams.
    Memory,
}

/// How it is measured.
#[derive(Debug)]
pub(crate) struct Options {
    only: Option<Part>,
    check: Check,
    /// Rounds of each measurement; the median is reported.
    pub(crate) rounds: u32,
    /// Whole answers a round.
    pub(crate) requests: u32,
}

/// What a broken bound does.
#[derive(Debug, PartialEq, Eq)]
enum Check {
    Print,
    Fail,
}

impl Options {
    /// `--check`: a broken bound fails. `--only unary|streaming|memory`. `--rounds N`. `--requests N`.
    pub(crate) fn read(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self { only: None, check: Check::Print, rounds: 3, requests: 20_000 };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--check" => options.check = Check::Fail,
                "--only" => {
                    options.only = Some(match rest.next().copied() {
                        Some("unary") => Part::Unary,
                        Some("streaming") => Part::Streaming,
                        Some("memory") => Part::Memory,
                        other => bail!("--only {other:?}: expected unary, streaming or memory"),
                    });
                }
                "--rounds" => options.rounds = number(rest.next())?,
                "--requests" => options.requests = number(rest.next())?,
                other => bail!("unknown argument {other:?}: expected --check, --only, --rounds or --requests"),
            }
        }
        Ok(options)
    }

    /// What is to be measured, in order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.only.map_or_else(|| vec![Part::Unary, Part::Streaming, Part::Memory], |part| vec![part])
    }

    /// Whether a broken bound fails.
    pub(crate) fn checks(&self) -> bool {
        self.check == Check::Fail
    }
}

fn number(text: Option<&&str>) -> anyhow::Result<u32> {
    match text.and_then(|text| text.parse().ok()) {
        Some(number) if number > 0 => Ok(number),
        _ => bail!("{text:?} is not a positive number"),
    }
}
