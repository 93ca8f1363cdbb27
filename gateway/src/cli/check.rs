//! `headgate check`: every fault of a configuration, or the ladder of each of its models.

use std::process::ExitCode;

use super::{BAD_INPUT, ConfigFile};

/// Check a configuration and print each model's ladder.
#[derive(Debug, clap::Args)]
pub struct Check {
    #[command(flatten)]
    file: ConfigFile,
    /// Print the JSON Schema of the configuration instead.
    #[arg(long)]
    schema: bool,
}

impl Check {
    /// 0 for a good file, 2 for one with faults.
    pub fn run(self) -> ExitCode {
        if self.schema {
            println!("{:#}", shared::config::schema());
            return ExitCode::SUCCESS;
        }
        match shared::config::load(&self.file.config) {
            Ok(_) => ExitCode::SUCCESS,
            Err(faults) => {
                eprint!("{}", shared::config::report(&faults));
                BAD_INPUT.into()
            }
        }
    }
}
