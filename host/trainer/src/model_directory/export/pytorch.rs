//! A trained model as a module of `PyTorch`: `model.py`, generated from the model's operations, and its weights.

use std::path::Path;

use super::directory;
use super::{ExportedDirectory, ModelExportError};
use crate::model_directory::TrainedModel;
use crate::weights::shards::{divided, write as write_shards};
use crate::weights::writing::{WrittenTensor, write_tensor};

impl TrainedModel {
    /// Writes the model as a module of `PyTorch` into a directory, which must be new or empty.
    ///
    /// # Errors
    ///
    /// If a layer or the preprocessing has no operations that can be written, or if a file can't be: then nothing is left.
    pub fn write_pytorch(&self, place: &Path) -> Result<ExportedDirectory, ModelExportError> {
        let module = self.pytorch()?;
        directory::write(place, |directory| {
            directory.write("model.py", module.text().as_bytes())?;
            let tensors = module.weights().iter().map(|(name, tensor)| {
                let tensor = tensor.to_dtype(candle_core::DType::F32)?;
                Ok(WrittenTensor::of(name, tensor))
            });
            let tensors = tensors.collect::<candle_core::Result<Vec<_>>>()?;
            let shards = divided(tensors, usize::MAX);
            let paths = write_shards(directory.path, shards, |tensor, file| {
                write_tensor(tensor, file)
            })?;
            directory.add(&paths);
            Ok(())
        })
    }
}
