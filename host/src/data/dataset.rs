//! What the loop asks of data.

use candle_core::Tensor;

use super::Error;

/// Samples that can be asked for by their indices.
pub trait Dataset: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape of a sample's input, as (channels, height, width).
    fn sample_shape(&self) -> &[usize];

    /// The classes' names; targets are indices into them.
    fn class_names(&self) -> &[String];

    /// How many classes there are.
    fn classes(&self) -> usize {
        self.class_names().len()
    }

    /// The samples at `indices`, in that order.
    fn gather(&self, indices: &[u32]) -> Result<Batch, Error>;
}

/// Some samples, ready for a model.
#[derive(Clone, Debug)]
pub struct Batch {
    /// (samples, …): f32, normalised.
    pub inputs: Tensor,
    /// (samples): u32, the classes.
    pub targets: Tensor,
    /// Which samples of the data set these are.
    pub indices: Vec<u32>,
}

impl Batch {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}
