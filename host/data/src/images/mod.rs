//! Images, stored as bytes, in memory or in files, until a batch is requested.
//!
//! **Parts**
//! - Sources: `idx`, `cifar`, `image_folder`. `assembly` divides what they give, `normalisation` is fitted to its training part.
//! - `pixels` keeps the bytes, or reads them on demand; `augmentation` alters the images of a batch.
//! - `transform`: other images as inputs of the same model.

mod assembly;
mod augmentation;
pub(super) mod cifar;
mod config;
pub(super) mod idx;
pub(super) mod image_folder;
mod normalisation;
mod pixels;
pub(super) mod transform;

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::error::ImagesError;
use super::files::memory::MemoryUse;
use super::{Batch, DataError, Dataset, MixedTargets, SampleOrigin, Targets, ViewGroup};
pub(super) use assembly::{Assembly, FittedImages, OwnImages};
pub use augmentation::{
    AugmentConfig, BlurConfig, ColourConfig, CropConfig, CutmixConfig, EraseConfig, Flip,
    GreyConfig, MixupConfig, RandAugmentConfig, RotateConfig, SolariseConfig, ViewConfig,
    ViewCropConfig,
};
use augmentation::{Augmentation, Views, resized};
pub use config::{ImageOptions, ImageTargets, MeanDeviation, NormaliseConfig, NormaliseRule};
use idx::IdxRole;
pub(super) use normalisation::{ChannelStatistics, Normalisation};
use pixels::{Pixels, ReadImage};

/// Images of one shape with their labels.
#[derive(Clone, Debug)]
pub struct Images {
    /// Pixels of all images, one after the other, in the order of the shape.
    pixels: Pixels,
    /// Channels, height, width.
    shape: [usize; 3],
    labels: Vec<u32>,
    source: ImageSource,
}

/// Source of images, for the origin of samples.
#[derive(Clone, Debug)]
enum ImageSource {
    /// The images were generated.
    Nothing,
    /// Files with many images, one after the other.
    Records,
    /// One file per image, with these names.
    Files(Arc<[String]>),
}

impl Images {
    /// Creates images from matching parts: one label for each image of that shape.
    pub(super) fn new(pixels: Vec<u8>, shape: [usize; 3], labels: Vec<u32>) -> Images {
        debug_assert_eq!(pixels.len(), shape.iter().product::<usize>() * labels.len());
        Images {
            pixels: Pixels::Memory(pixels),
            shape,
            labels,
            source: ImageSource::Nothing,
        }
    }

    /// Creates images that are read on demand, one for each label.
    pub(super) fn on_demand(
        images: Arc<dyn ReadImage>,
        shape: [usize; 3],
        labels: Vec<u32>,
    ) -> Images {
        Images {
            pixels: Pixels::OnDemand(images),
            shape,
            labels,
            source: ImageSource::Nothing,
        }
    }

    /// Whether reading an image takes no more than looking it up.
    pub(super) fn is_in_memory(&self) -> bool {
        self.pixels.is_in_memory()
    }

    /// Marks the images as records of one or several files, in order.
    pub(super) fn of_records(mut self) -> Images {
        self.source = ImageSource::Records;
        self
    }

    /// Marks the images as coming from one file each.
    pub(super) fn of_files(mut self, names: Vec<String>) -> Images {
        self.source = ImageSource::Files(names.into());
        self
    }

    /// Returns the source of an image.
    fn origin(&self, image: usize) -> Option<SampleOrigin> {
        match &self.source {
            ImageSource::Nothing => None,
            ImageSource::Records => Some(SampleOrigin::Row(image)),
            ImageSource::Files(names) => names.get(image).cloned().map(SampleOrigin::File),
        }
    }

