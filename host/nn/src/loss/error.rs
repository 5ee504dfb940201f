//! Why a loss can't be built for some targets.

/// A loss that does not fit the data's targets.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum LossError {
    /// The loss is for another kind of targets.
    #[error("the loss `{loss}` wants {wanted}, but the data's targets are {found}: use {instead}")]
    Targets {
        /// Kind of the loss.
        loss: &'static str,
        /// Targets that the loss needs.
        wanted: &'static str,
        /// Targets in the data.
        found: &'static str,
        /// Losses that fit these targets.
        instead: &'static str,
    },
    /// A list of weights has a different length than there are classes or numeric targets.
    #[error("the loss's `{name}` must have {wanted} elements, one for each {each}; found {found}")]
    Count {
        /// Name of the list.
        name: &'static str,
        /// What each of its elements belongs to.
        each: &'static str,
        /// Required length.
        wanted: usize,
        /// Length of the list.
        found: usize,
    },
    /// A value is out of range.
    #[error("the loss's `{name}` must be {range}, found {found}")]
    OutOfRange {
        /// Name of the option.
        name: String,
        /// Range in words.
        range: &'static str,
        /// Value in the manifest.
        found: f64,
    },
    /// All class weights are 0.
    #[error("the loss's `class_weights` are all 0: nothing would count")]
    NoWeight,
    /// With the ignored class left out, fewer than two classes remain.
    #[error(
        "the loss's `ignore_index` {0} leaves fewer than two classes: there would be nothing to tell \
         apart"
    )]
    Ignored(u32),
}
