//! Assembly of images into the data sets of the phases, common to all sources of images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AugmentConfig, Augmentation, ImageDataset, Images, Normalisation, NormaliseConfig};
use crate::split::{Part, Parts};
use crate::{DataError, Dataset, Splits};

/// Reads the images of a file for predictions, with placeholder labels.
pub(crate) type Opener = Arc<dyn Fn(&Path) -> Result<Images, DataError> + Send + Sync>;

/// Common properties of all images of a task.
pub(crate) struct Assembly<'a> {
    pub(crate) classes: Vec<String>,
    pub(crate) normalise: &'a NormaliseConfig,
    pub(crate) augment: &'a AugmentConfig,
    pub(crate) seed: u64,
    pub(crate) opener: Option<Opener>,
}

impl Assembly<'_> {
    /// Creates the data sets of the phases: `parts` of the training images, or separate images.
    pub(crate) fn splits(
        self,
        images: Images,
        parts: Parts,
        val: Part<OwnImages>,
        test: Part<OwnImages>,
    ) -> Result<Splits, DataError> {
        let normalisation = Normalisation::new(self.normalise, &images, &parts.train)?;
        let augmentation = Augmentation::new(self.augment, images.shape(), self.seed)?;
        let images = Arc::new(images);
        let train = ImageDataset {
            augmentation,
            opener: self.opener,
            ..ImageDataset::new(
                Arc::clone(&images),
                parts.train,
                normalisation,
                self.classes,
            )
        };
        let phase = |part, indices| -> Result<Option<Arc<dyn Dataset>>, DataError> {
            Ok(match part {
                Part::Nothing => None,
                Part::Count(_) => Some(Arc::new(train.with(Arc::clone(&images), indices))),
                Part::Own(own) => Some(Arc::new(train.all_of(own)?)),
            })
        };
        let val = phase(val, parts.val)?;
        let test = phase(test, parts.test)?;
        Ok(Splits {
            train: Arc::new(train),
            val,
            test,
        })
    }
}

/// Images that are separate from the training files.
pub(crate) struct OwnImages {
    pub(crate) images: Images,
    /// Path that they come from.
    pub(crate) file: PathBuf,
}
