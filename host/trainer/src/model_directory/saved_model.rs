//! A saved model, and what is built of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use sconce_base::memory_limit::memory_limit;
use serde_json::{Value, json};

use super::description::{Description, Signature};
use super::facts::ModelFacts;
use super::{DESCRIPTION, ModelDirectoryError};
use crate::checkpoint::{self, Weights};
use crate::data::csv::{LARGEST_ROWS, ROWS, SplitRows};
use crate::data::{Batch, Dataset, Preprocessing, Splits};
use crate::loss::LossConfig;
use crate::nn::onnx::{
    Attribute, Dimension, ElementType, Graph, OnnxError, OnnxModel, PytorchModel,
};
use crate::nn::{MemoryBudget, Model, Network, Pass, Precision, Signal, Targets};
use crate::parameters::Parameters;
use crate::task::Supervised;
use crate::weights::{self, Comparison, RESULTS};

/// What a graph's inputs and outputs mean, by key, as JSON.
type Facts = [(&'static str, String); 2];

/// Name of a graph's output: scores of classes or numbers.
const OUTPUT: &str = "output";

/// A model that was saved with what was learnt from its data.
pub struct SavedModel {
    /// Its directory: one with a description, or that of a checkpoint.
    directory: PathBuf,
    facts: ModelFacts,
    preprocessing: Preprocessing,
    /// The list of its files; none in a checkpoint, which has its own.
    description: Option<Description>,
}

/// A model with its weights.
pub struct TrainedModel {
    /// Its directory, with the list of its files unless it is a checkpoint's.
    directory: PathBuf,
    description: Option<Description>,
    network: Network,
    parameters: Parameters,
    facts: ModelFacts,
    preprocessing: Preprocessing,
}

impl SavedModel {
    /// Whether a directory has a model of its own, beside those of checkpoints.
    pub fn is_in(directory: &Path) -> bool {
        directory.join(DESCRIPTION).is_file()
    }

    /// Opens a directory that a run left, or that of one of its checkpoints; none if that lacks what a model needs: those
    /// of earlier versions, and of programs with a task of their own.
    ///
    /// # Errors
    ///
    /// If something is damaged, of another model, or newer than this build.
    pub fn open(directory: &Path) -> Result<Option<SavedModel>, ModelDirectoryError> {
        if SavedModel::is_in(directory) {
            return SavedModel::described(directory).map(Some);
        }
        let Some(preprocessing) = checkpoint::preprocessing(directory)? else {
            return Ok(None);
        };
        let manifest = checkpoint::manifest(directory)?;
        let facts = ModelFacts::of_json(&manifest).map_err(|problem| misfit(directory, problem))?;
        Ok(facts.map(|facts| SavedModel {
            directory: directory.to_owned(),
            facts,
            preprocessing,
            description: None,
        }))
    }

    fn described(directory: &Path) -> Result<SavedModel, ModelDirectoryError> {
        let description = Description::read(directory)?;
        let read = |name: &str| match description.file(directory, name) {
            Some(read) => read.map_err(io::Error::other),
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("`{DESCRIPTION}` doesn't list it"),
            )),
        };
        let preprocessing = Preprocessing::from_files(read).map_err(|problem| {
            ModelDirectoryError::Preprocessing {
                directory: directory.to_owned(),
                problem,
            }
        })?;
        if Signature::of(&preprocessing) != description.signature {
            let problem = "its inputs and outputs are others than the preprocessing's".to_owned();
            return Err(misfit(directory, problem));
        }
        Ok(SavedModel {
            directory: directory.to_owned(),
            facts: description.facts.clone(),
            preprocessing,
            description: Some(description),
        })
    }

    /// How it computed.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// What was learnt from the training data, and which data these were.
    pub fn preprocessing(&self) -> &Preprocessing {
        &self.preprocessing
    }

    /// Reads which rows of a table were in which part of the training's data; none if that was not kept.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn rows(&self) -> Result<Option<SplitRows>, ModelDirectoryError> {
        rows(
            &self.directory,
            self.description.as_ref(),
            &self.preprocessing,
        )
    }

    /// Reads its weights: those of a set, or by default those that are kept.
    ///
    /// # Errors
    ///
    /// If they are damaged, or there is no such set.
    pub fn weights(&self, set: Option<&str>) -> Result<Weights, ModelDirectoryError> {
        let Some(description) = &self.description else {
            return Ok(checkpoint::whole_weights(&self.directory, set)?);
        };
        if let Some(other) = set.filter(|set| *set != description.set) {
            return Err(weights::WeightsError::Set {
                path: self.directory.clone(),
                set: other.to_owned(),
                known: format!("`{}`", description.set),
            }
            .into());
        }
        let unlisted = || {
            misfit(
                &self.directory,
                format!("`{DESCRIPTION}` lists no `{RESULTS}`"),
            )
        };
        let bytes = description.file(&self.directory, RESULTS);
        let bytes = bytes.ok_or_else(unlisted)??;
        let tensors =
            checkpoint::tensors(&bytes).map_err(|reason| weights::WeightsError::Format {
                path: self.directory.join(RESULTS),
                reason,
            })?;
        Ok(Weights {
            set: description.set.clone(),
            tensors,
        })
    }

    /// Builds the model with weights that were read from `path`; `strict`: all must fit.
    ///
    /// # Errors
    ///
    /// If the architecture doesn't fit the preprocessing, or the weights don't fit it.
    pub fn build(
        self,
        path: &Path,
        weights: Weights,
        strict: bool,
    ) -> Result<(TrainedModel, Comparison), ModelDirectoryError> {
        let inputs = Signal::new(
            self.preprocessing.sample_shape(),
            self.preprocessing.inputs(),
        );
        let targets = self.preprocessing.targets();
        let unbuilt = |error: crate::nn::ModelError| misfit(&self.directory, error.to_string());
        let model = &self.facts.model;
        // Counted first: the description is not trusted with the size of anything.
        let memory = memory_limit().map_or(u64::MAX, |limit| limit.bytes);
        let budget = MemoryBudget::new(memory, 1, 1);
        let mut counted = Parameters::counting(DType::F32, budget);
        model
            .build(&mut counted, &inputs, &targets)
            .map_err(unbuilt)?;
        let needed = counted.budget().map_or(0, MemoryBudget::taken);
        let given = weights.tensors.iter().map(|(_, tensor)| bytes_of(tensor));
        let given: u128 = given.sum();
        if strict && needed > given.saturating_mul(MOST_WIDENED) {
            let problem = format!(
                "its description asks for parameters of {needed} bytes, the weights in `{}` have {given}",
                path.display()
            );
            return Err(misfit(&self.directory, problem));
        }
        // What isn't read is as a run begins with it.
        let mut parameters = if strict {
            Parameters::zeros(DType::F32, &Device::Cpu)
        } else {
            Parameters::new(0, DType::F32, &Device::Cpu)
        };
        let network = model.build(&mut parameters, &inputs, &targets);
        let network = network.map_err(unbuilt)?;
        let comparison = weights::set_all(path, weights.tensors, &parameters, strict)?;
        let model = TrainedModel {
            directory: self.directory,
            description: self.description,
            network,
            parameters,
            facts: self.facts,
            preprocessing: self.preprocessing,
        };
        Ok((model, comparison))
    }
}

