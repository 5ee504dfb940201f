//! A trained model as a directory of `transformers`: weights in the family's own names, `config.json`, and a tokenizer's files.
//! `config.json` is that of the manifest, with what the data decided (`ExportedConfig`).

#[cfg(test)]
mod tests;

use std::path::Path;

use candle_core::{DType, Tensor};
use serde_json::{Map, Value};

use super::directory::{self, NewDirectory};
use super::{ExportedDirectory, ModelExportError};
use crate::data::Tokenizer;
use crate::model_directory::TrainedModel;
use crate::nn::models::{ExportedConfig, TokenRoles};
use crate::nn::{ModelConfig, Signal};
use crate::parameters::Parameters;
use crate::weights::shards::{SHARD, divided, write as write_shards};
use crate::weights::writing::{WrittenTensor, write_tensor};

/// Ending of the names of counts, which are whole numbers elsewhere.
const COUNTED: &str = ".num_batches_tracked";

impl TrainedModel {
    /// Writes the model as a directory of `transformers`, which must be new or empty.
    ///
    /// # Errors
    ///
    /// If the model is not of the kind `transformers`, if that has no such model, or if a file can't be written: then nothing is left.
    pub fn write_transformers(&self, place: &Path) -> Result<ExportedDirectory, ModelExportError> {
        let ModelConfig::Transformers(config) = &self.facts().model else {
            return Err(ModelExportError::Kind);
        };
        let preprocessing = self.preprocessing();
        let input = Signal::new(preprocessing.sample_shape(), preprocessing.inputs());
        let roles = TokenRoles {
            end: preprocessing.end_token(),
            padding: preprocessing.padding_token(),
        };
        let exported = config.exported(&input, &preprocessing.targets(), roles)?;
        let tokenizer = preprocessing.tokenizer();
        let files = Files {
            config: exported,
            parameters: self.parameters(),
            tokenizer: tokenizer.map(Tokenizer::source),
            tokenizer_config: preprocessing.tokenizer_config(),
        };
        let written = directory::write(place, |directory| fill(directory, &files))?;
        Ok(ExportedDirectory {
            notes: self.notes().map(str::to_owned).collect(),
            ..written
        })
    }

    /// What the files have no place for.
    fn notes(&self) -> impl Iterator<Item = &'static str> {
        let preprocessing = self.preprocessing();
        let is_scaled = preprocessing.target_scaling().is_some();
        let of_scaling = is_scaled
            .then_some("the model's outputs are scaled, as `target_scaling` of the data has it");
        let has_letters = preprocessing.vocabulary().is_some();
        let of_letters = has_letters.then_some(
            "its tokens are bytes or characters, for which there is no `tokenizer.json`",
        );
        of_scaling.into_iter().chain(of_letters)
    }
}

/// What a directory consists of.
struct Files<'a> {
    config: ExportedConfig,
    parameters: &'a Parameters,
    /// `tokenizer.json`, if the model has one.
    tokenizer: Option<&'a [u8]>,
    tokenizer_config: Option<Value>,
}

fn fill(directory: &mut NewDirectory<'_>, files: &Files<'_>) -> Result<(), ModelExportError> {
    let shards = divided(weights(files.parameters)?, SHARD);
    let paths = write_shards(directory.path, shards, |tensor, file| {
        write_tensor(tensor, file)
    })?;
    directory.add(&paths);
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
            directory.write(name, &bytes)?;
        }
    }
    Ok(())
}

/// The weights under their names, which are those of the family's files.
fn weights(parameters: &Parameters) -> candle_core::Result<Vec<WrittenTensor<Tensor>>> {
    let named = parameters.iter().map(|parameter| {
        let mut tensor = parameter.tensor().detach();
        if parameter.name().ends_with(COUNTED) {
            tensor = tensor.to_dtype(DType::I64)?;
        }
        Ok(WrittenTensor::of(parameter.name(), tensor))
    });
    named.collect()
}
