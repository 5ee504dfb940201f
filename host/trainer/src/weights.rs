//! Weights: a model's parameters and buffers by name, in a safetensors file.
//!
//! They are read from a file of named tensors, as PyTorch's `safetensors` package writes and reads it, from several with an
//! index, from a file of `PyTorch`'s, or from the directory of a run's checkpoint.
//!
//! **Parts.** `open`: what a path leads to, headers alone; `stored`: tensors that have not been read. `rename`, `family`: what
//! their names mean; `comparison`: whose they are; `fit`: reads them into the model's own memory. `foreign`: formats that are
//! not read; `writing`: the file of a run; `shards`: the files of
//! `transformers`.
//!
//! **Flow.** Open, rename as the manifest says, find what names mean in the family's files, compare names and shapes, and only
//! if they fit read the elements, each tensor to where it is wanted.

mod comparison;
mod error;
mod family;
mod fit;
mod foreign;
pub(crate) mod open;
mod rename;
pub(crate) mod shards;
pub(crate) mod stored;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod writing;

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;

use candle_core::Tensor;

use crate::checkpoint::{self, TRAINED, Weights};
pub use crate::manifest::{Renames, WeightsConfig};
use crate::parameters::{ParameterKind, Parameters};
use family::{Meaning, Names};
use fit::Part;
use open::OpenWeights;
use sconce_base::files;
use sconce_base::held_directory::HeldDirectory;
use stored::StoredTensor;
use writing::Written;

pub use comparison::Comparison;
pub use error::WeightsError;
pub use sconce_nn::models::{FamilyNames, TiedName};

/// File of the weights at the end of a run, in the run's directory.
pub const RESULTS: &str = "weights.safetensors";

/// The trained parameters next to them, if the measured weights were averages.
pub const OWN: &str = "parameters.safetensors";

/// Metadata key of a file of averages: the name of its set.
const SET: &str = "set";

/// How many names of each kind a message lists.
const NAMED: usize = 8;

/// Reads named weights from a file, or from the directory of a checkpoint.
///
/// # Errors
///
/// If they can't be read, or are not a safetensors file, or the checkpoint is damaged.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, WeightsError> {
    read_set(path, None).map(|weights| weights.tensors)
}

/// Reads the set of this name from a checkpoint's directory, or from the files at the end of a run. Without a
/// name, reads the set that was measured.
///
/// # Errors
///
/// As [`read`], or if there is no such set.
pub fn read_set(path: &Path, set: Option<&str>) -> Result<Weights, WeightsError> {
    if path.is_dir() && set.is_some() {
        return Ok(checkpoint::whole_weights(path, set)?);
    }
    let found = read_file(path)?;
    let Some(set) = set.filter(|set| *set != found.set) else {
        return Ok(found);
    };
    let mut known = format!("`{}`", found.set);
    let beside = path.with_file_name(OWN);
    if found.set != TRAINED && beside.is_file() {
        if set == TRAINED {
            return read_file(&beside);
        }
        known = format!("{known}, `{TRAINED}`");
    }
    Err(WeightsError::Set {
        path: path.to_owned(),
        set: set.to_owned(),
        known,
    })
}

/// Reads the weights of a file, with the name of its set.
fn read_file(path: &Path) -> Result<Weights, WeightsError> {
    let OpenWeights { set, tensors } = open::open(path)?;
    let read = tensors.iter().map(|tensor| {
        let own = tensor.to_tensor()?;
        Ok((tensor.name().to_owned(), own))
    });
    Ok(Weights {
        set,
        tensors: read.collect::<Result<_, WeightsError>>()?,
    })
}

/// Sets a model's parameters and buffers from a file, converted to their dtype.
///
/// # Errors
///
/// If the file can't be read, if nothing matches, or if `strict` and not everything matches; nothing
/// is set then.
pub fn load(
    path: &Path,
    parameters: &Parameters,
    strict: bool,
) -> Result<Comparison, WeightsError> {
    load_as(
        path,
        parameters,
        strict,
        &Renames::new(),
        &FamilyNames::default(),
    )
}

/// As [`load`], after renaming the file's weights, which are of a family of models. What of them is tied, ignored, or new
/// in this model needs not match.
///
/// # Errors
///
/// As [`load`], or if a renaming matches no name or gives two weights the same name, or a weight that the model ties to
/// another one has other numbers: then what matches has been set.
pub fn load_as(
    path: &Path,
    parameters: &Parameters,
    strict: bool,
    renames: &Renames,
    family: &FamilyNames,
) -> Result<Comparison, WeightsError> {
    let tensors = rename::renamed(open::open(path)?.tensors, renames, path)?;
    let rules = fit::Rules {
        strict,
        family,
        part: Part::Base,
    };
    fit::set(path, tensors, parameters, rules)
}

