//! Why a loss can't be built for some targets.

/// A loss that does not belong to the data's targets.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A loss for other targets.
    #[error("the loss `{loss}` wants {wanted}, but the data's targets are {found}: use {instead}")]
    Targets {
        /// The loss's kind.
        loss: &'static str,
        /// The targets that it takes.
        wanted: &'static str,
        /// The targets that there are.
        found: &'static str,
        /// The losses that take them.
        instead: &'static str,
    },
    /// A list of weights of another length than the classes or numbers.
    #[error("the loss's `{name}` must have {wanted} elements, one for each {each}; found {found}")]
    Count {
        /// The list's name.
        name: &'static str,
        /// What each of its elements belongs to.
        each: &'static str,
        /// How many there must be.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A number is out of its range.
    #[error("the loss's `{name}` must be {range}, found {found}")]
    OutOfRange {
        /// Its name.
        name: String,
        /// Its range in words.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// All class weights are 0.
    #[error("the loss's `class_weights` are all 0: nothing would count")]
    NoWeight,
    /// With the ignored class left out there are no two classes to tell apart.
    #[error(
        "the loss's `ignore_index` {0} leaves fewer than two classes: there would be nothing to tell \
         apart"
    )]
    Ignored(u32),
}
