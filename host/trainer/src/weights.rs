//! Weights: a model's parameters and buffers by name, in a safetensors file.
//!
//! They are read from a file of named tensors, as PyTorch's `safetensors` package writes and reads
//! it, or from the directory of a run's checkpoint.

mod foreign;
mod rename;

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use candle_core::safetensors::Load;
use candle_core::{Device, Tensor};
use safetensors::{SafeTensorError, SafeTensors};
use sconce_ops::device::copy_to_host;

use crate::checkpoint::{self, TRAINED, Weights};
pub use crate::manifest::{Renames, WeightsConfig};
use crate::parameters::{ParameterKind, Parameters};
use sconce_base::files;
use sconce_base::held_directory::HeldDirectory;
use sconce_base::nearest::nearest;
use sconce_data::safetensors_file::{self, SafetensorsProblem};

/// File of the weights at the end of a run, in the run's directory.
pub const RESULTS: &str = "weights.safetensors";

/// The trained parameters next to them, if the measured weights were averages.
pub const OWN: &str = "parameters.safetensors";

/// Metadata key of a file of averages: the name of its set.
const SET: &str = "set";

/// How many names of each kind a message lists.
const NAMED: usize = 8;

/// Reason why weights can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// I/O error.
    #[error("can't read the weights: {0}")]
    File(#[from] std::io::Error),
    /// The file is not a safetensors file, or is damaged.
    #[error("`{}` is not a safetensors file, or a damaged one: {reason}", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of another format, which has to be converted first.
    #[error("`{}` is {what}, and weights are read from safetensors files: {advice}", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// The format that was recognised.
        what: String,
        /// How to convert it.
        advice: String,
    },
    /// The requested renaming is impossible.
    #[error("the weights in `{}` can't be renamed: {reason}", path.display())]
    Rename {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The checkpoint is damaged, or the directory is not a checkpoint.
    #[error("can't read the weights: {0}")]
    Checkpoint(#[from] checkpoint::CheckpointError),
    /// Not a single weight matches.
    #[error("none of the weights in `{}` fits the model: {comparison}", path.display())]
    NothingFits {
        /// Path of the file.
        path: PathBuf,
        /// Missing, unexpected and misshapen weights.
        comparison: Comparison,
    },
    /// The file or checkpoint has no set of this name.
    #[error("`{}` has no set `{set}`; there are {known}", path.display())]
    Set {
        /// Path of the file.
        path: PathBuf,
        /// The requested name.
        set: String,
        /// Names of the existing sets, for the message.
        known: String,
    },
    /// Some weights don't match.
    #[error("the weights in `{}` don't fit the model: {comparison}", path.display())]
    Misfit {
        /// Path of the file.
        path: PathBuf,
        /// Which weights match and which don't.
        comparison: Comparison,
    },
    /// An error from candle.
    #[error("the weights can't be set: {0}")]
    Tensor(#[from] candle_core::Error),
}

/// Comparison of a file's weights with a model's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Names of the weights that match.
    pub matched: Vec<String>,
    /// Weights of the model that the file lacks, each with the nearest unexpected name.
    pub missing: Vec<(String, Option<String>)>,
    /// Weights of the file that the model lacks.
    pub unexpected: Vec<String>,
    /// Name, shape in the model and shape in the file of each weight whose shape differs.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl Comparison {
    /// Whether every weight matches.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }

    /// Renaming, as written in the manifest, that would match most of the remaining weights, and their
    /// number.
    pub fn suggestion(&self) -> Option<String> {
        let (from, to, count) = rename::suggestion(self)?;
        let rename = serde_json::json!({ from: to });
        Some(format!(
            "`\"rename\": {rename}` would make {count} more fit"
        ))
    }

    /// Compares a model's parameters and buffers with named tensors.
    pub fn of(parameters: &Parameters, tensors: &[(String, Tensor)]) -> Comparison {
        let mut found = Comparison::default();
        let by_name: HashMap<&str, &Tensor> = tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        for parameter in parameters.iter() {
            let name = parameter.name().to_owned();
            match by_name.get(parameter.name()) {
                None => found.missing.push((name, None)),
                Some(tensor) if tensor.dims() == parameter.tensor().dims() => {
                    found.matched.push(name);
                }
                Some(tensor) => {
                    let wanted = parameter.tensor().dims().to_vec();
                    found.misshapen.push((name, wanted, tensor.dims().to_vec()));
                }
            }
        }
        let known: HashSet<&str> = parameters
            .iter()
            .map(super::parameters::Parameter::name)
            .collect();
        let names = tensors.iter().map(|(name, _)| name);
        found.unexpected = names
            .filter(|name| !known.contains(name.as_str()))
            .cloned()
            .collect();
        for (name, hint) in &mut found.missing {
            let others = found.unexpected.iter().map(String::as_str);
            *hint = nearest(name, others).map(str::to_owned);
        }
        found
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} fit", self.matched.len())?;
        let missing = self.missing.iter().map(|(name, hint)| match hint {
            Some(hint) => format!("`{name}` (the file has `{hint}`)"),
            None => format!("`{name}`"),
        });
        list(f, "missing", missing)?;
        list(
            f,
            "unexpected",
            self.unexpected.iter().map(|name| format!("`{name}`")),
        )?;
        let misshapen = self.misshapen.iter();
        let misshapen = misshapen.map(|(name, wanted, found)| {
            format!("`{name}` (the model's is {wanted:?}, the file's {found:?})")
        });
        list(f, "of another shape", misshapen)
    }
}

