//! Opening of files of weights: their headers are read, and no tensor.
//!
//! **Parts.** [`open`] recognises what a path leads to; `directory`: what programs write for a whole model, shards with an
//! index; `torch`: `PyTorch`'s files.

mod directory;
mod torch;

use std::path::Path;
use std::sync::Arc;

use safetensors::SafeTensorError;
use sconce_data::safetensors_file::{SafetensorsFile, SafetensorsProblem};

use super::stored::StoredTensor;
use super::{SET, WeightsError, foreign};
use crate::checkpoint::{self, TRAINED};

/// Name of the file of a model that is in one.
const SINGLE: &str = "model.safetensors";

/// An open file of weights, or several that belong together.
#[derive(Debug)]
pub(crate) struct OpenWeights {
    /// Name of the set that they are.
    pub(crate) set: String,
    /// Sorted by name.
    pub(crate) tensors: Vec<StoredTensor>,
}

impl OpenWeights {
    fn new(set: Option<String>, mut tensors: Vec<StoredTensor>) -> OpenWeights {
        tensors.sort_by(|a, b| a.name().cmp(b.name()));
        OpenWeights {
            set: set.unwrap_or_else(|| TRAINED.to_owned()),
            tensors,
        }
    }
}

/// Opens a file of weights, a directory of them, or the directory of a checkpoint.
pub(crate) fn open(path: &Path) -> Result<OpenWeights, WeightsError> {
    if path.is_dir() {
        if let Some(file) = directory::weights_in(path)? {
            return open(&file);
        }
        let found = checkpoint::whole_weights(path, None)?;
        let tensors = found.tensors.into_iter();
        let tensors = tensors.map(|(name, tensor)| StoredTensor::in_memory(name, tensor));
        return Ok(OpenWeights::new(Some(found.set), tensors.collect()));
    }
    if directory::is_index(path) {
        directory::open_index(path)
    } else {
        open_file(path)
    }
}

/// Opens the files of a model that are not a run's checkpoint, each with the name that a copy of it has.
pub(crate) fn open_parts(path: &Path) -> Result<Vec<(String, OpenWeights)>, WeightsError> {
    if path.is_dir() {
        return match directory::weights_in(path)? {
            Some(file) => open_parts(&file),
            None => Ok(vec![(SINGLE.to_owned(), open(path)?)]),
        };
    }
    if directory::is_index(path) {
        return directory::open_shards(path);
    }
    Ok(vec![(SINGLE.to_owned(), open_file(path)?)])
}

/// Opens one file.
pub(crate) fn open_file(path: &Path) -> Result<OpenWeights, WeightsError> {
    let problem = match SafetensorsFile::open(path) {
        Ok(file) => return Ok(of_safetensors(path, &Arc::new(file))),
        Err(problem) => problem,
    };
    match problem {
        SafetensorsProblem::System(error) => {
            let text = format!("`{}`: {error}", path.display());
            Err(std::io::Error::new(error.kind(), text).into())
        }
        SafetensorsProblem::Format { start, .. } if foreign::is_torch(path, &start) => {
            torch::open(path)
        }
        SafetensorsProblem::Format { reason, start } => Err(unreadable(path, &reason, &start)),
    }
}

fn of_safetensors(path: &Path, file: &Arc<SafetensorsFile>) -> OpenWeights {
    let header = file.header();
    let set = header.metadata().as_ref();
    let set = set.and_then(|metadata| metadata.get(SET)).cloned();
    let names = header.offset_keys().into_iter();
    let tensors = names.filter_map(|name| {
        let info = header.info(&name)?;
        Some(StoredTensor::in_safetensors(path, file, &name, info))
    });
    OpenWeights::new(set, tensors.collect())
}

fn unreadable(path: &Path, reason: &SafeTensorError, start: &[u8]) -> WeightsError {
    let path = path.to_owned();
    match foreign::conversion(&path, start) {
        Some((what, advice)) => WeightsError::Foreign { path, what, advice },
        None => WeightsError::Format {
            path,
            reason: reason.to_string(),
        },
    }
}
