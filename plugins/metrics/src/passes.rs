//! Files written for a pass over a phase's data.

use std::path::{Path, PathBuf};

use sconce_plugin_api::prelude::*;

/// Which passes' files are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Keeps {
    /// Only the latest pass's: each file replaces the previous one.
    #[default]
    Latest,
    /// Every pass's, with the epoch in the file name.
    Every,
}

/// The pass to which a file belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    phase: String,
    stream: String,
    epoch: u64,
    /// Number of earlier validations in the same epoch.
    ordinal: u64,
}

impl Pass {
    pub(crate) fn of(task: &TaskView<'_>) -> Pass {
        Pass {
            phase: task.phase().name().to_owned(),
            stream: task.stream().to_owned(),
            epoch: task.epoch(),
            ordinal: if task.phase() == Phase::Val {
                task.ordinal()
            } else {
                0
            },
        }
    }

    /// Returns `val`, `val-clean` if the data set has a name of its own, or `val-epoch3`. The second
    /// validation in an epoch is `val-epoch3-1`.
    pub(crate) fn name(&self, keeps: Keeps) -> String {
        let mut name = self.phase.clone();
        if !self.stream.is_empty() && self.stream != self.phase {
            name.push('-');
            name.push_str(&plain(&self.stream));
        }
        if keeps == Keeps::Every {
            name = format!("{name}-epoch{}", self.epoch);
            if self.ordinal > 0 {
                name = format!("{name}-{}", self.ordinal);
            }
        }
        name
    }
}

/// Replaces characters that may not be allowed in file names.
pub(crate) fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

/// Returns the directory configured as `directory`; the run directory if it is empty.
#[track_caller]
pub(crate) fn directory(setup: &Setup<'_>, path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Ok(setup.run_directory().to_owned());
    }
    setup.path_below("directory", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_their_pass() {
        let mut pass = Pass {
            phase: "val".to_owned(),
            stream: "val".to_owned(),
            epoch: 3,
            ordinal: 0,
        };
        assert_eq!(pass.name(Keeps::Latest), "val");
        assert_eq!(pass.name(Keeps::Every), "val-epoch3");
        pass.ordinal = 1;
        pass.stream = "../a b".to_owned();
        assert_eq!(pass.name(Keeps::Every), "val-.._a_b-epoch3-1");
    }
}
