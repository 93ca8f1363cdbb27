//! What a request costs: CPU of the gateway and of Redis, CPU of a relayed event, memory of idle streams. See `../README.md`.
//!
//! This program starts itself again in two roles, the upstream and a plain proxy to compare with, and runs the real `headgate`
//! on a Redis of its own. All traffic stays on loopback and is bounded in count and time.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

mod load;
mod memory;
mod options;
mod plain;
mod process;
mod redis_stats;
mod report;
mod rig;
mod streaming;
mod unary;
mod upstream;

use options::{Options, Part};
use report::Report;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Nothing measured here takes longer, however slow the machine.
const AT_MOST: Duration = Duration::from_mins(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["upstream"] => in_runtime(upstream::serve()).map(|()| ExitCode::SUCCESS),
        ["plain", upstream] => in_runtime(plain::serve(upstream)).map(|()| ExitCode::SUCCESS),
        options => Options::read(options).and_then(|options| in_runtime(measure(options))),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("request_cost: {error:#}");
        ExitCode::FAILURE
    })
}

fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// Runs the parts that were asked for; says with its exit code whether a bound is broken, if that is wanted.
async fn measure(options: Options) -> anyhow::Result<ExitCode> {
    process::allow_many_sockets()?;
    let mut report = Report::begin();
    let all = async {
        for part in options.parts() {
            match part {
                Part::Unary => unary::measure(&options, &mut report).await.context("unary requests")?,
                Part::Streaming => streaming::measure(&options, &mut report).await.context("streams")?,
                Part::Memory => memory::measure(&options, &mut report).await.context("idle streams")?,
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(AT_MOST, all).await.context("the measurement took too long")??;
    report.print();
    Ok(if options.checks() && report.is_broken() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
