//! `headgate demo`.

use std::process::ExitCode;

/// Demo.
#[derive(Debug, clap::Args)]
pub struct Demo {}

impl Demo {
    /// Runs it.
    pub fn run(self) -> ExitCode {
        ExitCode::FAILURE
    }
}