fn list(
    f: &mut std::fmt::Formatter<'_>,
    what: &str,
    names: impl ExactSizeIterator<Item = String>,
) -> std::fmt::Result {
    let count = names.len();
    if count == 0 {
        return Ok(());
    }
    let first: Vec<String> = names.take(NAMED).collect();
    let more = if count > NAMED { ", …" } else { "" };
    write!(f, "; {count} {what}: {}{more}", first.join(", "))
}

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
    if path.is_dir() {
        return Ok(checkpoint::weights(path, set)?);
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

/// Reads a safetensors file, with the name of its set.
fn read_file(path: &Path) -> Result<Weights, WeightsError> {
    let failed = |reason: String| WeightsError::Format {
        path: path.to_owned(),
        reason,
    };
    let unreadable = |error: SafeTensorError, start: &[u8]| match foreign::conversion(path, start) {
        Some((what, advice)) => WeightsError::Foreign {
            path: path.to_owned(),
            what,
            advice,
        },
        None => failed(error.to_string()),
    };
    let bytes = safetensors_file::read(path).map_err(|problem| match problem {
        SafetensorsProblem::System(error) => {
            let text = format!("`{}`: {error}", path.display());
            std::io::Error::new(error.kind(), text).into()
        }
        SafetensorsProblem::Format { reason, start } => unreadable(reason, &start),
    })?;
    let unreadable = |error| unreadable(error, &bytes);
    let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(unreadable)?;
    let metadata = metadata.metadata().as_ref();
    let set = metadata.and_then(|metadata| metadata.get(SET)).cloned();
    let file = SafeTensors::deserialize(&bytes).map_err(unreadable)?;
    let mut tensors = Vec::with_capacity(file.len());
    for (name, view) in file.tensors() {
        let tensor = view.load(&Device::Cpu).map_err(|e| failed(e.to_string()))?;
        tensors.push((name, tensor));
    }
    // The file lists them in the order of their bytes.
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let set = set.unwrap_or_else(|| TRAINED.to_owned());
    Ok(Weights { set, tensors })
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
    load_renamed(path, parameters, strict, &Renames::new())
}

/// As [`load`], after renaming the file's weights.
///
/// # Errors
///
/// As [`load`], or if a renaming matches no name or gives two weights the same name.
pub fn load_renamed(
    path: &Path,
    parameters: &Parameters,
    strict: bool,
    renames: &Renames,
) -> Result<Comparison, WeightsError> {
    let tensors = rename::renamed(read(path)?, renames, path)?;
    set_all(path, tensors, parameters, strict)
}

/// Sets a model's parameters and buffers to weights that were read from `path`.
///
/// # Errors
///
/// As [`load`].
pub fn set_all(
    path: &Path,
    mut tensors: Vec<(String, Tensor)>,
    parameters: &Parameters,
    strict: bool,
) -> Result<Comparison, WeightsError> {
    let mut comparison = Comparison::of(parameters, &tensors);
    // PyTorch stores the batch count of running statistics; files from other writers may lack it.
    let counted = ".num_batches_tracked";
    comparison
        .missing
        .retain(|(name, _)| !name.ends_with(counted));
    if comparison.matched.is_empty() && !parameters.is_empty() {
        return Err(WeightsError::NothingFits {
            path: path.to_owned(),
            comparison,
        });
    }
    if strict && !comparison.is_complete() {
        return Err(WeightsError::Misfit {
            path: path.to_owned(),
            comparison,
        });
    }
    let matched: HashSet<&str> = comparison.matched.iter().map(String::as_str).collect();
    tensors.retain(|(name, _)| matched.contains(name.as_str()));
    let by_name: HashMap<&str, &Tensor> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    for parameter in parameters.iter() {
        if let Some(tensor) = by_name.get(parameter.name()) {
            parameter.assign(tensor)?;
        }
    }
    Ok(comparison)
}

/// Writes a model's parameters and buffers by name, atomically.
///
/// # Errors
///
/// If the file can't be written.
pub fn save(path: &Path, parameters: &Parameters) -> Result<(), WeightsError> {
    let named = parameters.iter();
    let bytes = serialised(path, named.map(|p| (p.name(), p.tensor())), None)?;
    Ok(files::write_atomically(path, &bytes)?)
}

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
    let (results, own) = (run.path().join(RESULTS), run.path().join(OWN));
    let save = |path: &Path| {
        let named = parameters.iter().map(|p| (p.name(), p.tensor()));
        let bytes = serialised(path, named, None)?;
        Ok::<(), WeightsError>(run.write_atomically(path, &bytes)?)
    };
    let Some(Weights { set, tensors }) = measured else {
        save(&results)?;
        // A leftover of an earlier segment of the run.
        return match run.remove(&own) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        };
    };
    save(&own)?;
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let bytes = serialised(&results, named, Some(set))?;
    Ok(run.write_atomically(&results, &bytes)?)
}

