//! From images to the data sets of a task's phases: the same for every source of images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{AugmentConfig, Augmentation, ImageDataset, Images, Normalisation, NormaliseConfig};
use crate::data::split::{Part, Parts};
use crate::data::{Dataset, Error, Splits};

/// Reads the images of a file for predictions; their labels mean nothing.
pub(in crate::data) type Opener = Arc<dyn Fn(&Path) -> Result<Images, Error> + Send + Sync>;

/// What all of a task's images have in common.
pub(in crate::data) struct Assembly<'a> {
    pub(in crate::data) classes: Vec<String>,
    pub(in crate::data) normalise: &'a NormaliseConfig,
    pub(in crate::data) augment: &'a AugmentConfig,
    pub(in crate::data) seed: u64,
    pub(in crate::data) opener: Option<Opener>,
}

impl Assembly<'_> {
    /// The data of the phases: `parts` of the training images, or images of their own.
    pub(in crate::data) fn splits(
        self,
        images: Images,
        parts: Parts,
        val: Part<Own>,
        test: Part<Own>,
    ) -> Result<Splits, Error> {
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
        let phase = |part, indices| -> Result<Option<Arc<dyn Dataset>>, Error> {
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

/// Images that are not of the training files.
pub(in crate::data) struct Own {
    pub(in crate::data) images: Images,
    /// Where they come from.
    pub(in crate::data) file: PathBuf,
}
