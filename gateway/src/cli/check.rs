//! `headgate check`: every fault of a configuration, or the ladder of each of its models.

use std::io::Write as _;
use std::process::ExitCode;

use shared::config::Config;

use super::{BAD_INPUT, ConfigFile};
use crate::catalog::Catalog;

mod ladders;
mod unenforced;

/// Check a configuration and print each model's ladder.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    #[command(flatten)]
    file: ConfigFile,
    /// Print the JSON Schema of the configuration instead.
    #[arg(long)]
    schema: bool,
}

impl Check {
    /// 0 for a good file, 2 for one with faults: each on a line of standard error,
    /// `file:line:column: field: message, expected ...`.
    pub(super) fn run(self) -> ExitCode {
        if self.schema {
            print(&format!("{:#}\n", shared::config::schema()));
            return ExitCode::SUCCESS;
        }
        let config = match shared::config::load(&self.file.config) {
            Ok(config) => config,
            Err(faults) => {
                eprint!("{}", shared::config::report(&faults));
                return BAD_INPUT.into();
            }
        };
        match Catalog::new(&config) {
            Ok(catalog) => {
                print(&report(&self.file.config.display().to_string(), &config, &catalog));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{}: {error:#}", self.file.config.display());
                BAD_INPUT.into()
            }
        }
    }
}

/// A reader that went away (`| head`) is no failure of ours.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// What a good file says: notices first, then the ladders, then what is not enforced yet.
fn report(file: &str, config: &Config, catalog: &Catalog) -> String {
    let mut lines: Vec<String> = config.notices.iter().map(ToString::to_string).collect();
    lines.push(format!("{file}: good (version {}): {}", config.version, counts(config)));
    for name in config.models.keys() {
        lines.extend([String::new(), ladders::of_model(config, catalog, name).trim_end().to_owned()]);
    }
    let unenforced = unenforced::notices(config);
    if !unenforced.is_empty() {
        lines.push(String::new());
        lines.extend(unenforced);
    }
    lines.join("\n") + "\n"
}

fn counts(config: &Config) -> String {
    [
        (config.providers.len(), "provider"),
        (config.connections.len(), "connection"),
        (config.models.len(), "model"),
        (config.accounts.len(), "account"),
        (config.keys.len(), "client key"),
    ]
    .map(|(count, noun)| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }))
    .join(", ")
}
