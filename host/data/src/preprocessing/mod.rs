//! What is learnt from the training data, and how other data become inputs of the same model.
//!
//! [`load()`](crate::load()) fits a [`Preprocessing`] to the training samples, once: statistics, tables of categories,
//! names of classes, a vocabulary, sizes. It is data, kept with the model, and transforms what a model is given later
//! without the training data and without the manifest.
//!
//! **Parts**
//! - [`Preprocessing`]: a [`Transform`] for each kind of data, defined by that kind's module, and the [`TrainingData`] that
//!   it was learnt from.
//! - `stored`: its file, versioned and checked; an [error](PreprocessingError) for each way it can be wrong.

mod stored;
#[cfg(test)]
mod tests;
mod training_data;

use std::path::Path;

use sconce_nn::onnx::{Dimension, ElementType, Graph, OnnxError, Value};
use serde::{Deserialize, Serialize};
pub use stored::PREPROCESSING;
pub use training_data::{TrainingData, is_rows_name};

use crate::arrays::ArrayTransform;
use crate::csv::{CsvTransform, ROWS, RowsOf, SplitRows};
pub use crate::dataset::input::{
    FarValue, InputDescription, InputNotes, LabelledInput, OpenedInput, RowCounts,
};
use crate::dataset::shape::elements;
pub use crate::error::PreprocessingError;
use crate::files::data_files::recorded;
use crate::images::transform::ImageTransform;
use crate::text::TextTransform;
use crate::tokens::TokensTransform;
use crate::{DataError, Inputs, RowsTransform, TargetScaling, Targets, Tokenizer, Vocabulary};

/// What was learnt from the training data, to transform other data in the same way, and which data these were.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocessing {
    /// What was learnt, by kind of data.
    pub transform: Transform,
    /// What it was learnt from.
    pub source: TrainingData,
}

/// What was learnt from one kind of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transform {
    /// Rows of a table.
    Csv(CsvTransform),
    /// Images.
    Images(ImageTransform),
    /// Arrays.
    Arrays(ArrayTransform),
    /// Text.
    Text(TextTransform),
    /// Tokens.
    Tokens(TokensTransform),
    /// Rows of text.
    Rows(RowsTransform),
    /// Samples generated from a seed, from which nothing is learnt.
    Generated(GeneratedSamples),
}

/// Shape and targets of generated samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratedSamples {
    /// Shape of a sample's input.
    #[serde(deserialize_with = "shape")]
    pub shape: Vec<usize>,
    /// Targets of the samples.
    #[serde(with = "crate::targets::names")]
    pub targets: Targets,
}

fn shape<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    let shape = Vec::deserialize(deserializer)?;
    if elements(&shape).is_none() {
        let problem = format!("samples can't have the shape {shape:?}");
        return Err(serde::de::Error::custom(problem));
    }
    Ok(shape)
}

impl Preprocessing {
    /// What was learnt, without what it was learnt from.
    pub(crate) fn of(transform: Transform) -> Preprocessing {
        Preprocessing {
            transform,
            source: TrainingData::default(),
        }
    }

    /// Reads the [rows](Preprocessing::split_rows) of the training's parts from their file, and compares them with the
    /// hashes of the parts.
    ///
    /// # Errors
    ///
    /// If it is not such a file, or one of other data.
    pub fn rows_of(&self, bytes: &[u8]) -> Result<SplitRows, PreprocessingError> {
        let rows = SplitRows::from_bytes(bytes)?;
        if self.source.has(&rows) {
            return Ok(rows);
        }
        Err(PreprocessingError::Invalid {
            name: ROWS,
            path: String::new(),
            problem: format!("its rows are not those whose hashes `{PREPROCESSING}` has"),
        })
    }

    /// Returns the shape of a sample's input, as [`Dataset::sample_shape`](crate::Dataset::sample_shape).
    pub fn sample_shape(&self) -> Vec<usize> {
        match &self.transform {
            Transform::Csv(table) => vec![table.encoder().width()],
            Transform::Images(images) => images.shape().to_vec(),
            Transform::Arrays(arrays) => arrays.shape().to_vec(),
            Transform::Text(text) => vec![text.context()],
            Transform::Tokens(tokens) => vec![tokens.context()],
            Transform::Rows(rows) => vec![rows.tokens().context()],
            Transform::Generated(samples) => samples.shape.clone(),
        }
    }

