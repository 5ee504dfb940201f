//! Files of `PyTorch`'s: pickles, of which the tensors are read, and nothing is run.

use std::path::Path;

use pytorch_reader::{PickleValue, PytorchError, PytorchReader};
use sconce_base::regular_file::open_regular;

use super::OpenWeights;
use crate::weights::stored::StoredTensor;
use crate::weights::{WeightsError, foreign};

/// Keys under which programs save a model's weights, beside an optimizer's and other things.
const KEYS: [&str; 5] = [
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
];

/// Modules of Python's by which a pickle does something when it is opened there, in place of being data.
const DANGEROUS: [&str; 16] = [
    "os",
    "posix",
    "nt",
    "sys",
    "subprocess",
    "builtins",
    "__builtin__",
    "importlib",
    "runpy",
    "shutil",
    "socket",
    "pty",
    "ctypes",
    "webbrowser",
    "pickle",
    "code",
];

/// Opens a file: its pickle is read, and no tensor.
pub(super) fn open(path: &Path) -> Result<OpenWeights, WeightsError> {
    let failed = |reason: String| WeightsError::Torch {
        path: path.to_owned(),
        reason,
    };
    let unreadable = |error: &PytorchError| failed(advised(path, error));
    // The crate would wait for a pipe.
    let length = open_regular(path)?.metadata()?.len();
    let root = PytorchReader::read_pickle_data(path, None).map_err(|error| unreadable(&error))?;
    if let Some(called) = called_in(&root) {
        return Err(failed(format!(
            "it holds code: opened by Python it would call `{called}`. Nothing of it was run here; it is no file to trust"
        )));
    }
    let reader = match key_of(&root) {
        Some(key) => PytorchReader::with_top_level_key(path, key),
        None => PytorchReader::new(path),
    };
    let found = reader.map_err(|error| unreadable(&error))?.into_tensors();
    if found.is_empty() {
        return Err(failed(nothing_in(&root)));
    }
    let mut tensors = Vec::with_capacity(found.len());
    // Sorted for the same first error in each run.
    for (name, tensor) in std::collections::BTreeMap::from_iter(found) {
        let size = (tensor.shape().iter()).try_fold(tensor.dtype().size(), |size, extent| {
            size.checked_mul(*extent)
        });
        if size.is_none_or(|size| size as u64 > length) {
            let shape = tensor.shape();
            return Err(failed(format!(
                "`{name}` of shape {shape:?} would have more bytes than the whole file, {length}"
            )));
        }
        tensors.push(StoredTensor::in_torch(path, name, tensor));
    }
    Ok(OpenWeights::new(None, tensors))
}

/// The key under which the weights are, if not at the top.
fn key_of(root: &PickleValue) -> Option<&'static str> {
    let PickleValue::Dict(entries) = root else {
        return None;
    };
    let is_dict = |key: &&str| matches!(entries.get(*key), Some(PickleValue::Dict(_)));
    KEYS.into_iter().find(is_dict)
}

/// What a pickle calls that does something, where it is a value among others.
fn called_in(value: &PickleValue) -> Option<&str> {
    match value {
        PickleValue::Unsupported(name) => {
            let module = name.split('.').next().unwrap_or_default();
            DANGEROUS.contains(&module).then_some(name)
        }
        PickleValue::List(values) => values.iter().find_map(called_in),
        PickleValue::Dict(entries) => {
            // By name, for the same message in each run.
            let sorted: std::collections::BTreeMap<_, _> = entries.iter().collect();
            sorted.into_values().find_map(called_in)
        }
        _ => None,
    }
}

fn nothing_in(root: &PickleValue) -> String {
    match root {
        PickleValue::Dict(entries) if !entries.is_empty() => {
            let mut keys: Vec<&str> = entries.keys().map(String::as_str).collect();
            keys.sort_unstable();
            keys.truncate(super::super::NAMED);
            format!(
                "it has no tensors; at its top there are `{}`",
                keys.join("`, `")
            )
        }
        _ => "it has no tensors".to_owned(),
    }
}

/// The message of an error, with what helps.
fn advised(path: &Path, error: &PytorchError) -> String {
    let Some((_, advice)) = foreign::conversion(path, b"\x80\x02") else {
        return error.to_string();
    };
    format!("{error}. If you trust it, PyTorch may read it: {advice}")
}