/// The content of the file `path` with these tensors; the set's name goes with averages.
fn serialised<'a>(
    path: &Path,
    named: impl Iterator<Item = (&'a str, &'a Tensor)>,
    set: Option<&str>,
) -> Result<Vec<u8>, WeightsError> {
    let mut tensors = Vec::new();
    for (name, tensor) in named {
        tensors.push((name, copy_to_host(&tensor.contiguous()?)?));
    }
    let metadata = set.map(|set| HashMap::from([(SET.to_owned(), set.to_owned())]));
    safetensors::serialize(tensors, metadata).map_err(|error| WeightsError::Format {
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

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use sconce_nn::init::Init;

    fn model(names: &[(&str, &[usize])], value: f64) -> Parameters {
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        for (name, shape) in names {
            let (layer, own) = name.split_once('.').expect("a dot");
            let mut scope = parameters.scope(layer);
            scope
                .parameter(own, shape, Init::Constant(value))
                .expect("a parameter");
        }
        parameters
    }

    fn first(parameters: &Parameters, name: &str) -> f32 {
        let tensor = parameters.get(name).expect("it is there").tensor();
        tensor
            .flatten_all()
            .and_then(|t| t.to_vec1::<f32>())
            .expect("numbers")[0]
    }

    #[test]
    fn what_fits_is_set_and_what_does_not_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("weights.safetensors");
        let given = model(
            &[("a.weight", &[2, 3]), ("b.wieght", &[4]), ("c.bias", &[2])],
            5.0,
        );
        save(&path, &given).expect("saved");

        let same = model(
            &[("a.weight", &[2, 3]), ("b.wieght", &[4]), ("c.bias", &[2])],
            0.0,
        );
        let comparison = load(&path, &same, true).expect("it fits");
        assert!(comparison.is_complete());
        assert_eq!(first(&same, "c.bias").to_bits(), 5.0_f32.to_bits());

        let other = model(
            &[("a.weight", &[2, 3]), ("b.weight", &[4]), ("c.bias", &[3])],
            0.0,
        );
        let error = load(&path, &other, true)
            .expect_err("it does not fit")
            .to_string();
        for words in [
            "1 fit;",
            "1 missing: `b.weight` (the file has `b.wieght`)",
            "1 unexpected: `b.wieght`",
            "`c.bias` (the model's is [3], the file's [2])",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert!(
            first(&other, "a.weight").abs() < f32::EPSILON,
            "nothing is set"
        );
        let comparison = load(&path, &other, false).expect("as far as it fits");
        assert_eq!(comparison.matched, ["a.weight"]);
        assert_eq!(first(&other, "a.weight").to_bits(), 5.0_f32.to_bits());
    }

    #[test]
    fn what_is_no_file_of_weights_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("weights.safetensors");
        let parameters = model(&[("a.weight", &[1])], 0.0);
        assert!(matches!(
            load(&path, &parameters, true),
            Err(WeightsError::File(_))
        ));
        fs_err::write(&path, b"no tensors in here").expect("written");
        let error = load(&path, &parameters, true)
            .expect_err("no weights")
            .to_string();
        assert!(error.contains("is not a safetensors file"), "{error}");
        let other = model(&[("b.weight", &[1])], 0.0);
        save(&path, &other).expect("saved");
        for strict in [true, false] {
            let error = load(&path, &parameters, strict).expect_err("nothing fits");
            let error = error.to_string();
            assert!(error.contains("none of the weights in"), "{error}");
            assert!(error.contains("0 fit; 1 missing: `a.weight`"), "{error}");
        }
        assert_eq!(counts(&parameters), (1, 0));
    }

    #[test]
    fn names_get_other_prefixes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("weights.safetensors");
        let names: &[(&str, &[usize])] = &[
            ("module.body.a.weight", &[2]),
            ("module.fc.weight", &[3]),
            ("module.fc.bias", &[3]),
        ];
        save(&path, &model(names, 5.0)).expect("saved");
        let own: &[(&str, &[usize])] = &[
            ("a.weight", &[2]),
            ("head.weight", &[3]),
            ("head.bias", &[3]),
        ];
        let load = |renames: &[(&str, &str)]| {
            let own = model(own, 0.0);
            let renames = renames
                .iter()
                .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
            let loaded = load_renamed(&path, &own, true, &renames.collect());
            loaded.map(|comparison| (comparison, first(&own, "head.bias")))
        };
        let right: &[(&str, &str)] = &[
            ("module.", ""),
            ("module.body.", ""),
            ("module.fc.", "head."),
        ];
        let (comparison, value) = load(right).expect("they fit");
        assert!(comparison.is_complete());
        assert_eq!(value.to_bits(), 5.0_f32.to_bits());
        for (renames, words) in [
            (
                &[("modul.", "")][..],
                "no name of a weight begins with `modul.`; did you mean `module.`?",
            ),
            (&[("zzz.", "")], "they begin with `module.`"),
            (
                &[("module.fc.weight", "x"), ("module.fc.bias", "x")],
                "`module.fc.bias` and `module.fc.weight` would both be called `x`",
            ),
        ] {
            let error = load(renames).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        // The message says what would have helped.
        let body = model(
            &[("a.weight", &[2]), ("fc.weight", &[3]), ("fc.bias", &[3])],
            0.0,
        );
        let Err(WeightsError::NothingFits { comparison, .. }) = super::load(&path, &body, false)
        else {
            panic!("nothing fits")
        };
        let suggestion = comparison.suggestion().expect("a prefix");
        assert_eq!(
            suggestion,
            "`\"rename\": {\"module.\":\"\"}` would make 2 more fit"
        );
    }

    #[test]
    fn files_of_other_programs_are_reported_with_what_converts_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let parameters = model(&[("a.weight", &[1])], 0.0);
        for (name, bytes, words) in [
            (
                "w.pt",
                &b"PK\x03\x04 archive/data.pkl and so on"[..],
                ["a file of PyTorch's", "torch.load("],
            ),
            (
                "w.bin",
                b"\x80\x02\x8a\x0al\xfc",
                ["a file of PyTorch's", "weights_only=True"],
            ),
            (
                "w.ckpt",
                b"PK\x03\x04 archive/data.pkl",
                ["a file of PyTorch's", "w.safetensors')"],
            ),
            (
                "w.npz",
                b"PK\x03\x04 a.npy",
                ["an archive of NumPy's", "numpy.load("],
            ),
            ("w.h5", b"\x89HDF\r\n\x1a\n", ["HDF5", "h5py.File("]),
            ("w.onnx", b"\x08\x07", ["an ONNX model", "onnx.load("]),
            ("w.msgpack", b"\x81", ["Flax", "msgpack_restore("]),
            ("w.index", b"\0", ["TensorFlow", "load_checkpoint("]),
            (
                "w.safetensors",
                b"\xfd7zXZ\0",
                ["compressed by xz", "xz -dk"],
            ),
            (
                "w.safetensors",
                b"nothing",
                ["not a safetensors file", "damaged"],
            ),
        ] {
            let path = directory.path().join(name);
            fs_err::write(&path, bytes).expect("written");
            let error = load(&path, &parameters, true).expect_err(name).to_string();
            for words in words {
                assert!(error.contains(words), "{name}: {words}: {error}");
            }
        }
    }
}