    /// Returns the content of a sample's input.
    pub fn inputs(&self) -> Inputs {
        match &self.transform {
            Transform::Text(text) => Inputs::Tokens(text.vocabulary().len()),
            Transform::Tokens(tokens) => Inputs::Tokens(tokens.vocabulary()),
            Transform::Rows(rows) => Inputs::Tokens(rows.tokens().vocabulary()),
            Transform::Csv(table) => table.encoder().inputs(),
            _ => Inputs::Numbers,
        }
    }

    /// Returns the kind of the targets, with their names.
    pub fn targets(&self) -> Targets {
        match &self.transform {
            Transform::Csv(table) => table.targets().clone(),
            Transform::Images(images) => images.targets(),
            Transform::Arrays(arrays) => arrays.targets().clone(),
            Transform::Text(text) => Targets::ClassPerPosition(text.vocabulary().names()),
            Transform::Tokens(tokens) => tokens.targets(),
            Transform::Rows(rows) => rows.targets(),
            Transform::Generated(samples) => samples.targets.clone(),
        }
    }

    /// Returns the scaling of numeric targets for the loss, if there is one: a model's outputs are scaled as they are.
    pub fn target_scaling(&self) -> Option<&TargetScaling> {
        match &self.transform {
            Transform::Csv(table) => table.target_scaling(),
            Transform::Arrays(arrays) => arrays.target_scaling(),
            _ => None,
        }
    }

