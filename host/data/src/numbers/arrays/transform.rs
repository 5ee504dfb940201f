//! Other arrays as inputs of the same model.

use std::path::Path;
use std::sync::Arc;

use sconce_nn::onnx::{Dimension, ElementType, Graph, Value};
use serde::{Deserialize, Serialize};

use super::scaling::Scaling;
use super::{Array, ArrayPair, npy, safetensors, samples, targets};
use crate::dataset::input::InputDescription;
use crate::dataset::shape::elements;
use crate::numbers::{NumberDataset, Samples, TargetValues};
use crate::{DataError, Dataset, TargetScaling, Targets};

/// Files that arrays come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ArrayFormat {
    /// NumPy files.
    Npy,
    /// Safetensors files, and the name of the inputs' tensor.
    Safetensors { inputs: String },
}

/// What was learnt from arrays: the shape of a sample, the scaling of inputs, and the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredTransform", into = "StoredTransform")]
pub struct ArrayTransform {
    pub(super) format: ArrayFormat,
    pub(super) shape: Vec<usize>,
    pub(super) scaling: Scaling,
    /// Scaling of the targets, if they are scaled.
    pub(super) target_scaling: Option<TargetScaling>,
    pub(super) targets: Targets,
    /// Whether the inputs are their own targets.
    pub(super) predicts_inputs: bool,
}

/// Serialised form of a transform.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTransform {
    format: ArrayFormat,
    shape: Vec<usize>,
    scaling: Scaling,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_scaling: Option<TargetScaling>,
    #[serde(with = "crate::targets::names")]
    targets: Targets,
    predicts_inputs: bool,
}

impl From<ArrayTransform> for StoredTransform {
    fn from(transform: ArrayTransform) -> StoredTransform {
        StoredTransform {
            format: transform.format,
            shape: transform.shape,
            scaling: transform.scaling,
            target_scaling: transform.target_scaling,
            targets: transform.targets,
            predicts_inputs: transform.predicts_inputs,
        }
    }
}

impl TryFrom<StoredTransform> for ArrayTransform {
    type Error = String;

    fn try_from(stored: StoredTransform) -> Result<ArrayTransform, String> {
        let shape = &stored.shape;
        let Some(size) = elements(shape) else {
            return Err(format!("samples can't have the shape {shape:?}"));
        };
        if let Some(found) = stored.scaling.columns()
            && found != 1
            && found != size
        {
            return Err(format!(
                "samples have {size} elements, but there are statistics of {found}"
            ));
        }
        if stored.predicts_inputs
            && !matches!(&stored.targets, Targets::Numbers(names) if names.len() == size)
        {
            return Err(format!(
                "inputs that are their own targets need {size} names of numbers"
            ));
        }
        let scaled = stored.target_scaling.as_ref().map(TargetScaling::len);
        let fits = |scaled: usize| {
            !stored.predicts_inputs
                && matches!(&stored.targets, Targets::Numbers(names) if names.len() == scaled)
        };
        if !scaled.is_none_or(fits) {
            return Err("each numeric target has its scaling, or none".to_owned());
        }
        Ok(ArrayTransform {
            format: stored.format,
            shape: stored.shape,
            scaling: stored.scaling,
            target_scaling: stored.target_scaling,
            targets: stored.targets,
            predicts_inputs: stored.predicts_inputs,
        })
    }
}

impl ArrayTransform {
    /// Inputs in a graph of ONNX, from `input` (samples, …).
    pub(crate) fn onnx(&self, graph: &mut Graph) -> Value {
        let sample = self.shape.iter().copied().map(Dimension::Fixed);
        let shape: Vec<Dimension> = [Dimension::Free("batch")]
            .into_iter()
            .chain(sample)
            .collect();
        let input = graph.input("input", ElementType::Float, &shape);
        self.scaling.onnx(graph, &input, &self.shape)
    }

