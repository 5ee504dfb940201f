//! A trained model as a directory of `transformers`: weights in the family's own names, `config.json`, and a tokenizer's files.
//!
//! **Flow.** `config.json` is that of the manifest, with what the data decided (`ExportedConfig`). All files are written into a new
//! directory beside the place, which is renamed to it when they are complete: a reader finds all of them or none.

mod error;
mod files;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use error::TransformersExportError;
pub use files::TransformersDirectory;
use files::{Files, write};

use super::TrainedModel;
use crate::data::Tokenizer;
use crate::nn::models::TokenRoles;
use crate::nn::{ModelConfig, Signal};

impl TrainedModel {
    /// Writes the model as a directory of `transformers`, which must be new or empty.
    ///
    /// # Errors
    ///
    /// If the model is not of the kind `transformers`, if that has no such model, or if a file can't be written: then nothing is left.
    pub fn write_transformers(
        &self,
        place: &Path,
    ) -> Result<TransformersDirectory, TransformersExportError> {
        let ModelConfig::Transformers(config) = &self.facts().model else {
            return Err(TransformersExportError::Kind);
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
        let written = write(place, &files)?;
        Ok(TransformersDirectory {
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
