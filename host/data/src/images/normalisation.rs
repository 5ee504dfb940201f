//! Normalisation: from bytes to the model's inputs.

use super::{DataError, Images, ImagesError, MeanDeviation, NormaliseConfig, NormaliseRule};

/// Lookup tables for the 256 values of a pixel: (x / 255 − mean) / standard deviation.
#[derive(Clone, Debug)]
pub(crate) struct Normalisation {
    /// One table per channel.
    tables: Vec<[f32; 256]>,
}

impl Normalisation {
    /// Creates the configured normalisation, for training on the images at `indices`.
    pub(crate) fn new(
        config: &NormaliseConfig,
        images: &Images,
        indices: &[u32],
    ) -> Result<Normalisation, DataError> {
        let [channels, ..] = images.shape();
        match config {
            NormaliseConfig::Rule(NormaliseRule::Computed) => Normalisation::of(images, indices),
            NormaliseConfig::Rule(NormaliseRule::None) => Ok(Normalisation {
                tables: vec![table(0.0, 255.0); channels],
            }),
            NormaliseConfig::Known(known) => Ok(Normalisation::known(known, channels)?),
        }
    }

    /// Uses mean and standard deviation of each channel of the images at `indices`. The sums are
    /// integers, so that they do not depend on the order.
    pub(crate) fn of(images: &Images, indices: &[u32]) -> Result<Normalisation, DataError> {
        let [channels, height, width] = images.shape();
        let mut sums = vec![(0_u64, 0_u128); channels];
        let mut buffer = Vec::new();
        for &index in indices {
            let Some((pixels, _)) = images.image(index as usize, &mut buffer)? else {
                continue;
            };
            let planes = pixels.chunks_exact((height * width).max(1));
            for ((sum, squares), plane) in sums.iter_mut().zip(planes) {
                *sum += plane.iter().map(|&pixel| u64::from(pixel)).sum::<u64>();
                let of_plane: u64 = plane.iter().map(|&p| u64::from(p) * u64::from(p)).sum();
                *squares += u128::from(of_plane);
            }
        }
        let count = (indices.len() * height * width).max(1) as f64;
        let tables = sums.iter().map(|&(sum, squares)| {
            let mean = sum as f64 / count;
            let variance = squares as f64 / count - mean * mean;
            // Constant channels can't be scaled to standard deviation 1.
            let deviation = if variance > 1e-9 {
                variance.sqrt()
            } else {
                255.0
            };
            table(mean, deviation)
        });
        Ok(Normalisation {
            tables: tables.collect(),
        })
    }

    fn known(known: &MeanDeviation, channels: usize) -> Result<Normalisation, ImagesError> {
        let MeanDeviation { mean, deviation } = known;
        if (mean.len(), deviation.len()) != (channels, channels) {
            return Err(ImagesError::Channels {
                means: mean.len(),
                deviations: deviation.len(),
                channels,
            });
        }
        let outside = |key, found, range| ImagesError::Range { key, found, range };
        if let Some(&found) = mean.iter().find(|mean| !(0.0..=1.0).contains(*mean)) {
            return Err(outside("mean", found, "from 0 to 1"));
        }
        let is_deviation = |&&deviation: &&f64| !(deviation > 0.0 && deviation <= 1.0);
        if let Some(&found) = deviation.iter().find(is_deviation) {
            return Err(outside("deviation", found, "above 0 and at most 1"));
        }
        let pairs = mean.iter().zip(deviation);
        Ok(Normalisation {
            tables: pairs
                .map(|(mean, deviation)| table(mean * 255.0, deviation * 255.0))
                .collect(),
        })
    }

    /// Appends the normalised values of an image, channel by channel with `plane` pixels each.
    pub(super) fn apply(&self, pixels: &[u8], plane: usize, into: &mut Vec<f32>) {
        for (table, pixels) in self.tables.iter().zip(pixels.chunks_exact(plane.max(1))) {
            into.extend(pixels.iter().map(|&pixel| table[usize::from(pixel)]));
        }
    }
}

/// Returns the table for a mean and a standard deviation of pixels from 0 to 255.
fn table(mean: f64, deviation: f64) -> [f32; 256] {
    let mut table = [0.0; 256];
    for (value, place) in table.iter_mut().enumerate() {
        *place = ((value as f64 - mean) / deviation) as f32;
    }
    table
}
