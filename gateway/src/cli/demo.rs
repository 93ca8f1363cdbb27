//! `headgate demo`: a private Redis, a fake upstream and two replicas in one command. Nothing listens beyond this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use self::stage::Stage;
use super::{exit_code, in_runtime};

mod children;
mod config;
mod scene;
mod stage;
mod view;

/// Try Headgate: a private Redis, a fake upstream and two replicas in one command.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// Where the demo keeps its data, configuration and logs; a second start there finds locks and balances again.
    #[arg(long, value_name = "DIR", default_value = "data/demo")]
    data: PathBuf,
    /// Where the first replica listens, on this machine only; the second takes the next port. Ports that are taken are replaced.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = loopback)]
    listen: SocketAddr,
    /// Print what to try and stay, without the live view. The default when standard output is not a terminal.
    #[arg(long)]
    once: bool,
    /// The fake-upstream program [default: beside this program, else on PATH].
    #[arg(long, value_name = "PATH")]
    fake_upstream: Option<PathBuf>,
}

impl Demo {
    /// Runs until it is interrupted (0) or one of its processes ends by itself (1). Leaves no process behind.
    pub(super) fn run(self) -> ExitCode {
        exit_code(in_runtime(self.play()))
    }

    async fn play(self) -> anyhow::Result<()> {
        let mut stops = Stops::listen()?;
        let mut stage = tokio::select! {
            stage = Box::pin(Stage::set(&self)) => stage?,
            () = stops.next() => return Ok(()),
        };
        let outcome = tokio::select! {
            outcome = stage.play(self.live()) => outcome,
            () = stops.next() => Ok(()),
        };
        let struck = stage.strike().await;
        outcome.and(struck)?;
        view::farewell(&self.data);
        Ok(())
    }

    fn live(&self) -> Live {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        if self.once || !terminal { Live::Off } else { Live::On }
    }
}

/// Whether the screen is drawn again every second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Live {
    Off,
    On,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected an address and port such as 127.0.0.1:8080")?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the demo's key is public, so it listens on this machine only: expected 127.0.0.1:PORT or [::1]:PORT"
            .into())
    }
}

/// The signals that end the demo: Ctrl-C, SIGTERM, and a terminal that was closed.
struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Stops {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_listens_on_this_machine_only() {
        assert!(loopback("127.0.0.1:8080").is_ok());
        assert!(loopback("[::1]:0").is_ok());
        for refused in ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:80", "8080", "localhost:8080"] {
            assert!(loopback(refused).is_err(), "{refused}");
        }
    }
}
