//! Why a metric can't be built for some targets.

/// A metric that does not fit the data's targets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The metric is for another kind of targets.
    #[error(
        "the metric `{metric}` wants {wanted}, but the data's targets are {found}: use {instead}"
    )]
    Targets {
        /// Kind of the metric.
        metric: &'static str,
        /// Targets that the metric needs.
        wanted: &'static str,
        /// Targets in the data.
        found: &'static str,
        /// Metrics that fit these targets.
        instead: &'static str,
    },
    /// The data have no targets.
    #[error(
        "the metric `{metric}` compares outputs with targets, and the data have none: leave it out"
    )]
    WithoutTargets {
        /// Kind of the metric.
        metric: &'static str,
    },
    /// `k` is 0 or at least the number of classes, so that the metric would be constant.
    #[error(
        "the metric `top-k` with `k` = {k} says nothing of {classes} classes: `k` must be from 1 to \
         below {classes}"
    )]
    TopK {
        /// Option `k`.
        k: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A confusion matrix would have too many elements.
    #[error(
        "the metric `confusion-matrix` has a value for each pair of classes: of {found} classes that \
         is too many, at most {most} may be",
        most = super::ConfusionMatrix::MOST_CLASSES
    )]
    Classes {
        /// Number of classes.
        found: usize,
    },
    /// The data do not say how many bytes the classes stand for.
    #[error(
        "the metric `bits-per-byte` needs text whose bytes are known: data of kind `text`, or tokens with a `tokenizer.json`; \
         use `perplexity` for other classes"
    )]
    WithoutBytes,
    /// Two metrics have the same name.
    #[error("two metrics are called `{0}`: one of them has to go")]
    Doubled(String),
}
