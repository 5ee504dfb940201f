//! Data sets of the phases with what was learnt for them: what each kind of data gives, before all kinds become one type.

use std::sync::Arc;

use crate::Dataset;

/// The data sets of a task's phases, and what was learnt from the training data.
#[derive(Clone)]
pub struct Fitted<T> {
    /// Training data.
    pub train: Arc<dyn Dataset>,
    /// Data for validation during training.
    pub val: Option<Arc<dyn Dataset>>,
    /// Data for the test at the end.
    pub test: Option<Arc<dyn Dataset>>,
    /// What was learnt from the training data.
    pub learnt: T,
}
