//! What stands under `config` in the manifest entry.

use std::path::{Component, PathBuf};

use sconce_plugin_api::prelude::*;

/// What the `csv` hook writes, and where.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Where the files go: a directory below the run's, made where it is missing. Two `csv` hooks
    /// in one run need two directories. Default: the run's directory itself.
    pub(crate) directory: PathBuf,
    /// The metrics that get a column, in this order. Default (null): all that exist at a file's
    /// first row, in the order of their first appearance.
    pub(crate) variables: Option<Vec<String>>,
    /// What stands between two columns: one ASCII character, no quote and no end of line.
    /// Default a comma.
    pub(crate) delimiter: char,
    /// What is written where a metric has no value. Default nothing.
    pub(crate) default_value: String,
    /// What happens when a metric that has a column has no value: `default` (write
    /// `default_value`), `warn` (that, with a warning for the first time) or `error`.
    /// Default `default`.
    pub(crate) on_missing: OnMissing,
    /// Significant digits of numbers that are not whole, from 1 to 17. Default (null): as few as
    /// give the very same 64-bit number when read again.
    #[schemars(range(min = 1, max = 17))]
    pub(crate) digits: Option<u8>,
    /// A column with the seconds since the run began; it differs from run to run. Default false.
    pub(crate) elapsed: bool,
    /// Add rows to a file of an earlier run, under its header, instead of writing it anew.
    /// A resumed run goes on with its files in either case. Default false.
    pub(crate) append: bool,
}

/// What to do about a metric without a value.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnMissing {
    /// Fail.
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
    /// Refuses what the types allow but no file can hold.
    pub(crate) fn check(&self) -> Result<()> {
        let delimiter = self.delimiter;
        if !delimiter.is_ascii() || matches!(delimiter, '"' | '\n' | '\r' | '\0') {
            bail!(
                "`delimiter` must be one ASCII character, no quote and no end of line, \
                 found {delimiter:?}"
            );
        }
        if let Some(digits) = self.digits.filter(|digits| !(1..=17).contains(digits)) {
            bail!("`digits` must be from 1 to 17 significant digits, found {digits}");
        }
        let variables = self.variables.as_deref().unwrap_or_default();
        for (index, name) in variables.iter().enumerate() {
            if variables.iter().take(index).any(|earlier| earlier == name) {
                bail!("`variables` names `{name}` twice");
            }
        }
        Ok(())
    }

    /// The directory of the files.
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
        assert!(refusal(|config| config.digits = Some(0)).contains("found 0"));
        assert!(refusal(|config| config.variables = Some(twice)).contains("`loss` twice"));
    }
}
