//! What a cross entropy weighs.

/// Label smoothing, class weights and row weights of a cross entropy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossEntropyTerms {
    /// ε: fraction of the target that is spread over all classes.
    pub smoothing: f64,
    /// A weight for each class; `None`: all 1.
    pub weights: Option<Vec<f64>>,
    /// A weight for each row, which all its terms are multiplied by; `None`: all 1.
    pub rows: Option<Vec<f64>>,
}
