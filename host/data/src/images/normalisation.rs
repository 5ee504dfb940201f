//! Normalisation: from bytes to the model's inputs.

use std::thread;

use serde::{Deserialize, Serialize};

use super::pixels::decoding_threads;
use super::{DataError, Images, MeanDeviation, NormaliseConfig, NormaliseRule};
use crate::error::ImagesError;
use sconce_base::exact::Exact;

/// Mean and standard deviation of each channel, of pixels from 0 to 255.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredStatistics", into = "StoredStatistics")]
pub(crate) struct ChannelStatistics {
    channels: Vec<(f64, f64)>,
}

/// Serialised form of statistics.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStatistics {
    mean: Vec<Exact>,
    deviation: Vec<Exact>,
}

impl From<ChannelStatistics> for StoredStatistics {
    fn from(statistics: ChannelStatistics) -> StoredStatistics {
        let channels = statistics.channels.iter();
        let channels = channels.map(|&(mean, deviation)| (Exact(mean), Exact(deviation)));
        let (mean, deviation) = channels.unzip();
        StoredStatistics { mean, deviation }
    }
}

impl TryFrom<StoredStatistics> for ChannelStatistics {
    type Error = &'static str;

    fn try_from(stored: StoredStatistics) -> Result<ChannelStatistics, &'static str> {
        let StoredStatistics { mean, deviation } = stored;
        if mean.len() != deviation.len() {
            return Err("there are more or fewer means than deviations");
        }
        let channels = mean.iter().zip(&deviation);
        let channels: Vec<(f64, f64)> = channels
            .map(|(mean, deviation)| (mean.0, deviation.0))
            .collect();
        let are_valid = channels.iter().all(|(mean, deviation)| {
            (0.0..=255.0).contains(mean) && *deviation > 0.0 && *deviation <= 255.0
        });
        if are_valid {
            Ok(ChannelStatistics { channels })
        } else {
            Err("means must be from 0 to 255, deviations above 0 and at most 255")
        }
    }
}

impl ChannelStatistics {
    /// Returns the statistics for the configured normalisation, for training on the images at `indices`.
    pub(crate) fn fit(
        config: &NormaliseConfig,
        images: &Images,
        indices: &[u32],
    ) -> Result<ChannelStatistics, DataError> {
        let [channels, ..] = images.shape();
        match config {
            NormaliseConfig::Rule(NormaliseRule::Computed) => {
                ChannelStatistics::of(images, indices)
            }
            NormaliseConfig::Rule(NormaliseRule::None) => Ok(ChannelStatistics {
                channels: vec![(0.0, 255.0); channels],
            }),
            NormaliseConfig::Known(known) => Ok(ChannelStatistics::known(known, channels)?),
        }
    }

    /// Returns mean and standard deviation of each channel, of pixels from 0 to 255.
    pub(crate) fn pairs(&self) -> &[(f64, f64)] {
        &self.channels
    }

    /// Returns the number of channels.
    pub(crate) fn channels(&self) -> usize {
        self.channels.len()
    }

    /// Computes mean and standard deviation of each channel of the images at `indices`. The sums are
    /// integers, so that they do not depend on the order.
    fn of(images: &Images, indices: &[u32]) -> Result<ChannelStatistics, DataError> {
        let [channels, height, width] = images.shape();
        let threads = decoding_threads();
        let threads = if images.is_in_memory() {
            let bytes = indices.len() * channels * height * width;
            threads.min(bytes / BYTES_OF_A_THREAD + 1)
        } else {
            threads
        };
        let sums = sums(images, indices, threads)?;
        let count = (indices.len() * height * width).max(1) as f64;
        let channels = sums.iter().map(|&(sum, squares)| {
            let mean = sum as f64 / count;
            let variance = squares as f64 / count - mean * mean;
            // Constant channels can't be scaled to standard deviation 1.
            let deviation = if variance > 1e-9 {
                variance.sqrt()
            } else {
                255.0
            };
            (mean, deviation)
        });
        Ok(ChannelStatistics {
            channels: channels.collect(),
        })
    }

    fn known(known: &MeanDeviation, channels: usize) -> Result<ChannelStatistics, ImagesError> {
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
        Ok(ChannelStatistics {
            channels: pairs
                .map(|(mean, deviation)| (mean * 255.0, deviation * 255.0))
                .collect(),
        })
    }
}

/// Lookup tables for the 256 values of a pixel: (x − mean) / standard deviation.
#[derive(Clone, Debug)]
pub(crate) struct Normalisation {
    /// One table per channel.
    tables: Vec<[f32; 256]>,
}

impl Normalisation {
    pub(crate) fn of(statistics: &ChannelStatistics) -> Normalisation {
        let channels = statistics.channels.iter();
        Normalisation {
            tables: channels
                .map(|&(mean, deviation)| table(mean, deviation))
                .collect(),
        }
    }

    /// Appends the normalised values of an image, channel by channel with `plane` pixels each.
    pub(super) fn apply(&self, pixels: &[u8], plane: usize, into: &mut Vec<f32>) {
        for (table, pixels) in self.tables.iter().zip(pixels.chunks_exact(plane.max(1))) {
            into.extend(pixels.iter().map(|&pixel| table[usize::from(pixel)]));
        }
    }
}

/// Sum and sum of squares of a channel's pixels.
type Sums = (u64, u128);

/// Number of bytes in memory that are worth a thread: what is added up in some milliseconds.
const BYTES_OF_A_THREAD: usize = 4 << 20;

/// Returns the sums of each channel over the images at `indices`, by one thread.
fn sums_of_part(images: &Images, indices: &[u32]) -> Result<Vec<Sums>, DataError> {
    let [channels, height, width] = images.shape();
    let mut sums = vec![(0, 0); channels];
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
    Ok(sums)
}

/// Returns the sums of each channel over the images at `indices`. Of several errors the one of the first image is returned.
fn sums(images: &Images, indices: &[u32], threads: usize) -> Result<Vec<Sums>, DataError> {
    if threads <= 1 {
        return sums_of_part(images, indices);
    }
    let parts = indices.chunks(indices.len().div_ceil(threads).max(1));
    let parts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(move || sums_of_part(images, part)))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.collect()
    });
    let [channels, ..] = images.shape();
    let mut total = vec![(0, 0); channels];
    for part in parts {
        for ((sum, squares), (of_part, squares_of_part)) in total.iter_mut().zip(part?) {
            *sum += of_part;
            *squares += squares_of_part;
        }
    }
    Ok(total)
}

/// Returns the table for a mean and a standard deviation of pixels from 0 to 255.
fn table(mean: f64, deviation: f64) -> [f32; 256] {
    let mut table = [0.0; 256];
    for (value, place) in table.iter_mut().enumerate() {
        *place = ((value as f64 - mean) / deviation) as f32;
    }
    table
}