/// Reads the rows of the training's parts: those of a model from its directory, those of a checkpoint from the file that
/// all checkpoints of the run share.
fn rows(
    directory: &Path,
    description: Option<&Description>,
    preprocessing: &Preprocessing,
) -> Result<Option<SplitRows>, ModelDirectoryError> {
    let bytes = match (description, preprocessing.source.rows_name()) {
        (Some(description), _) => description.file(directory, ROWS).transpose()?,
        (None, Some(name)) => {
            let found = checkpoint::shared_file(directory, &name, LARGEST_ROWS);
            found.map_err(|error| ModelDirectoryError::Changed {
                file: directory.with_file_name(name),
                problem: format!("can't be read ({error})"),
            })?
        }
        (None, None) => None,
    };
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let rows = preprocessing.rows_of(&bytes);
    let rows = rows.map_err(|problem| ModelDirectoryError::Preprocessing {
        directory: directory.to_owned(),
        problem,
    });
    rows.map(Some)
}

/// Weights of 8 bits become parameters of 32.
const MOST_WIDENED: u128 = 4;

fn bytes_of(tensor: &Tensor) -> u128 {
    tensor.elem_count() as u128 * tensor.dtype().size_in_bytes() as u128
}

fn misfit(directory: &Path, problem: String) -> ModelDirectoryError {
    ModelDirectoryError::Misfit {
        directory: directory.to_owned(),
        problem,
    }
}

impl TrainedModel {
    /// Returns the outputs for a batch of samples, numbers in the data's own units. The batch may be on any device; padding of its
    /// sequences is not seen.
    ///
    /// # Errors
    ///
    /// An error of candle.
    pub fn forward_batch(&self, batch: &Batch) -> candle_core::Result<Tensor> {
        self.forward_batch_in(batch, &mut Pass::evaluation())
    }

    /// As [`forward_batch`](TrainedModel::forward_batch), in a pass that has begun.
    ///
    /// # Errors
    ///
    /// An error of candle.
    pub fn forward_batch_in(
        &self,
        batch: &Batch,
        pass: &mut Pass<'_>,
    ) -> candle_core::Result<Tensor> {
        let device = self.device();
        let named = batch.named.iter();
        let named = named.map(|(name, input)| Ok((name.clone(), input.to_device(device)?)));
        pass.set_named_inputs(Arc::new(named.collect::<candle_core::Result<_>>()?));
        pass.set_visibility(batch.visibility.clone());
        self.outputs(&batch.inputs.to_device(device)?, pass)
    }

    /// Returns the outputs for inputs that are whole and alone, on the model's device: without padding, or named inputs beside them.
    /// Numbers are in the data's own units.
    ///
    /// # Errors
    ///
    /// An error of candle.
    pub fn forward(&self, inputs: &Tensor) -> candle_core::Result<Tensor> {
        self.outputs(inputs, &mut Pass::evaluation())
    }

