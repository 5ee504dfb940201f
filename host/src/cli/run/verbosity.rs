//! Options for the amount and format of log messages.

use clap::{Args, ValueEnum};

use crate::log::{Level, MessageFormat, StderrLog};

/// How much is logged, and in which format.
#[derive(Debug, Default, Args)]
pub(super) struct Verbosity {
    /// Prints only warnings, errors and results.
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Prints more, for debugging.
    #[arg(short, long)]
    verbose: bool,
    /// Format of the log on standard error during the run.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    log_format: LogFormat,
}

/// Format of messages.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per message: `time` (seconds since 1970), `level`, `source`, `message`.
    Json,
}

impl Verbosity {
    /// Returns the log for these options.
    pub(super) fn log(&self) -> StderrLog {
        let level = match (self.quiet, self.verbose) {
            (true, _) => Level::Warn,
            (_, true) => Level::Debug,
            _ => Level::Info,
        };
        let form = match self.log_format {
            LogFormat::Text => MessageFormat::Text,
            LogFormat::Json => MessageFormat::Json,
        };
        StderrLog { level, form }
    }
}
