//! A trained model, for predictions in this process.

use std::path::Path;

use candle_core::DType;
use sconce_ops::device::copy_to_host;

use crate::allocator;
use crate::checkpoint::{self, Store};
use crate::data::{Targets, order};
use crate::diagnostic::Diagnostic;
use crate::kernels::threads;
use crate::model_directory::{MODEL, ModelDirectoryError, SavedModel, TrainedModel};
use crate::nn::ops::softmax;
use crate::session::StartFailure;
use crate::weights;

/// A model with its weights and what was learnt for its inputs.
pub struct Predictor {
    model: TrainedModel,
}

/// Predictions for some samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Values in row-major order: probabilities of the classes, or numbers in the targets' own units.
    pub values: Vec<f32>,
    /// Shape of the values: (samples, …, classes or targets).
    pub shape: Vec<usize>,
    /// Names of the last dimension.
    pub names: Vec<String>,
    /// Whether the values are probabilities.
    pub is_classes: bool,
    /// What is unusual about the samples.
    pub notes: Vec<String>,
}

impl Predictor {
    /// Opens the directory of a run that has ended, of a model, or of a checkpoint; of a run that has not, its best checkpoint, else
    /// its last one.
    ///
    /// # Errors
    ///
    /// If there is no model, or it is damaged.
    pub fn open(directory: &Path) -> Result<Predictor, StartFailure> {
        allocator::keep_freed_memory();
        let own = [directory.to_owned(), directory.join(MODEL)];
        let store = Store::of(directory);
        let ended = own.into_iter().find(|place| SavedModel::is_in(place));
        let place = ended
            .or_else(|| checkpoint::best(&store).map(|best| best.path))
            .or_else(|| store.latest().map(|tag| store.path_of(&tag)))
            .unwrap_or_else(|| directory.to_owned());
        let saved = SavedModel::open(&place).map_err(|error| damaged(&error))?;
        let saved = saved.ok_or_else(|| none_in(directory))?;
        threads::ask(saved.facts().threads);
        let kept = saved.weights(None).map_err(|error| damaged(&error))?;
        let path = place.join(weights::RESULTS);
        let built = saved.build(&path, kept, true);
        let (model, _) = built.map_err(|error| damaged(&error))?;
        Ok(Predictor { model })
    }

    /// Predicts the samples at a path, or provided under it.
    ///
    /// # Errors
    ///
    /// If they are not what the model was trained for.
    pub fn predict(&self, source: &Path) -> Result<Predicted, StartFailure> {
        let opened = self.model.preprocessing().open(source);
        let opened =
            opened.map_err(|error| StartFailure::data(vec![Diagnostic::new(error.to_string())]))?;
        let data = opened.samples.plain().unwrap_or(opened.samples);
        let targets = data.targets().clone();
        let (is_classes, names) = match targets {
            Targets::Numbers(names) => (false, names),
            Targets::Class(names) | Targets::ClassPerPosition(names) => (true, names),
            Targets::TokenPerPosition(_) => (true, Vec::new()),
            Targets::None => (false, Vec::new()),
        };
        let _precision = self.model.precision().begin(self.model.device());
        let (mut values, mut shape) = (Vec::new(), vec![0]);
        for indices in order::natural(data.len()).chunks(self.model.batch_size().max(1)) {
            let batch = data.gather(indices, 0)?;
            let outputs = copy_to_host(&self.model.forward_batch(&batch)?.detach())?;
            let outputs = outputs.to_dtype(DType::F32)?;
            let outputs = if is_classes {
                softmax(&outputs, false)?
            } else {
                outputs
            };
            let samples = shape.first().copied().unwrap_or(0) + outputs.dim(0)?;
            shape = outputs.dims().to_vec();
            if let Some(first) = shape.first_mut() {
                *first = samples;
            }
            values.extend(outputs.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(Predicted {
            values,
            shape,
            names,
            is_classes,
            notes: opened.notes.lines(),
        })
    }
}

fn damaged(error: &ModelDirectoryError) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(error.to_string())])
}

fn none_in(directory: &Path) -> StartFailure {
    let problem = format!(
        "there is no trained model in `{}`: neither that of a run that has ended, nor a checkpoint",
        directory.display()
    );
    StartFailure::usage(vec![Diagnostic::new(problem)])
}