    /// Reads images and labels from IDX files, and checks that they match.
    pub(super) fn read(
        images: &Path,
        labels: &Path,
        classes: usize,
        memory: MemoryUse,
    ) -> Result<Images, DataError> {
        let (pixels, shape, count) = read_pixels(images, memory)?;
        let marks = idx::read(labels, IdxRole::Labels)?;
        if count != marks.bytes.len() {
            return Err(DataError::CountMismatch {
                images_file: images.to_owned(),
                labels_file: labels.to_owned(),
                images: count,
                labels: marks.bytes.len(),
            });
        }
        let wrong = marks
            .bytes
            .iter()
            .position(|&label| usize::from(label) >= classes);
        if let Some(index) = wrong {
            return Err(DataError::Label {
                file: labels.to_owned(),
                index,
                label: marks.bytes.get(index).copied().unwrap_or(0),
                classes,
            });
        }
        let labels = marks.bytes.into_iter().map(u32::from).collect();
        Ok(Images {
            pixels,
            shape,
            labels,
            source: ImageSource::Records,
        })
    }

    /// Reads images from an IDX file, with placeholder labels.
    pub(super) fn unlabelled(file: &Path, memory: MemoryUse) -> Result<Images, DataError> {
        let (pixels, shape, count) = read_pixels(file, memory)?;
        Ok(Images {
            pixels,
            shape,
            labels: vec![0; count],
            source: ImageSource::Records,
        })
    }

    /// Returns the number of images.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    /// Returns channels, height and width.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Returns the class of each image.
    pub(super) fn classes(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the bytes of an image and its class, or none if the index is out of range. Bytes may be
    /// read into `buffer`.
    pub(super) fn image<'a>(
        &'a self,
        index: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<(&'a [u8], u32)>, DataError> {
        let Some(&label) = self.labels.get(index) else {
            return Ok(None);
        };
        let size: usize = self.shape.iter().product();
        let pixels = self.pixels.image(index, size, buffer)?;
        Ok(pixels.map(|pixels| (pixels, label)))
    }
}

/// Reads the pixels of an IDX file of images, with their shape and count.
fn read_pixels(file: &Path, memory: MemoryUse) -> Result<(Pixels, [usize; 3], usize), DataError> {
    let images = idx::images(file, memory)?;
    let shape = match images.dimensions[..] {
        [_, height, width] => [1, height, width],
        [_, channels, height, width] => [channels, height, width],
        // The reader has checked that the rank is 3 or 4.
        _ => [0, 0, 0],
    };
    let count = images.dimensions.first().copied().unwrap_or(0);
    if u32::try_from(count).is_err() {
        return Err(DataError::TooMany(count as u64));
    }
    Ok((images.pixels, shape, count))
}

/// The targets of images of these classes, or none.
pub(super) fn targets(classes: Vec<String>) -> Targets {
    if classes.is_empty() {
        Targets::None
    } else {
        Targets::Class(classes)
    }
}

/// A part of some images, as a data set for classification, or without targets.
pub struct ImageDataset {
    images: Arc<Images>,
    /// Shape of a sample: that of the images, or of their first views.
    shape: [usize; 3],
    /// Indices of its images.
    indices: Vec<u32>,
    normalisation: Normalisation,
    /// Random augmentation, if any.
    augmentation: Option<Augmentation>,
    /// What becomes several rows of a batch, if anything does.
    views: Option<Arc<Views>>,
    targets: Targets,
    /// Whether it is a part of images that another data set already describes.
    is_part: bool,
    has_targets: bool,
}

impl ImageDataset {
    /// Creates a data set of the images at `indices`, with the training normalisation. Without class names there are no targets.
    pub(super) fn new(
        images: Arc<Images>,
        indices: Vec<u32>,
        normalisation: Normalisation,
        class_names: Vec<String>,
    ) -> ImageDataset {
        ImageDataset {
            shape: images.shape,
            images,
            indices,
            normalisation,
            augmentation: None,
            views: None,
            has_targets: !class_names.is_empty(),
            targets: targets(class_names),
            is_part: false,
        }
    }

