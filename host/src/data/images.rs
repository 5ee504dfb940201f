//! Images in memory: bytes until a batch is asked for.

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::idx::{self, Role};
use super::{Batch, Dataset, Error, Targets};

/// Images of one shape with their labels.
#[derive(Clone, Debug)]
pub struct Images {
    /// The pixels of all images, one after the other, in the order of the shape.
    pixels: Vec<u8>,
    /// Channels, height, width.
    shape: [usize; 3],
    labels: Vec<u8>,
}

impl Images {
    /// Images from parts that belong together: as many labels as there are images of that shape.
    pub(super) fn new(pixels: Vec<u8>, shape: [usize; 3], labels: Vec<u8>) -> Images {
        debug_assert_eq!(pixels.len(), shape.iter().product::<usize>() * labels.len());
        Images {
            pixels,
            shape,
            labels,
        }
    }

    /// Reads images and labels from IDX files, and checks that they belong together.
    pub(super) fn read(images: &Path, labels: &Path, classes: usize) -> Result<Images, Error> {
        let (pixels, shape, count) = read_pixels(images)?;
        let marks = idx::read(labels, Role::Labels)?;
        if count != marks.bytes.len() {
            return Err(Error::CountMismatch {
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
            return Err(Error::Label {
                file: labels.to_owned(),
                index,
                label: marks.bytes.get(index).copied().unwrap_or(0),
                classes,
            });
        }
        Ok(Images::new(pixels, shape, marks.bytes))
    }

    /// Reads images from an IDX file; their labels mean nothing.
    fn unlabelled(file: &Path) -> Result<Images, Error> {
        let (pixels, shape, count) = read_pixels(file)?;
        Ok(Images::new(pixels, shape, vec![0; count]))
    }

    /// How many images there are.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    /// Channels, height, width.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The class of each image.
    pub(super) fn classes(&self) -> Vec<u32> {
        self.labels.iter().copied().map(u32::from).collect()
    }

    pub(super) fn image(&self, index: usize) -> Option<(&[u8], u8)> {
        let size: usize = self.shape.iter().product();
        let pixels = self.pixels.get(index * size..(index + 1) * size)?;
        Some((pixels, *self.labels.get(index)?))
    }
}

/// The bytes of an IDX file of images, their shape and their count.
fn read_pixels(file: &Path) -> Result<(Vec<u8>, [usize; 3], usize), Error> {
    let pixels = idx::read(file, Role::Images)?;
    let shape = match pixels.dimensions[..] {
        [_, height, width] => [1, height, width],
        [_, channels, height, width] => [channels, height, width],
        // The reader lets nothing else through.
        _ => [0, 0, 0],
    };
    let count = pixels.dimensions.first().copied().unwrap_or(0);
    if u32::try_from(count).is_err() {
        return Err(Error::TooMany(count as u64));
    }
    Ok((pixels.bytes, shape, count))
}

/// What becomes of each of the 256 values of a pixel: (x / 255 − mean) / standard deviation.
#[derive(Clone, Debug)]
pub struct Normalisation {
    table: Box<[f32; 256]>,
}

impl Normalisation {
    /// By mean and standard deviation of the images at `indices`, over all pixels. The sums are
    /// whole numbers, so that they don't depend on any order.
    pub fn of(images: &Images, indices: &[u32]) -> Normalisation {
        let (mut count, mut sum, mut squares) = (0_u64, 0_u64, 0_u128);
        for &index in indices {
            if let Some((pixels, _)) = images.image(index as usize) {
                count += pixels.len() as u64;
                sum += pixels.iter().map(|&pixel| u64::from(pixel)).sum::<u64>();
                let of_image: u64 = pixels.iter().map(|&p| u64::from(p) * u64::from(p)).sum();
                squares += u128::from(of_image);
            }
        }
        let count = count.max(1) as f64;
        let mean = sum as f64 / count;
        let variance = squares as f64 / count - mean * mean;
        // Images of a single value have nothing to scale by.
        let deviation = if variance > 1e-9 {
            variance.sqrt()
        } else {
            255.0
        };
        let mut table = Box::new([0.0; 256]);
        for (value, place) in table.iter_mut().enumerate() {
            *place = ((value as f64 - mean) / deviation) as f32;
        }
        Normalisation { table }
    }
}

/// A part of some images as a data set for classification.
pub struct ImageDataset {
    images: Arc<Images>,
    /// Which images belong to it.
    indices: Vec<u32>,
    normalisation: Normalisation,
    targets: Targets,
}

impl ImageDataset {
    /// The images at `indices`, normalised in the training's way.
    pub fn new(
        images: Arc<Images>,
        indices: Vec<u32>,
        normalisation: Normalisation,
        class_names: Vec<String>,
    ) -> ImageDataset {
        ImageDataset {
            images,
            indices,
            normalisation,
            targets: Targets::Class(class_names),
        }
    }
}

impl Dataset for ImageDataset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn sample_shape(&self) -> &[usize] {
        &self.images.shape
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The images of an IDX file.
    fn open(&self, file: &Path) -> Result<Arc<dyn Dataset>, Error> {
        let images = Images::unlabelled(file)?;
        if images.shape != self.images.shape {
            return Err(Error::Shape {
                file: file.to_owned(),
                wanted: self.images.shape.to_vec(),
                found: images.shape.to_vec(),
            });
        }
        Ok(Arc::new(ImageDataset {
            indices: (0..images.count() as u32).collect(),
            images: Arc::new(images),
            normalisation: self.normalisation.clone(),
            targets: self.targets.clone(),
        }))
    }

    fn gather(&self, indices: &[u32], _epoch: u64) -> Result<Batch, Error> {
        let [channels, height, width] = self.images.shape;
        let table = &self.normalisation.table;
        let mut inputs = Vec::with_capacity(indices.len() * channels * height * width);
        let mut targets = Vec::with_capacity(indices.len());
        for &index in indices {
            let (pixels, label) = self
                .indices
                .get(index as usize)
                .and_then(|&image| self.images.image(image as usize))
                .ok_or(Error::Index {
                    index,
                    count: self.len(),
                })?;
            inputs.extend(pixels.iter().map(|&pixel| table[usize::from(pixel)]));
            targets.push(u32::from(label));
        }
        let shape = (indices.len(), channels, height, width);
        Ok(Batch {
            inputs: Tensor::from_vec(inputs, shape, &Device::Cpu)?,
            targets: Tensor::from_vec(targets, indices.len(), &Device::Cpu)?,
            indices: indices.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
