//! Merging of an adapter into the files of its base: names, shards, types and order of the base's weights stay.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use safetensors::Dtype;

use super::AdapterError;
use super::merge::{AdapterParts, with_adapter};
use super::peft::{ADAPTER_CONFIG, PeftConfig, file_in, own_name};
use crate::parameters::adapters::{LORA_A, LORA_B, MAGNITUDE};
use crate::weights::open::open_parts;
use crate::weights::shards;
use crate::weights::stored::StoredTensor;
use crate::weights::writing::{WrittenTensor, write_tensor};
use crate::weights::{self, FamilyNames, Renames};

/// Files of a model's directory that go with its weights, as they are.
const COMPANIONS: [&str; 12] = [
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
];

/// What was written.
#[derive(Debug)]
pub struct MergedFiles {
    /// Number of weights that an adapter was added to.
    pub adapted: usize,
    /// Number of weights that were replaced by trained ones, or are new.
    pub replaced: usize,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// Merges the adapter in a directory of PEFT's into the weights that it was made for, and writes them into a directory. Each weight is
/// changed in `f64` and has its type and place of before; those of new modules have the adapter's.
///
/// # Errors
///
/// If something can't be read, does not fit, or can't be written.
pub fn merge_files(
    base: &Path,
    adapter: &Path,
    (renames, family): (&Renames, &FamilyNames),
    output: &Path,
) -> Result<MergedFiles, AdapterError> {
    let config = PeftConfig::read(adapter)?;
    let mut adapter = Adapter::read(adapter, &config)?;
    let refused = |reason: String| AdapterError::Merge {
        path: base.to_owned(),
        reason,
    };
    let mut parts = open_parts(base)?;
    let wanted = adapter.names();
    let wanted: HashSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut shards = Vec::with_capacity(parts.len());
    let mut merged = MergedFiles {
        adapted: 0,
        replaced: 0,
        files: Vec::new(),
    };
    for (file, weights) in std::mem::take(&mut parts) {
        let mut tensors = Vec::with_capacity(weights.tensors.len());
        for stored in weights.tensors {
            let own = weights::own_name(stored.name(), &wanted, renames, family);
            let change = own.as_deref().and_then(|name| adapter.take(name));
            let change = match change {
                None => None,
                Some(Change::Adapted(own)) => {
                    merged.adapted += 1;
                    let weight = stored.to_tensor()?;
                    let is_transposed = is_transposed(&stored, &own, config.fan_in_fan_out);
                    let is_transposed = is_transposed.map_err(&refused)?;
                    let (parts, scale) = (own.parts(), config.scale());
                    Some(with_adapter(&weight, &parts, scale, is_transposed)?)
                }
                Some(Change::Whole(tensor)) => {
                    merged.replaced += 1;
                    Some(tensor)
                }
            };
            tensors.push(as_written(stored, change)?);
        }
        shards.push((file, tensors));
    }
    if let Some(left) = adapter.adapted_left() {
        return Err(refused(format!(
            "it has no weight of the adapted module `{left}`"
        )));
    }
    if let Some((_, tensors)) = shards.last_mut() {
        for (name, tensor) in std::mem::take(&mut adapter.whole) {
            merged.replaced += 1;
            tensors.push(WrittenTensor {
                name,
                dtype: tensor.dtype().into(),
                shape: tensor.dims().to_vec(),
                from: Source::Changed(tensor),
            });
        }
    }
    fs_err::create_dir_all(output)?;
    merged.files = shards::write(output, shards, |source, file| match source {
        Source::Kept(stored) => {
            let copied = stored.copy_bytes(file);
            copied.map_err(|error| std::io::Error::other(error.to_string()))
        }
        Source::Changed(tensor) => write_tensor(tensor, file),
    })?;
    copy_companions(base, output, &mut merged.files)?;
    Ok(merged)
}

/// What a weight is written from.
enum Source {
    Kept(StoredTensor),
    Changed(Tensor),
}

/// A weight of the base, changed or as it is, in its type.
fn as_written(
    stored: StoredTensor,
    change: Option<Tensor>,
) -> Result<WrittenTensor<Source>, AdapterError> {
    let name = stored.name().to_owned();
    let Some(changed) = change else {
        return Ok(WrittenTensor {
            name,
            dtype: stored.dtype(),
            shape: stored.shape().to_vec(),
            from: Source::Kept(stored),
        });
    };
    let dtype = DType::try_from(stored.dtype()).unwrap_or(DType::F32);
    let changed = changed.to_dtype(dtype)?;
    Ok(WrittenTensor {
        name,
        dtype: Dtype::from(dtype),
        shape: changed.dims().to_vec(),
        from: Source::Changed(changed),
    })
}

/// Whether an adapter's product is added to a weight transposed; a message if it doesn't fit.
fn is_transposed(
    stored: &StoredTensor,
    own: &OwnAdapter,
    is_expected: bool,
) -> Result<bool, String> {
    let (&[_, inputs], &[outputs, _]) = (own.down.dims(), own.up.dims()) else {
        return Err(format!(
            "the adapter of `{}` is not two matrices",
            stored.name()
        ));
    };
    if let Some(lengths) = &own.magnitude
        && lengths.dims() != [outputs]
    {
        return Err(format!(
            "the adapter of `{}` has {} lengths of {outputs} rows",
            stored.name(),
            lengths.elem_count()
        ));
    }
    let wanted = if is_expected {
        [inputs, outputs]
    } else {
        [outputs, inputs]
    };
    match stored.shape() == wanted {
        true => Ok(is_expected),
        // PEFT's setting is one for all modules, of which some may have the other order.
        false if stored.shape() == [wanted[1], wanted[0]] => Ok(!is_expected),
        false => Err(format!(
            "`{}` has the shape {:?}, the adapter wants {wanted:?}",
            stored.name(),
            stored.shape()
        )),
    }
}

/// What an adapter does to a weight.
enum Change {
    Adapted(OwnAdapter),
    Whole(Tensor),
}

/// An adapter of one weight.
struct OwnAdapter {
    down: Tensor,
    up: Tensor,
    magnitude: Option<Tensor>,
}

impl OwnAdapter {
    fn parts(&self) -> AdapterParts<'_> {
        AdapterParts {
            down: &self.down,
            up: &self.up,
            magnitude: self.magnitude.as_ref(),
        }
    }
}