    /// Returns the shape of a sample.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the targets.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Returns the scaling of the targets, if they are scaled.
    pub fn target_scaling(&self) -> Option<&TargetScaling> {
        self.target_scaling.as_ref()
    }

    /// Opens an array of inputs. Their targets are placeholders, unless inputs are their own.
    pub(crate) fn open(&self, file: &Path) -> Result<Arc<dyn Dataset>, DataError> {
        let inputs = self.inputs(file)?;
        let count = inputs.count();
        if u32::try_from(count).is_err() {
            return Err(DataError::TooMany(count as u64));
        }
        let values = match &self.targets {
            _ if self.predicts_inputs => TargetValues::Inputs,
            Targets::Numbers(names) => TargetValues::Numbers(vec![0.0; count * names.len()]),
            _ => TargetValues::Classes(vec![0; count]),
        };
        let samples = samples(&inputs, values)?;
        Ok(self.dataset(samples, self.predicts_inputs))
    }

    /// Opens an array of inputs with their targets: a NumPy file, or another tensor of the same safetensors file; none if
    /// inputs are their own.
    pub(crate) fn open_labelled(
        &self,
        file: &Path,
        targets: Option<&str>,
    ) -> Result<Arc<dyn Dataset>, DataError> {
        let targets = match (&self.format, targets) {
            (_, None) if self.predicts_inputs => return self.open(file),
            (_, Some(_)) if self.predicts_inputs => {
                let file = file.to_owned();
                return Err(DataError::TargetsInside { file });
            }
            (ArrayFormat::Npy, Some(targets)) => npy::read(Path::new(targets))?,
            (ArrayFormat::Safetensors { .. }, Some(name)) => {
                let [targets] = safetensors::read(file, [name])?;
                targets
            }
            (format, None) => {
                return Err(DataError::WithoutTargets {
                    file: file.to_owned(),
                    way: match format {
                        ArrayFormat::Npy => "`--targets FILE` names the NumPy file of the targets",
                        ArrayFormat::Safetensors { .. } => {
                            "`--targets NAME` names the file's tensor of targets"
                        }
                    },
                });
            }
        };
        let pair = ArrayPair::new(self.inputs(file)?, Some(targets))?;
        let samples = pair.samples(&self.targets)?;
        if let Some(scaling) = &self.target_scaling {
            targets::scalable(pair.targets.as_ref(), &samples.values, scaling.scale())?;
        }
        Ok(self.dataset(samples, true))
    }

    /// Reads inputs of the training's shape.
    fn inputs(&self, file: &Path) -> Result<Array, DataError> {
        let inputs = self.read(file)?;
        if inputs.sample_shape() != self.shape {
            return Err(DataError::SampleShape {
                file: file.to_owned(),
                wanted: self.shape.clone(),
                found: inputs.sample_shape().to_vec(),
            });
        }
        Ok(inputs)
    }

    fn dataset(&self, mut samples: Samples, has_targets: bool) -> Arc<dyn Dataset> {
        self.scaling.apply_to(&mut samples.inputs);
        let samples = NumberDataset::all(samples, self.targets.clone());
        Arc::new(samples.of_input_file(has_targets))
    }

    fn read(&self, file: &Path) -> Result<Array, DataError> {
        match &self.format {
            ArrayFormat::Npy => npy::read(file),
            ArrayFormat::Safetensors { inputs } => {
                let [inputs] = safetensors::read(file, [inputs])?;
                Ok(inputs)
            }
        }
    }

    pub(crate) fn describe_input(&self) -> InputDescription {
        let values = match &self.format {
            ArrayFormat::Npy => "a NumPy file".to_owned(),
            ArrayFormat::Safetensors { inputs } => {
                format!("a safetensors file with the tensor `{inputs}`")
            }
        };
        InputDescription {
            name: "input".to_owned(),
            kind: format!("array of shape {:?} for each sample", self.shape),
            values,
        }
    }
}