    /// Creates a data set of other images with the same preparation, but without augmentation.
    fn with(&self, images: Arc<Images>, indices: Vec<u32>) -> ImageDataset {
        ImageDataset {
            images,
            shape: self.shape,
            indices,
            normalisation: self.normalisation.clone(),
            augmentation: None,
            views: None,
            targets: self.targets.clone(),
            is_part: true,
            has_targets: self.targets != Targets::None,
        }
    }

    /// Resizes the images to this height and width.
    pub(super) fn resized_to(self, [height, width]: [usize; 2]) -> ImageDataset {
        let [channels, ..] = self.shape;
        ImageDataset {
            shape: [channels, height, width],
            ..self
        }
    }

    /// Marks the labels as placeholders.
    pub(super) fn without_targets(self) -> ImageDataset {
        ImageDataset {
            has_targets: false,
            ..self
        }
    }

    /// Creates a data set of all images in `own` with the same preparation; they must have the same shape.
    fn all_of(&self, own: OwnImages) -> Result<ImageDataset, DataError> {
        let OwnImages { images, file } = own;
        if images.shape != self.images.shape {
            return Err(DataError::Shape {
                file,
                wanted: self.images.shape.to_vec(),
                found: images.shape.to_vec(),
            });
        }
        let indices = (0..images.count() as u32).collect();
        Ok(ImageDataset {
            is_part: false,
            ..self.with(Arc::new(images), indices)
        })
    }

    /// Returns an image as it is in an epoch, or a view of it. Its bytes may be written to `into`.
    fn altered<'a>(
        &self,
        view: usize,
        sample: (u64, u32),
        pixels: &'a [u8],
        into: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match (&self.augmentation, &self.views) {
            (Some(augmentation), _) => {
                augmentation.apply(sample, pixels, self.images.shape, into);
            }
            (None, Some(views)) => views.apply(view, sample, pixels, self.images.shape, into),
            (None, None) if self.shape == self.images.shape => return pixels,
            (None, None) => resized(pixels, self.images.shape, self.shape, into),
        }
        into
    }

    /// Returns the bytes and the class of a sample.
    fn sample<'a>(
        &'a self,
        index: u32,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(&'a [u8], u32), DataError> {
        let image = match self.indices.get(index as usize) {
            Some(&image) => self.images.image(image as usize, buffer)?,
            None => None,
        };
        image.ok_or(DataError::Index {
            index,
            count: self.len(),
        })
    }
}

