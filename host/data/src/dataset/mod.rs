//! Interface between data sets and the training loop.
//!
//! **Parts**
//! - `first`: a limit on the number of samples. `class_counts`: the samples of each class. `shape`: how many elements a sample has.
//! - `fitted`: the data sets of the phases with what was learnt for them. `input`: data opened for predictions.

pub(super) mod class_counts;
pub(super) mod first;
pub(super) mod fitted;
pub(super) mod input;
pub(super) mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::Tensor;

use sconce_nn::{Inputs, Signal, Targets, Visibility};

use super::error::DataError;
use super::vocabulary::Vocabulary;

/// A data set with random access to its samples.
pub trait Dataset: Send + Sync {
    /// Returns the number of samples.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the shape of a sample's input: (channels, height, width) of an image or of its first view, (columns) of a
    /// table's row, (context) of a text.
    fn sample_shape(&self) -> &[usize];

    /// Returns the content of a sample's input.
    fn inputs(&self) -> Inputs {
        Inputs::Numbers
    }

    /// Returns what a model is given of a sample: shape and content, with the further inputs of [`Batch::named`] by their names. Samples
    /// can be shorter in their first dimension if it [varies](Signal::varies).
    fn signal(&self) -> Signal {
        Signal::new(self.sample_shape(), self.inputs())
    }

    /// Returns the kind of the targets.
    fn targets(&self) -> &Targets;

    /// Returns the names of the classes; empty for numeric targets and for tokens.
    fn class_names(&self) -> &[String] {
        match self.targets() {
            Targets::Numbers(_) => &[],
            classes => classes.names(),
        }
    }

    /// Returns the vocabulary of text inputs; none for other inputs.
    fn vocabulary(&self) -> Option<&Vocabulary> {
        None
    }

    /// Returns the number of bytes of text that each target class stands for, by its index; none where classes are not
    /// text.
    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        None
    }

    /// Whether samples have weights, by which they count in the loss: those of [`Batch::weights`].
    fn has_weights(&self) -> bool {
        false
    }

    /// Returns the views of each sample, those of one size together: a batch's inputs are a tensor for each size, with a row for each
    /// sample in each view, all samples of the first view before those of the second. All else in a [`Batch`] is by sample.
    fn view_groups(&self) -> Vec<ViewGroup> {
        vec![ViewGroup {
            entry: 0,
            count: 1,
            shape: self.sample_shape().to_vec(),
        }]
    }

    /// Returns the number of views of each sample, of all sizes.
    fn views(&self) -> usize {
        self.view_groups().iter().map(|group| group.count).sum()
    }

    /// Returns where the sample at `index` comes from; none if not from a file.
    fn origin(&self, _index: u32) -> Option<SampleOrigin> {
        None
    }

    /// Returns the class of the sample at `index`, if it has one that is known without reading its input.
    fn class_of(&self, _index: u32) -> Option<u32> {
        None
    }

    /// Whether the targets are real: those of files [opened](crate::Preprocessing::open) for predictions may be
    /// placeholders.
    fn has_targets(&self) -> bool {
        true
    }

    /// Returns these samples without random augmentation, for evaluations and predictions on training
    /// data; none if nothing is random.
    fn plain(&self) -> Option<Arc<dyn Dataset>> {
        None
    }

    /// Returns these samples in several views, which are drawn in the same way whenever they are; `views` is JSON in the form of
    /// `data.views`.
    ///
    /// # Errors
    ///
    /// If the samples have no views, or these don't fit them.
    fn in_views(&self, _views: &str) -> Result<Arc<dyn Dataset>, DataError> {
        Err(DataError::WithoutViews)
    }

    /// Describes the data, in lines for `sconce check`.
    fn describe(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the samples at `indices`, in that order. Random augmentation is keyed by a sample's index
    /// and `epoch`, the number of completed training epochs, never by the time of the call.
    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError>;
}

/// Views of one size, which follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewGroup {
    /// Entry of `data.views` that the first of them is from.
    pub entry: usize,
    /// Number of views, at least 1.
    pub count: usize,
    /// Shape of a sample's input in each.
    pub shape: Vec<usize>,
}

/// Source of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleOrigin {
    /// Index of the row, record or image in the file, from 0; a header is not counted.
    Row(usize),
    /// Name of the sample's own file, relative to its directory.
    File(String),
}

/// A batch of samples for a model.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Inputs (samples, …), or (views · samples, …), of the type given by [`Dataset::inputs`].
    pub inputs: Tensor,
    /// Inputs (views · samples, …) of the views of further sizes: a tensor for each [group](Dataset::view_groups) after the first.
    pub further_inputs: Vec<Tensor>,
    /// Targets of the shape and type given by [`Targets`].
    pub targets: Tensor,
    /// Indices of these samples in the data set.
    pub indices: Vec<u32>,
    /// Weight of each sample in the loss, 0 or more; all 1 if there are none.
    pub weights: Option<Vec<f32>>,
    /// Targets of the samples mixed into these, if any are.
    pub mixed: Option<MixedTargets>,
    /// Further inputs (samples, …), by the names under which layers read them, such as `token_types`.
    pub named: Arc<BTreeMap<String, Tensor>>,
    /// Which positions of tokens may see each other; all, if it is not said.
    pub visibility: Option<Visibility>,
}

/// Targets of samples that were mixed into those of a batch, in the same order.
#[derive(Clone, Debug)]
pub struct MixedTargets {
    /// Targets of the other samples, on the CPU.
    pub targets: Tensor,
    /// Share of the batch's own samples in the mixture, from 0 to 1.
    pub share: f64,
}

impl Batch {
    /// Creates a batch of samples that weigh the same, and of which each has one target.
    pub fn new(inputs: Tensor, targets: Tensor, indices: Vec<u32>) -> Batch {
        Batch {
            inputs,
            further_inputs: Vec::new(),
            targets,
            indices,
            weights: None,
            mixed: None,
            named: Arc::default(),
            visibility: None,
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Returns the inputs of all views: a tensor for each size, in their order.
    pub fn all_inputs(&self) -> impl Iterator<Item = &Tensor> + Clone {
        std::iter::once(&self.inputs).chain(&self.further_inputs)
    }

    /// Returns the size of inputs and targets in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let size = |tensor: &Tensor| tensor.elem_count() * tensor.dtype().size_in_bytes();
        let tensors = self.all_inputs().chain([&self.targets]);
        tensors.chain(self.named.values()).map(size).sum()
    }
}
