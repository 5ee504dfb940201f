//! A limit on the number of samples of a data set.

use std::sync::Arc;

use sconce_nn::Signal;

use crate::{Batch, DataError, Dataset, Inputs, SampleOrigin, Targets, ViewGroup, Vocabulary};

/// The first samples of a data set, as a data set.
pub struct First {
    whole: Arc<dyn Dataset>,
    count: usize,
}

impl First {
    /// Takes the first `count` samples of `whole`, or all if it has fewer.
    pub fn new(whole: Arc<dyn Dataset>, count: usize) -> Self {
        let count = count.min(whole.len());
        First { whole, count }
    }
}

impl Dataset for First {
    fn len(&self) -> usize {
        self.count
    }

    fn sample_shape(&self) -> &[usize] {
        self.whole.sample_shape()
    }

    fn signal(&self) -> Signal {
        self.whole.signal()
    }

    fn inputs(&self) -> Inputs {
        self.whole.inputs()
    }

    fn targets(&self) -> &Targets {
        self.whole.targets()
    }

    fn class_names(&self) -> &[String] {
        self.whole.class_names()
    }

    fn vocabulary(&self) -> Option<&Vocabulary> {
        self.whole.vocabulary()
    }

    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        self.whole.class_bytes()
    }

    fn has_weights(&self) -> bool {
        self.whole.has_weights()
    }

    fn view_groups(&self) -> Vec<ViewGroup> {
        self.whole.view_groups()
    }

    fn origin(&self, index: u32) -> Option<SampleOrigin> {
        self.whole.origin(index)
    }

    fn class_of(&self, index: u32) -> Option<u32> {
        self.whole.class_of(index)
    }

    fn has_targets(&self) -> bool {
        self.whole.has_targets()
    }

    fn plain(&self) -> Option<Arc<dyn Dataset>> {
        let plain = self.whole.plain()?;
        Some(Arc::new(First::new(plain, self.count)))
    }

    fn in_views(&self, views: &str) -> Result<Arc<dyn Dataset>, DataError> {
        let whole = self.whole.in_views(views)?;
        Ok(Arc::new(First::new(whole, self.count)))
    }

    fn describe(&self) -> Vec<String> {
        let all = format!("the first {} of {}", self.count, self.whole.len());
        std::iter::once(all).chain(self.whole.describe()).collect()
    }

    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError> {
        self.whole.gather(indices, epoch)
    }
}