    fn outputs(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> candle_core::Result<Tensor> {
        let outputs = self.network.forward(inputs, pass)?;
        match self.preprocessing.target_scaling() {
            Some(scaling) => scaling.original(&outputs.to_dtype(DType::F32)?),
            None => Ok(outputs),
        }
    }

    /// The model itself.
    pub fn network(&self) -> &dyn Model {
        &self.network
    }

    /// The model with its preprocessing as a graph of ONNX.
    ///
    /// Its outputs are `output`, numbers in the data's own units or a score for each class, and for classes `probabilities`. Facts
    /// beside the graph are `inputs`, what they mean, and `classes` or `targets`, their names, as JSON.
    ///
    /// # Errors
    ///
    /// If ONNX's operations can't say a layer or the preprocessing.
    pub fn onnx(&self) -> Result<OnnxModel, OnnxError> {
        let (graph, facts) = self.graph()?;
        Ok(OnnxModel::of(graph, &facts))
    }

    /// The model with its preprocessing as a module of `PyTorch`, which gives numbers in the data's own units or a score for each class.
    ///
    /// # Errors
    ///
    /// As [`onnx`](Self::onnx), of whose operations it is made.
    pub fn pytorch(&self) -> Result<PytorchModel, OnnxError> {
        let (graph, facts) = self.graph()?;
        PytorchModel::of(graph, OUTPUT, &facts)
    }

    /// The graph of both, and facts about it.
    fn graph(&self) -> Result<(Graph, Facts), OnnxError> {
        let mut graph = Graph::new(&self.parameters);
        let x = self.preprocessing.onnx(&mut graph)?;
        let mut y = self.network.onnx(&mut graph, &x)?;
        if let Some(scaling) = self.preprocessing.target_scaling() {
            y = scaling.onnx(&mut graph, &y);
        }
        let targets = self.preprocessing.targets();
        let batch = Dimension::Free("batch");
        let width = Dimension::Fixed(targets.outputs());
        let shape = match &targets {
            Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
                vec![batch, Dimension::Free("length"), width]
            }
            Targets::Class(_) | Targets::Numbers(_) => vec![batch, width],
            Targets::None => {
                let sizes = self.output_shape().into_iter().map(Dimension::Fixed);
                std::iter::once(batch).chain(sizes).collect()
            }
        };
        let names = targets.names();
        let key = if let Targets::Numbers(_) | Targets::None = &targets {
            "targets"
        } else {
            let likely = graph.node("Softmax", &[&y], &[("axis", Attribute::Int(-1))]);
            graph.output(&likely, "probabilities", ElementType::Float, &shape);
            "classes"
        };
        graph.output(&y, OUTPUT, ElementType::Float, &shape);
        let inputs =
            self.preprocessing.describe_inputs().into_iter().map(
                |input| json!({"name": input.name, "kind": input.kind, "values": input.values}),
            );
        let inputs = inputs.collect::<Vec<Value>>();
        let facts = [
            ("inputs", json!(inputs).to_string()),
            (key, json!(names).to_string()),
        ];
        Ok((graph, facts))
    }

    /// Shape of the outputs for a sample.
    fn output_shape(&self) -> Vec<usize> {
        let layers = self
            .network
            .summary()
            .map_or(&[][..], |summary| &summary.layers);
        let last = layers.iter().rfind(|layer| layer.depth == 0);
        last.map_or_else(Vec::new, |layer| layer.output.clone())
    }

    /// Architecture, and how it computed.
    pub(super) fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// Its weights.
    pub(super) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What was learnt from the training data.
    pub fn preprocessing(&self) -> &Preprocessing {
        &self.preprocessing
    }

    /// Device of its parameters.
    pub fn device(&self) -> &Device {
        self.parameters.device()
    }

    /// Precision of its products.
    pub fn precision(&self) -> Precision {
        self.facts.precision
    }

    /// Number of samples in a batch.
    pub fn batch_size(&self) -> usize {
        self.facts.batch_size
    }

    /// As [`SavedModel::rows`].
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn rows(&self) -> Result<Option<SplitRows>, ModelDirectoryError> {
        rows(
            &self.directory,
            self.description.as_ref(),
            &self.preprocessing,
        )
    }

    /// Returns a task that evaluates the model on these samples, as those of its test.
    ///
    /// # Errors
    ///
    /// If loss or metrics don't fit the samples, or the loss isn't known without the training data.
    pub fn into_task(self, samples: Arc<dyn Dataset>) -> Result<Supervised, ModelDirectoryError> {
        let ModelFacts { loss, metrics, .. } = self.facts;
        if loss.as_ref().is_some_and(LossConfig::needs_class_counts) {
            return Err(ModelDirectoryError::LearntLoss {
                directory: self.directory,
            });
        }
        let data = Splits {
            train: Arc::clone(&samples),
            val: None,
            test: Some(samples),
            preprocessing: Arc::new(self.preprocessing),
            files: Vec::new(),
        };
        let network = Box::new(self.network);
        let task = Supervised::with(
            network,
            self.parameters,
            data,
            loss.as_ref(),
            metrics.as_deref(),
        );
        task.map_err(|error| misfit(&self.directory, error.to_string()))
    }
}
