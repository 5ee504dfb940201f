//! Tables that cut collections of tensors into chunks, one for each block of a launch.
//!
//! They depend on lengths and slices alone, which are the same in each iteration: a table stays on its device. The tables of addresses,
//! which differ each time, are some kilobytes, so that the driver copies them without waiting for the device.

use std::sync::Arc;

use candle_core::{CudaDevice, Device, Result, Tensor};

use super::launch::uploaded;
use crate::options::Slices;
use crate::storage::tables::Tables;

/// Elements of a chunk at most.
const CHUNK: usize = 8192;

/// Words of a `Chunk` of the sources.
const WORDS: usize = 3;

/// `Chunk`s on a device.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) table: Tensor,
    pub(super) count: usize,
}

/// `Chunk`s of each slice of each tensor.
#[derive(Debug)]
pub(super) struct ChunksOfSlices {
    pub(super) chunks: Chunks,
    /// Where those of each slice begin, as `u32`; one more at the end.
    pub(super) starts: Tensor,
}

static OF_TENSORS: Tables<Vec<usize>, Chunks> = Tables::new();
static OF_SLICES: Tables<Vec<(usize, Slices)>, ChunksOfSlices> = Tables::new();

impl Chunks {
    /// Of tensors of these lengths, whatever their slices.
    pub(super) fn of(device: &CudaDevice, lengths: Vec<usize>) -> Result<Arc<Chunks>> {
        OF_TENSORS.get(lengths, &Device::Cuda(device.clone()), |lengths| {
            let mut words = Vec::new();
            for (tensor, length) in lengths.iter().enumerate() {
                push(&mut words, tensor, u32::MAX, *length);
            }
            Chunks::uploaded(device, words)
        })
    }

    fn uploaded(device: &CudaDevice, words: Vec<u64>) -> Result<Chunks> {
        let count = words.len() / WORDS;
        // candle has no empty tensors on devices.
        let words = if words.is_empty() { vec![0] } else { words };
        Ok(Chunks {
            table: uploaded(device, words)?,
            count,
        })
    }
}

impl ChunksOfSlices {
    /// Of tensors of these lengths and slices.
    pub(super) fn of(
        device: &CudaDevice,
        tensors: Vec<(usize, Slices)>,
    ) -> Result<Arc<ChunksOfSlices>> {
        OF_SLICES.get(tensors, &Device::Cuda(device.clone()), |tensors| {
            let (mut words, mut starts) = (Vec::new(), vec![0]);
            for (tensor, (length, slices)) in tensors.iter().enumerate() {
                for slice in 0..slices.count() {
                    let (slice, length) = match slices.count() {
                        1 => (u32::MAX, *length),
                        count => (slice as u32, length / count),
                    };
                    push(&mut words, tensor, slice, length);
                    starts.push((words.len() / WORDS) as u32);
                }
            }
            let count = starts.len();
            Ok(ChunksOfSlices {
                chunks: Chunks::uploaded(device, words)?,
                starts: Tensor::from_vec(starts, count, &Device::Cuda(device.clone()))?,
            })
        })
    }
}

/// Adds the chunks of a tensor, or of a slice of it, of this length.
fn push(words: &mut Vec<u64>, tensor: usize, slice: u32, length: usize) {
    for start in (0..length).step_by(CHUNK) {
        words.push(tensor as u64 | u64::from(slice) << 32);
        words.push(start as u64);
        words.push((start + CHUNK).min(length) as u64);
    }
}