impl Dataset for ImageDataset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn origin(&self, index: u32) -> Option<SampleOrigin> {
        let image = *self.indices.get(index as usize)?;
        self.images.origin(image as usize)
    }

    fn class_of(&self, index: u32) -> Option<u32> {
        if self.targets == Targets::None {
            return None;
        }
        let image = *self.indices.get(index as usize)?;
        self.images.labels.get(image as usize).copied()
    }

    fn has_targets(&self) -> bool {
        self.has_targets
    }

    fn view_groups(&self) -> Vec<ViewGroup> {
        match &self.views {
            Some(views) => views.groups().to_vec(),
            None => vec![ViewGroup {
                entry: 0,
                count: 1,
                shape: self.shape.to_vec(),
            }],
        }
    }

    /// Says how many images are stored, in how many bytes, and how many views there are.
    fn describe(&self) -> Vec<String> {
        if self.is_part {
            return Vec::new();
        }
        let [channels, height, width] = self.images.shape;
        let place = if self.images.is_in_memory() {
            "in memory"
        } else {
            "read on demand"
        };
        let bytes = self.images.count() as u128 * (channels * height * width) as u128;
        let stored = format!(
            "{} images {place}: {channels} × {height} × {width}, {bytes} bytes",
            self.images.count()
        );
        let views = self
            .views
            .as_ref()
            .map(|views| describe_views(views.groups()));
        std::iter::once(stored).chain(views).collect()
    }

    fn plain(&self) -> Option<Arc<dyn Dataset>> {
        let varies = self.views.as_ref().is_some_and(|views| !views.are_fixed());
        if self.augmentation.is_none() && !varies {
            return None;
        }
        Some(Arc::new(ImageDataset {
            has_targets: self.has_targets,
            ..self.with(Arc::clone(&self.images), self.indices.clone())
        }))
    }

    fn in_views(&self, views: &str) -> Result<Arc<dyn Dataset>, DataError> {
        let [_, height, width] = self.shape;
        let views = Views::of_json(views, self.images.shape, [height, width])?;
        Ok(Arc::new(ImageDataset {
            views: Some(Arc::new(views)),
            has_targets: self.has_targets,
            ..self.with(Arc::clone(&self.images), self.indices.clone())
        }))
    }

    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError> {
        let groups = self.view_groups();
        let shape_of = |view| self.views.as_ref().and_then(|views| views.shape(view));
        let mut inputs: Vec<([usize; 3], Vec<f32>)> = (0..self.views())
            .map(|view| {
                let shape = shape_of(view).unwrap_or(self.shape);
                let size: usize = shape.iter().product();
                (shape, Vec::with_capacity(indices.len() * size))
            })
            .collect();
        let mut targets = Vec::with_capacity(indices.len());
        let (mut buffer, mut changed) = (Vec::new(), Vec::new());
        for &index in indices {
            let (pixels, class) = self.sample(index, &mut buffer)?;
            for (view, ([_, height, width], inputs)) in inputs.iter_mut().enumerate() {
                let pixels = self.altered(view, (epoch, index), pixels, &mut changed);
                self.normalisation.apply(pixels, *height * *width, inputs);
            }
            targets.push(if self.targets == Targets::None {
                0
            } else {
                class
            });
        }
        let mut views = inputs.into_iter().map(|(_, inputs)| inputs);
        // Those of one size come one after the other, each with all samples.
        let mut inputs: Vec<Vec<f32>> = (groups.iter())
            .map(|group| joined(views.by_ref().take(group.count)))
            .collect();
        let mixed = match (&self.augmentation, indices.first(), inputs.first_mut()) {
            (Some(augmentation), Some(&first), Some(inputs)) => {
                augmentation.mix((epoch, first), inputs, indices.len(), self.shape)
            }
            _ => None,
        };
        let mixed = match mixed {
            Some((partners, own)) => {
                let target = |&place: &u32| targets.get(place as usize).copied();
                let targets: Vec<u32> = partners.iter().filter_map(target).collect();
                let targets = Tensor::new(targets, &Device::Cpu)?;
                Some(MixedTargets {
                    targets,
                    share: own,
                })
            }
            None => None,
        };
        let mut tensors = groups.iter().zip(inputs).map(|(group, inputs)| {
            let rows = [group.count * indices.len()];
            Tensor::from_vec(inputs, [&rows, &group.shape[..]].concat(), &Device::Cpu)
        });
        let inputs = tensors.next().ok_or(ImagesError::NoView)??;
        let further_inputs = tensors.collect::<Result<_, _>>()?;
        let targets = Tensor::from_vec(targets, indices.len(), &Device::Cpu)?;
        Ok(Batch {
            further_inputs,
            mixed,
            ..Batch::new(inputs, targets, indices.to_vec())
        })
    }
}

/// The rows of some views, one after the other.
fn joined(mut views: impl Iterator<Item = Vec<f32>>) -> Vec<f32> {
    let mut rows = views.next().unwrap_or_default();
    for view in views {
        rows.extend_from_slice(&view);
    }
    rows
}

/// How many views there are, and of which sizes if these differ, for `sconce check`.
fn describe_views(groups: &[ViewGroup]) -> String {
    let count: usize = groups.iter().map(|group| group.count).sum();
    let all = format!("{count} views of each training image");
    if groups.len() < 2 {
        return all;
    }
    let sizes = groups.iter().map(|group| match group.shape[..] {
        [_, height, width] => format!("{} of {height} × {width}", group.count),
        _ => group.count.to_string(),
    });
    format!("{all}: {}", sizes.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
