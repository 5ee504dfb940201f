//! The `config` of the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use super::matrix::Normalise;
use super::scores::{Average, Score};
use crate::passes::Keeps;
use crate::phases::PhaseName;

/// Which scores are published, from which variables, and whether a confusion matrix is written.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Scores published as metrics at the end of a pass, computed as in scikit-learn. Default: accuracy,
    /// precision, recall and F1. The areas under curves and the calibration error keep the pass's probabilities in
    /// memory, 8 bytes each.
    pub(crate) scores: Vec<Score>,
    /// How the classes' precision, recall, F1, specificity, Jaccard index and areas under curves are averaged. With several
    /// averages each metric name ends in the average, as in `f1/weighted`; with `none` it ends in the
    /// class. Default `macro` alone.
    pub(crate) average: Vec<Average>,
    /// Values of k for which the top-k accuracy, the fraction of targets among the k highest scores, is
    /// published as `top5_accuracy`; at least 1. Default none.
    #[schemars(inner(range(min = 1)))]
    pub(crate) top_k: Vec<usize>,
    /// Prefix of the metrics' names. Default `classification/`, as the task may have an `accuracy` of its
    /// own.
    pub(crate) prefix: String,
    /// Phases to evaluate. Default `val` and `test`.
    pub(crate) phases: Vec<PhaseName>,
    /// Variable with the class scores: (…, classes), or logits of yes against no in the targets' shape.
    /// Default `outputs`.
    pub(crate) outputs: String,
    /// Variable with the true classes: (…). Default `targets`.
    pub(crate) targets: String,
    /// Variable of the targets' shape that is 0 at targets to ignore. Default (null): none.
    pub(crate) mask: Option<String>,
    /// Target value to ignore. Default (null): none.
    pub(crate) ignore_index: Option<i64>,
    /// For two classes with one logit: the logit above which yes is predicted. Default 0, a probability of
    /// one half.
    pub(crate) threshold: f64,
    /// Value of a score that would be a division by zero, from 0 to 1. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) zero_division: f64,
    /// The confusion matrix. Default (null): none is written.
    pub(crate) confusion: Option<ConfusionConfig>,
}

/// Format and location of the confusion matrix.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfusionConfig {
    /// How its cells are normalised. Default `none`: they are counts.
    pub(crate) normalise: Normalise,
    /// Names of the classes. Default (null): those of the task.
    pub(crate) names: Option<Vec<String>>,
    /// Whether it is written as a table, `confusion-PHASE.csv`. Default true.
    pub(crate) csv: bool,
    /// Whether it is drawn, `confusion-PHASE.svg`, for at most 1000 classes. Default true.
    pub(crate) picture: bool,
    /// Directory for the files, inside the run directory. Default: the run directory itself.
    pub(crate) directory: PathBuf,
    /// Which passes' files are kept. Default `latest`.
    pub(crate) files: Keeps,
    /// Title of the drawing. Default (null): phase and epoch.
    pub(crate) title: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            scores: vec![Score::Accuracy, Score::Precision, Score::Recall, Score::F1],
            average: vec![Average::Macro],
            top_k: Vec::new(),
            prefix: "classification/".to_owned(),
            phases: vec![PhaseName::Val, PhaseName::Test],
            outputs: "outputs".to_owned(),
            targets: "targets".to_owned(),
            mask: None,
            ignore_index: None,
            threshold: 0.0,
            zero_division: 0.0,
            confusion: None,
        }
    }
}

impl Default for ConfusionConfig {
    fn default() -> Self {
        ConfusionConfig {
            normalise: Normalise::None,
            names: None,
            csv: true,
            picture: true,
            directory: PathBuf::new(),
            files: Keeps::Latest,
            title: None,
        }
    }
}

impl Config {
    /// Whether a score is computed from the probabilities of the whole pass.
    pub(crate) fn keeps_probabilities(&self) -> bool {
        self.scores.iter().any(|score| score.is_of_probabilities())
    }

    /// Rejects a configuration without any output.
    pub(crate) fn check(&self) -> Result<()> {
        if self.scores.is_empty() && self.top_k.is_empty() && self.confusion.is_none() {
            bail!(
                "`scores` and `top_k` are empty and there is no `confusion`: nothing is asked for"
            );
        }
        if self.average.is_empty() && self.scores.iter().any(|score| score.is_by_class()) {
            bail!("`average` is empty; it says how the classes' scores become one, or `none`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_nothing_is_refused() {
        let mut config = Config::default();
        assert!(config.check().is_ok());
        config.average.clear();
        assert!(
            config
                .check()
                .expect_err("no average")
                .message()
                .contains("`average`")
        );
        config.scores = vec![Score::Accuracy];
        assert!(config.check().is_ok());
        config.scores.clear();
        assert!(
            config
                .check()
                .expect_err("nothing")
                .message()
                .contains("`scores`")
        );
        config.top_k.push(2);
        assert!(config.check().is_ok());
    }
}
