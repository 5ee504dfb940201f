//! Arrays of every kind are read, split and scaled, and every error is reported.

mod npy_files;
mod provided;
mod sources;

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{DataConfig, Splits};

/// A `.npy` file of a version, with this dictionary.
fn npy_of(version: u8, dictionary: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let length = dictionary.len() as u32;
    match version {
        1 => bytes.extend((length as u16).to_le_bytes()),
        _ => bytes.extend(length.to_le_bytes()),
    }
    bytes.extend(dictionary.as_bytes());
    bytes.extend(elements);
    bytes
}

/// A `.npy` file as NumPy writes it.
fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let order = "'fortran_order': False";
    let dictionary = format!("{{'descr': '{descr}', {order}, 'shape': {shape}, }}   \n");
    npy_of(1, &dictionary, elements)
}

fn f32s(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn i64s(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

struct ArrayDirectory {
    directory: TempDir,
}

impl ArrayDirectory {
    fn new() -> ArrayDirectory {
        ArrayDirectory {
            directory: TempDir::new().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    /// Loads what `config` describes; `keys` overrides options.
    fn load(&self, mut config: Value, keys: &Value) -> Result<Splits, crate::DataError> {
        for (key, value) in keys.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let config: DataConfig = serde_json::from_value(config).expect("a config");
        crate::load(&config, self.directory.path(), 1)
    }
}

/// Returns inputs and targets of all samples.
fn all(data: &Arc<dyn Dataset>) -> (Vec<f32>, Vec<f32>) {
    let indices: Vec<u32> = (0..data.len() as u32).collect();
    let batch = data.gather(&indices, 0).expect("all samples");
    let flat = |tensor: candle_core::Tensor| {
        let tensor = tensor.flatten_all().expect("flat");
        let tensor = tensor.to_dtype(candle_core::DType::F32).expect("numbers");
        tensor.to_vec1().expect("numbers")
    };
    (flat(batch.inputs), flat(batch.targets))
}
