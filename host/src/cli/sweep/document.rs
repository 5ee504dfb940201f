//! The file that describes a sweep.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use sconce_plugin_api::Rule;
use serde::Deserialize;
use serde_json::Value;

use super::distribution::Distribution;
use crate::diagnostic::Diagnostic;
use crate::manifest::JsonSource;
use sconce_manifest::document;

/// Largest file, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// A sweep: runs of one manifest with different values, of which the best is looked for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepDocument {
    /// Reference to a JSON Schema, for editors; ignored.
    #[serde(rename = "$schema", default)]
    _schema: Option<String>,
    /// The manifest that every trial changes; relative to the directory of this file.
    pub(super) run: PathBuf,
    /// Directory of the trials; relative to that of this file. Default: `sweeps/` and this file's name without its extension.
    #[serde(default)]
    pub(super) output: PathBuf,
    /// The metric by which trials are compared, such as `val/loss`: of the weights that a trial keeps; of a trial that is
    /// paused, the last one measured.
    pub(super) metric: String,
    /// Whether `less` or `greater` values are better. Default: by the name of the metric.
    #[serde(default)]
    goal: Option<Rule>,
    /// Number of trials. Default: one for each combination of `grid`, if there is no `random`.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) trials: Option<usize>,
    /// Seed of the values that are drawn.
    #[serde(default)]
    pub(super) seed: u64,
    /// Number of trials that run at the same time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub(super) parallel: usize,
    /// Compute threads of each trial. Default: the manifest's, or else the processors here divided by `parallel`, as they are
    /// when the sweep begins: the bits of results depend on it.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub(super) threads: Option<usize>,
    /// Values by their path in the manifest, such as `train.batch_size`: all combinations are tried.
    #[serde(default)]
    pub(super) grid: BTreeMap<String, Vec<Value>>,
    /// Values that are drawn for each trial, by their path in the manifest.
    #[serde(default)]
    pub(super) random: BTreeMap<String, Distribution>,
    /// Whether trials that are behind the others end early.
    #[serde(default)]
    pub(super) halving: Option<Halving>,
    /// Number of trials, the best, whose checkpoints stay; those of others are removed once they have ended or are left behind.
    #[serde(default = "three")]
    pub(super) keep: usize,
    /// Has the trials run as jobs of a batch system.
    #[serde(default)]
    pub(super) batch: Option<BatchSystem>,
}

/// Successive halving (Jamieson and Talwalkar, 2016): trials are compared after `first` epochs, after `factor` times as many, and
/// so on, and of those compared one in `factor` goes on.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Halving {
    /// Epochs after which trials are compared first.
    #[schemars(range(min = 1))]
    pub(super) first: u64,
    /// Factor from one comparison to the next.
    #[serde(default = "factor")]
    #[schemars(range(min = 2, max = 100))]
    pub(super) factor: u64,
}

/// A batch system.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchSystem {
    /// Which: `slurm`.
    pub(super) system: SystemName,
    /// Options of its jobs, such as `--time=2:00:00`.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// Largest number of trials that run at the same time.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(super) at_once: Option<usize>,
}

/// Name of a batch system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SystemName {
    /// Slurm, by `sbatch` and job arrays.
    Slurm,
}

fn one() -> usize {
    1
}

fn three() -> usize {
    3
}

fn factor() -> u64 {
    3
}

impl SweepDocument {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// All its problems, with their places.
    pub(super) fn read(path: &Path) -> Result<(SweepDocument, JsonSource), Vec<Diagnostic>> {
        let text = document::read_text(path, LARGEST).map_err(|error| {
            let problem = format!("can't read the sweep `{}`: {error}", path.display());
            vec![Diagnostic::new(problem)]
        })?;
        let (mut sweep, source) = document::parse::<SweepDocument>(path, &text)?;
        let base = path.parent().unwrap_or(Path::new(""));
        if sweep.output.as_os_str().is_empty() {
            let stem = path.file_stem().unwrap_or_default();
            sweep.output = Path::new("sweeps").join(stem);
        }
        sweep.output = base.join(&sweep.output);
        sweep.run = base.join(&sweep.run);
        Ok((sweep, source))
    }

    /// What the schema can't say about the metric, with its path.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.goal().is_none() {
            let problem = format!(
                "whether less or more of `{}` is better can't be told by its name: give `goal`",
                self.metric
            );
            problems.push(("metric".to_owned(), problem));
        }
        if !self.metric.contains('/') {
            let problem = format!("`{0}` is of no phase: it is written `val/{0}`", self.metric);
            problems.push(("metric".to_owned(), problem));
        }
        problems
    }

    /// Which values of the metric are better; `None` only of a document that has problems.
    pub(super) fn goal(&self) -> Option<Rule> {
        self.goal.or_else(|| Rule::of_metric(&self.metric))
    }
}
