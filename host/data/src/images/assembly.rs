//! Assembly of images into the data sets of the phases, common to all sources of images.

use std::path::PathBuf;
use std::sync::Arc;

use super::{
    Augmentation, ChannelStatistics, ImageDataset, ImageOptions, ImageTargets, Images,
    Normalisation, Views,
};
use crate::dataset::fitted::Fitted;
use crate::error::ImagesError;
use crate::split::{Part, Parts};
use crate::{DataError, Dataset};

/// Common properties of all images of a task.
pub(crate) struct Assembly<'a> {
    pub(crate) classes: Vec<String>,
    pub(crate) options: &'a ImageOptions,
    pub(crate) seed: u64,
}

/// What is learnt from images of any source.
pub(crate) struct FittedImages {
    /// Statistics of the channels.
    pub(crate) statistics: ChannelStatistics,
    /// Names of the classes; empty if there are no targets.
    pub(crate) classes: Vec<String>,
    /// Height and width that images are resized to, if these are not their own.
    pub(crate) size: Option<[usize; 2]>,
}

impl Assembly<'_> {
    /// Creates the data sets of the phases: `parts` of the training images, or separate images.
    pub(crate) fn splits(
        self,
        images: Images,
        parts: Parts,
        val: Part<OwnImages>,
        test: Part<OwnImages>,
    ) -> Result<Fitted<FittedImages>, DataError> {
        let statistics = ChannelStatistics::fit(&self.options.normalise, &images, &parts.train)?;
        let augmentation = Augmentation::new(&self.options.augment, images.shape(), self.seed)?;
        let classes = match self.options.targets {
            ImageTargets::Classes => self.classes,
            ImageTargets::None => Vec::new(),
        };
        let views = Views::new(&self.options.views, images.shape(), self.seed)?;
        if augmentation.is_some() && views.is_some() {
            return Err(ImagesError::ViewsAndAugment.into());
        }
        let images = Arc::new(images);
        let train = ImageDataset {
            augmentation,
            shape: views
                .as_ref()
                .and_then(|views| views.shape(0))
                .unwrap_or(images.shape()),
            views: views.map(Arc::new),
            ..ImageDataset::new(
                Arc::clone(&images),
                parts.train,
                Normalisation::of(&statistics),
                classes.clone(),
            )
        };
        let phase = |part, indices| -> Result<Option<Arc<dyn Dataset>>, DataError> {
            Ok(match part {
                Part::Nothing => None,
                Part::Count(_) | Part::Fold(_) => {
                    Some(Arc::new(train.with(Arc::clone(&images), indices)))
                }
                Part::Own(own) => Some(Arc::new(train.all_of(own)?)),
            })
        };
        let val = phase(val, parts.val)?;
        let test = phase(test, parts.test)?;
        let size = Some(train.shape).filter(|shape| *shape != images.shape());
        Ok(Fitted {
            train: Arc::new(train),
            val,
            test,
            learnt: FittedImages {
                statistics,
                classes,
                size: size.map(|[_, height, width]| [height, width]),
            },
        })
    }
}

/// Images that are separate from the training files.
pub(crate) struct OwnImages {
    pub(crate) images: Images,
    /// Path that they come from.
    pub(crate) file: PathBuf,
}
