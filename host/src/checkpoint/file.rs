//! A checkpoint's file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_core::safetensors::Load;
use safetensors::SafeTensors;

use super::{Checkpoint, FORMAT, Header};
use crate::files;

/// The key of the JSON in the file's metadata.
const KEY: &str = "sconce";

/// Why a checkpoint can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system's error.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// It can't be put into a file.
    #[error("can't write the checkpoint `{path}`: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is none of ours, or damaged.
    #[error("`{path}` is no checkpoint of this host: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Writes a checkpoint in one step; its size in bytes.
pub fn write(path: &Path, checkpoint: &Checkpoint) -> Result<u64, Error> {
    let failed = |reason: String| Error::Write {
        path: path.to_owned(),
        reason,
    };
    let header = serde_json::to_string(&checkpoint.header).map_err(|e| failed(e.to_string()))?;
    // One entry, so that the map has no order to vary.
    let metadata = HashMap::from([(KEY.to_owned(), header)]);
    let tensors = checkpoint.tensors.iter();
    let tensors = tensors.map(|(name, tensor)| (name.as_str(), tensor));
    let bytes =
        safetensors::serialize(tensors, Some(metadata)).map_err(|e| failed(e.to_string()))?;
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    files::write_whole(path, &bytes)?;
    Ok(bytes.len() as u64)
}

/// Reads a checkpoint.
pub fn read(path: &Path) -> Result<Checkpoint, Error> {
    let failed = |reason: String| Error::Read {
        path: path.to_owned(),
        reason,
    };
    let bytes = fs_err::read(path)?;
    let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| failed(e.to_string()))?;
    let header = metadata.metadata().as_ref().and_then(|map| map.get(KEY));
    let header = header.ok_or_else(|| failed(format!("its metadata lacks `{KEY}`")))?;
    let header: Header = serde_json::from_str(header).map_err(|e| failed(e.to_string()))?;
    if header.format != FORMAT {
        return Err(failed(format!(
            "its format is {}, this host reads {FORMAT}",
            header.format
        )));
    }
    let file = SafeTensors::deserialize(&bytes).map_err(|e| failed(e.to_string()))?;
    let mut tensors = Vec::with_capacity(file.len());
    for (name, view) in file.tensors() {
        let tensor = view.load(&Device::Cpu).map_err(|e| failed(e.to_string()))?;
        tensors.push((name, tensor));
    }
    Ok(Checkpoint { header, tensors })
}
