//! A directory with the weights of a model, as `transformers` writes it: one file, or shards with an index of them.
//!
//! An index says in which file of its directory each tensor is. It may come from anywhere: a name that leads out of the
//! directory, by itself or by a link, is refused. Links within a cache of Hugging Face's, from a snapshot to its blobs, are
//! what that cache consists of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use sconce_base::regular_file::read_at_most;
use serde::Deserialize;

use super::{OpenWeights, open_file};
use crate::weights::{RESULTS, WeightsError};

/// Ending of the name of an index.
const INDEX: &str = ".index.json";

/// What may be in a directory, in this order.
const NAMES: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// Size in bytes above which an index is not read: that of some hundred thousand tensors.
const LARGEST: u64 = 64 << 20;

/// The part of an index that is used.
#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

/// Whether a path is that of an index.
pub(super) fn is_index(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().ends_with(INDEX)
}

/// The file of weights in a directory, or their index; none if the directory may be a checkpoint.
///
/// # Errors
///
/// If it is something else that people take for weights.
pub(super) fn weights_in(directory: &Path) -> Result<Option<PathBuf>, WeightsError> {
    let has = |name: &str| directory.join(name).exists();
    if let Some(name) = NAMES.into_iter().find(|name| has(name)) {
        return Ok(Some(directory.join(name)));
    }
    if has("adapter_config.json") {
        let reason = "has an adapter of PEFT's: `weights` names what the adapter was made for, and `adapt.file` the adapter";
        return Err(refused(directory, reason.to_owned()));
    }
    if has(RESULTS) {
        let reason = format!("is a run's: name its `{RESULTS}`, or one of its `checkpoints`");
        return Err(refused(directory, reason));
    }
    Ok(None)
}

/// Opens all shards of an index as one.
pub(super) fn open_index(path: &Path) -> Result<OpenWeights, WeightsError> {
    let shards = open_shards(path)?.into_iter();
    let tensors = shards.flat_map(|(_, shard)| shard.tensors);
    Ok(OpenWeights::new(None, tensors.collect()))
}

/// Opens all shards of an index, by the names of their files.
pub(super) fn open_shards(path: &Path) -> Result<Vec<(String, OpenWeights)>, WeightsError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let damaged = |reason: String| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        refused(
            directory,
            format!("has an index, `{name}`, that can't be used: {reason}"),
        )
    };
    let text = read_at_most(path, LARGEST).map_err(|error| damaged(error.to_string()))?;
    let index: ShardIndex =
        serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    let files: BTreeSet<&str> = index.weight_map.values().map(String::as_str).collect();
    let mut shards = Vec::with_capacity(files.len());
    let mut places: BTreeMap<String, &str> = BTreeMap::new();
    for file in files {
        let path = shard_path(directory, file).map_err(&damaged)?;
        let shard = open_file(&path)?;
        for tensor in &shard.tensors {
            if let Some(other) = places.insert(tensor.name().to_owned(), file) {
                let name = tensor.name();
                let problem = format!("`{name}` is in `{other}` and in `{file}`");
                return Err(damaged(problem));
            }
        }
        shards.push((file.to_owned(), shard));
    }
    for (name, file) in &index.weight_map {
        if places.get(name) != Some(&file.as_str()) {
            return Err(damaged(format!("`{name}` is not in `{file}`")));
        }
    }
    Ok(shards)
}

/// Path of a shard that an index names; a message if it leads out of the directory.
fn shard_path(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let mut parts = Path::new(name).components();
    let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
        return Err(format!("`{name}` is not the name of a file beside it"));
    };
    let path = directory.join(name);
    let real = |path: &Path| {
        let found = path.canonicalize();
        found.map_err(|error| format!("`{}`: {error}", path.display()))
    };
    let (inside, target) = (real(directory)?, real(&path)?);
    if target.starts_with(&inside) || is_blob(directory, &target) {
        Ok(path)
    } else {
        Err(format!(
            "`{name}` is a link that leads out of the directory, to `{}`",
            target.display()
        ))
    }
}

/// Whether a link's target is where a cache of Hugging Face's keeps the contents of its snapshots.
fn is_blob(directory: &Path, target: &Path) -> bool {
    let Ok(directory) = directory.canonicalize() else {
        return false;
    };
    let mut around = directory.ancestors().skip(1);
    let (Some(snapshots), Some(model)) = (around.next(), around.next()) else {
        return false;
    };
    snapshots.ends_with("snapshots") && target.parent() == Some(&model.join("blobs"))
}

fn refused(directory: &Path, reason: String) -> WeightsError {
    WeightsError::Directory {
        path: directory.to_owned(),
        reason,
    }
}
