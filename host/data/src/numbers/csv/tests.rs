//! From texts to inputs and targets, and every error of a table.

mod dates;
mod embedding;
mod encoding;
mod errors;
mod large;
mod reading;
mod real;
mod split_rows;

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A directory with the file `table`.
struct TableDirectory {
    directory: TempDir,
}

impl TableDirectory {
    fn new(table: &str) -> TableDirectory {
        let place = TableDirectory {
            directory: TempDir::new().expect("a directory"),
        };
        place.write("table", table.as_bytes());
        place
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Reads `table` with the target `y`; `keys` overrides options.
    fn read(&self, keys: &Value) -> Result<CsvData, crate::DataError> {
        let mut config = json!({"file": "table", "target": "y"});
        for (key, value) in keys.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let config = serde_json::from_value(config).expect("a config");
        read(&config, self.directory.path(), 1)
    }

    fn error(&self, keys: &Value) -> String {
        let error = self.read(keys).err();
        error.expect("it is wrong").to_string()
    }
}

/// Returns all inputs of a data set.
fn inputs(data: &Arc<dyn Dataset>) -> Vec<Vec<f32>> {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let batch = data.gather(&all, 0).expect("all samples");
    batch.inputs.to_vec2().expect("rows")
}

/// Returns all classes of a data set.
fn classes(data: &Arc<dyn Dataset>) -> Vec<u32> {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let batch = data.gather(&all, 0).expect("all samples");
    batch.targets.to_vec1().expect("classes")
}

/// Returns all numeric targets of a data set.
fn numbers(data: &Arc<dyn Dataset>) -> Vec<Vec<f32>> {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let batch = data.gather(&all, 0).expect("all samples");
    batch.targets.to_vec2().expect("rows")
}
