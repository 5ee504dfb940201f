//! Why a metric can't be built for some targets.

/// A metric that does not belong to the data's targets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A metric for other targets.
    #[error(
        "the metric `{metric}` wants {wanted}, but the data's targets are {found}: use {instead}"
    )]
    Targets {
        /// The metric's kind.
        metric: &'static str,
        /// The targets that it takes.
        wanted: &'static str,
        /// The targets that there are.
        found: &'static str,
        /// The metrics that take them.
        instead: &'static str,
    },
    /// The largest logits always have the target among them, or never.
    #[error(
        "the metric `top-k` with `k` = {k} says nothing of {classes} classes: `k` must be from 1 to \
         below {classes}"
    )]
    TopK {
        /// The number of logits.
        k: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// Too many cells.
    #[error(
        "the metric `confusion-matrix` has a value for each pair of classes: of {found} classes that \
         is too many, at most {most} may be",
        most = super::ConfusionMatrix::MOST_CLASSES
    )]
    Classes {
        /// How many classes there are.
        found: usize,
    },
    /// Two metrics of one name.
    #[error("two metrics are called `{0}`: one of them has to go")]
    Doubled(String),
}
