//! Weights in the files that `transformers` writes: one, or several with an index.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sconce_base::files::{write_atomically, write_atomically_by};
use serde_json::json;

use super::WeightsError;
use super::writing::{Written, WrittenTensor};

/// Bytes of weights in a file, as `transformers` has it by default.
pub(crate) const SHARD: usize = 5_000_000_000;

/// Name of the file that says which file each weight is in.
const INDEX: &str = "model.safetensors.index.json";

/// Files by name, with what each is to have.
pub(crate) type Shards<T> = Vec<(String, Vec<WrittenTensor<T>>)>;

/// Divides weights, in their order, among files of at most `most` bytes; a larger weight has a file of its own.
pub(crate) fn divided<T>(tensors: Vec<WrittenTensor<T>>, most: usize) -> Shards<T> {
    let mut parts: Vec<Vec<WrittenTensor<T>>> = Vec::new();
    let mut taken = 0_usize;
    for tensor in tensors {
        let size = bytes_of(&tensor);
        match parts.last_mut() {
            Some(part) if taken.saturating_add(size) <= most => {
                taken += size;
                part.push(tensor);
            }
            _ => {
                taken = size;
                parts.push(vec![tensor]);
            }
        }
    }
    let count = parts.len();
    let name = |number: usize| match count {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
    };
    let named = parts.into_iter().enumerate();
    named.map(|(number, part)| (name(number), part)).collect()
}

/// Writes the files into a directory, each at once, and an index if there are several; returns their paths. `elements` writes those of a
/// weight.
///
/// # Errors
///
/// If a file can't be written.
pub(crate) fn write<T>(
    output: &Path,
    shards: Shards<T>,
    mut elements: impl FnMut(&T, &mut dyn Write) -> io::Result<()>,
) -> Result<Vec<PathBuf>, WeightsError> {
    let is_split = shards.len() > 1;
    let mut files = Vec::with_capacity(shards.len());
    let mut map = serde_json::Map::new();
    let mut total = 0;
    for (name, tensors) in shards {
        // Of another format, a file gets the ending of what it is now.
        let name = Path::new(&name).with_extension("safetensors");
        for tensor in &tensors {
            map.insert(tensor.name.clone(), json!(name.display().to_string()));
            total += bytes_of(tensor);
        }
        let path = output.join(name);
        // Without it older versions of `transformers` refuse the file.
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let written = Written::of(tensors, Some(metadata));
        let written = written.map_err(|error| WeightsError::Format {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        write_atomically_by(&path, |file| written.write_by(file, &mut elements))?;
        files.push(path);
    }
    if is_split {
        let path = output.join(INDEX);
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        write_atomically(&path, format!("{index:#}\n").as_bytes())?;
        files.push(path);
    }
    Ok(files)
}

fn bytes_of<T>(tensor: &WrittenTensor<T>) -> usize {
    let bits = tensor
        .shape
        .iter()
        .fold(tensor.dtype.bitsize(), |bits, extent| {
            bits.saturating_mul(*extent)
        });
    bits / 8
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use super::*;
    use crate::weights::{read, writing::write_tensor};

    #[test]
    fn large_weights_are_in_several_files_which_are_read_together() {
        let place = tempfile::tempdir().expect("a directory");
        let tensor = |count: usize| Tensor::ones(count, DType::F32, &Device::Cpu).expect("ones");
        let all = [("a", 3), ("b", 2), ("c", 20), ("d", 1)].map(|(name, count)| WrittenTensor {
            name: name.to_owned(),
            dtype: DType::F32.into(),
            shape: vec![count],
            from: tensor(count),
        });
        let shards = divided(all.into(), 20);
        let names = |part: &[WrittenTensor<Tensor>]| {
            part.iter().map(|tensor| tensor.name.clone()).collect()
        };
        let found: Vec<Vec<String>> = shards.iter().map(|(_, part)| names(part)).collect();
        assert_eq!(found, [vec!["a", "b"], vec!["c"], vec!["d"]]);
        let files = write(place.path(), shards, |tensor, file| {
            write_tensor(tensor, file)
        });
        let files = files.expect("written");
        assert!(files[0].ends_with("model-00001-of-00003.safetensors"));
        assert!(files[3].ends_with(INDEX));
        let read = read(place.path()).expect("read");
        let mut sizes: Vec<(String, usize)> = read
            .into_iter()
            .map(|(name, tensor)| (name, tensor.elem_count()))
            .collect();
        sizes.sort();
        let expected = [("a", 3), ("b", 2), ("c", 20), ("d", 1)];
        assert_eq!(
            sizes,
            expected.map(|(name, count)| (name.to_owned(), count))
        );
    }
}
