//! How much a command says while it works, and in which form.

use clap::{Args, ValueEnum};

use crate::log::{Form, Level, StderrLog};

/// How much is said, and in which form.
#[derive(Debug, Default, Args)]
pub(super) struct Verbosity {
    /// Says nothing but warnings, errors and results.
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Says more, for finding faults.
    #[arg(short, long)]
    verbose: bool,
    /// The form of what is said to standard error while the run goes on.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    log_format: LogFormat,
}

/// The form of messages.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per message: `time` (seconds since 1970), `level`, `source`, `message`.
    Json,
}

impl Verbosity {
    /// Where the command's words go.
    pub(super) fn log(&self) -> StderrLog {
        let level = match (self.quiet, self.verbose) {
            (true, _) => Level::Warn,
            (_, true) => Level::Debug,
            _ => Level::Info,
        };
        let form = match self.log_format {
            LogFormat::Text => Form::Text,
            LogFormat::Json => Form::Json,
        };
        StderrLog { level, form }
    }
}
