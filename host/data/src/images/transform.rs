//! Other images as inputs of the same model.

use std::path::Path;
use std::sync::Arc;

use sconce_nn::onnx::{Dimension, ElementType, Graph, Value};
use serde::{Deserialize, Serialize};

use super::cifar::{self, CifarLabels, CifarVersion};
use super::image_folder::{self, DecodedFormat};
use super::{
    ChannelStatistics, FittedImages, ImageDataset, ImageTargets, Images, Normalisation, targets,
};
use crate::dataset::input::InputDescription;
use crate::dataset::shape::elements;
use crate::files::memory::MemoryUse;
use crate::{DataError, Dataset, Targets};

/// Files that images come from, with the form in which images are read from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ImageFormat {
    /// IDX files.
    Idx {
        /// Channels, height and width.
        shape: [usize; 3],
    },
    /// CIFAR's binary files.
    Cifar {
        version: CifarVersion,
        labels: CifarLabels,
    },
    /// A file for each image.
    Files(DecodedFormat),
}

/// What was learnt from images: their form, the statistics of their channels, and the classes, if they are targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredTransform", into = "StoredTransform")]
pub struct ImageTransform {
    format: ImageFormat,
    statistics: ChannelStatistics,
    classes: Vec<String>,
    /// Height and width that images are resized to, if these are not those of the format.
    size: Option<[usize; 2]>,
}

/// Serialised form of a transform.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTransform {
    format: ImageFormat,
    statistics: ChannelStatistics,
    classes: Vec<String>,
    #[serde(default, skip_serializing_if = "ImageTargets::is_default")]
    targets: ImageTargets,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<[usize; 2]>,
}

impl From<ImageTransform> for StoredTransform {
    fn from(transform: ImageTransform) -> StoredTransform {
        StoredTransform {
            format: transform.format,
            statistics: transform.statistics,
            targets: if transform.classes.is_empty() {
                ImageTargets::None
            } else {
                ImageTargets::Classes
            },
            classes: transform.classes,
            size: transform.size,
        }
    }
}

impl TryFrom<StoredTransform> for ImageTransform {
    type Error = String;

    fn try_from(stored: StoredTransform) -> Result<ImageTransform, String> {
        let shape = resized_shape(stored.format, stored.size);
        if elements(&shape).is_none_or(|pixels| u32::try_from(pixels).is_err()) {
            return Err(format!("images can't have the shape {shape:?}"));
        }
        let [channels, ..] = shape;
        let found = stored.statistics.channels();
        if found != channels {
            return Err(format!(
                "images have {channels} channels, but there are statistics of {found}"
            ));
        }
        if stored.classes.is_empty() != (stored.targets == ImageTargets::None) {
            return Err("there are no classes, or some that are no targets".to_owned());
        }
        Ok(ImageTransform {
            format: stored.format,
            statistics: stored.statistics,
            classes: stored.classes,
            size: stored.size,
        })
    }
}

impl ImageFormat {
    fn shape(self) -> [usize; 3] {
        match self {
            ImageFormat::Idx { shape } => shape,
            ImageFormat::Cifar { .. } => cifar::SHAPE,
            ImageFormat::Files(form) => form.shape(),
        }
    }

    /// Reads images with their labels.
    fn read_labelled(
        self,
        source: &Path,
        labels: Option<&Path>,
        classes: &[String],
    ) -> Result<Images, DataError> {
        let file = source.to_owned();
        match (self, labels) {
            (ImageFormat::Idx { .. }, Some(labels)) => {
                Images::read(source, labels, classes.len(), MemoryUse::Auto)
            }
            (ImageFormat::Idx { .. }, None) => Err(DataError::WithoutTargets {
                file,
                way: "`--targets FILE` names the IDX file of their labels",
            }),
            (_, Some(_)) => Err(DataError::TargetsInside { file }),
            // Records have their labels.
            (ImageFormat::Cifar { .. }, None) => self.read(source),
            (ImageFormat::Files(form), None) => image_folder::labelled(source, form, classes),
        }
    }

