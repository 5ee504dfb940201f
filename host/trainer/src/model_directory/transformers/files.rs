//! The files of a directory of `transformers`.

use std::io;
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use sconce_base::held_directory::{HeldDirectory, aside};
use serde_json::{Map, Value};

use super::TransformersExportError;
use crate::nn::models::ExportedConfig;
use crate::parameters::Parameters;
use crate::weights::shards::{SHARD, divided, write as write_shards};
use crate::weights::writing::{WrittenTensor, write_tensor};

/// Ending of the names of counts, which are whole numbers elsewhere.
const COUNTED: &str = ".num_batches_tracked";

/// What a directory consists of.
pub(super) struct Files<'a> {
    pub(super) config: ExportedConfig,
    pub(super) parameters: &'a Parameters,
    /// `tokenizer.json`, if the model has one.
    pub(super) tokenizer: Option<&'a [u8]>,
    pub(super) tokenizer_config: Option<Value>,
}

/// A directory that was written.
#[derive(Debug)]
pub struct TransformersDirectory {
    /// Its files, with their sizes in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// What a user of the model has to know beside it, as messages.
    pub notes: Vec<String>,
}

/// Writes all files, which are at the place together or not at all.
pub(super) fn write(
    place: &Path,
    files: &Files<'_>,
) -> Result<TransformersDirectory, TransformersExportError> {
    if !is_free(place)? {
        return Err(TransformersExportError::Exists(place.to_owned()));
    }
    let parent = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs_err::create_dir_all(parent)?;
    let directory = HeldDirectory::unheld(parent);
    let beside = aside(place, "new");
    // A killed process with the same process ID may have left one.
    drop(directory.remove(&beside));
    let written = fill(&beside, &directory, files).and_then(|names| {
        if place.is_dir() {
            directory.remove_empty(place)?;
        }
        directory.rename(&beside, place)?;
        listed(place, &names)
    });
    if written.is_err() {
        // The partial directory is useless, and so is the reason why it can't be removed.
        drop(directory.remove(&beside));
    }
    Ok(TransformersDirectory {
        files: written?,
        notes: Vec::new(),
    })
}

/// Whether there is nothing at the place, or an empty directory.
fn is_free(place: &Path) -> io::Result<bool> {
    match fs_err::read_dir(place) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes the files into a new directory; returns their names.
fn fill(
    beside: &Path,
    directory: &HeldDirectory,
    files: &Files<'_>,
) -> Result<Vec<PathBuf>, TransformersExportError> {
    directory.create_directory(beside)?;
    let shards = divided(weights(files.parameters)?, SHARD);
    let mut paths = write_shards(beside, shards, |tensor, file| write_tensor(tensor, file))?;
    let json = |value: &Value| format!("{value:#}\n").into_bytes();
    let object = |values: &Map<String, Value>| json(&Value::Object(values.clone()));
    let config = &files.config;
    let contents = [
        ("config.json", Some(object(&config.config))),
        (
            "generation_config.json",
            config.generation.as_ref().map(object),
        ),
        ("tokenizer.json", files.tokenizer.map(<[u8]>::to_vec)),
        (
            "tokenizer_config.json",
            files.tokenizer_config.as_ref().map(json),
        ),
    ];
    for (name, bytes) in contents {
        if let Some(bytes) = bytes {
            let path = beside.join(name);
            directory.write_synced(&path, &bytes)?;
            paths.push(path);
        }
    }
    directory.sync(beside)?;
    let names = paths.iter().filter_map(|path| path.file_name());
    Ok(names.map(PathBuf::from).collect())
}

fn listed(place: &Path, names: &[PathBuf]) -> Result<Vec<(PathBuf, u64)>, TransformersExportError> {
    let paths = names.iter().map(|name| place.join(name));
    let sized = paths.map(|path| {
        let size = fs_err::metadata(&path)?.len();
        Ok((path, size))
    });
    sized.collect()
}

/// The weights under their names, which are those of the family's files.
fn weights(parameters: &Parameters) -> candle_core::Result<Vec<WrittenTensor<Tensor>>> {
    let named = parameters.iter().map(|parameter| {
        let mut tensor = parameter.tensor().detach();
        if parameter.name().ends_with(COUNTED) {
            tensor = tensor.to_dtype(DType::I64)?;
        }
        Ok(WrittenTensor {
            name: parameter.name().to_owned(),
            dtype: tensor.dtype().into(),
            shape: tensor.dims().to_vec(),
            from: tensor,
        })
    });
    named.collect()
}