/// The weights of an adapter, by the model's names.
struct Adapter {
    /// By module.
    down: BTreeMap<String, Tensor>,
    up: BTreeMap<String, Tensor>,
    magnitude: BTreeMap<String, Tensor>,
    whole: BTreeMap<String, Tensor>,
}

impl Adapter {
    /// Reads the file of a directory, which is as its configuration says.
    fn read(directory: &Path, config: &PeftConfig) -> Result<Adapter, AdapterError> {
        let (rank, has_magnitudes) = (config.r, config.use_dora);
        let mut adapter = Adapter {
            down: BTreeMap::new(),
            up: BTreeMap::new(),
            magnitude: BTreeMap::new(),
            whole: BTreeMap::new(),
        };
        let unknown = |name: &str| {
            AdapterError::peft(
                directory,
                format!("`{name}` is a part that is not known here"),
            )
        };
        for (name, tensor) in weights::read(&file_in(directory)?)? {
            let own = own_name(&name);
            let of = |part: &str| Some(own.strip_suffix(part)?.strip_suffix('.')?.to_owned());
            if let Some(module) = of(LORA_A) {
                adapter.down.insert(module, tensor);
            } else if let Some(module) = of(LORA_B) {
                adapter.up.insert(module, tensor);
            } else if let Some(module) = of(MAGNITUDE).filter(|_| has_magnitudes) {
                adapter.magnitude.insert(module, tensor);
            } else if own.contains(".lora_") {
                return Err(unknown(&name));
            } else {
                adapter.whole.insert(own.to_owned(), tensor);
            }
        }
        let is_complete = adapter.down.keys().eq(adapter.up.keys())
            && (!has_magnitudes || adapter.down.keys().eq(adapter.magnitude.keys()));
        if !is_complete {
            return Err(AdapterError::peft(
                directory,
                "part of an adapter is missing",
            ));
        }
        let mut ranks = adapter
            .down
            .iter()
            .map(|(module, down)| (module, down.dims().first()));
        if let Some((module, _)) = ranks.find(|(_, found)| *found != Some(&rank)) {
            return Err(AdapterError::peft(
                directory,
                format!(
                    "by `{ADAPTER_CONFIG}` its rank is {rank}, and that of `{module}` is another one"
                ),
            ));
        }
        Ok(adapter)
    }

    /// Names of the weights that it changes.
    fn names(&self) -> Vec<String> {
        let adapted = self.down.keys().map(|module| format!("{module}.weight"));
        adapted.chain(self.whole.keys().cloned()).collect()
    }

    fn take(&mut self, name: &str) -> Option<Change> {
        if let Some(whole) = self.whole.remove(name) {
            return Some(Change::Whole(whole));
        }
        let module = name.strip_suffix(".weight")?;
        Some(Change::Adapted(OwnAdapter {
            down: self.down.remove(module)?,
            up: self.up.remove(module)?,
            magnitude: self.magnitude.remove(module),
        }))
    }

    /// A module that has been asked for by no weight.
    fn adapted_left(&self) -> Option<&str> {
        self.down.keys().next().map(String::as_str)
    }
}

/// Copies what is beside the base's weights and belongs to the model.
fn copy_companions(
    base: &Path,
    output: &Path,
    files: &mut Vec<PathBuf>,
) -> Result<(), AdapterError> {
    if !base.is_dir() {
        // A file may be among those of other models.
        return Ok(());
    }
    for name in COMPANIONS {
        let from = base.join(name);
        if from.is_file() {
            let bytes = sconce_base::regular_file::read_regular(&from)?;
            let to = output.join(name);
            sconce_base::files::write_atomically(&to, &bytes)?;
            files.push(to);
        }
    }
    Ok(())
}