    /// Reads images, with placeholder labels where these are elsewhere.
    fn read(self, source: &Path) -> Result<Images, DataError> {
        match self {
            ImageFormat::Idx { .. } => Images::unlabelled(source, MemoryUse::Auto),
            ImageFormat::Cifar { version, labels } => cifar::unlabelled(version, labels, source),
            ImageFormat::Files(form) => image_folder::unlabelled(source, form),
        }
    }
}

/// The shape of a model's inputs: that of the images, but for a size that they are resized to.
fn resized_shape(format: ImageFormat, size: Option<[usize; 2]>) -> [usize; 3] {
    let [channels, height, width] = format.shape();
    let [height, width] = size.unwrap_or([height, width]);
    [channels, height, width]
}

impl ImageTransform {
    pub(crate) fn new(format: ImageFormat, learnt: FittedImages) -> ImageTransform {
        ImageTransform {
            format,
            statistics: learnt.statistics,
            classes: learnt.classes,
            size: learnt.size,
        }
    }

    /// Normalised images in a graph of ONNX, from bytes (samples, channels, height, width), `image`.
    pub(crate) fn onnx(&self, graph: &mut Graph) -> Value {
        let [channels, height, width] = self.shape().map(Dimension::Fixed);
        let shape = [Dimension::Free("batch"), channels, height, width];
        let image = graph.input("image", ElementType::Byte, &shape);
        let pairs = self.statistics.pairs();
        graph.standardised(&image, pairs, &[1, pairs.len(), 1, 1])
    }

    /// Returns channels, height and width of a model's inputs.
    pub fn shape(&self) -> [usize; 3] {
        resized_shape(self.format, self.size)
    }

    /// Returns the targets: classes, or none.
    pub fn targets(&self) -> Targets {
        targets(self.classes.clone())
    }

    /// Opens the images of a file of the training's kind, or of a directory.
    pub(crate) fn open(&self, source: &Path) -> Result<Arc<dyn Dataset>, DataError> {
        let images = self.dataset(self.format.read(source)?, source)?;
        Ok(Arc::new(images.without_targets()))
    }

    /// Opens images with their labels: in directories named after the classes, in CIFAR's records, or in a file of their
    /// own.
    pub(crate) fn open_labelled(
        &self,
        source: &Path,
        labels: Option<&Path>,
    ) -> Result<Arc<dyn Dataset>, DataError> {
        if self.classes.is_empty() {
            return Err(DataError::NothingToCompare);
        }
        let images = self.format.read_labelled(source, labels, &self.classes)?;
        Ok(Arc::new(self.dataset(images, source)?))
    }

    fn dataset(&self, images: Images, source: &Path) -> Result<ImageDataset, DataError> {
        let shape = self.format.shape();
        if images.shape() != shape {
            return Err(DataError::Shape {
                file: source.to_owned(),
                wanted: shape.to_vec(),
                found: images.shape().to_vec(),
            });
        }
        let all = (0..images.count() as u32).collect();
        let normalisation = Normalisation::of(&self.statistics);
        let classes = self.classes.clone();
        let images = ImageDataset::new(Arc::new(images), all, normalisation, classes);
        Ok(match self.size {
            Some(size) => images.resized_to(size),
            None => images,
        })
    }

    pub(crate) fn describe_input(&self) -> InputDescription {
        let [channels, height, width] = self.format.shape();
        let colour = if channels == 1 { "grey" } else { "colour" };
        let size = match self.format {
            ImageFormat::Files(form) if form.resize.is_some() => "; others are resized",
            _ => "",
        };
        let values = match self.format {
            ImageFormat::Idx { .. } => "an IDX file of images",
            ImageFormat::Cifar { .. } => "a file of CIFAR's binary version",
            ImageFormat::Files(_) => "an image file, or a directory of them",
        };
        InputDescription {
            name: "image".to_owned(),
            kind: format!("{colour} image of {height} × {width} pixels (height × width){size}"),
            values: values.to_owned(),
        }
    }
}
