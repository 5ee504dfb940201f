//! What stands under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use super::matrix::Normalise;
use super::scores::{Average, Score};
use crate::passes::Keeps;
use crate::phases::PhaseName;

/// Which scores are published, of what, and where the confusion matrix goes.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The scores that are published as metrics at the end of a pass, computed as scikit-learn does.
    /// Default: accuracy, precision, recall and F1.
    pub(crate) scores: Vec<Score>,
    /// How precision, recall, F1, specificity and Jaccard's index of the classes become one number. With several
    /// of them each has the average's name behind it, as `f1/weighted`; with `none` the class's. Default
    /// `macro` alone.
    pub(crate) average: Vec<Average>,
    /// For each number k in it the share of places whose class is among the k highest scores, as
    /// `top5_accuracy`; at least 1. Default none.
    #[schemars(inner(range(min = 1)))]
    pub(crate) top_k: Vec<usize>,
    /// What stands before the metrics' names. Default `classification/`, as the task may have an `accuracy` of
    /// its own.
    pub(crate) prefix: String,
    /// The phases that are looked at. Default `val` and `test`.
    pub(crate) phases: Vec<PhaseName>,
    /// The scores of the classes: (…, classes), or logits of yes against no where the shape is the targets'.
    /// Default `outputs`.
    pub(crate) outputs: String,
    /// The classes: (…). Default `targets`.
    pub(crate) targets: String,
    /// A variable of the targets' shape that is 0 at places that are left out. Default (null): none.
    pub(crate) mask: Option<String>,
    /// Places with this target are left out. Default (null): none.
    pub(crate) ignore_index: Option<i64>,
    /// Where there are only two classes and one logit: above this it is a yes. Default 0, a probability of a
    /// half.
    pub(crate) threshold: f64,
    /// What a score is that would be a division by zero: from 0 to 1. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) zero_division: f64,
    /// The confusion matrix. Default (null): none is written.
    pub(crate) confusion: Option<ConfusionConfig>,
}

/// Form and place of the confusion matrix.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfusionConfig {
    /// What its cells are shares of. Default `none`: they are counts.
    pub(crate) normalise: Normalise,
    /// The classes' names. Default (null): those of the task.
    pub(crate) names: Option<Vec<String>>,
    /// Write it as a table, `confusion-PHASE.csv`. Default true.
    pub(crate) csv: bool,
    /// Draw it, `confusion-PHASE.svg`, where there are at most 1000 classes. Default true.
    pub(crate) picture: bool,
    /// Where they go: a directory below the run's. Default: the run's directory itself.
    pub(crate) directory: PathBuf,
    /// Which passes' files are kept. Default `latest`.
    pub(crate) files: Keeps,
    /// The picture's title. Default (null): phase and epoch.
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
    /// Refuses what asks for nothing.
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
