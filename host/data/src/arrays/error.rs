//! What can be wrong with arrays: every sentence of this part.

use std::path::PathBuf;

/// Why arrays can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that does not begin as NumPy's do.
    #[error(
        "`{}` is no .npy file: it begins with the bytes {found:02x?} ({looks_like}), a .npy file \
         with 93 4e 55 4d 50 59",
        file.display()
    )]
    NotNpy {
        /// The file.
        file: PathBuf,
        /// Its first bytes.
        found: Vec<u8>,
        /// What it may be.
        looks_like: &'static str,
    },
    /// A version of the format that isn't known.
    #[error("`{}` is of version {found} of the .npy format; 1 to 3 can be read", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// The version in its header.
        found: u8,
    },
    /// A header that isn't NumPy's.
    #[error("the header of `{}` is damaged: {problem} in `{header}`", file.display())]
    Header {
        /// The file.
        file: PathBuf,
        /// The header's text.
        header: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Elements that can't be read.
    #[error(
        "{place} has elements of type {found}; convert them to floats, whole numbers or booleans"
    )]
    ElementType {
        /// The file, or the tensor and its file.
        place: String,
        /// The type.
        found: String,
    },
    /// A safetensors file that can't be read.
    #[error("`{}` is no safetensors file, or a damaged one: {problem}", file.display())]
    NotSafetensors {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A tensor that isn't there.
    #[error("`{}` has no tensor `{name}`; {}", file.display(), hint(name, known))]
    UnknownTensor {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// The tensors that there are.
        known: Vec<String>,
    },
    /// An array of a rank that its role can't have.
    #[error("{place} has the shape {found:?}, {role} have {wanted}")]
    Rank {
        /// The file, or the tensor and its file.
        place: String,
        /// `inputs` or `targets`.
        role: &'static str,
        /// Which shapes there may be.
        wanted: &'static str,
        /// The shape.
        found: Vec<usize>,
    },
    /// No samples, or samples of nothing.
    #[error("{place} has the shape {found:?}: there is nothing in it")]
    Nothing {
        /// The file, or the tensor and its file.
        place: String,
        /// The shape.
        found: Vec<usize>,
    },
    /// Different numbers of inputs and targets.
    #[error(
        "{inputs_place} has {inputs} samples, but {targets_place} has {targets}; are they of the \
         same set?"
    )]
    CountMismatch {
        /// The inputs.
        inputs_place: String,
        /// The targets.
        targets_place: String,
        /// How many inputs.
        inputs: usize,
        /// How many targets.
        targets: usize,
    },
    /// A number that isn't one.
    #[error("sample {sample} in {place} has the number {found}: only finite ones can be used")]
    NotFinite {
        /// The file, or the tensor and its file.
        place: String,
        /// Which sample, from 0.
        sample: usize,
        /// The number.
        found: f32,
    },
    /// A whole number that is no class.
    #[error(
        "sample {sample} in {place} has the class {found}, but there are {classes} classes, 0 to \
         {}; name all of them in `data.classes`",
        classes.saturating_sub(1)
    )]
    Class {
        /// The file, or the tensor and its file.
        place: String,
        /// Which sample, from 0.
        sample: usize,
        /// The number.
        found: i64,
        /// How many classes there are.
        classes: usize,
    },
    /// Classes' names for numbers.
    #[error("`data.classes` names classes, but {place} has no whole numbers: leave it out")]
    NamedNumbers {
        /// The file, or the tensor and its file.
        place: String,
    },
    /// Samples of another shape than the training's.
    #[error("{place} has samples of the shape {found:?}, the training of {wanted:?}")]
    OtherShape {
        /// The file, or the tensor and its file.
        place: String,
        /// The training's.
        wanted: Vec<usize>,
        /// What this has.
        found: Vec<usize>,
    },
    /// Targets that are others than the training's.
    #[error("{place} has {found} as targets, the training {wanted}")]
    OtherTargets {
        /// The file, or the tensor and its file.
        place: String,
        /// What the training has.
        wanted: String,
        /// What this has.
        found: String,
    },
}

fn hint(name: &str, known: &[String]) -> String {
    if let Some(near) = sconce_nn::nearest::nearest(name, known.iter().map(String::as_str)) {
        return format!("did you mean `{near}`?");
    }
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() {
        "it has none at all".to_owned()
    } else {
        format!("it has {}", quoted.join(", "))
    }
}