    /// Returns the vocabulary of text inputs; none for other inputs.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        match &self.transform {
            Transform::Text(text) => Some(text.vocabulary()),
            _ => None,
        }
    }

    /// Returns what makes tokens of text for the model, if it is known; none for other inputs, and for bytes and characters.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        match &self.transform {
            Transform::Tokens(tokens) => tokens.tokenizer().map(AsRef::as_ref),
            Transform::Rows(rows) => rows.tokens().tokenizer().map(AsRef::as_ref),
            _ => None,
        }
    }

    /// Returns the token at the end of documents, if the model's inputs are tokens and there is one.
    pub fn end_token(&self) -> Option<u32> {
        match &self.transform {
            Transform::Tokens(tokens) => tokens.end(),
            Transform::Rows(rows) => rows.tokens().end(),
            _ => None,
        }
    }

    /// Returns the token that the [tokenizer](Preprocessing::tokenizer) fills texts up with, as its `tokenizer_config.json` says, if it
    /// has one.
    pub fn padding_token(&self) -> Option<u32> {
        self.tokenizer().and_then(Tokenizer::padding)
    }

    /// Returns what other programs want to know of the [tokenizer](Preprocessing::tokenizer), as the object of a
    /// `tokenizer_config.json`.
    pub fn tokenizer_config(&self) -> Option<serde_json::Value> {
        match &self.transform {
            Transform::Tokens(tokens) => tokens.tokenizer_config(),
            Transform::Rows(rows) => rows.tokenizer_config(),
            _ => None,
        }
    }

    /// Declares the inputs of a graph of ONNX as the data have them, and gives what the model is given for them: columns by their
    /// names, bytes of images, numbers, or tokens.
    ///
    /// # Errors
    ///
    /// If ONNX's operations can't do it: read dates.
    pub fn onnx(&self, graph: &mut Graph) -> Result<Value, OnnxError> {
        match &self.transform {
            Transform::Csv(table) => table.encoder().onnx(graph),
            Transform::Images(images) => Ok(images.onnx(graph)),
            Transform::Arrays(arrays) => Ok(arrays.onnx(graph)),
            Transform::Text(_) | Transform::Tokens(_) | Transform::Rows(_) => {
                let shape = [Dimension::Free("batch"), Dimension::Free("length")];
                Ok(graph.input("tokens", ElementType::Int, &shape))
            }
            Transform::Generated(samples) => {
                let sample = samples.shape.iter().copied().map(Dimension::Fixed);
                let shape: Vec<Dimension> = [Dimension::Free("batch")]
                    .into_iter()
                    .chain(sample)
                    .collect();
                Ok(graph.input("input", ElementType::Float, &shape))
            }
        }
    }

    /// Returns which rows of a table were in which part of the training's data, if that is known: fitted, not read from a
    /// file.
    pub fn split_rows(&self) -> Option<&SplitRows> {
        match &self.transform {
            Transform::Csv(table) => table.split_rows(),
            _ => None,
        }
    }

    /// Describes each input, for a table: columns of a table, otherwise one.
    pub fn describe_inputs(&self) -> Vec<InputDescription> {
        match &self.transform {
            Transform::Csv(table) => table.describe_inputs(),
            Transform::Images(images) => vec![images.describe_input()],
            Transform::Arrays(arrays) => vec![arrays.describe_input()],
            Transform::Text(text) => vec![text.describe_input()],
            Transform::Tokens(tokens) => vec![tokens.describe_input()],
            Transform::Rows(rows) => vec![rows.describe_input()],
            Transform::Generated(samples) => vec![InputDescription {
                name: "input".to_owned(),
                kind: "generated".to_owned(),
                values: format!("numbers of shape {:?}", samples.shape),
            }],
        }
    }

    /// Opens samples to predict: a file, or a directory of images. Their targets may be placeholders.
    ///
    /// # Errors
    ///
    /// What the model was not trained for, with line and column, row or file; [`DataError::NotOpened`] for generated
    /// samples.
    pub fn open(&self, source: &Path) -> Result<OpenedInput, DataError> {
        match &self.transform {
            Transform::Csv(table) => table.open(source),
            Transform::Images(images) => images.open(source).map(OpenedInput::new),
            Transform::Arrays(arrays) => arrays.open(source).map(OpenedInput::new),
            Transform::Text(text) => text.open(source).map(OpenedInput::new),
            Transform::Tokens(tokens) => tokens.open(source).map(OpenedInput::new),
            Transform::Rows(rows) => rows.open(source).map(OpenedInput::new),
            Transform::Generated(_) => Err(DataError::NotOpened {
                file: source.to_owned(),
            }),
        }
    }

    /// Returns the number of rows of a part of the training's data that a table lacks, or in which something has
    /// changed.
    ///
    /// # Errors
    ///
    /// If the file can't be read; [`DataError::NoParts`] for a model of anything but tables.
    pub fn absent_rows(
        &self,
        file: &Path,
        rows: &SplitRows,
        part: RowsOf,
    ) -> Result<usize, DataError> {
        match &self.transform {
            Transform::Csv(table) => table.absent_rows(file, rows, part),
            _ => Err(DataError::NoParts),
        }
    }

    /// Opens samples with their targets to evaluate the model: all, or for a table the rows of a part of the training's.
    /// `targets` says where the targets are if they are not with the samples: the labels' IDX file, the targets' NumPy
    /// file, or the name of a tensor in a safetensors file.
    ///
    /// # Errors
    ///
    /// As those of [`open`](Preprocessing::open), also for the targets; [`DataError::WithoutTargets`] if there are none;
    /// [`DataError::TargetsInside`] if they are given twice; [`DataError::NoParts`] for a part of anything but a table.
    pub fn open_labelled(
        &self,
        source: &Path,
        targets: Option<&str>,
        part: Option<(&SplitRows, RowsOf)>,
    ) -> Result<LabelledInput, DataError> {
        let opened = recorded(Path::new(""), || self.read_labelled(source, targets, part));
        let (labelled, recorded) = opened?;
        Ok(LabelledInput {
            files: recorded.files,
            ..labelled
        })
    }

    fn read_labelled(
        &self,
        source: &Path,
        targets: Option<&str>,
        part: Option<(&SplitRows, RowsOf)>,
    ) -> Result<LabelledInput, DataError> {
        let inside = || {
            targets.map_or(Ok(()), |_| {
                let file = source.to_owned();
                Err(DataError::TargetsInside { file })
            })
        };
        if let Transform::Csv(table) = &self.transform {
            inside()?;
            return table.open_labelled(source, part);
        }
        if part.is_some() {
            return Err(DataError::NoParts);
        }
        let opened = match &self.transform {
            Transform::Images(images) => {
                OpenedInput::new(images.open_labelled(source, targets.map(Path::new))?)
            }
            Transform::Arrays(arrays) => OpenedInput::new(arrays.open_labelled(source, targets)?),
            _ => {
                inside()?;
                self.open(source)?
            }
        };
        Ok(LabelledInput {
            opened,
            rows: RowCounts::default(),
            files: Vec::new(),
        })
    }
}
