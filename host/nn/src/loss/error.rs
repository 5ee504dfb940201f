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
    /// The data have no targets.
    #[error(
        "the loss `{loss}` compares outputs with targets, and the data have none: only a loss that a hook gives will do"
    )]
    WithoutTargets {
        /// Kind of the loss.
        loss: &'static str,
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
    /// A weight belongs to a class that the data does not have.
    #[error(
        "the loss's `class_weights` name a class that is not there: no class is called `{name}`{}",
        known_classes(nearest.as_deref(), known)
    )]
    UnknownClass {
        /// Name in the manifest.
        name: String,
        /// Class with the most similar name.
        nearest: Option<String>,
        /// The first classes of the data.
        known: Vec<String>,
    },
    /// A class has no training sample, by whose number its weight is computed.
    #[error(
        "the loss's `class_weights` can't be balanced: no training sample has the class `{0}`; give weights by name, or \
         split with `\"stratified\": true`"
    )]
    ClassWithoutSamples(String),
    /// All class weights are 0.
    #[error("the loss's `class_weights` are all 0: nothing would count")]
    NoWeight,
    /// With the ignored class left out, fewer than two classes remain.
    #[error(
        "the loss's `ignore_index` {0} leaves fewer than two classes: there would be nothing to tell \
         apart"
    )]
    Ignored(u32),
    /// The data mark the targets to ignore themselves.
    #[error(
        "the loss's `ignore_index` must be left out: these data mark the targets to ignore themselves"
    )]
    IgnoredByData,
}

fn known_classes(nearest: Option<&str>, known: &[String]) -> String {
    let hint = nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let begin = if hint.is_empty() { "; the" } else { " The" };
    format!("{hint}{begin} classes are {}", names.join(", "))
}

/// Checks the number of elements of a list.
pub(super) fn check_count(
    name: &'static str,
    each: &'static str,
    wanted: usize,
    found: usize,
) -> Result<(), LossError> {
    if found == wanted {
        return Ok(());
    }
    Err(LossError::Count {
        name,
        each,
        wanted,
        found,
    })
}

/// The error for a value that is out of range.
pub(super) fn out_of_range(name: String, range: &'static str, found: f64) -> LossError {
    LossError::OutOfRange { name, range, found }
}
