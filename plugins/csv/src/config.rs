//! The `config` of the manifest entry.

use std::path::{Component, PathBuf};

use sconce_plugin_api::prelude::*;

/// Contents and location of the `csv` hook's files.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Directory for the files, inside the run directory, created if missing. Two `csv` hooks in one run
    /// need two directories. Default: the run directory itself.
    pub(crate) directory: PathBuf,
    /// Metrics that get a column, in this order. Default (null): all that exist when a file's first row is
    /// written, in the order of their first appearance.
    pub(crate) variables: Option<Vec<String>>,
    /// Column separator: one ASCII character other than a quote or a line break. Default: a comma.
    pub(crate) delimiter: char,
    /// Text written if a metric has no value. Default: empty.
    pub(crate) default_value: String,
    /// How a metric with a column but no value is handled: `default` (write `default_value`), `warn` (the
    /// same, with a warning the first time) or `error`. Default `default`.
    pub(crate) on_missing: OnMissing,
    /// Significant digits of numbers that are not integers, from 1 to 17. Default (null): as few as
    /// reproduce the same 64-bit number when read.
    #[schemars(range(min = 1, max = 17))]
    pub(crate) digits: Option<u8>,
    /// Whether there is a column with the seconds since the start of the run, which differ from run to run.
    /// Default false.
    pub(crate) elapsed: bool,
    /// Whether rows are appended to an earlier run's file, under its header, instead of overwriting it. A
    /// resumed run continues its files in either case. Default false.
    pub(crate) append: bool,
}

/// How a metric without a value is handled.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnMissing {
    /// The hook fails.
    Error,
    /// Write the default value; warn once per file and metric.
    Warn,
    /// Write the default value.
    Default,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            directory: PathBuf::new(),
            variables: None,
            delimiter: ',',
            default_value: String::new(),
            on_missing: OnMissing::Default,
            digits: None,
            elapsed: false,
            append: false,
        }
    }
}

impl Config {
    /// Rejects values that the types allow but a file cannot represent.
    pub(crate) fn check(&self) -> Result<()> {
        let delimiter = self.delimiter;
        if !delimiter.is_ascii() || matches!(delimiter, '"' | '\n' | '\r' | '\0') {
            bail!(
                "`delimiter` must be one ASCII character, no quote and no end of line, \
                 found {delimiter:?}"
            );
        }
        let variables = self.variables.as_deref().unwrap_or_default();
        for (index, name) in variables.iter().enumerate() {
            if variables.iter().take(index).any(|earlier| earlier == name) {
                bail!("`variables` names `{name}` twice");
            }
        }
        Ok(())
    }

    /// Returns the directory of the files.
    pub(crate) fn place(&self, setup: &Setup<'_>) -> Result<PathBuf> {
        if self
            .directory
            .components()
            .all(|part| part == Component::CurDir)
        {
            return Ok(setup.run_directory().to_owned());
        }
        setup.path_below("directory", &self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        let error = config.check().err();
        error.map_or_else(String::new, |error| error.message().to_owned())
    }

    #[test]
    fn what_no_file_can_hold_is_refused() {
        let twice = ["loss", "accuracy", "loss"].map(String::from).to_vec();
        assert_eq!(refusal(|_| ()), "");
        assert_eq!(refusal(|config| config.delimiter = '\t'), "");
        assert!(refusal(|config| config.delimiter = '→').contains("'→'"));
        assert!(refusal(|config| config.delimiter = '"').contains("`delimiter`"));
        assert!(refusal(|config| config.variables = Some(twice)).contains("`loss` twice"));
    }
}
