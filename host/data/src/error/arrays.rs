//! Errors of arrays, with all their messages.

use std::path::PathBuf;

use crate::TargetScale;

/// An array file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The file does not start like a `.npy` file.
    #[error(
        "`{}` is not a .npy file: it begins with the bytes {found:02x?} ({looks_like}), a .npy file \
         with 93 4e 55 4d 50 59",
        file.display()
    )]
    NotNpy {
        /// Path of the file.
        file: PathBuf,
        /// First bytes of the file.
        found: Vec<u8>,
        /// Format that it looks like.
        looks_like: &'static str,
    },
    /// The version of the format is unknown.
    #[error("`{}` is of version {found} of the .npy format; 1 to 3 can be read", file.display())]
    Version {
        /// Path of the file.
        file: PathBuf,
        /// Version in the header.
        found: u8,
    },
    /// The header is not a NumPy header.
    #[error("the header of `{}` is damaged: {problem} in `{header}`", file.display())]
    Header {
        /// Path of the file.
        file: PathBuf,
        /// Text of the header.
        header: String,
        /// What is wrong with the header.
        problem: &'static str,
    },
    /// Elements of this type can't be read.
    #[error(
        "{place} has elements of type {found}; convert them to floats, whole numbers or booleans"
    )]
    ElementType {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Type of the elements.
        found: String,
    },
    /// The file is not a readable safetensors file.
    #[error("`{}` is not a safetensors file, or a damaged one: {problem}", file.display())]
    NotSafetensors {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong with the file.
        problem: String,
    },
    /// There are no numeric targets to be scaled.
    #[error(
        "`data.target_scaling` is for targets that are floats, in an array of their own: leave it out; `data.standardise` scales \
         inputs"
    )]
    NothingToScale,
    /// A target has no logarithm.
    #[error(
        "{place}: the target of sample {sample} is {found}, and `data.target_scaling` \"{}\" needs numbers above {}: take \
         \"standard\"",
        scale.name(), scale.bound()
    )]
    NotScalable {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Index of the sample.
        sample: usize,
        /// Its target.
        found: f32,
        /// The scale.
        scale: TargetScale,
    },
    /// The file has no such tensor.
    #[error("`{}` has no tensor `{name}`; {}", file.display(), hint(name, known))]
    UnknownTensor {
        /// Path of the file.
        file: PathBuf,
        /// Requested name.
        name: String,
        /// Names of the file's tensors.
        known: Vec<String>,
    },
    /// The array's rank does not fit its role.
    #[error("{place} has the shape {found:?}, {role} have {wanted}")]
    Rank {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Role, `inputs` or `targets`.
        role: &'static str,
        /// Allowed shapes.
        wanted: &'static str,
        /// Shape found.
        found: Vec<usize>,
    },
    /// There are no samples, or samples without elements.
    #[error("{place} has the shape {found:?}: there is nothing in it")]
    Nothing {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Shape found.
        found: Vec<usize>,
    },
    /// The numbers of inputs and targets differ.
    #[error(
        "{inputs_location} has {inputs} samples, but {targets_location} has {targets}; are they of the \
         same set?"
    )]
    CountMismatch {
        /// Source of the inputs.
        inputs_location: String,
        /// Source of the targets.
        targets_location: String,
        /// Number of inputs.
        inputs: usize,
        /// Number of targets.
        targets: usize,
    },
    /// An element is infinite or NaN.
    #[error("sample {sample} in {place} has the number {found}: only finite ones can be used")]
    NotFinite {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Index of the sample, from 0.
        sample: usize,
        /// Value of the element.
        found: f32,
    },
    /// A target integer is not a class.
    #[error(
        "sample {sample} in {place} has the class {found}, but there are {classes} classes, 0 to \
         {}; name all of them in `data.classes`",
        classes.saturating_sub(1)
    )]
    Class {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Index of the sample, from 0.
        sample: usize,
        /// Value of the target.
        found: i64,
        /// Number of classes.
        classes: usize,
    },
    /// Class names are given, but the targets are floats.
    #[error("`data.classes` names classes, but {place} has no whole numbers: leave it out")]
    NamedNumbers {
        /// Path of the file, or the tensor's name and file.
        place: String,
    },
    /// Samples have a different shape than the training samples.
    #[error("{place} has samples of the shape {found:?}, the training of {wanted:?}")]
    OtherShape {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Shape of the training samples.
        wanted: Vec<usize>,
        /// Shape of these samples.
        found: Vec<usize>,
    },
    /// Targets are of a different kind than the training targets.
    #[error("{place} has {found} as targets, the training {wanted}")]
    OtherTargets {
        /// Path of the file, or the tensor's name and file.
        place: String,
        /// Kind of the training targets.
        wanted: String,
        /// Kind of these targets.
        found: String,
    },
}

fn hint(name: &str, known: &[String]) -> String {
    if let Some(near) = sconce_base::nearest::nearest(name, known.iter().map(String::as_str)) {
        return format!("did you mean `{near}`?");
    }
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() {
        "it has none at all".to_owned()
    } else {
        format!("it has {}", quoted.join(", "))
    }
}
