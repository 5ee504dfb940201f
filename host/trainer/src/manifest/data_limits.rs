//! How much of its data a run uses.

/// Limits on a task's data, in samples; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataLimits {
    /// Limit on the training data.
    pub train: Option<usize>,
    /// Limit on the validation data.
    pub val: Option<usize>,
    /// Limit on the test data.
    pub test: Option<usize>,
    /// Number of training samples, without augmentation, to both train and validate on. There is no
    /// test data then. Takes precedence over the other limits.
    pub overfit: Option<usize>,
}