/// As [`load`], of a file that has what is trained beside a base: adapters, and whole parameters.
///
/// # Errors
///
/// As [`load`]; a parameter that the registry holds as part of the base is one that the model lacks.
pub fn load_beside_base(
    path: &Path,
    parameters: &Parameters,
    renames: &Renames,
) -> Result<Comparison, WeightsError> {
    let tensors = rename::renamed(open::open(path)?.tensors, renames, path)?;
    let family = FamilyNames::default();
    let rules = fit::Rules {
        strict: true,
        family: &family,
        part: Part::BesideBase,
    };
    fit::set(path, tensors, parameters, rules)
}

/// The model's name of a weight in a file, if it is one of these.
pub(crate) fn own_name(
    of_file: &str,
    own: &HashSet<&str>,
    renames: &Renames,
    family: &FamilyNames,
) -> Option<String> {
    let known_as = rename::new_name(of_file, renames);
    match Names::of(family).ok()?.meaning(&known_as, own) {
        Meaning::Own(name) => Some(name),
        _ => None,
    }
}

/// Sets a model's parameters and buffers to weights that were read from `path`.
///
/// # Errors
///
/// As [`load`].
pub fn set_all(
    path: &Path,
    tensors: Vec<(String, Tensor)>,
    parameters: &Parameters,
    strict: bool,
) -> Result<Comparison, WeightsError> {
    let tensors = tensors.into_iter();
    let tensors = tensors.map(|(name, tensor)| StoredTensor::in_memory(name, tensor));
    let family = FamilyNames::default();
    let rules = fit::Rules {
        strict,
        family: &family,
        part: Part::Base,
    };
    fit::set(path, tensors.collect(), parameters, rules)
}

/// Writes a model's parameters and buffers by name, atomically.
///
/// # Errors
///
/// If the file can't be written.
pub fn save(path: &Path, parameters: &Parameters) -> Result<(), WeightsError> {
    let named = parameters.iter();
    let written = prepared(path, named.map(|p| (p.name(), p.tensor())), None)?;
    Ok(files::write_atomically_by(path, |file| {
        written.write(file)
    })?)
}

/// Tensors by name, which are somewhere else.
pub type NamedTensors<'a> = Vec<(&'a str, &'a Tensor)>;

/// Writes the weights at the end of a run into its directory: the ones measured last as
/// `weights.safetensors`, and the trained parameters next to them if they differ.
///
/// # Errors
///
/// If a file can't be written.
pub fn save_results(
    run: &HeldDirectory,
    parameters: &Parameters,
    measured: Option<&Weights>,
) -> Result<(), WeightsError> {
    let own = parameters.iter().map(|p| (p.name(), p.tensor())).collect();
    let measured = measured.map(|Weights { set, tensors }| {
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        (set.as_str(), named.collect())
    });
    save_results_of(run, own, measured)
}

/// As [`save_results`], of these tensors: the trained ones, and those of the set that was measured.
///
/// # Errors
///
/// If a file can't be written.
pub fn save_results_of(
    run: &HeldDirectory,
    own: NamedTensors<'_>,
    measured: Option<(&str, NamedTensors<'_>)>,
) -> Result<(), WeightsError> {
    let (results, beside) = (run.path().join(RESULTS), run.path().join(OWN));
    let Some((set, measured)) = measured else {
        save_named(run, &results, own, None)?;
        // A leftover of an earlier segment of the run.
        return match run.remove(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        };
    };
    save_named(run, &beside, own, None)?;
    save_named(run, &results, measured, Some((SET, set)))
}

/// Writes tensors to a file of a run, with an entry of metadata.
///
/// # Errors
///
/// If it can't be written.
pub fn save_named(
    run: &HeldDirectory,
    path: &Path,
    named: NamedTensors<'_>,
    metadata: Option<(&str, &str)>,
) -> Result<(), WeightsError> {
    let written = prepared(path, named.into_iter(), metadata)?;
    Ok(run.write_atomically_by(path, |file| written.write(file))?)
}

/// The file `path` with these tensors, and an entry of metadata: the set's name goes with averages.
fn prepared<'a>(
    path: &Path,
    named: impl Iterator<Item = (&'a str, &'a Tensor)>,
    metadata: Option<(&str, &str)>,
) -> Result<Written<&'a Tensor>, WeightsError> {
    let metadata = metadata.map(|(key, value)| HashMap::from([(key.to_owned(), value.to_owned())]));
    Written::new(named, metadata).map_err(|error| WeightsError::Format {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Number of elements in parameters and in buffers, for messages.
pub fn counts(parameters: &Parameters) -> (usize, usize) {
    let of = |kind: ParameterKind| {
        let those = parameters
            .iter()
            .filter(|parameter| parameter.kind() == kind);
        those.map(|parameter| parameter.tensor().elem_count()).sum()
    };
    (of(ParameterKind::Parameter), of(ParameterKind::Buffer))
}
