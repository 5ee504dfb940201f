//! What the loop asks of data.

use std::path::Path;
use std::sync::Arc;

use candle_core::Tensor;

use sconce_nn::{Inputs, Targets};

use super::{Error, Vocabulary};

/// Samples that can be asked for by their indices.
pub trait Dataset: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape of a sample's input: (channels, height, width) of an image, (columns) of a table's
    /// row, (context) of a text.
    fn sample_shape(&self) -> &[usize];

    /// What a sample's input is made of.
    fn inputs(&self) -> Inputs {
        Inputs::Numbers
    }

    /// What a sample's target is.
    fn targets(&self) -> &Targets;

    /// The classes' names; none where targets are numbers.
    fn class_names(&self) -> &[String] {
        match self.targets() {
            Targets::Class(names) | Targets::ClassPerPosition(names) => names,
            Targets::Numbers(_) => &[],
        }
    }

    /// What the tokens of its inputs mean; none where they are no text.
    fn vocabulary(&self) -> Option<&Vocabulary> {
        None
    }

    /// The samples of a file, made ready as these are, for predictions; their targets mean nothing.
    ///
    /// # Errors
    ///
    /// Where the file is wrong, or samples of this kind can't come from one.
    fn open(&self, file: &Path) -> Result<Arc<dyn Dataset>, Error> {
        Err(Error::NotOpened {
            file: file.to_owned(),
        })
    }

    /// Where the sample at `index` is in its file; nothing where it comes from none.
    fn origin(&self, _index: u32) -> Option<Origin> {
        None
    }

    /// Whether the targets are those of the samples: those of files that were [opened](Dataset::open) for
    /// predictions may mean nothing.
    fn has_targets(&self) -> bool {
        true
    }

    /// These samples without what is random about them, for evaluations and predictions on training
    /// data; nothing where nothing is random.
    fn plain(&self) -> Option<Arc<dyn Dataset>> {
        None
    }

    /// What there is to say of the data, in lines for `sconce check`.
    fn describe(&self) -> Vec<String> {
        Vec::new()
    }

    /// The samples at `indices`, in that order. What is random about a sample (augmentation) is keyed
    /// by its index and `epoch`, the training epochs finished: never by when it is asked for.
    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, Error>;
}

/// Where a sample is in what it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The sample's row, record or image of the file, from 0; a header is no row.
    Row(usize),
    /// The sample's own file, as it is called in its directory.
    File(String),
}

/// Some samples, ready for a model.
#[derive(Clone, Debug)]
pub struct Batch {
    /// (samples, …), of the type that [`Dataset::inputs`] says.
    pub inputs: Tensor,
    /// Of the shape and type that [`Targets`] says.
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
